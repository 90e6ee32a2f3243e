"""Queries between qdrant_client's models and the engine: what to score by, nested prefetches, formulas, parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any
from uuid import UUID

import qdrant_edge as edge
from qdrant_client import models

from twofold.embedded.collection import Collection
from twofold.embedded.errors import BadRequest, NotFound
from twofold.embedded.points import (
    finite,
    to_edge_condition,
    to_edge_datetime,
    to_edge_filter,
    to_edge_id,
    to_edge_payload,
    to_edge_same,
)
from twofold.embedded.settings import to_edge_enum
from twofold.embedded.store import Store

_DEFAULT_LIMIT = 10
_DEFAULT_RRF_K = 2
_DEFAULT_MMR_DIVERSITY = 0.5
_MAX_MMR_CANDIDATES = 16_384
_Expression = edge.Expression


@dataclass
class QueryScope:
    """What a query is read against; collects the ids it names, which are left out of the answer."""

    collection: Collection
    store: Store
    using: str
    lookup: models.LookupLocation | None
    limit: int
    mentioned: set[int | str] = field(default_factory=set)

    def vector(self, value: Any) -> Any:
        """A vector given as numbers, or as the id of a point that has it."""
        schema = self.collection.schema
        schema.check_name(self.using)
        if isinstance(value, (int, str, UUID)):
            value = self._stored(to_edge_id(value))
        return schema.vector(self.using, value, query=True)

    def _stored(self, point_id: int | str) -> Any:
        source, name = self.collection, self.using
        if self.lookup is None:
            self.mentioned.add(point_id)
        else:
            source = self.store.get(self.lookup.collection)
            name = name if self.lookup.vector is None else self.lookup.vector
        source.schema.check_name(name)
        records = source.read("retrieve", [point_id], False, [name])
        if not records:
            raise NotFound(f"No point with id {point_id} found in {source.settings.name}.")
        vector = records[0].vector
        if isinstance(vector, dict):
            vector = vector.get(name)
        if vector is None:
            raise BadRequest(f"Point {point_id} has no vector {name!r}: it can't serve as an example.")
        return vector


def to_edge_request(request: models.QueryRequest, collection: Collection, store: Store) -> edge.QueryRequest:
    """A whole request; validates what the engine would answer with nonsense."""
    sampled = isinstance(request.query, models.SampleQuery) and not request.prefetch
    return edge.QueryRequest(
        **_stage(request, collection, store, "limit"),
        # As on a server: the order of a random sample means nothing, so there is nothing to skip.
        offset=0 if sampled else _at_least(0, "offset", request.offset or 0),
        with_vector=to_edge_vector_choice(collection, request.with_vector),
        with_payload=to_edge_payload_choice(request.with_payload),
    )


def _stage(value: Any, collection: Collection, store: Store, limit_name: str) -> dict[str, Any]:
    """What a request and each of its prefetches have in common."""
    limit = _at_least(1, limit_name, _DEFAULT_LIMIT if value.limit is None else value.limit)
    scope = QueryScope(collection, store, value.using or "", value.lookup_from, limit)
    query = None if value.query is None else _QUERIES.get(type(value.query), _vector)(value.query, scope)
    inner = as_list(value.prefetch)
    prefetches = [edge.Prefetch(**_stage(item, collection, store, "prefetch limit")) for item in inner]
    _check(value, prefetches)
    condition = to_filter(value.filter)
    if scope.mentioned:  # a query by example doesn't return its examples
        ids: Any = scope.mentioned
        condition = edge.Filter(must=as_list(condition), must_not=[edge.HasIdCondition(ids)])
    return {
        "limit": limit,
        "query": query,
        "prefetches": prefetches,
        "filter": condition,
        "score_threshold": finite("score_threshold", value.score_threshold),
        "params": to_edge_same(_as_model(models.SearchParams, value.params)),
    }


def as_list(value: Any) -> list[Any]:
    """Several, one or none of something."""
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def to_filter(value: Any) -> edge.Filter | None:
    """A filter given as a model, or as the JSON of one."""
    return to_edge_filter(_as_model(models.Filter, value))


def _as_model(kind: type[Any], value: Any) -> Any:
    return kind(**value) if isinstance(value, dict) else value


def to_edge_payload_choice(value: Any) -> Any:
    """True, False, names to include, or a selector."""
    if isinstance(value, models.PayloadSelectorInclude):
        return edge.PayloadSelector.Include(value.include)
    if isinstance(value, models.PayloadSelectorExclude):
        return edge.PayloadSelector.Exclude(value.exclude)
    return list(value) if isinstance(value, (list, tuple)) else bool(value)


def to_edge_vector_choice(collection: Collection, value: Any) -> Any:
    """True, False, or names."""
    if isinstance(value, str):
        value = [value]
    if isinstance(value, (list, tuple)):
        return [collection.schema.check_name(name) for name in value]
    return bool(value)


def _at_least(least: int, name: str, value: int) -> int:
    if value < least:
        raise BadRequest(f"{name} value {value} is invalid. Must be {least} or larger.")
    return value


def _check(value: Any, prefetches: list[Any]) -> None:
    """The rules a server enforces and the engine doesn't."""
    query = value.query
    if prefetches and query is None:
        raise BadRequest("A query is needed to merge the prefetches: for hybrid search, FusionQuery or RrfQuery.")
    if value.score_threshold is not None and (query is None or isinstance(query, models.OrderByQuery)):
        raise BadRequest("score_threshold needs a query that scores.")
    if isinstance(query, (models.FusionQuery, models.RrfQuery)):
        if not prefetches:
            raise BadRequest("Fusion needs prefetches to fuse: pass prefetch=[…].")
        if value.using:
            raise BadRequest("Fusion queries cannot be combined with the 'using' field.")
        weights = query.rrf.weights if isinstance(query, models.RrfQuery) else None
        if weights is not None and len(weights) != len(prefetches):
            raise BadRequest(f"{len(weights)} RRF weights for {len(prefetches)} prefetches: give one weight to each.")


