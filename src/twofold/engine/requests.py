"""What an engine is asked for, as plain values, and how an engine's own requests are built from them.

At the top stand the queries: one leg, or several legs that the engine fuses. Below, `RequestBuilder` walks over
queries and formulas, `to_filter` over a filter, and each builds what it meets from an engine's own
types, its `Parts`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from qdrant_client import models

from twofold import filters
from twofold.encoders.base import Sparse, Vectors
from twofold.engine.layout import OWN, Layout, engine_id
from twofold.ranking import expressions as ex

# Beyond this a float can't tell whole numbers apart, so the range that stands for equality would be too wide.
_MAX_EXACT_INT = 2**53
_MAX_CONVERTED = 512

Filter: TypeAlias = filters.Node | models.Filter
"""A condition of ours, or a native filter that the user gave, which passes through as it is."""


@dataclass(frozen=True, slots=True)
class VectorQuery:
    """The points nearest to a vector: dense by cosine, sparse by BM25. Also a leg of a fused query."""

    vector: Vectors | Sparse
    limit: int
    filter: Filter | None = None
    score_threshold: float | None = None
    hnsw_ef: int | None = None
    exact: bool = False
    idf_corpus: Filter | None = None
    """The points whose words decide how rare a word is; None for the whole collection."""
    with_payload: bool = False
    among: tuple[VectorQuery, ...] = ()
    """Score exactly what these find, instead of searching."""


@dataclass(frozen=True, slots=True)
class NewestFirst:
    """Not a score: what the legs brought, those with the latest date in a metadata field first."""

    field: str


@dataclass(frozen=True, slots=True)
class FusedQuery:
    """Several legs, fused by the engine at the root, the only place where fusion spans all shards."""

    legs: tuple[VectorQuery, ...]
    fusion: ex.EngineFusion | NewestFirst
    limit: int
    with_payload: bool = True


EngineQuery: TypeAlias = VectorQuery | FusedQuery


# --- What an engine's own requests are built from ---

_Make: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """One engine's types, or what makes them."""

    request: _Make
    prefetch: _Make
    search_params: _Make
    idf_params: _Make | None
    """From the filter of a corpus; None where the engine always counts in the whole collection."""

    dbsf: _Make
    newest_first: _Make
    formula: _Make
    """From an expression, and the defaults of what it looks up."""
    constant: _Make
    variable: _Make
    condition: _Make
    date_key: _Make
    date: _Make
    exp_decay: _Make
    """From x, a target and a scale, with 1 at the target and one half at that distance from it. So is `lin_decay`."""
    lin_decay: _Make
    quotient: _Make
    absolute: _Make
    sum: _Make
    product: _Make

    filter: type
    group: _Make
    """A filter, from its lists `must`, `should` or `must_not`."""
    value: _Make
    """This and the following are conditions, from the payload key that they look at and what it is compared with."""
    any_value: _Make
    numbers: _Make
    dates: _Make
    words: _Make
    empty: _Make
    has_id: _Make
    has_vector: _Make
    native: _Make
    """From a filter of qdrant-client."""
    layout: Layout = OWN
    """Where the rows of the collection have what."""
    converted: dict[int, tuple[Any, Any, dict[str, Any]]] = field(default_factory=dict)
    """Parts of formulas, by identity (`_convert_once`)."""


# --- Queries ---


