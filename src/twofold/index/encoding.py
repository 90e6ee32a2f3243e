"""A query's text as vectors, one for each leg that can be used; why not, where one can't."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twofold.config import SearchConfig
from twofold.encoders.base import Sparse, Vectors, check_dense
from twofold.encoders.cache import LRU
from twofold.engine.flow import Flow, Work
from twofold.engine.requests import Probe
from twofold.fusion import LegName, Strategy
from twofold.index.opening import Ready

_LEGS: tuple[LegName, LegName] = ("dense", "lexical")


class QueryEncoder:
    """Encodes queries for one open collection, and remembers the vectors of the last ones."""

    def __init__(self, ready: Ready, cache_size: int) -> None:
        self._ready = ready
        self._vectors: LRU[Vectors] = LRU(cache_size)

    def probes(self, text: str, fusion: Strategy, config: SearchConfig, reasons: list[str]) -> Flow[list[Probe]]:
        """The legs that this query can use. If all that were wanted fail, the other stands in."""
        wanted = [leg for leg in _LEGS if fusion.weight(leg) > 0]
        probes = yield from self._encode(wanted, text, config, reasons)
        if not probes:
            others = [leg for leg in _LEGS if leg not in wanted]
            probes = yield from self._encode(others, text, config, reasons)
        return probes

    def _encode(
        self, legs: Sequence[LegName], text: str, config: SearchConfig, reasons: list[str]
    ) -> Flow[list[Probe]]:
        probes = []
        for leg in legs:
            unusable = self._ready.no_dense if leg == "dense" else self._ready.no_lexical
            if unusable:
                reasons.append(unusable)
                continue
            encode = self._encode_dense if leg == "dense" else self._encode_sparse
            try:
                vector = yield from encode(text)
            except Exception as error:  # whatever a model raises, the other leg goes on
                reasons.append(f"the {leg} encoder failed: {type(error).__name__}: {error}")
                continue
            if isinstance(vector, Sparse) and not vector.indices:
                reasons.append("the query has no word that the lexical leg indexes")
                continue
            probes.append(Probe(leg, vector, config.min_semantic if leg == "dense" else config.min_lexical))
        return probes

    def _encode_dense(self, text: str) -> Flow[Vectors]:
        cached = self._vectors.get(text)
        if cached is not None:
            return cached
        encoder = self._ready.dense
        native = encoder.aembed_query
        raw = yield Work(lambda: encoder.embed_query(text), None if native is None else lambda: native(text))
        vector: Vectors = check_dense(np.asarray(raw)[None, ...], 1, self._ready.dim, encoder.name)[0]
        self._vectors.put(text, vector)
        return vector

    def _encode_sparse(self, text: str) -> Flow[Sparse]:
        vector: Sparse = yield Work(lambda: self._ready.sparse.embed_query(text))
        return vector
