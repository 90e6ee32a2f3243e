"""The embedded engine: the verbs, straight on qdrant-edge.

From top to bottom: a connection to a store that was opened for the index; the verbs, each one or two calls of the
engine; and how queries, formulas and filters look in the engine's own types. An index has checked every document and
made every id and payload by itself, so these are taken as they are, and answers are the engine's own points. Vectors
come from models, which may be anybody's: they are checked as everywhere.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import qdrant_edge as edge
from qdrant_client import models

from twofold.embedded import BadRequest, EmbeddedError, Options, Settings, Store, open_store
from twofold.embedded.collection import match_value
from twofold.embedded.optimize import optimize
from twofold.embedded.points import to_edge_filter, to_edge_payload
from twofold.embedded.settings import VectorSchema
from twofold.encoders.base import Sparse
from twofold.engine.calls import Page
from twofold.engine.connection import Capabilities, Connection
from twofold.engine.layout import DENSE, SPARSE, Conditions, NewPoint, Schema, metadata_key, read_schema, to_condition
from twofold.engine.requests import (
    DbsfFusion,
    EngineQuery,
    Filter,
    FusedQuery,
    NativeFusion,
    Payload,
    PayloadWithout,
    RrfFusion,
    VectorQuery,
)
from twofold.errors import ConfigError, EngineError, TwofoldError
from twofold.flow import Call
from twofold.ranking import expressions as ex

_CAPABILITIES = Capabilities(versioned=False, indexes=True, threads=True, optimizes=True, at_hand=True)
_MAX_CONVERTED = 512
_HALF = 0.5


def check_store_options(options: Mapping[str, Any]) -> None:
    """Refuse options that no store can be opened with, before anything is made for it."""
    try:
        Options(**options)
    except BadRequest as error:
        raise ConfigError(str(error)) from None


class EdgeConnection(Connection):
    """A store that was opened for the index alone; awaiting callers are served from a thread."""

    def __init__(self, folder: str | Path, location: str, options: Mapping[str, Any]) -> None:
        super().__init__(location, _CAPABILITIES)
        try:
            store = open_store(folder, Options(**options))
        except EmbeddedError as error:
            raise _refused("open", location, error) from None
        self._verbs = EdgeEngine(store)
        self._release = store.release
        # For an index that nobody closed; a finaliser must not wait for anything.
        self._forget = weakref.finalize(self, store.forget)
        self._forget.atexit = False

    def call(self, call: Call) -> Any:
        """Carry out a verb."""
        self.check_open()
        try:
            return getattr(self._verbs, call.verb)(**call.arguments)
        except TwofoldError:
            raise
        except EmbeddedError as error:
            raise _refused(call.verb, self.location, error) from None
        except (ValueError, TypeError, OverflowError) as error:  # the engine's, of a path that is none, for one
            raise _refused(call.verb, self.location, BadRequest(str(error))) from error
        except Exception as error:
            message = f"{call.verb} on {self.location} failed: {type(error).__name__}: {error}"
            raise EngineError(message, operation=call.verb, location=self.location) from error

    async def acall(self, call: Call) -> Any:
        """Carry out a verb in a thread."""
        return await asyncio.to_thread(self.call, call)

    def close(self) -> None:
        """Let go of the store; the last one to do so closes it."""
        super().close()
        if self._forget.detach():
            self._release()


def _refused(verb: str, location: str, error: EmbeddedError) -> EngineError:
    message = f"{verb} on {location} was refused with {error.status_code} {error.reason_phrase}. {error}"
    return EngineError(message, operation=verb, location=location)


class EdgeEngine:
    """The verbs, on the collections of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def version(self) -> str:
        """The version of qdrant-edge."""
        return version("qdrant-edge-py")

    def exists(self, collection: str) -> bool:
        """Is there such a collection?"""
        return self._store.has(collection)

    def create(self, collection: str, settings: Mapping[str, Any]) -> None:
        """Create a collection."""
        metadata = to_edge_payload(settings.get("metadata"))  # plain JSON, whatever an encoder says of itself
        self._store.create(Settings(collection, {**settings, "metadata": metadata}, wal=not self._store.in_memory))

    def describe(self, collection: str) -> Schema:
        """What a collection offers."""
        held = self._store.get(collection)
        info, indexes = held.read("info"), held.settings.indexes
        indexed = {key: _kind(indexes[key]) for key in info.payload_schema if key in indexes}
        return read_schema(held.settings.config, info.points_count or 0, indexed)

    def set_metadata(self, collection: str, metadata: Mapping[str, Any]) -> None:
        """Change some keys of the collection's metadata."""
        self._store.get(collection).merge_metadata(to_edge_payload(metadata))

    def create_index(self, collection: str, key: str, schema: str | Mapping[str, Any], wait: bool) -> None:
        """Index a payload key. It is there at once, whether that is waited for or not."""
        self._store.get(collection).create_index(key, schema)

    def optimize(self, collection: str, progress: Any) -> bool:
        """Build the search graph."""
        return optimize(self._store.get(collection), progress)

    def query(self, collection: str, queries: Sequence[EngineQuery]) -> list[list[edge.ScoredPoint]]:
        """Answer queries by vectors and fusions of them."""
        held = self._store.get(collection)
        translate = _Translator(held.schema)
        requests = [translate.request(query) for query in queries]
        if len(requests) == 1:  # what most searches are, and quicker than a batch of one
            return [held.read("query", requests[0])]
        answers: list[list[edge.ScoredPoint]] = held.read("query_batch", edge.QueryBatchRequest(requests))
        return answers

    def scroll(
        self,
        collection: str,
        where: Filter | None,
        limit: int,
        offset: Any,
        order_by: str | None,
        only: Sequence[str] | None,
        vectors: Sequence[str],
    ) -> Page:
        """Points that match a filter, page by page."""
        held = self._store.get(collection)
        request = edge.ScrollRequest(
            offset=offset,
            limit=limit,
            filter=to_filter(where),
            with_payload=True if only is None else list(only),
            with_vector=[held.schema.check_name(name) for name in vectors] or False,
            order_by=None if order_by is None else edge.OrderBy(order_by, edge.Direction.Desc),
        )
        return Page(*held.read("scroll", request))

    def retrieve(
        self, collection: str, ids: Sequence[str], only: Sequence[str] | None, vectors: Sequence[str]
    ) -> list[edge.Record]:
        """Points by id."""
        held = self._store.get(collection)
        wanted, payload = list(dict.fromkeys(ids)), True if only is None else list(only)
        names = [held.schema.check_name(name) for name in vectors] or False
        records: list[edge.Record] = held.read("retrieve", wanted, payload, names)
        return records

    def count(self, collection: str, where: Filter | None) -> int:
        """How many points match."""
        number: int = self._store.get(collection).read("count", edge.CountRequest(True, to_filter(where)))
        return number

    def facet(self, collection: str, key: str, where: Filter | None, limit: int) -> dict[Any, int]:
        """The values of a payload key. An exact count still lists those that only deleted points had, with 0."""
        request = edge.FacetRequest(key, limit, True, to_filter(where))
        hits = self._store.get(collection).read("facet", request).hits
        return {hit.value: hit.count for hit in hits if hit.count}

    def upsert(self, collection: str, points: Sequence[NewPoint]) -> None:
        """Store points."""
        held = self._store.get(collection)
        schema = held.schema
        vectors = schema.structs([point.vector for point in points])
        made = [edge.Point(point.id, named, point.payload) for point, named in zip(points, vectors, strict=True)]
        held.apply_pieces(made, edge.UpdateOperation.upsert_points, schema)

    def set_payload(
        self, collection: str, key: str, payload: Mapping[str, Any], points: Sequence[str] | Filter
    ) -> None:
        """Change some fields below a payload key."""
        fields = dict(payload)
        self._write(collection, points, lambda ids: edge.UpdateOperation.set_payload(ids, fields, key))

    def delete(self, collection: str, where: Filter) -> None:
        """Delete what matches."""
        self._write(collection, where, edge.UpdateOperation.delete_points)

    def _write(
        self, collection: str, points: Sequence[str] | Filter, make: Callable[[list[Any]], edge.UpdateOperation]
    ) -> None:
        """A write to points by their ids; a filter is resolved to ids at this moment."""
        held = self._store.get(collection)
        make([])  # the engine reads paths and payloads here, so a bad one fails before anything is written
        with held.writing:
            if isinstance(points, Sequence):
                ids: list[Any] = list(dict.fromkeys(points))
                held.require(ids)
            else:
                ids = held.matching_ids(to_filter(points) or edge.Filter())
            held.apply_pieces(ids, make)