# --- What to score by ---


def _vector(value: Any, scope: QueryScope) -> Any:
    return edge.Query.Nearest(scope.vector(value), scope.using)


def _nearest(value: models.NearestQuery, scope: QueryScope) -> Any:
    if value.mmr is None:
        return _vector(value.nearest, scope)
    vector = scope.vector(value.nearest)
    if isinstance(vector, edge.SparseVector):
        raise NotImplementedError(
            "MMR compares dense vectors in the embedded engine: search a dense one, or leave mmr out."
        )
    diversity = _DEFAULT_MMR_DIVERSITY if value.mmr.diversity is None else value.mmr.diversity
    candidates = scope.limit if value.mmr.candidates_limit is None else value.mmr.candidates_limit
    if not 0 <= diversity <= 1:
        raise BadRequest(f"mmr diversity {diversity} is invalid. Must be from 0 to 1.")
    if not 0 <= candidates <= _MAX_MMR_CANDIDATES:
        raise BadRequest(f"mmr candidates_limit {candidates} is invalid. Must be from 0 to {_MAX_MMR_CANDIDATES}.")
    # The engine's lambda weighs relevance, Qdrant's diversity the opposite.
    return edge.Mmr(vector, 1 - diversity, candidates, scope.using)


def _recommend(value: models.RecommendQuery, scope: QueryScope) -> Any:
    given = value.recommend
    positive = [scope.vector(example) for example in given.positive or []]
    negative = [scope.vector(example) for example in given.negative or []]
    strategy = given.strategy or models.RecommendStrategy.AVERAGE_VECTOR
    if strategy == models.RecommendStrategy.AVERAGE_VECTOR:
        return edge.Query.Nearest(_average_of_examples(positive, negative), scope.using)
    if not positive and not negative:
        raise BadRequest("Recommend needs at least one positive or negative example.")
    query = edge.RecommendQuery(positive, negative)
    by_sum = strategy == models.RecommendStrategy.SUM_SCORES
    return (edge.Query.RecommendSumScores if by_sum else edge.Query.RecommendBestScore)(query, scope.using)


def _average_of_examples(positive: list[Any], negative: list[Any]) -> Any:
    """mean(positive) + (mean(positive) - mean(negative)), or the first alone: the engine leaves that to its caller."""
    if not positive:
        raise BadRequest("Recommend by average needs at least one positive example.")
    sparse = isinstance(positive[0], edge.SparseVector)
    if not sparse and isinstance(positive[0][0], list):  # multi-vectors: all of their rows, as on a server
        return [*chain(*positive), *([-number for number in row] for row in chain(*negative))]
    liked, disliked = _mean(positive), _mean(negative)
    if negative:
        liked = {i: 2 * liked.get(i, 0.0) - disliked.get(i, 0.0) for i in {*liked, *disliked}}
    indices = sorted(liked)
    values = [liked[index] for index in indices]
    return edge.SparseVector(indices, values) if sparse else values


def _mean(vectors: list[Any]) -> dict[int, float]:
    total: dict[int, float] = {}
    for vector in vectors:
        sparse = isinstance(vector, edge.SparseVector)
        for index, value in zip(vector.indices, vector.values, strict=True) if sparse else enumerate(vector):
            total[index] = total.get(index, 0.0) + value / len(vectors)
    return total


def _pairs(value: Any, scope: QueryScope) -> list[edge.ContextPair]:
    return [edge.ContextPair(scope.vector(pair.positive), scope.vector(pair.negative)) for pair in as_list(value)]


def _discover(value: models.DiscoverQuery, scope: QueryScope) -> Any:
    target = scope.vector(value.discover.target)
    return edge.Query.Discover(edge.DiscoverQuery(target, _pairs(value.discover.context, scope)), scope.using)


def _feedback(value: models.RelevanceFeedbackQuery, scope: QueryScope) -> Any:
    given, naive = value.relevance_feedback, value.relevance_feedback.strategy.naive
    items = [edge.FeedbackItem(scope.vector(item.example), item.score) for item in given.feedback]
    strategy = edge.NaiveFeedbackStrategy(naive.a, naive.b, naive.c)
    query = edge.FeedbackNaiveQuery(scope.vector(given.target), items, strategy)
    return edge.Query.FeedbackNaive(query, scope.using)


