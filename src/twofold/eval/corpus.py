"""A data set's own documents in an index or a memory, to be asked with any settings.

Some settings decide the stored vectors, as those of BM25 do. Each combination of them gets a store of its own when it
is first asked for; dense vectors are computed once and used by all.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from twofold.documents import Document
from twofold.encoders.base import DenseEncoder, Vectors
from twofold.errors import EvaluationError

if TYPE_CHECKING:
    from twofold.index import HybridIndex
    from twofold.index.writing import ProgressLike
    from twofold.memory import Memory, MemoryResult
    from twofold.results import SearchResult

_USER = "evaluation"
Store = TypeVar("Store", "HybridIndex", "Memory")


@lru_cache(maxsize=1)
def bm25_settings() -> tuple[str, ...]:
    """The settings that decide the stored BM25 vectors."""
    from twofold import BM25

    return tuple(name for name in inspect.signature(BM25).parameters if name not in ("language", "stopwords"))


def memory_store_settings() -> tuple[str, ...]:
    """The settings of a memory that decide what is stored, or what is read once: those of BM25 and its own."""
    from twofold.memory.config import SETTLED

    return (*bm25_settings(), *SETTLED)


def _split(values: Mapping[str, Any], names: Collection[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values of these names, and the others."""
    named = {name: value for name, value in values.items() if name in names}
    return named, {name: value for name, value in values.items() if name not in names}


class _Corpus(ExitStack, Generic[Store]):
    """Documents in one store for each combination of the settings that decide what is stored. `close` closes them."""

    _store_kind: str
    _usual_model: str

    def __init__(
        self,
        documents: Sequence[Document],
        *,
        dense: Any = None,
        language: str = "english",
        progress: ProgressLike = False,
    ) -> None:
        """Embed and store the documents.

        Args:
            documents: What to search.
            dense: The model for meaning, as for `HybridIndex.open` and `Memory.open`.
            language: The language of BM25.
            progress: True for a progress bar, or a function that gets (done, total).
        """
        super().__init__()
        if not documents:
            raise EvaluationError(f"the data set brings no documents: evaluate {self._store_kind} that holds them")
        from twofold.encoders.models import resolve_dense

        self._documents, self._language = list(documents), language
        self._dense = _embedding_once(resolve_dense(self._usual_model if dense is None else dense))
        self._stores: dict[str, Store] = {}
        self._store({}, progress)

    def _store(self, settings: Mapping[str, Any], progress: ProgressLike = False) -> Store:
        """What answers with these settings, made when it is first asked for."""
        key = repr(sorted(settings.items()))
        if key not in self._stores:
            self._stores[key] = self.enter_context(self._made(settings, progress))
        return self._stores[key]

    def _made(self, settings: Mapping[str, Any], progress: ProgressLike) -> Store:
        raise NotImplementedError


class CorpusIndex(_Corpus["HybridIndex"]):
    """Documents in memory, to be searched with any settings, those of BM25 included.

    `search` takes what `HybridIndex.search` takes, and k1, b, avg_len, delta, pairs and the other settings of `BM25`.
    """

    _store_kind = "an index"
    _usual_model = "fast"

    def search(self, query: str, k: int = 10, **settings: Any) -> SearchResult:
        """Search with these settings."""
        stored, asked = _split(settings, bm25_settings())
        return self._store(stored).search(query, k, **asked)

    def _made(self, settings: Mapping[str, Any], progress: ProgressLike) -> HybridIndex:
        from twofold import BM25, HybridIndex  # the engine is loaded when it is needed: errors before that come at once

        index = HybridIndex.open(":memory:", dense=self._dense, sparse=BM25(self._language, **settings))
        index.add(self._documents, progress=progress)
        return index


class CorpusMemory(_Corpus["Memory"]):
    """Documents as memories of one user, in memory, to be recalled with any settings.

    `recall` takes what `Memory.recall` takes, the settings of `MemoryConfig` and those of BM25. Tags, type, created and
    the like in a document's metadata become the memory's own.
    """

    _store_kind = "a memory"
    _usual_model = "fast"

    def recall(self, query: str, k: int | None = None, **settings: Any) -> MemoryResult:
        """Recall with these settings. The hits have the ids of the documents."""
        from twofold import Memory

        taken, settings = _split(settings, inspect.signature(Memory.recall).parameters)
        result = self._store(settings).recall(query, k, **{"touch": False, **taken})
        hits = [replace(hit, id=identity) for hit in result for identity in self._document_ids[hit.id]]
        return replace(result, hits=tuple(hits))

    def _made(self, settings: Mapping[str, Any], progress: ProgressLike) -> Memory:
        from twofold import BM25, Memory, MemoryConfig
        from twofold.memory import accepted_by

        stored, changed = _split(settings, memory_store_settings())
        if changed:
            return self._store(stored).with_settings(**changed)
        bm25, own = _split(stored, bm25_settings())
        sparse, config = BM25(self._language, **bm25), MemoryConfig(**own)
        memory = Memory.open(":memory:", user=_USER, dense=self._dense, sparse=sparse, config=config)
        own_fields, rows = set(accepted_by("remember")) - {"metadata"}, []
        for document in self._documents:
            fields, metadata = _split(document.metadata, own_fields)
            rows.append({"text": document.text, **fields, "metadata": metadata})
        ids = memory.remember_many(rows, progress=progress)
        # The same text twice is one memory, and stands for both documents.
        self._document_ids: dict[str, list[str]] = defaultdict(list)
        for identity, document in zip(ids, self._documents, strict=True):
            self._document_ids[str(identity)].append(str(document.id))
        return memory


def _embedding_once(encoder: DenseEncoder) -> DenseEncoder:
    """The same model, which embeds each text once."""
    documents: dict[str, Any] = {}

    def embed_documents(texts: Sequence[str]) -> Vectors:
        new = [text for text in dict.fromkeys(texts) if text not in documents]
        if new:
            documents.update(zip(new, encoder.embed_documents(new), strict=True))
        return np.asarray([documents[text] for text in texts], dtype=np.float32)

    embed_query: Callable[[str], Any] = lru_cache(maxsize=None)(encoder.embed_query)
    return replace(
        encoder, embed_documents=embed_documents, embed_query=embed_query, aembed_documents=None, aembed_query=None
    )
