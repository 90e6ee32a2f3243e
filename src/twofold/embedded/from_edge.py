"""qdrant_edge → qdrant_client.models. The engine has typed the values: they need no validation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import qdrant_edge as edge
from qdrant_client import models

from .quick import maker

_scored, _record = maker(models.ScoredPoint), maker(models.Record)


def to_model_id(value: Any) -> int | str:
    """Integers as they are, UUIDs as text, as the server sends them."""
    return value if type(value) is int else str(value)


def to_scored_points(points: Iterable[edge.ScoredPoint]) -> list[models.ScoredPoint]:
    return [
        _scored(
            {
                "id": to_model_id(point.id),
                "version": point.version,
                "score": point.score,
                "payload": point.payload,
                "vector": to_model_vector(point.vector),
                "shard_key": None,
                "order_value": point.order_value,
            }
        )
        for point in points
    ]


def to_records(records: Iterable[edge.Record]) -> list[models.Record]:
    return [
        _record(
            {
                "id": to_model_id(record.id),
                "payload": record.payload,
                "vector": to_model_vector(record.vector),
                "shard_key": None,
                "order_value": record.order_value,
            }
        )
        for record in records
    ]


def to_model_vector(value: Any) -> Any:
    if type(value) is dict:
        return {name: _named(vector) for name, vector in value.items()}
    return value


def _named(value: Any) -> Any:
    if isinstance(value, edge.SparseVector):
        return models.SparseVector.model_construct(indices=value.indices, values=value.values)
    return value


def to_facet(response: edge.FacetResponse) -> models.FacetResponse:
    """Without the values that only deleted points had: an exact count still lists them, with 0."""
    found = (hit for hit in response.hits if hit.count)
    hits = [models.FacetValueHit.model_construct(value=hit.value, count=hit.count) for hit in found]
    return models.FacetResponse.model_construct(hits=hits)
