"""A chat model that says what a script tells it to, and remembers what it was shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field

Line = AIMessage | Callable[[list[BaseMessage]], AIMessage]


class Scripted(BaseChatModel):
    """Answers with one line of its script after the other; a line may look at what it is shown."""

    script: list[Any]
    shown: list[list[BaseMessage]] = Field(default_factory=list)
    tools: list[str] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        self.tools[:] = [tool.name for tool in tools]
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        line = self.script[len(self.shown)]
        self.shown.append(messages)
        message = line(messages) if callable(line) else line
        return ChatResult(generations=[ChatGeneration(message=message)])


def calling(name: str, **arguments: Any) -> AIMessage:
    """A line in which the model calls a tool."""
    call = {"name": name, "args": arguments, "id": f"call-{name}", "type": "tool_call"}
    return AIMessage("Let me see.", tool_calls=[call])
