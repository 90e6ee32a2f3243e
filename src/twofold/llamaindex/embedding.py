"""The model of an index as a LlamaIndex embedding."""

from __future__ import annotations

from typing import Any

import numpy as np
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import PrivateAttr

from twofold.encoders.base import check_dense
from twofold.flow import Flow, Work
from twofold.index.hybrid import HybridIndex
from twofold.index.searching import Searcher
from twofold.index.writing import encode_dense


class IndexEmbedding(BaseEmbedding):
    """Embeds as the index does, whatever its model is: the bundled one, a name, or an object of any framework."""

    _index: HybridIndex = PrivateAttr()

    def __init__(self, index: HybridIndex, **kwargs: Any) -> None:
        """Embed with the model of this index; `kwargs` are those of `BaseEmbedding`."""
        super().__init__(model_name=index.dense_model or "unknown", **kwargs)
        self._index = index

    @classmethod
    def class_name(cls) -> str:
        """Its name in traces."""
        return "IndexEmbedding"

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._index.perform(lambda searcher: _documents(searcher, texts))

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return (await self._aget_text_embeddings([text]))[0]

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await self._index.aperform(lambda searcher: _documents(searcher, texts))

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._index.perform(lambda searcher: embed_query(searcher, query))

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await self._index.aperform(lambda searcher: embed_query(searcher, query))


def _documents(searcher: Searcher, texts: list[str]) -> Flow[list[list[float]]]:
    vectors = yield from encode_dense(searcher.ready, texts)
    return [vector.tolist() for vector in vectors]


def embed_query(searcher: Searcher, text: str) -> Flow[list[float]]:
    """The vector of a query, made with the model of the index."""
    encoder, native = searcher.ready.dense, searcher.ready.dense.aembed_query
    raw: Any = yield Work(lambda: encoder.embed_query(text), None if native is None else lambda: native(text))
    numbers: list[float] = check_dense(np.asarray(raw)[None, ...], 1, searcher.ready.dim, encoder.name)[0].tolist()
    return numbers
