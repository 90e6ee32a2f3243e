"""Search requests: one for each leg, or one in which the engine fuses both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from qdrant_client import models

from twofold.encoders.base import Sparse, Vectors
from twofold.engine.layout import DENSE, SPARSE, to_sparse
from twofold.fusion import Auto, Dbsf, LegName, Rrf, Strategy


@dataclass(frozen=True, slots=True)
class Probe:
    """One leg of a query: its vector, and the raw score below which a candidate doesn't count."""

    leg: LegName
    vector: Vectors | Sparse
    floor: float | None = None

    @property
    def mass(self) -> float:
        """Σ of the weights of a sparse query: the number of its terms."""
        return self.vector.mass if isinstance(self.vector, Sparse) else 1.0

    def arguments(self) -> dict[str, Any]:
        """What says, in a request or a prefetch, which vector is asked for."""
        if isinstance(self.vector, Sparse):
            return {"query": to_sparse(self.vector), "using": SPARSE, "score_threshold": self.floor}
        return {"query": self.vector.tolist(), "using": DENSE, "score_threshold": self.floor}


@dataclass(frozen=True, slots=True)
class Scope:
    """What all requests of one search share: the same filter and effort for every leg."""

    filter: models.Filter | None
    params: models.SearchParams | None


def leg_request(probe: Probe, scope: Scope, depth: int, *, payload: bool) -> models.QueryRequest:
    """The candidates of one leg; without payload only their ids and scores."""
    return models.QueryRequest(
        **probe.arguments(),
        filter=scope.filter,
        params=_params(probe, scope),
        limit=depth,
        with_payload=payload,
    )


def fused_request(
    fusion: Strategy, probes: Sequence[Probe], scope: Scope, depth: int, limit: int
) -> models.QueryRequest:
    """Both legs as prefetches with fusion at the root, the only place where it spans all shards."""
    return models.QueryRequest(
        prefetch=[
            models.Prefetch(**p.arguments(), filter=scope.filter, params=_params(p, scope), limit=depth) for p in probes
        ],
        query=native_query(fusion, probes),
        limit=limit,
        with_payload=True,
    )


def native_query(fusion: Strategy, probes: Sequence[Probe]) -> Any:
    """The engine's query that computes exactly this fusion, or None if it has none."""
    if len(probes) != 2:
        return None
    equal = fusion.weights == (1.0, 1.0)
    if isinstance(fusion, Rrf) and equal:
        # The engine ranks from 0 and adds k - 1; its weighted form is another function than Σ w / (k + rank).
        return models.RrfQuery(rrf=models.Rrf(k=fusion.k + 1))
    if isinstance(fusion, Dbsf) and equal:
        return models.FusionQuery(fusion=models.Fusion.DBSF)
    if isinstance(fusion, Auto):
        return _auto_formula(fusion, probes)
    return None


def _auto_formula(fusion: Auto, probes: Sequence[Probe]) -> models.FormulaQuery:
    place = {probe.leg: f"$score[{i}]" for i, probe in enumerate(probes)}
    lexical = next(probe for probe in probes if probe.leg == "lexical")
    cosine, bm25 = place["dense"], place["lexical"]
    # max(0, x) = (x + |x|) / 2: older servers have no max.
    positive = models.SumExpression(sum=[cosine, models.AbsExpression(abs=cosine)])
    saturated = models.DivExpression(
        div=models.DivParams(left=bm25, right=models.SumExpression(sum=[bm25, fusion.half(lexical.mass)]))
    )
    return models.FormulaQuery(
        formula=models.SumExpression(
            sum=[
                models.MultExpression(mult=[fusion.weight("dense") / 2, positive]),
                models.MultExpression(mult=[fusion.weight("lexical"), saturated]),
            ]
        ),
        defaults={cosine: 0.0, bm25: 0.0},
    )


def _params(probe: Probe, scope: Scope) -> models.SearchParams | None:
    return scope.params if probe.leg == "dense" else None
