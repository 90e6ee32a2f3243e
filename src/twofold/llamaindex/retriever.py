"""An index or a memory as a LlamaIndex retriever; a memory as tools and as a block of LlamaIndex's own memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from itertools import groupby
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.bridge.pydantic import Field
from llama_index.core.callbacks import CallbackManager
from llama_index.core.memory import BaseMemoryBlock
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.tools import FunctionTool, ToolMetadata, ToolOutput
from llama_index.core.vector_stores import MetadataFilters
from typing_extensions import Unpack

from twofold import ConfigError, HybridIndex, Memory, SearchResult, Turn, as_data
from twofold import tools as neutral
from twofold.llamaindex.vector_store import to_filter, to_scored_nodes
from twofold.ranking.fusion import FusionLike
from twofold.tools.tool import tolerating_failure

_REMEMBERED_ROLES = (MessageRole.USER, MessageRole.ASSISTANT)
"""Other messages (the system's, those of tools) are not remembered."""


class HybridRetriever(BaseRetriever):
    """Finds documents of an index, or memories, by meaning and by words.

    Nodes carry the score and, with `explain`, in `metadata["explanation"]` where it comes from; models don't get to see
    that part.
    """

    def __init__(
        self,
        index: HybridIndex | None = None,
        memory: Memory | None = None,
        similarity_top_k: int | None = None,
        *,
        filters: MetadataFilters | Mapping[str, Any] | None = None,
        alpha: float | None = None,
        fusion: FusionLike | None = None,
        min_score: float | None = None,
        rerank: Any = None,
        rerank_top: int | None = None,
        explain: bool = False,
        title_key: str | None = None,
        search_kwargs: Mapping[str, Any] | None = None,
        callback_manager: CallbackManager | None = None,
        **kwargs: Any,
    ) -> None:
        """Retrieve from an index or from a memory.

        Args:
            index: Where to look; either this or `memory`.
            memory: Whose memories to recall.
            similarity_top_k: How many nodes at most: 10 for an index, what a memory is configured to give for a memory.
            filters: `MetadataFilters`, or a filter in the language of `HybridIndex.search`.
            alpha: From 0, words only, to 1, meaning only.
            fusion: The fusion strategy, by name or from `Fusion`.
            min_score: Leave out what has less relevance, from 0 to 1.
            rerank: Looks at the best nodes once more: a LlamaIndex postprocessor, or whatever else `HybridIndex.open`
                takes.
            rerank_top: How many of the best it looks at.
            explain: Say for each node where its score comes from. That differs from query to query, so what merges
                the answers to several queries would take one node for several.
            title_key: Put the title of a document that has one into the metadata, under this name.
            search_kwargs: Anything else for `HybridIndex.search` or `Memory.recall`: `depth`, `since` ….
            callback_manager: As for any retriever.
            kwargs: Whatever else `BaseRetriever` takes.
        """
        self._search: Callable[..., SearchResult]
        self._asearch: Callable[..., Awaitable[SearchResult]]
        for wanted, where, verb in (("HybridIndex", index, "asearch"), ("Memory", memory, "arecall")):
            if where is not None and not hasattr(where, verb):
                raise ConfigError(f"to retrieve from it takes a {wanted}, got {type(where).__name__}")
        if index is not None and memory is None:
            self._search, self._asearch = index.search, index.asearch
        elif memory is not None and index is None:
            self._search, self._asearch = memory.recall, memory.arecall
        else:
            raise ConfigError("give either index= or memory=: a retriever looks in one place")
        self.similarity_top_k = similarity_top_k
        given = {"filter": to_filter(filters), "alpha": alpha, "fusion": fusion, "min_score": min_score}
        given |= {"rerank": rerank, "rerank_top": rerank_top}
        self._arguments = {**given, "explain": explain, **(search_kwargs or {})}
        self._shown: dict[str, Any] = {"explain": explain, "title_key": title_key}
        super().__init__(callback_manager=callback_manager, **kwargs)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return to_scored_nodes(self._search(**self._search_arguments(query_bundle)), **self._shown)

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return to_scored_nodes(await self._asearch(**self._search_arguments(query_bundle)), **self._shown)

    def _search_arguments(self, query: QueryBundle) -> dict[str, Any]:
        k = {} if self.similarity_top_k is None else {"k": self.similarity_top_k}
        return {"query": query.query_str, **k, **self._arguments}


# --- a memory as tools -------------------------------------------------------------------------


class MemoryTool(FunctionTool):
    """A tool of a memory. What a model does wrong is an answer with `is_error`, which says what to do differently."""

    def call(self, *args: Any, **kwargs: Any) -> ToolOutput:
        """Run the tool."""
        return _with_plain_values(super().call(*args, **kwargs))

    async def acall(self, *args: Any, **kwargs: Any) -> ToolOutput:
        """`call` without blocking the event loop."""
        return _with_plain_values(await super().acall(*args, **kwargs))


def memory_tools(memory: neutral.AnyMemory, **options: Unpack[neutral.ToolOptions]) -> list[FunctionTool]:
    """The tools of a memory, for a `FunctionAgent` or any other. Options are those of `twofold.tools.memory_tools`."""
    return [
        MemoryTool(fn=tool.run, async_fn=tool.arun, metadata=ToolMetadata(tool.description, tool.name, tool.arguments))
        for tool in neutral.memory_tools(memory, **options)
    ]


def _with_plain_values(output: ToolOutput) -> ToolOutput:
    result: neutral.ToolResult = output.raw_output
    output.raw_output, output.is_error = dict(result.data), result.is_error
    return output


# --- a memory as a block of LlamaIndex's own memory --------------------------------------------


class HybridMemoryBlock(BaseMemoryBlock[str]):
    """Remembers what leaves the short-term memory, and brings back what fits the last messages.

    What it brings back is marked as data, so that a model reads it and doesn't obey it. If the memory fails, that is
    logged as a warning and the agent goes on without it.
    """

    name: str = Field(default="long_term_memory", description="The name of the block in the prompt.")
    memory: Memory = Field(description="Whose memories.", exclude=True)
    similarity_top_k: int = Field(default=5, ge=1, description="How many memories at most.")
    window: int = Field(default=2, ge=1, description="How many of the last messages say what to look for.")
    min_score: float | None = Field(default=None, description="Leave out memories below this score.")
    session: str | None = Field(default=None, description="The session of messages that don't name theirs.")

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        spoken = [text for message in messages or () if (text := _said(message))]
        with tolerating_failure("recall"):
            query = "\n".join(spoken[-self.window :])
            recalled = await self.memory.arecall(query, self.similarity_top_k, min_score=self.min_score)
            return as_data(recalled) if len(recalled) else ""
        return ""

    async def _aput(self, messages: list[ChatMessage]) -> None:
        for session, spoken in groupby(filter(_said, messages), key=self._session_of):
            turns = [Turn(_said(message), message.role.value) for message in spoken]
            await self.memory.aremember_turns(turns, session=session)

    def _session_of(self, message: ChatMessage) -> str:
        """A memory that was opened for one session stores in no other."""
        session = self.memory.session or message.additional_kwargs.get("session_id") or self.session
        if not session:
            advice = 'aput(…, session_id="…"), or HybridMemoryBlock(session="…")'
            raise ConfigError(f"messages belong to a session: {advice}")
        return str(session)


def _said(message: ChatMessage) -> str:
    """What a person or the assistant said; empty for anything else, and for a message without text."""
    return (message.content or "").strip() if message.role in _REMEMBERED_ROLES else ""
