"""To be removed: the two calls an index makes all the time, without what only strangers need.

An index has checked every document and made every id, payload and request by itself, and it reads three fields of
an answer. So here ids and payloads are taken as they are, and answers are the engine's own points. Vectors come from
models, which may be anybody's: they are checked as everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import qdrant_edge as edge
from qdrant_client import models

from twofold.embedded.client import _RESPONSES, BadRequestResponse, ResponseError
from twofold.embedded.client.queries import (
    _EXPRESSIONS,
    _QUERIES,
    Scope,
    _all,
    _Expression,
    _formula,
    to_edge_params,
    to_edge_payload_choice,
    to_edge_query,
)
from twofold.embedded.errors import EmbeddedError
from twofold.embedded.points import to_edge_filter


class Answer(NamedTuple):
    """What a query found."""

    points: list[edge.ScoredPoint]


class MadePoint(Protocol):
    """A point with a canonical id, named vectors (arrays, or objects with indices and values) and plain JSON."""

    @property
    def id(self) -> str: ...
    @property
    def vector(self) -> Mapping[str, Any]: ...
    @property
    def payload(self) -> dict[str, Any]: ...


def request(method: Any) -> Any:
    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except EmbeddedError as error:
            raise _RESPONSES.get(type(error), ResponseError)(str(error)) from error
        except (ValueError, TypeError, OverflowError) as error:
            raise BadRequestResponse(str(error)) from error

    return checked


class FixedFormula(models.FormulaQuery):
    """A formula that nobody changes once it's made. It's met again and again, and converted the first time."""

    __hash__, __eq__ = object.__hash__, object.__eq__


class FixedSum(models.SumExpression):
    """A sum of this kind."""

    __hash__, __eq__ = object.__hash__, object.__eq__


class FixedProduct(models.MultExpression):
    """A product of this kind."""

    __hash__, __eq__ = object.__hash__, object.__eq__


fixed_formula = lru_cache(512)(lambda value: _formula(value, None))  # type: ignore[arg-type]
_QUERIES[FixedFormula] = lambda value, scope: fixed_formula(value)
_EXPRESSIONS[FixedSum] = lru_cache(512)(lambda value: _Expression.Sum(_all(value.sum)))
_EXPRESSIONS[FixedProduct] = lru_cache(512)(lambda value: _Expression.Mult(_all(value.mult)))


class DirectApi:
    def __init__(self, session: Any) -> None:
        self._session = session

    @property
    def store(self) -> Any:
        return self._session.store

    @request
    def upsert_made(self, collection_name: str, points: Sequence[MadePoint], **kwargs: Any) -> Any:
        """Store points."""
        collection = self.store.get(collection_name)
        schema = collection.schema
        vectors = schema.structs([point.vector for point in points])
        made = [edge.Point(point.id, named, point.payload) for point, named in zip(points, vectors, strict=True)]
        return collection.apply_pieces(made, edge.UpdateOperation.upsert_points, schema)

    @request
    def query_made(self, collection_name: str, requests: Sequence[models.QueryRequest], **kwargs: Any) -> list[Answer]:
        """Answer queries by vectors and fusions of them, with their payload and named vectors where wanted."""
        collection = self.store.get(collection_name)
        made = _Made(collection, self.store)
        asked = [made.request(one) for one in requests]
        if len(asked) == 1:  # what most searches are, and quicker than a batch of one
            return [Answer(collection.read("query", asked[0]))]
        return [Answer(points) for points in collection.read("query_batch", edge.QueryBatchRequest(asked))]


class _Made:
    """Requests of one search in the engine's form. They have few shapes, and all their legs have the same filter."""

    def __init__(self, collection: Any, store: Any) -> None:
        self._store, self._collection, self._schema = store, collection, collection.schema
        self._filters: dict[int, edge.Filter | None] = {}

    def request(self, value: Any) -> edge.QueryRequest:
        return edge.QueryRequest(
            limit=value.limit,
            query=self._query(value),
            prefetches=[self._leg(each) for each in value.prefetch or ()],
            with_vector=value.with_vector or False,
            with_payload=to_edge_payload_choice(value.with_payload),
            filter=self._filter(value.filter),
            score_threshold=value.score_threshold,
            params=to_edge_params(value.params),
        )

    def _leg(self, value: Any) -> edge.Prefetch:
        return edge.Prefetch(
            limit=value.limit,
            query=self._query(value),
            filter=self._filter(value.filter),
            score_threshold=value.score_threshold,
            params=to_edge_params(value.params),
        )

    def _query(self, value: Any) -> Any:
        query, using = value.query, value.using or ""
        if type(query) is list or type(query) is models.SparseVector:
            return edge.Query.Nearest(self._schema.query(using, query), using)
        return to_edge_query(query, Scope(self._collection, self._store, using, None, value.limit))

    def _filter(self, value: models.Filter | None) -> edge.Filter | None:
        if value is None:
            return None
        if id(value) not in self._filters:
            self._filters[id(value)] = to_edge_filter(value)
        return self._filters[id(value)]