@dataclass(slots=True)
class RequestBuilder:
    """Builds the requests of one search: filters and vectors that several legs share are converted once."""

    parts: Parts
    nearest: Callable[[str, Vectors | Sparse], dict[str, Any]]
    """How the engine is asked for what is nearest to a vector of that name."""
    _converted: dict[int, Any] = field(default_factory=dict)

    def request(self, query: EngineQuery) -> Any:
        """One request of a batch."""
        if isinstance(query, VectorQuery):
            return self.parts.request(**self._leg(query), with_payload=query.with_payload)
        for leg in query.legs[0].among if query.legs else ():  # what all legs have among theirs comes first
            self._prefetch(leg)
        return self.parts.request(
            limit=query.limit,
            query=self._fusion(query.fusion),
            prefetches=[self._prefetch(leg) for leg in query.legs],
            with_payload=query.with_payload,
        )

    def _leg(self, leg: VectorQuery) -> dict[str, Any]:
        params = None
        if leg.idf_corpus is not None and self.parts.idf_params is not None:
            params = self.parts.search_params(idf=self.parts.idf_params(self._filter(leg.idf_corpus)))
        elif leg.hnsw_ef is not None or leg.exact:
            params = self.parts.search_params(hnsw_ef=leg.hnsw_ef, exact=leg.exact)
        nearest = self._converted.get(id(leg.vector))
        if nearest is None:  # checking and copying one takes longer than all the rest
            layout = self.parts.layout
            name = layout.sparse if isinstance(leg.vector, Sparse) else layout.dense
            nearest = self.nearest(name or "", leg.vector)
            self._converted[id(leg.vector)] = nearest
        return {
            **nearest,
            "limit": leg.limit,
            "filter": None if leg.filter is None else self._filter(leg.filter),
            "score_threshold": leg.score_threshold,
            "params": params,
            "prefetches": [self._prefetch(each) for each in leg.among] or None,
        }

    def _prefetch(self, leg: VectorQuery) -> Any:
        """A leg of a request, or of a leg: several have the same ones among theirs, and each is converted once."""
        if id(leg) not in self._converted:
            self._converted[id(leg)] = self.parts.prefetch(**self._leg(leg))
        return self._converted[id(leg)]

    def _fusion(self, how: ex.EngineFusion | NewestFirst) -> Any:
        if isinstance(how, ex.DbsfFusion):
            return self.parts.dbsf()
        if isinstance(how, NewestFirst):
            return self.parts.newest_first(self.parts.layout.key(how.field))
        defaults = {f"$score[{leg}]": score for leg, score in enumerate(how.missing)}
        return self.parts.formula(_expression(how.expression, self.parts, defaults), defaults)

    def _filter(self, where: Filter) -> Any:
        if id(where) not in self._converted:
            self._converted[id(where)] = to_filter(where, self.parts)
        return self._converted[id(where)]


# --- Formulas ---


def _convert_once(value: ex.Sum | ex.Product, parts: Parts) -> tuple[Any, dict[str, Any]]:
    """The form of a part of a formula, and the defaults that it needs.

    What is fixed in a rule is one value that is met again and again, and the embedded engine copies every part of a
    formula into the whole: so each is converted once. By identity, because by equality True would be 1; the value is
    kept beside its form, so that no other one gets its id.
    """
    known = parts.converted.get(id(value))
    if known is None:
        defaults: dict[str, Any] = {}
        if isinstance(value, ex.Sum):
            made = parts.sum([_expression(term, parts, defaults) for term in value.terms])
        else:
            made = parts.product([_expression(factor, parts, defaults) for factor in value.factors])
        known = (value, made, defaults)
        if len(parts.converted) >= _MAX_CONVERTED:
            parts.converted.clear()
        parts.converted[id(value)] = known
    return known[1:]


def _expression(value: ex.Expression, parts: Parts, defaults: dict[str, Any]) -> Any:
    """One node of a formula; what it looks up in the payload leaves its default behind."""
    if isinstance(value, (ex.Sum, ex.Product)):
        made, own = _convert_once(value, parts)
        defaults.update(own)
        return made
    if isinstance(value, ex.LegScore):
        return parts.variable(f"$score[{value.leg}]")
    if isinstance(value, ex.FieldValue):
        defaults[parts.layout.key(value.field)] = value.default
        return parts.variable(parts.layout.key(value.field))
    if isinstance(value, ex.Holds):
        return parts.condition(to_condition(value.condition, parts))
    if isinstance(value, ex.Freshness):
        defaults[parts.layout.key(value.field)] = value.now
        date = parts.date_key(parts.layout.key(value.field))
        return parts.exp_decay(date, parts.date(value.now), value.half_life_seconds)
    if isinstance(value, ex.Clipped):
        # Older servers have no max. It falls again beyond 1, where what was checked before it was stored is not. The
        # nodes of a cluster pass a decay on to each other only where its slope is 1 at the most.
        return parts.lin_decay(_expression(value.of, parts, defaults), parts.constant(1.0), 0.5)
    if isinstance(value, ex.Quotient):
        return parts.quotient(_expression(value.left, parts, defaults), _expression(value.right, parts, defaults))
    if isinstance(value, ex.Absolute):
        return parts.absolute(_expression(value.of, parts, defaults))
    return parts.constant(float(value))


