"""Search requests: one for each leg, or one in which the engine fuses both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from qdrant_client import models

from twofold.encoders.base import Sparse, Vectors
from twofold.engine.layout import DENSE, SPARSE, to_sparse
from twofold.engine.quick import trusted
from twofold.fusion import Auto, Dbsf, LegName, Rrf, Strategy

_request = trusted(models.QueryRequest)
_prefetch = trusted(models.Prefetch)
_params = trusted(models.SearchParams)


@dataclass(frozen=True, slots=True)
class Probe:
    """One leg of a query: its vector, and the raw score below which a candidate doesn't count."""

    leg: LegName
    vector: Vectors | Sparse
    floor: float | None = None

    @property
    def terms(self) -> int:
        """The number of different terms in a sparse query."""
        return len(self.vector.indices) if isinstance(self.vector, Sparse) else 1

    def vector_query(self) -> dict[str, Any]:
        """What says, in a request or a prefetch, which vector is asked for."""
        if isinstance(self.vector, Sparse):
            return {"query": to_sparse(self.vector), "using": SPARSE}
        return {"query": self.vector.tolist(), "using": DENSE}


@dataclass(frozen=True, slots=True)
class Effort:
    """How hard the dense leg searches its graph."""

    hnsw_ef: int | None
    exact: bool

    def at(self, depth: int) -> models.SearchParams:
        """The same for every page of a ranking: it follows the depth, not how much of it is shown."""
        return _params(hnsw_ef=max(self.hnsw_ef or 0, depth), exact=self.exact)


@dataclass(frozen=True, slots=True)
class Ask:
    """One search, as the engine is asked: both legs with the same filter, depth and effort."""

    fusion: Strategy
    probes: Sequence[Probe]
    filter: models.Filter | None
    effort: Effort | None

    def leg(self, probe: Probe, depth: int, *, payload: bool, limit: int | None = None) -> models.QueryRequest:
        """The candidates of one leg, or the first of them; without payload only their ids and scores."""
        fields = self._leg(probe, depth)
        return _request(**{**fields, "limit": min(depth, limit or depth)}, with_payload=payload)

    def fused(self, depth: int, limit: int) -> models.QueryRequest:
        """Both legs as prefetches with fusion at the root, the only place where it spans all shards."""
        legs = [_prefetch(**self._leg(probe, depth)) for probe in self.probes]
        return _request(prefetch=legs, query=self.native_query(), limit=limit, with_payload=True)

    def _leg(self, probe: Probe, depth: int) -> dict[str, Any]:
        return {
            **probe.vector_query(),
            "score_threshold": probe.floor,
            "filter": self.filter,
            "params": self.effort.at(depth) if self.effort and probe.leg == "dense" else None,
            "limit": depth,
        }

    def native_query(self) -> Any:
        """The engine's query that computes exactly this fusion, or None if it has none."""
        if len(self.probes) != 2:
            return None
        equal = self.fusion.weights == (1.0, 1.0)
        if isinstance(self.fusion, Rrf) and equal:
            # The engine computes 1 / (rank + k - 1); its weighted form is another function than Σ w / (k + rank).
            return models.RrfQuery(rrf=models.Rrf(k=self.fusion.k + 1))
        if isinstance(self.fusion, Dbsf) and equal:
            return models.FusionQuery(fusion=models.Fusion.DBSF)
        if isinstance(self.fusion, Auto) and self.fusion.background is not None:
            terms = max(probe.terms for probe in self.probes)
            return _auto_formula(self.fusion, self.fusion.background, tuple(probe.leg for probe in self.probes), terms)
        return None


@lru_cache(maxsize=256)
def _auto_formula(fusion: Auto, background: float, legs: tuple[LegName, ...], terms: int) -> models.FormulaQuery:
    cosine, bm25 = f"$score[{legs.index('dense')}]", f"$score[{legs.index('lexical')}]"
    # max(0, x) = (x + |x|) / 2: older servers have no max.
    above = models.SumExpression(sum=[cosine, -background])
    positive = models.SumExpression(sum=[above, models.AbsExpression(abs=above)])
    saturated = models.DivExpression(
        div=models.DivParams(left=bm25, right=models.SumExpression(sum=[bm25, fusion.half(terms)]))
    )
    return models.FormulaQuery(
        formula=models.SumExpression(
            sum=[
                models.MultExpression(mult=[fusion.weight("dense") / (2 * (1 - background)), positive]),
                models.MultExpression(mult=[fusion.weight("lexical"), saturated]),
            ]
        ),
        defaults={cosine: background, bm25: 0.0},
    )
