"""`HybridRetriever`: an index or a memory as a LangChain retriever."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
from pydantic import Field, field_validator, model_validator
from typing_extensions import Self

from twofold import HybridIndex, Memory, SearchResult
from twofold.langchain.found import explained, plain
from twofold.ranking.fusion import FusionLike, Strategy, resolve


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
    fusion: Strategy | None = None
    """The fusion strategy, by name or from `Fusion`."""
    min_score: float | None = None
    """Leave out documents below this final score."""
    explain: bool = True
    """Add `score`, `explanation` and, for a memory, `memory` to the metadata; False leaves it as it was stored."""
    search_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Anything else for `HybridIndex.search` or `Memory.recall`: `depth`, `since`, `min_trust` …."""

    @field_validator("fusion", mode="before")
    @classmethod
    def _resolve_fusion(cls, value: FusionLike | None) -> Strategy | None:
        return None if value is None else resolve(value)

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.index is None) == (self.memory is None):
            raise ValueError("give either index= or memory=: a retriever looks in one place")
        return self

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **overrides: Any
    ) -> list[Document]:
        asked = self._asked(overrides)
        found = self.index.search(query, **asked) if self.index else self._memory.recall(query, **asked)
        return _documents(found, explain=asked["explain"])

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **overrides: Any
    ) -> list[Document]:
        asked = self._asked(overrides)
        found = await (self.index.asearch(query, **asked) if self.index else self._memory.arecall(query, **asked))
        return _documents(found, explain=asked["explain"])

    def _asked(self, overrides: dict[str, Any]) -> dict[str, Any]:
        """The arguments of one search: those of the call before those of the retriever."""
        own = {name: getattr(self, name) for name in ("k", "filter", "alpha", "fusion", "min_score", "explain")}
        asked = {**own, **self.search_kwargs, **overrides}
        return asked if asked["k"] is not None else {name: value for name, value in asked.items() if name != "k"}

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        """What a trace says about the retriever."""
        index = self.index or self._memory.index
        told = super()._get_ls_params(**kwargs)
        told["ls_vector_store_provider"] = "Qdrant"
        told["ls_embedding_provider"] = "Twofold"
        if index.dense_model:
            told["ls_embedding_model"] = index.dense_model
        return told

    @property
    def _memory(self) -> Memory:
        if self.memory is None:
            raise ValueError("this retriever has neither an index nor a memory: give it one")
        return self.memory


def _documents(found: SearchResult, *, explain: bool) -> list[Document]:
    return explained(found) if explain else [plain(hit) for hit in found]
