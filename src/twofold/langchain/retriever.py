"""An index or a memory as a LangChain retriever, and the tools of a memory as LangChain tools."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, TypeAlias, cast

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import BeforeValidator, Field, model_validator
from typing_extensions import Self, Unpack

from twofold import HybridIndex, Memory
from twofold import tools as neutral
from twofold.langchain.vectorstore import to_documents
from twofold.ranking.fusion import Strategy, resolve

MemorySource: TypeAlias = Memory | neutral.LazyMemory | Callable[[], Memory]
"""A memory, one that is opened at first use, or a function that says at each use whose memory it is now."""
_SETTINGS = ("k", "filter", "alpha", "fusion", "min_score", "rerank", "rerank_top", "explain")


class HybridRetriever(BaseRetriever):
    """Finds documents of an index, or memories, by meaning and by words.

    Every setting can be given anew with a call: `retriever.invoke("…", k=2, filter=None)`.
    """

    index: HybridIndex | None = None
    """Where to look; either this or `memory`."""
    memory: Memory | None = None
    """Whose memories to recall."""
    k: int | None = Field(default=None, ge=0)
    """How many documents at most: 10 for an index, what a memory is configured to give for a memory."""
    filter: Any = None
    """What a document's metadata must fulfil, as {"year": {"gte": 2010}}. For a memory also its own fields, as
    {"type": "note", "tags": "infra"}."""
    alpha: float | None = Field(default=None, ge=0, le=1)
    """From 0, words only, to 1, meaning only."""
    fusion: Annotated[Strategy | None, BeforeValidator(lambda given: None if given is None else resolve(given))] = None
    """The fusion strategy, by name or from `Fusion`."""
    min_score: float | None = None
    """Leave out documents of less relevance, from 0 to 1."""
    rerank: Any = None
    """Looks at the best documents once more: a LangChain compressor, or whatever else `HybridIndex.open` takes."""
    rerank_top: int | None = Field(default=None, ge=1)
    """How many of the best it looks at."""
    explain: bool = False
    """Add `score`, `explanation` and, for a memory, `memory` to the metadata. They differ from query to query, so what
    merges the answers to several queries would take one document for several."""
    title_key: str | None = None
    """Put the title of a document that has one into its metadata, under this name."""
    search_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Anything else for `HybridIndex.search` or `Memory.recall`: `depth`, `since`, `min_trust` …."""

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.index is None) == (self.memory is None):
            raise ValueError("give either index= or memory=: a retriever looks in one place")
        return self

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **overrides: Any
    ) -> list[Document]:
        arguments = self._search_arguments(overrides)
        search = self.index.search if self.index else cast(Memory, self.memory).recall
        return to_documents(search(query, **arguments), explain=arguments["explain"], title_key=self.title_key)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **overrides: Any
    ) -> list[Document]:
        arguments = self._search_arguments(overrides)
        search = self.index.asearch if self.index else cast(Memory, self.memory).arecall
        return to_documents(await search(query, **arguments), explain=arguments["explain"], title_key=self.title_key)

    def _search_arguments(self, overrides: dict[str, Any]) -> dict[str, Any]:
        """The arguments of one search: those of the call before those of the retriever."""
        own = {name: getattr(self, name) for name in _SETTINGS}
        arguments = {**own, **self.search_kwargs, **overrides}
        if arguments["k"] is None:  # the index and the memory each have a number of their own
            del arguments["k"]
        return arguments

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        """What a trace says about the retriever."""
        index = self.index or cast(Memory, self.memory).index
        params = super()._get_ls_params(**kwargs)
        params["ls_vector_store_provider"] = "Qdrant"
        params["ls_embedding_provider"] = "Twofold"
        if index.dense_model:
            params["ls_embedding_model"] = index.dense_model
        return params


# --- the tools of a memory -----------------------------------------------------------------------


def memory_tools(memory: MemorySource, **options: Unpack[neutral.ToolOptions]) -> list[BaseTool]:
    """The tools of a memory, for `create_agent` or `bind_tools`.

    A call that went wrong answers with a message of status "error", which says what to do differently.

    Args:
        memory: What they work on. A function is asked at each call, for an agent that serves many users.
        options: Those of `twofold.tools.memory_tools`: `only`, `read_only`, `aliases` and `trust`.
    """
    if isinstance(memory, (Memory, neutral.LazyMemory)):
        return [_to_langchain(tool, None) for tool in neutral.memory_tools(memory, **options)]
    return [_to_langchain(tool, memory) for tool in neutral.memory_tools(neutral.LazyMemory(memory), **options)]


def _to_langchain(tool: neutral.Tool, current_memory: Callable[[], Memory] | None) -> BaseTool:
    """Text for the model, plain values as the artifact."""

    def current_tool() -> neutral.Tool:
        return tool if current_memory is None else replace(tool, memory=current_memory())

    def run(**arguments: Any) -> tuple[str, dict[str, Any]]:
        return _content_and_artifact(current_tool().call(arguments))

    async def arun(**arguments: Any) -> tuple[str, dict[str, Any]]:
        return _content_and_artifact(await current_tool().acall(arguments))

    return StructuredTool(
        name=tool.name,
        description=tool.description,
        args_schema=tool.arguments,
        func=run,
        coroutine=arun,
        response_format="content_and_artifact",
        handle_tool_error=True,
        handle_validation_error=tool.explain,  # type: ignore[arg-type]
        metadata={"read_only": tool.read_only, "destructive": tool.destructive, "idempotent": tool.idempotent},
    )


def _content_and_artifact(result: neutral.ToolResult) -> tuple[str, dict[str, Any]]:
    if result.is_error:
        raise ToolException(result.text)
    return result.text, dict(result.data)