def _kind(schema: str | Mapping[str, Any]) -> str:
    return schema if isinstance(schema, str) else str(schema["type"])


# --- Queries in the engine's form ---


class _Translator:
    """The requests of one search. They have few shapes, and all their legs have the same filter."""

    def __init__(self, schema: VectorSchema) -> None:
        self._schema = schema
        self._filters: dict[int, edge.Filter | None] = {}

    def request(self, query: EngineQuery) -> edge.QueryRequest:
        payload = _payload(query.with_payload)
        vectors: Any = [DENSE] if query.with_dense else False
        if isinstance(query, FusedQuery):
            return edge.QueryRequest(
                limit=query.limit,
                query=_fusion(query.fusion),
                prefetches=[self._leg(leg) for leg in query.legs],
                with_vector=vectors,
                with_payload=payload,
            )
        return edge.QueryRequest(
            limit=query.limit,
            query=self._nearest(query),
            with_vector=vectors,
            with_payload=payload,
            filter=self._filter(query.filter),
            score_threshold=query.score_threshold,
            params=self._params(query),
        )

    def _leg(self, leg: VectorQuery) -> edge.Prefetch:
        return edge.Prefetch(
            limit=leg.limit,
            query=self._nearest(leg),
            filter=self._filter(leg.filter),
            score_threshold=leg.score_threshold,
            params=self._params(leg),
        )

    def _nearest(self, leg: VectorQuery) -> Any:
        name = SPARSE if isinstance(leg.vector, Sparse) else DENSE
        return edge.Query.Nearest(self._schema.vector(name, leg.vector, query=True), name)

    def _params(self, leg: VectorQuery) -> edge.SearchParams | None:
        if leg.idf_corpus is not None:
            return edge.SearchParams(idf=edge.IdfParams(self._filter(leg.idf_corpus)))
        return _effort(leg.hnsw_ef, leg.exact) if leg.hnsw_ef is not None or leg.exact else None

    def _filter(self, where: Filter | None) -> edge.Filter | None:
        if where is None:
            return None
        known = self._filters.get(id(where))
        if known is None:
            known = to_filter(where)
            self._filters[id(where)] = known
        return known


