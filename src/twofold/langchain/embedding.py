"""The model of an index as a LangChain embedding."""

from __future__ import annotations

from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings

from twofold import HybridIndex
from twofold.encoders.base import check_dense
from twofold.flow import Flow, Work
from twofold.index.searching import Searcher
from twofold.index.writing import encode_dense


class IndexEmbeddings(Embeddings):
    """Embeds as the index does, whatever its model is: the bundled one, a name, or an object of any framework."""

    def __init__(self, index: HybridIndex) -> None:
        self._index = index

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Vectors to store."""
        return self._index.perform(lambda searcher: _documents(searcher, texts))

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """`embed_documents` without blocking the event loop."""
        return await self._index.aperform(lambda searcher: _documents(searcher, texts))

    def embed_query(self, text: str) -> list[float]:
        """A vector to search with."""
        return self._index.perform(lambda searcher: _query(searcher, text))

    async def aembed_query(self, text: str) -> list[float]:
        """`embed_query` without blocking the event loop."""
        return await self._index.aperform(lambda searcher: _query(searcher, text))


def _documents(searcher: Searcher, texts: list[str]) -> Flow[list[list[float]]]:
    vectors = yield from encode_dense(searcher.ready, texts)
    return [vector.tolist() for vector in vectors]


def _query(searcher: Searcher, text: str) -> Flow[list[float]]:
    encoder = searcher.ready.dense
    native = encoder.aembed_query
    raw: Any = yield Work(lambda: encoder.embed_query(text), None if native is None else lambda: native(text))
    numbers: list[float] = check_dense(np.asarray(raw)[None, ...], 1, searcher.ready.dim, encoder.name)[0].tolist()
    return numbers
