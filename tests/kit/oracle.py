"""What an engine must answer, computed by going through everything."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from tests.kit.corpus import Point, PointId, Sparse

Scores = Mapping[PointId, float]
TOLERANCE = 1e-4


def cosine(points: Iterable[Point], query: Sequence[float], name: str = "dense") -> dict[PointId, float]:
    def unit(vector: Sequence[float]) -> list[float]:
        length = math.sqrt(sum(x * x for x in vector)) or 1.0
        return [x / length for x in vector]

    asked = unit(query)
    return {
        point.id: sum(a * b for a, b in zip(asked, unit(point.vectors[name]), strict=True))
        for point in points
        if name in point.vectors
    }


def dot(points: Iterable[Point], query: Sparse, name: str = "plain") -> dict[PointId, float]:
    """Sparse scores; a point that shares no term is not found."""
    shared = {point.id: _shared(point, query, name) for point in points}
    return {key: sum(products.values()) for key, products in shared.items() if products}


def idf(points: Sequence[Point], query: Sparse, name: str = "bm25") -> dict[PointId, float]:
    """Sparse scores, each term weighed by its rarity among the points that have the vector."""
    holders = [point for point in points if name in point.vectors]
    weighed = {}
    for term, value in query.items():
        having = sum(term in point.vectors[name] for point in holders)
        weighed[term] = value * math.log((len(holders) - having + 0.5) / (having + 0.5) + 1)
    return dot(holders, weighed, name)


def _shared(point: Point, query: Sparse, name: str) -> dict[int, float]:
    own: Sparse = point.vectors.get(name, {})
    return {term: value * own[term] for term, value in query.items() if term in own}


def top(scores: Scores, limit: int) -> list[PointId]:
    return sorted(scores, key=lambda key: (-scores[key], str(key)))[:limit]


def best(scores: Scores, limit: int) -> dict[PointId, float]:
    return {key: scores[key] for key in top(scores, limit)}


def rrf(legs: Sequence[Scores], k: int) -> dict[PointId, float]:
    fused: dict[PointId, float] = {}
    for leg in legs:
        for place, key in enumerate(top(leg, len(leg))):
            fused[key] = fused.get(key, 0.0) + 1 / (place + k)
    return fused


def dbsf(legs: Sequence[Scores]) -> dict[PointId, float]:
    fused: dict[PointId, float] = {}
    for leg in legs:
        for key, score in _standardised(leg).items():
            fused[key] = fused.get(key, 0.0) + score
    return fused


def _standardised(leg: Scores) -> dict[PointId, float]:
    """Onto 0…1 between three standard deviations below the mean and three above."""
    if len(set(leg.values())) < 2:
        return dict.fromkeys(leg, 0.5)
    mean, spread = statistics.mean(leg.values()), 3 * statistics.stdev(leg.values())
    return {key: (score - mean + spread) / (2 * spread) for key, score in leg.items()}


def marginal(pool: Scores, between: Mapping[PointId, Scores], diversity: float, limit: int) -> list[PointId]:
    """Maximal marginal relevance: near to the query, far from what was chosen before."""
    chosen = top(pool, 1)
    while len(chosen) < limit:
        left = {
            key: (1 - diversity) * score - diversity * max(between[key][other] for other in chosen)
            for key, score in pool.items()
            if key not in chosen
        }
        chosen += top(left, 1)
    return chosen


def assert_ranking(
    found: Sequence[Any], expected: Scores, limit: int, tolerance: float = TOLERANCE, *, offset: int = 0
) -> None:
    """The best `limit` of `expected`, in order; which of several equal ones comes first is left open."""
    keys = [point.id for point in found]
    scores = [point.score for point in found]
    assert len(set(keys)) == len(keys)
    assert set(keys) <= set(expected)
    assert scores == pytest.approx([expected[key] for key in top(expected, offset + limit)[offset:]], abs=tolerance)
    assert scores == pytest.approx([expected[key] for key in keys], abs=tolerance)
