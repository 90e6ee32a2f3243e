"""Recommendation by the average of examples, which the engine leaves to its caller."""

from __future__ import annotations

from typing import Any

import qdrant_edge as edge

from twofold.embedded.errors import BadRequest


def average_of_examples(positive: list[Any], negative: list[Any]) -> Any:
    """mean(positive) + (mean(positive) - mean(negative)), or the first term alone without negatives."""
    if not positive:
        raise BadRequest("Recommend by average needs at least one positive example.")
    if isinstance(positive[0], edge.SparseVector):
        return _from_mapping(_combine([_as_mapping(v) for v in positive], [_as_mapping(v) for v in negative]))
    if isinstance(positive[0][0], list):
        raise NotImplementedError(
            "Recommend by average isn't defined for multi-vectors: use RecommendStrategy.BEST_SCORE or SUM_SCORES."
        )
    size = range(len(positive[0]))
    mixed = _combine([dict(enumerate(v)) for v in positive], [dict(enumerate(v)) for v in negative])
    return [mixed[index] for index in size]


def _as_mapping(vector: edge.SparseVector) -> dict[int, float]:
    return dict(zip(vector.indices, vector.values, strict=True))


def _from_mapping(values: dict[int, float]) -> edge.SparseVector:
    ordered = sorted(values)
    return edge.SparseVector(ordered, [values[index] for index in ordered])


def _mean(vectors: list[dict[int, float]]) -> dict[int, float]:
    total: dict[int, float] = {}
    for vector in vectors:
        for index, value in vector.items():
            total[index] = total.get(index, 0.0) + value / len(vectors)
    return total


def _combine(positive: list[dict[int, float]], negative: list[dict[int, float]]) -> dict[int, float]:
    liked = _mean(positive)
    if not negative:
        return liked
    disliked = _mean(negative)
    return {i: 2 * liked.get(i, 0.0) - disliked.get(i, 0.0) for i in {*liked, *disliked}}