@lru_cache(maxsize=64)
def _effort(hnsw_ef: int | None, exact: bool) -> edge.SearchParams:
    return edge.SearchParams(hnsw_ef=hnsw_ef, exact=exact)


def _payload(wanted: Payload) -> Any:
    if isinstance(wanted, PayloadWithout):
        return edge.PayloadSelector.Exclude([metadata_key(field) for field in wanted.fields])
    return wanted


def _fusion(how: NativeFusion) -> Any:
    if isinstance(how, ex.Formula):
        return _formula(how)
    if isinstance(how, RrfFusion):
        # The engine computes 1 / (rank + k - 1); its weighted form is another function than Σ w / (k + rank).
        return edge.Fusion.Rrf(k=how.k + 1)
    if isinstance(how, DbsfFusion):
        return edge.Fusion.Dbsf()
    return edge.OrderBy(metadata_key(how.field), edge.Direction.Desc)


# --- Formulas in the engine's form ---


# What is fixed in a rule is one value that is met again and again, and the engine copies every part of a formula into
# the whole: so each is converted once. By identity, because by equality True would be 1; the value is kept beside its
# form, so that no other one gets its id.
_converted: dict[int, tuple[Any, Any, dict[str, Any]]] = {}


def _convert_once(value: Any, convert: Callable[[Any, dict[str, Any]], Any]) -> tuple[Any, Any, dict[str, Any]]:
    """A value, its form, and the defaults that it needs."""
    known = _converted.get(id(value))
    if known is None:
        defaults: dict[str, Any] = {}
        known = (value, convert(value, defaults), defaults)
        if len(_converted) >= _MAX_CONVERTED:
            _converted.clear()
        _converted[id(value)] = known
    return known


def _formula(formula: ex.Formula) -> edge.Formula:
    made: edge.Formula = _convert_once(formula, _new_formula)[1]
    return made


def _new_formula(formula: ex.Formula, defaults: dict[str, Any]) -> edge.Formula:
    defaults.update({f"$score[{leg}]": score for leg, score in enumerate(formula.missing)})
    return edge.Formula(_expression(formula.expression, defaults), defaults)


