"""A query's text as vectors, one for each leg that can be used; why not, where one can't."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from twofold.encoders.base import Sparse, Vectors, blend, check_dense
from twofold.encoders.breaker import Breaker
from twofold.encoders.cache import LRU
from twofold.engine.flow import Flow, Work
from twofold.engine.requests import Probe
from twofold.fusion import LegName, Strategy
from twofold.index.opening import Ready
from twofold.index.queries import Query

HINTED = 0.6
"""What a word that was probably meant weighs, where one that was written weighs 1."""
_NAMED = 50
_LEGS: tuple[LegName, LegName] = ("dense", "lexical")


class QueryEncoder:
    """Encodes queries for one open collection, and remembers the vectors of the last ones."""

    def __init__(self, ready: Ready, cache_size: int) -> None:
        self._ready = ready
        self._vectors: LRU[Vectors] = LRU(cache_size)
        self._breaker = Breaker()

    def probes(self, text: str, fusion: Strategy, query: Query, reasons: list[str]) -> Flow[list[Probe]]:
        """The legs that this query can use. If all that were wanted fail, the other stands in."""
        wanted = [leg for leg in _LEGS if fusion.weight(leg) > 0]
        probes = yield from self._encode(wanted, text, query, reasons)
        if not probes:
            others = [leg for leg in _LEGS if leg not in wanted]
            probes = yield from self._encode(others, text, query, reasons)
        return [*probes, *(yield from self._named(probes, query))]

    def _named(self, probes: Sequence[Probe], query: Query) -> Flow[list[Probe]]:
        """The lexical leg once more, for the words of what the query names alone."""
        words = [probe for probe in probes if probe.leg == "lexical"]
        if not words or query.extras is None or not query.extras.named:
            return []
        vector = yield from self._encode_sparse(query.extras.named, "")
        return [replace(words[0], vector=vector, most=_NAMED)] if vector.indices else []

    def _encode(self, legs: Sequence[LegName], text: str, query: Query, reasons: list[str]) -> Flow[list[Probe]]:
        probes = []
        config, hint = query.config, query.extras.hint if query.extras else ""
        for leg in legs:
            unusable = self._ready.no_dense if leg == "dense" else self._ready.no_lexical
            if unusable:
                reasons.append(unusable)
                continue
            try:
                vector = yield from (
                    self._encode_dense(text, query) if leg == "dense" else self._encode_sparse(text, hint)
                )
            except Exception as error:  # whatever a model raises, the other leg goes on
                reasons.append(f"the {leg} encoder failed: {type(error).__name__}: {error}")
                continue
            if isinstance(vector, Sparse) and not vector.indices:
                reasons.append("the query has no word that the lexical leg indexes")
                continue
            probes.append(Probe(leg, vector, config.min_semantic if leg == "dense" else config.min_lexical))
        return probes

    def _encode_dense(self, text: str, query: Query) -> Flow[Vectors]:
        cached = self._vectors.get(text) if query.vector is None else query.vector
        if cached is not None:
            return cached
        encoder = self._ready.dense
        native = encoder.aembed_query
        self._breaker.check()
        try:
            raw = yield Work(lambda: encoder.embed_query(text), None if native is None else lambda: native(text))
            vector: Vectors = check_dense(np.asarray(raw)[None, ...], 1, self._ready.dim, encoder.name)[0]
        except Exception:
            self._breaker.failed()
            raise
        self._breaker.worked()
        self._vectors.put(text, vector)
        return vector

    def _encode_sparse(self, text: str, hint: str) -> Flow[Sparse]:
        embed = self._ready.sparse.embed_query
        vector: Sparse = yield Work(lambda: blend([(embed(text), 1.0), (embed(hint), HINTED)]) if hint else embed(text))
        return vector
