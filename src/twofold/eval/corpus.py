"""An index of a data set's own documents, made anew for each BM25 setting, with each text embedded once."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from twofold.documents import Document
from twofold.encoders.base import DenseEncoder, Vectors
from twofold.eval.errors import EvaluationError

if TYPE_CHECKING:
    from twofold.index import HybridIndex
    from twofold.index.writing import ProgressLike
    from twofold.results import SearchResult


@lru_cache(maxsize=1)
def bm25_settings() -> tuple[str, ...]:
    """What decides the stored BM25 vectors: each combination needs an index of its own."""
    from twofold import BM25

    return tuple(name for name in inspect.signature(BM25).parameters if name not in ("language", "stopwords"))


class CorpusIndex:
    """Documents in memory, to be searched with any settings, those of BM25 included.

    `search` takes what `HybridIndex.search` takes, and k1, b, avg_len, delta, pairs and the other settings of `BM25`.
    An index for new ones is built when they are first asked for; dense vectors are computed once and used by all.
    """

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
            dense: The model for meaning, as for `HybridIndex.open`.
            language: The language of BM25.
            progress: True for a progress bar, or a function that gets (done, total).
        """
        if not documents:
            raise EvaluationError("the data set brings no documents: evaluate an index that holds them")
        self._documents, self._language = list(documents), language
        from twofold.encoders.models import resolve_dense

        self._dense = remembering(resolve_dense(dense))
        self._indexes: dict[tuple[tuple[str, Any], ...], HybridIndex] = {}
        self._index({}, progress)

    def search(self, query: str, k: int = 10, **settings: Any) -> SearchResult:
        """Search with these settings."""
        bm25 = {name: settings.pop(name) for name in bm25_settings() if name in settings}
        return self._index(bm25).search(query, k, **settings)

    def close(self) -> None:
        """Let go of the indexes."""
        for index in self._indexes.values():
            index.close()

    def __enter__(self) -> CorpusIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _index(self, bm25: dict[str, Any], progress: ProgressLike = False) -> HybridIndex:
        from twofold import BM25, HybridIndex  # the engine is loaded when it is needed: errors before that come at once

        key = tuple(sorted(bm25.items()))
        if key not in self._indexes:
            index = HybridIndex.open(":memory:", dense=self._dense, sparse=BM25(self._language, **bm25))
            index.add(self._documents, progress=progress)
            self._indexes[key] = index
        return self._indexes[key]


def remembering(encoder: DenseEncoder) -> DenseEncoder:
    """The same model, which embeds each text once."""
    known: dict[str, Any] = {}
    asked: dict[str, Any] = {}

    def embed_documents(texts: Sequence[str]) -> Vectors:
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            known.update(zip(new, encoder.embed_documents(new), strict=True))
        return np.asarray([known[text] for text in texts], dtype=np.float32)

    def embed_query(text: str) -> Any:
        if text not in asked:
            asked[text] = encoder.embed_query(text)
        return asked[text]

    return replace(
        encoder, embed_documents=embed_documents, embed_query=embed_query, aembed_documents=None, aembed_query=None
    )
