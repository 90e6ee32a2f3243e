"""Search requests: one for each leg, or one in which the engine fuses both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from qdrant_client import models

from twofold.encoders.base import Sparse, Vectors
from twofold.engine.formulas import plain, signalled
from twofold.engine.layout import DENSE, SPARSE, to_sparse
from twofold.engine.quick import trusted
from twofold.fusion import Auto, Dbsf, LegName, Rrf, Strategy
from twofold.signals import Signals

_request = trusted(models.QueryRequest)
_prefetch = trusted(models.Prefetch)
_params = trusted(models.SearchParams)
_filter, _has_id = trusted(models.Filter), trusted(models.HasIdCondition)


@dataclass(frozen=True, slots=True)
class Probe:
    """One leg of a query: its vector, and the raw score below which a candidate doesn't count."""

    leg: LegName
    vector: Vectors | Sparse
    floor: float | None = None
    most: int | None = None
    """Bring no more candidates than this, whatever the depth."""

    @property
    def terms(self) -> int:
        """The number of different terms in a sparse query."""
        return self.vector.terms if isinstance(self.vector, Sparse) else 1

    def vector_query(self) -> dict[str, Any]:
        """What says, in a request or a prefetch, which vector is asked for."""
        if isinstance(self.vector, Sparse):
            return {"query": to_sparse(self.vector), "using": SPARSE}
        return {"query": self.vector.tolist(), "using": DENSE}


def newest_found(probe: Probe, where: models.Filter | None, depth: int, key: str, limit: int) -> models.QueryRequest:
    """What a leg finds, however well it matches, those with the latest date first."""
    leg = _prefetch(**probe.vector_query(), filter=where, limit=depth)
    order = models.OrderBy(key=key, direction=models.Direction.DESC)
    return _request(prefetch=[leg], query=models.OrderByQuery(order_by=order), limit=limit, with_payload=True)


@dataclass(frozen=True, slots=True)
class Effort:
    """How hard the dense leg searches its graph."""

    hnsw_ef: int | None
    exact: bool

    def at(self, depth: int) -> models.SearchParams:
        """The same for every page of a ranking: it follows the depth, not how much of it is shown."""
        return _effort(max(self.hnsw_ef or 0, depth), self.exact)


@dataclass(frozen=True, slots=True)
class Ask:
    """One search, as the engine is asked: both legs with the same filter, depth and effort."""

    fusion: Strategy
    probes: Sequence[Probe]
    filter: models.Filter | None
    effort: Effort | None
    signals: Signals | None = None
    tag_weight: float = 0.0
    """What having everything that the query names adds."""
    corpus: models.Filter | None = None
    """The documents whose words decide how rare a word is; None for the whole collection."""
    payload: Any = True
    """What of a hit's payload to bring along."""
    enough: float = 0.0
    """From this score on a hit stays, however near it is."""
    sure: float | None = None
    """Tell also which candidates have at least this cosine."""

    def leg(self, probe: Probe, depth: int, *, payload: bool, limit: int | None = None) -> models.QueryRequest:
        """The candidates of one leg, or the first of them; without payload only their ids and scores."""
        fields = self._leg(probe, depth)
        return _request(**{**fields, "limit": min(fields["limit"], limit or depth)}, with_payload=payload)

    def fused(self, how: Any, depth: int, limit: int, *, vectors: bool = False) -> models.QueryRequest:
        """Both legs as prefetches with fusion at the root, the only place where it spans all shards."""
        legs = [_prefetch(**self._leg(probe, depth)) for probe in self.probes]
        wanted = [DENSE] if vectors else False
        return _request(prefetch=legs, query=how, limit=limit, with_payload=self.payload, with_vector=wanted)

    def near(self, points: Sequence[str]) -> models.QueryRequest:
        """Those of the points that are near enough to be sure of: a search among so few takes next to no time."""
        dense = next(probe for probe in self.probes if probe.leg == "dense")
        ids = [int(point) if point.isdecimal() else point for point in points]  # not everybody uses UUIDs
        return _request(
            **dense.vector_query(),
            filter=_filter(must=[_has_id(has_id=ids)]),
            params=_params(exact=True) if self.effort else None,
            score_threshold=self.sure,
            limit=len(points),
            with_payload=False,
        )

    def _leg(self, probe: Probe, depth: int) -> dict[str, Any]:
        return {
            **probe.vector_query(),
            "score_threshold": probe.floor,
            "filter": self.filter,
            "params": self._params(probe, depth),
            "limit": depth if probe.most is None else min(depth, probe.most),
        }

    def _params(self, probe: Probe, depth: int) -> models.SearchParams | None:
        if probe.leg == "dense":
            return self.effort.at(depth) if self.effort else None
        return None if self.corpus is None else _params(idf=models.IdfCorpusParams(corpus=self.corpus))

    def native_query(self) -> Any:
        """The engine's query that computes exactly this fusion, or None if it has none."""
        cosines, bm25 = self._places("dense"), self._places("lexical")
        if not cosines or not bm25:
            return None
        if isinstance(self.fusion, Auto) and self.fusion.background is not None:
            shape = (self.fusion, self.fusion.background, cosines, bm25, self.probes[bm25[0]].terms)
            return plain(*shape) if self.signals is None else signalled(*shape, self.signals, self.tag_weight)
        return self._rank_fusion() if self.signals is None else None

    def _places(self, leg: LegName) -> tuple[int, ...]:
        return tuple([place for place, probe in enumerate(self.probes) if probe.leg == leg])

    def _rank_fusion(self) -> Any:
        equal = self.fusion.weights == (1.0, 1.0)
        if isinstance(self.fusion, Rrf) and equal:
            # The engine computes 1 / (rank + k - 1); its weighted form is another function than Σ w / (k + rank).
            return _rrf(self.fusion.k + 1)
        if isinstance(self.fusion, Dbsf) and equal:
            return _DBSF
        return None


@lru_cache(maxsize=64)
def _effort(hnsw_ef: int, exact: bool) -> models.SearchParams:
    return _params(hnsw_ef=hnsw_ef, exact=exact)


@lru_cache(maxsize=64)
def _rrf(k: int) -> models.RrfQuery:
    return models.RrfQuery(rrf=models.Rrf(k=k))


_DBSF = models.FusionQuery(fusion=models.Fusion.DBSF)