# --- Filters ---


def to_filter(where: Filter | None, parts: Parts) -> Any:
    """A condition of ours, or a native filter, in the engine's form; None stays None: every point matches."""
    if where is None:
        return None
    if isinstance(where, models.Filter):
        return parts.native(where)
    condition = to_condition(where, parts)
    return condition if isinstance(condition, parts.filter) else parts.group(must=[condition])


def to_condition(node: filters.Node, parts: Parts) -> Any:
    """A condition in the engine's form."""
    if isinstance(node, filters.All):
        return parts.group(must=[to_condition(part, parts) for part in node.parts])
    if isinstance(node, filters.Either):
        return _either([to_condition(part, parts) for part in node.parts], parts)
    if isinstance(node, filters.Not):
        return parts.group(must_not=[to_condition(node.part, parts)])
    if isinstance(node, filters.Leaf):
        return _field_condition(node, parts.layout.key(node.field), parts)
    if isinstance(node, filters.HasPoint):
        return parts.has_id([engine_id(point) for point in node.ids])
    if isinstance(node, filters.HasId):
        return parts.has_id([engine_id(parts.layout.point(each)) for each in node.ids])
    if isinstance(node, filters.HasVector):
        return parts.has_vector(node.name)
    return (
        parts.words(parts.layout.text_key, node.text)
        if isinstance(node, filters.TextContains)
        else parts.native(node.filter)
    )


def _either(conditions: list[Any], parts: Parts) -> Any:
    """One of them holds. An empty `should` means "everything" to the engine; an empty `or` here means nothing."""
    if len(conditions) == 1:
        return conditions[0]
    return parts.group(should=conditions) if conditions else parts.has_id([])


def _field_condition(node: filters.Leaf, key: str, parts: Parts) -> Any:
    if isinstance(node, filters.Equals):
        return _equals(key, node.value, parts)
    if isinstance(node, filters.AnyOf):
        texts = [value for value in node.values if isinstance(value, str)]
        conditions = [_equals(key, value, parts) for value in node.values if not isinstance(value, str)]
        if texts:
            conditions.append(parts.value(key, texts[0]) if len(texts) == 1 else parts.any_value(key, texts))
        return _either(conditions, parts)
    if isinstance(node, filters.Between):
        bounds: dict[str, Any] = {"gt": node.gt, "gte": node.gte, "lt": node.lt, "lte": node.lte}
        if any(isinstance(bound, datetime) for bound in bounds.values()):
            return parts.dates(key, **bounds)
        return parts.numbers(key, **{**bounds, "gte": _next(node.gte, -math.inf), "lte": _next(node.lte, math.inf)})
    if isinstance(node, filters.Contains):
        return parts.words(key, node.text)
    return parts.group(must_not=[parts.empty(key)])


def _equals(key: str, value: filters.Scalar | datetime, parts: Parts) -> Any:
    if isinstance(value, datetime):
        return parts.dates(key, gte=value, lte=value)
    if isinstance(value, (str, bool)) or (isinstance(value, int) and abs(value) > _MAX_EXACT_INT):
        return parts.value(key, value)
    # The engine's match tells 5 from 5.0, a range does not.
    return parts.numbers(key, gte=_next(float(value), -math.inf), lte=_next(float(value), math.inf))


# The engine keeps payloads as text, and reads one fraction in ten back as the float next to it: so bounds include that.
def _next(bound: Any, towards: float) -> float | None:
    return bound if bound is None or float(bound).is_integer() else math.nextafter(bound, towards)
