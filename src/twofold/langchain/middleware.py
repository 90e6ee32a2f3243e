"""`MemoryMiddleware`: an agent that is told what it remembers, and remembers what was said."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from operator import or_
from typing import Annotated, Any

try:
    from langchain.agents.middleware import AgentMiddleware
except ImportError as error:
    raise ImportError('MemoryMiddleware needs LangChain\'s agents: pip install "twofold[langchain]"') from error

from langchain.agents.middleware import AgentState, ModelRequest, ModelResponse
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.config import get_config
from langgraph.runtime import Runtime
from typing_extensions import NotRequired

from twofold import InvalidQuery, Memory, Turn, as_data
from twofold.flow import Flow, arun, run
from twofold.langchain.retriever import MemorySource, memory_tools
from twofold.tools import LazyMemory
from twofold.tools.actions import call_memory
from twofold.tools.tool import tolerating_failure


class RecallingState(AgentState[Any]):
    """The state of an agent with memory."""

    twofold_recalled: NotRequired[Annotated[dict[str, str], PrivateStateAttr, or_]]
    """What each middleware has recalled for this run. Private: it is neither input nor output."""


class MemoryMiddleware(AgentMiddleware[RecallingState, Any]):
    """Puts memories that fit what the user says in front of it, at every model call of a run.

    They are recalled once a run, and go to the model as a message of their own, marked as data. The message history
    never gets to hold them. If the memory fails, that is logged as a warning and the run goes on without it.
    """

    state_schema = RecallingState
    name = "MemoryMiddleware"
    """What tells it from others in the same agent."""

    def __init__(
        self,
        memory: MemorySource,
        *,
        k: int = 5,
        tools: bool = False,
        remember_turns: bool = False,
        session: str | None = None,
        name: str = "MemoryMiddleware",
        **recall: Any,
    ) -> None:
        """Configure what is recalled, and what is kept.

        Args:
            memory: What to recall from. A function is asked at each run, for an agent that serves many users.
            k: How many memories at most.
            tools: Give the agent the memory's tools as well.
            remember_turns: After each run, store what the user said and what the agent answered.
            session: The session that turns are stored in; by default the memory's own, or else the thread's id.
            name: Tells several of them in one agent apart: memories and knowledge, for instance.
            recall: Whatever else `Memory.recall` takes: `types`, `min_score`, `min_trust` ….
        """
        super().__init__()
        self.tools = memory_tools(memory) if tools else []
        self.name = name
        self._source = memory
        self._recall_arguments = {**recall, "k": k}
        self._remember_turns = remember_turns
        self._session = session

    # --- recalling, once a run -----------------------------------------------------------------

    def before_agent(self, state: RecallingState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Recall what fits what the user has just said."""
        return run(self._recall(state["messages"], runtime))

    async def abefore_agent(self, state: RecallingState, runtime: Runtime[Any]) -> dict[str, Any]:
        """`before_agent` without blocking the event loop."""
        return await arun(self._recall(state["messages"], runtime))

    def _recall(self, messages: Sequence[AnyMessage], runtime: Runtime[Any]) -> Flow[dict[str, Any]]:
        """What the model is to be told; not what stands in the conversation anyway."""
        told = ""
        with tolerating_failure("recall"):
            memory = yield from self._memory()
            # Before the model is paid for an answer that then can't be stored.
            if self._remember_turns and self._session_for(memory, runtime) is None:
                raise InvalidQuery(
                    "remember_turns needs to know the session: give MemoryMiddleware(session=…), open the memory for "
                    'one, or run the agent with {"configurable": {"thread_id": …}}'
                )
            query = "\n".join(turn.text for turn in _last_turns(messages) if turn.speaker == "user")
            recalled = yield from call_memory(memory.recall, memory.arecall, query, **self._recall_arguments)
            said = {_text(message) for message in messages}
            new = [hit for hit in recalled if hit.text.strip() not in said]
            told = as_data(new) if new else ""
        return {"twofold_recalled": {self.name: told}}

    # --- telling the model ---------------------------------------------------------------------

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Call the model with the memories in front of the user's message."""
        return handler(self._with_memories(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """`wrap_model_call` without blocking the event loop."""
        return await handler(self._with_memories(request))

    def _with_memories(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        recalled: dict[str, str] = request.state.get("twofold_recalled", {})  # type: ignore[assignment]
        text, start = recalled.get(self.name), _last_turn_start(request.messages)
        if not text or start == len(request.messages):
            return request
        # Not into the system message: what is stored must not speak with its authority.
        messages = [*request.messages[:start], HumanMessage(text), *request.messages[start:]]
        return request.override(messages=messages)

    # --- remembering what was said -------------------------------------------------------------

    def after_agent(self, state: RecallingState, runtime: Runtime[Any]) -> None:
        """Store the turns of this run."""
        run(self._remember(state["messages"], runtime))

    async def aafter_agent(self, state: RecallingState, runtime: Runtime[Any]) -> None:
        """`after_agent` without blocking the event loop."""
        await arun(self._remember(state["messages"], runtime))

    def _remember(self, messages: Sequence[AnyMessage], runtime: Runtime[Any]) -> Flow[None]:
        turns = _last_turns(messages)
        if not turns or not self._remember_turns:
            return
        with tolerating_failure("remember"):
            memory = yield from self._memory()
            session = self._session_for(memory, runtime)
            yield from call_memory(memory.remember_turns, memory.aremember_turns, turns, session=session)

    def _session_for(self, memory: Memory, runtime: Runtime[Any]) -> str | None:
        given = self._session or memory.session
        if given:
            return given
        execution = getattr(runtime, "execution_info", None)  # older versions of LangGraph have none
        thread = execution.thread_id if execution else get_config().get("configurable", {}).get("thread_id")
        return None if thread is None else str(thread)

    # --- whose memory --------------------------------------------------------------------------

    def _memory(self) -> Flow[Memory]:
        source = self._source
        if isinstance(source, LazyMemory):
            return (yield from call_memory(source.get, source.aget))
        return source if isinstance(source, Memory) else source()


def _text(message: AnyMessage) -> str:
    return str(message.text).strip()


def _last_turn_start(messages: Sequence[AnyMessage]) -> int:
    """Where the user began to speak last, maybe in several messages; the end if they didn't."""
    start = len(messages)
    for position in reversed(range(len(messages))):
        if isinstance(messages[position], HumanMessage):
            start = position
        elif isinstance(messages[position], AIMessage) and start < len(messages):
            break
    return start


def _last_turns(messages: Sequence[AnyMessage]) -> list[Turn]:
    """What was said in words since the user began to speak. Talk with tools is left out."""
    turns: list[Turn] = []
    for message in messages[_last_turn_start(messages) :]:
        is_answer = isinstance(message, AIMessage) and not message.tool_calls
        if _text(message) and (is_answer or isinstance(message, HumanMessage)):
            turns.append(Turn(_text(message), "assistant" if is_answer else "user"))
    return turns