def _expression(value: ex.Expression, defaults: dict[str, Any]) -> Any:
    """One node of a formula; what it looks up in the payload leaves its default behind."""
    convert = _EXPRESSIONS.get(type(value))
    if convert is None:
        return edge.Expression.Constant(float(value))  # type: ignore[arg-type]
    if not isinstance(value, (ex.Sum, ex.Product)):
        return convert(value, defaults)
    _, made, own = _convert_once(value, convert)
    defaults.update(own)
    return made


def _field(value: ex.FieldValue, defaults: dict[str, Any]) -> Any:
    key = metadata_key(value.field)
    defaults[key] = value.default
    return edge.Expression.Variable(key)


def _freshness(value: ex.Freshness, defaults: dict[str, Any]) -> Any:
    key = metadata_key(value.field)
    defaults[key] = value.now
    x, now = edge.Expression.DatetimeKey(key), edge.Expression.Datetime(value.now)
    return edge.Expression.Decay(edge.DecayKind.Exp, x, now, _HALF, value.half_life_seconds)


def _ramp(value: ex.Ramp, defaults: dict[str, Any]) -> Any:
    # It falls again beyond 1, where x doesn't come.
    x, one = _expression(value.of, defaults), edge.Expression.Constant(1.0)
    return edge.Expression.Decay(edge.DecayKind.Lin, x, one, _HALF, (1 - value.zero) / 2)


def _quotient(value: ex.Quotient, defaults: dict[str, Any]) -> Any:
    return edge.Expression.Div(_expression(value.left, defaults), _expression(value.right, defaults), None)


_EXPRESSIONS: dict[type, Callable[[Any, dict[str, Any]], Any]] = {
    ex.LegScore: lambda value, _: edge.Expression.Variable(f"$score[{value.leg}]"),
    ex.FieldValue: _field,
    ex.Holds: lambda value, _: edge.Expression.Condition(to_condition(value.condition, _CONDITIONS)),
    ex.Freshness: _freshness,
    ex.Ramp: _ramp,
    ex.Quotient: _quotient,
    ex.Absolute: lambda value, defaults: edge.Expression.Abs(_expression(value.of, defaults)),
    ex.Sum: lambda value, defaults: edge.Expression.Sum([_expression(term, defaults) for term in value.terms]),
    ex.Product: lambda value, defaults: edge.Expression.Mult([_expression(each, defaults) for each in value.factors]),
}


# --- Filters in the engine's form ---


def to_filter(where: Filter | None) -> edge.Filter | None:
    """A condition of ours, or a native filter, in the engine's form; None stays None: every point matches."""
    if where is None or isinstance(where, models.Filter):
        return to_edge_filter(where)
    condition = to_condition(where, _CONDITIONS)
    return condition if isinstance(condition, edge.Filter) else edge.Filter(must=[condition])


class _EdgeConditions:
    """The conditions of qdrant-edge."""

    def all_of(self, parts: list[Any]) -> edge.Filter:
        return edge.Filter(must=parts)

    def any_of(self, parts: list[Any]) -> edge.Filter:
        return edge.Filter(should=parts)

    def none_of(self, parts: list[Any]) -> edge.Filter:
        return edge.Filter(must_not=parts)

    def value(self, key: str, value: str | bool | int) -> edge.FieldCondition:
        return edge.FieldCondition(key, match=match_value(value))

    def any_value(self, key: str, values: list[str]) -> edge.FieldCondition:
        return edge.FieldCondition(key, match=edge.MatchAny(values))

    def numbers(self, key: str, **bounds: float | None) -> edge.FieldCondition:
        return edge.FieldCondition(key, range=edge.RangeFloat(**bounds))

    def dates(self, key: str, **bounds: datetime | None) -> edge.FieldCondition:
        written = {name: bound.isoformat() for name, bound in bounds.items() if bound is not None}
        return edge.FieldCondition(key, range=edge.RangeDateTime(**written))

    def words(self, key: str, text: str) -> edge.FieldCondition:
        return edge.FieldCondition(key, match=edge.MatchText(text))

    def empty(self, key: str) -> edge.IsEmptyCondition:
        return edge.IsEmptyCondition(key)

    def has_id(self, ids: list[int | str]) -> edge.HasIdCondition:
        return edge.HasIdCondition(set(ids))

    def has_vector(self, name: str) -> edge.HasVectorCondition:
        return edge.HasVectorCondition(name)

    def native(self, native: models.Filter) -> edge.Filter | None:
        return to_edge_filter(native)


_CONDITIONS: Conditions = _EdgeConditions()
