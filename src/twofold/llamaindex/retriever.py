"""`HybridRetriever`: an index or a memory as a LlamaIndex retriever."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llama_index.core.callbacks import CallbackManager
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.vector_stores import MetadataFilters

from twofold.errors import ConfigError
from twofold.index.hybrid import HybridIndex
from twofold.llamaindex.filters import to_filter
from twofold.llamaindex.nodes import to_scored
from twofold.memory.memory import Memory
from twofold.ranking.fusion import FusionLike


class HybridRetriever(BaseRetriever):
    """Finds documents of an index, or memories, by meaning and by words.

    Nodes carry the score, and in `metadata["explanation"]` where it comes from; models don't get to see that part.
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
        explain: bool = True,
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
            min_score: Leave out what is below this final score.
            explain: Say for each node where its score comes from.
            search_kwargs: Anything else for `HybridIndex.search` or `Memory.recall`: `depth`, `since` ….
            callback_manager: As for any retriever.
            kwargs: Whatever else `BaseRetriever` takes.
        """
        if (index is None) == (memory is None):
            raise ConfigError("give either index= or memory=: a retriever looks in one place")
        self._index, self._memory, self._explain = index, memory, explain
        self.similarity_top_k = similarity_top_k
        given = {"filter": to_filter(filters), "alpha": alpha, "fusion": fusion, "min_score": min_score}
        self._given = {**given, "explain": explain, **(search_kwargs or {})}
        super().__init__(callback_manager=callback_manager, **kwargs)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        text, asked = query_bundle.query_str, self._asked()
        if self._index is not None:
            return to_scored(self._index.search(text, **asked), explain=self._explain)
        return to_scored(self._of_memory.recall(text, **asked), explain=self._explain)

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        text, asked = query_bundle.query_str, self._asked()
        if self._index is not None:
            return to_scored(await self._index.asearch(text, **asked), explain=self._explain)
        return to_scored(await self._of_memory.arecall(text, **asked), explain=self._explain)

    def _asked(self) -> dict[str, Any]:
        k = self.similarity_top_k
        return self._given if k is None else {"k": k, **self._given}

    @property
    def _of_memory(self) -> Memory:
        if self._memory is None:
            raise ConfigError("this retriever has neither an index nor a memory: give it one")
        return self._memory
