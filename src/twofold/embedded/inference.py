"""Whether a request holds texts or images that qdrant-client must encode first.

qdrant-client looks into every vector for them and copies every request of a batch, which takes longer than
the embedded engine takes to answer: here the types tell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel
from qdrant_client import models
from qdrant_client.embed.type_inspector import Inspector
from qdrant_client.qdrant_fastembed import QdrantFastembedMixin

from .to_edge.formulas import FixedFormula

_TO_ENCODE: set[Any] = {models.Document, models.Image, models.InferenceObject}
# Nothing inside these can be encoded.
_PLAIN: set[Any] = {
    type(None),
    int,
    float,
    str,
    models.SparseVector,
    models.FusionQuery,
    models.RrfQuery,
    models.OrderByQuery,
    models.FormulaQuery,
    FixedFormula,
    models.TextQuery,
}

# Queries that need no other form: most that have prefetches.
_CANONICAL: set[Any] = {
    type(None),
    models.FusionQuery,
    models.RrfQuery,
    models.FormulaQuery,
    FixedFormula,
    models.NearestQuery,
}

Resolve = Callable[[models.QueryRequest], models.QueryRequest]


class QuickInspector(Inspector):
    """Takes the place of qdrant-client's own."""

    def inspect(self, points: Any) -> bool:
        return _holds(points)


def resolve_request(asked: models.QueryRequest, deep: Resolve) -> models.QueryRequest:
    """The request with its query in canonical form; `deep` copies all of it, which only encoding needs."""
    if _holds(asked.query) or _holds(asked.prefetch):
        return deep(asked)
    if type(asked.query) in _CANONICAL:
        return asked
    return asked.model_copy(update={"query": QdrantFastembedMixin._resolve_query(asked.query)})


def _holds(value: Any) -> bool:
    kind = type(value)  # compared by identity: isinstance on a pydantic class is slow Python
    if kind in _PLAIN:
        return False
    if kind is list or kind is tuple:
        # A vector: one number tells for all of them.
        return bool(value) and type(value[0]) not in (float, int) and any(map(_holds, value))
    if kind is dict:
        return any(map(_holds, value.values()))
    if kind is models.PointStruct:
        return _holds(value.vector)
    if kind is models.NearestQuery:
        return _holds(value.nearest)
    if kind is models.Prefetch:
        return _holds(value.query) or _holds(value.prefetch)
    return kind in _TO_ENCODE or (isinstance(value, BaseModel) and any(_holds(item) for _, item in value))