def _fusion(value: models.FusionQuery, scope: QueryScope) -> Any:
    return edge.Fusion.Rrf(k=_DEFAULT_RRF_K) if value.fusion == models.Fusion.RRF else edge.Fusion.Dbsf()


def _rrf(value: models.RrfQuery, scope: QueryScope) -> Any:
    k = _DEFAULT_RRF_K if value.rrf.k is None else _at_least(1, "rrf k", value.rrf.k)
    weights = value.rrf.weights
    return edge.Fusion.Rrf(k=k, weights=weights and [finite("rrf weight", weight) for weight in weights])


def to_edge_order(value: models.OrderBy | str) -> edge.OrderBy:
    if isinstance(value, str):
        return edge.OrderBy(value)
    start: Any = value.start_from
    if isinstance(start, (int, float)):
        start = finite("start_from", start)
    elif start is not None:
        start = to_edge_datetime(start)
    return edge.OrderBy(value.key, to_edge_enum(edge.Direction, value.direction), start)


def _text(value: models.TextQuery, scope: QueryScope) -> Any:
    if not scope.using:
        raise BadRequest("A text query needs using=…: the payload field whose scored text index ranks the points.")
    if isinstance(value.text, str):
        return edge.TextQuery(scope.using, value.text)
    scoring = value.text.scoring
    bm25 = None if scoring is None else edge.Bm25Params(scoring.bm25.k, scoring.bm25.b)
    return edge.TextQuery(scope.using, value.text.query, bm25)


# --- Formulas ---


def to_edge_expression(value: Any) -> Any:
    """One node of a formula: a number, a variable, a condition (1 or 0), or an operation on nodes."""
    if isinstance(value, str):
        return _Expression.Variable(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):  # numpy's numbers among them
        return _Expression.Constant(float(value))
    convert = _EXPRESSIONS.get(type(value))
    if convert is None:
        return _Expression.Condition(to_edge_condition(value))
    [(_, operands)] = value
    return convert(operands)


def formula_fields(value: Any) -> list[Any]:
    """The parts of a formula that read a payload field."""
    if isinstance(value, str):
        return [] if value.startswith("$") else [value]
    if isinstance(value, (models.DatetimeKeyExpression, models.GeoDistance)):
        return [value]
    if type(value) in _EXPRESSIONS and not isinstance(value, models.DatetimeExpression):
        [(_, value)] = value
    if isinstance(value, (models.DivParams, models.PowParams, models.DecayParamsExpression)):
        value = [operand for _, operand in value]
    return [part for item in value for part in formula_fields(item)] if isinstance(value, list) else []


def _operation(name: str, operands: Any) -> Any:
    """One operand, or a list of them."""
    if name in ("Max", "Min") and not operands:
        raise BadRequest("The maximum or minimum of nothing: give the expression at least one operand.")
    several = isinstance(operands, list)
    given = [to_edge_expression(each) for each in operands] if several else to_edge_expression(operands)
    return getattr(_Expression, name)(given)


def _decay(name: str, given: models.DecayParamsExpression) -> Any:
    x, target = to_edge_expression(given.x), None if given.target is None else to_edge_expression(given.target)
    return _Expression.Decay(getattr(edge.DecayKind, name), x, target, given.midpoint, given.scale)


_OPERATIONS = ("Mult", "Sum", "Max", "Min", "Neg", "Abs", "Sqrt", "Exp", "Log10", "Ln", "Acosh")
_EXPRESSIONS: dict[type, Callable[[Any], Any]] = {
    **{getattr(models, f"{name}Expression"): partial(_operation, name) for name in _OPERATIONS},
    **{getattr(models, f"{name}DecayExpression"): partial(_decay, name) for name in ("Lin", "Exp", "Gauss")},
    models.DivExpression: lambda given: _Expression.Div(
        to_edge_expression(given.left), to_edge_expression(given.right), given.by_zero_default
    ),
    models.PowExpression: lambda given: _Expression.Pow(
        to_edge_expression(given.base), to_edge_expression(given.exponent)
    ),
    models.GeoDistance: lambda given: _Expression.GeoDistance(to_edge_same(given.origin), given.to),
    models.DatetimeExpression: _Expression.Datetime,
    models.DatetimeKeyExpression: _Expression.DatetimeKey,
}


_QUERIES: dict[type, Callable[[Any, QueryScope], Any]] = {
    models.NearestQuery: _nearest,
    models.RecommendQuery: _recommend,
    models.DiscoverQuery: _discover,
    models.ContextQuery: lambda value, scope: edge.Query.Context(
        edge.ContextQuery(_pairs(value.context, scope)), scope.using
    ),
    models.RelevanceFeedbackQuery: _feedback,
    models.FusionQuery: _fusion,
    models.RrfQuery: _rrf,
    models.OrderByQuery: lambda value, scope: to_edge_order(value.order_by),
    models.TextQuery: _text,
    models.FormulaQuery: lambda value, _: edge.Formula(
        to_edge_expression(value.formula), to_edge_payload(value.defaults)
    ),
    models.SampleQuery: lambda value, scope: edge.Sample.Random,
}
