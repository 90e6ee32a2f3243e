"""Queries: what to score by, nested prefetches, search parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

import qdrant_edge as edge
from qdrant_client import models

from twofold.embedded.errors import BadRequest

from .enums import to_edge_enum
from .examples import average_of_examples
from .filters import exclude_ids, to_edge_filter
from .formulas import FixedFormula, fixed_formula, to_edge_formula
from .ids import to_edge_id
from .numbers import finite
from .payloads import to_edge_datetime
from .vectors import VectorSchema

_DEFAULT_LIMIT = 10
_DEFAULT_RRF_K = 2
_MMR_DIVERSITY = 0.5
_MMR_MAX_CANDIDATES = 16_384


class Examples(Protocol):
    """Looks up the vector of a stored point, for queries by id."""

    def __call__(self, point_id: int | str, name: str, lookup: models.LookupLocation | None) -> Any: ...


@dataclass
class Scope:
    """What a query is read against; collects the ids it names, which are left out of the answer."""

    schema: VectorSchema
    examples: Examples
    using: str
    lookup: models.LookupLocation | None
    limit: int
    mentioned: set[int | str] = field(default_factory=set)

    def vector(self, value: Any) -> Any:
        """A vector given as numbers, or as the id of a point that has it."""
        self.schema.check_name(self.using)
        if isinstance(value, (int, str, UUID)):
            value = self._stored(to_edge_id(value))
        return self.schema.query(self.using, value)

    def vectors(self, values: Sequence[Any] | None) -> list[Any]:
        return [self.vector(value) for value in values or []]

    def _stored(self, point_id: int | str) -> Any:
        if self.lookup is None:
            self.mentioned.add(point_id)
        return self.examples(point_id, self.using, self.lookup)


def to_edge_query(value: Any, scope: Scope) -> Any:
    """The scoring of a query; None scores nothing."""
    if value is None:
        return None
    convert = _QUERIES.get(type(value))
    return convert(value, scope) if convert else edge.Query.Nearest(scope.vector(value), scope.using)


def to_edge_request(
    value: models.QueryRequest,
    schema: VectorSchema,
    examples: Examples,
    with_payload: Any,
    with_vector: Any,
) -> edge.QueryRequest:
    """A whole request; validates what the engine would answer with nonsense."""
    limit = _at_least(1, "limit", _DEFAULT_LIMIT if value.limit is None else value.limit)
    scope = Scope(schema, examples, value.using or "", value.lookup_from, limit)
    query = to_edge_query(value.query, scope)
    prefetches = _prefetches(value.prefetch, schema, examples)
    _check(value, prefetches)
    return edge.QueryRequest(
        limit=limit,
        offset=_at_least(0, "offset", value.offset or 0),
        query=query,
        prefetches=prefetches,
        with_vector=with_vector,
        with_payload=with_payload,
        filter=exclude_ids(to_edge_filter(value.filter), scope.mentioned),
        score_threshold=finite("score_threshold", value.score_threshold),
        params=to_edge_params(value.params),
    )


def _prefetches(value: Any, schema: VectorSchema, examples: Examples) -> list[edge.Prefetch]:
    if not value:
        return []
    items = value if isinstance(value, (list, tuple)) else [value]
    return [_prefetch(item, schema, examples) for item in items]


def _prefetch(value: models.Prefetch, schema: VectorSchema, examples: Examples) -> edge.Prefetch:
    limit = _at_least(1, "prefetch limit", _DEFAULT_LIMIT if value.limit is None else value.limit)
    scope = Scope(schema, examples, value.using or "", value.lookup_from, limit)
    query = to_edge_query(value.query, scope)
    inner = _prefetches(value.prefetch, schema, examples)
    _check(value, inner)
    return edge.Prefetch(
        limit=limit,
        query=query,
        prefetches=inner,
        params=to_edge_params(value.params),
        filter=exclude_ids(to_edge_filter(value.filter), scope.mentioned),
        score_threshold=finite("score_threshold", value.score_threshold),
    )


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
        _check_weights(query, len(prefetches))


def _check_weights(query: models.FusionQuery | models.RrfQuery, count: int) -> None:
    weights = query.rrf.weights if isinstance(query, models.RrfQuery) else None
    if weights is not None and len(weights) != count:
        raise BadRequest(f"{len(weights)} RRF weights for {count} prefetches: give one weight to each.")


def _nearest(value: models.NearestQuery, scope: Scope) -> Any:
    vector = scope.vector(value.nearest)
    if value.mmr is None:
        return edge.Query.Nearest(vector, scope.using)
    diversity = _MMR_DIVERSITY if value.mmr.diversity is None else value.mmr.diversity
    candidates = scope.limit if value.mmr.candidates_limit is None else value.mmr.candidates_limit
    if not 0 <= diversity <= 1:
        raise BadRequest(f"mmr diversity {diversity} is invalid. Must be from 0 to 1.")
    if not 0 <= candidates <= _MMR_MAX_CANDIDATES:
        raise BadRequest(f"mmr candidates_limit {candidates} is invalid. Must be from 0 to {_MMR_MAX_CANDIDATES}.")
    # The engine's lambda weighs relevance, Qdrant's diversity the opposite.
    return edge.Mmr(vector, 1 - diversity, candidates, scope.using)


def _recommend(value: models.RecommendQuery, scope: Scope) -> Any:
    given = value.recommend
    positive, negative = scope.vectors(given.positive), scope.vectors(given.negative)
    strategy = given.strategy or models.RecommendStrategy.AVERAGE_VECTOR
    if strategy == models.RecommendStrategy.AVERAGE_VECTOR:
        return edge.Query.Nearest(average_of_examples(positive, negative), scope.using)
    if not positive and not negative:
        raise BadRequest("Recommend needs at least one positive or negative example.")
    query = edge.RecommendQuery(positive, negative)
    if strategy == models.RecommendStrategy.SUM_SCORES:
        return edge.Query.RecommendSumScores(query, scope.using)
    return edge.Query.RecommendBestScore(query, scope.using)


def _pairs(value: Any, scope: Scope) -> list[edge.ContextPair]:
    pairs = value if isinstance(value, list) else [value] if value else []
    return [edge.ContextPair(scope.vector(pair.positive), scope.vector(pair.negative)) for pair in pairs]


def _discover(value: models.DiscoverQuery, scope: Scope) -> Any:
    target = scope.vector(value.discover.target)
    return edge.Query.Discover(edge.DiscoverQuery(target, _pairs(value.discover.context, scope)), scope.using)


def _context(value: models.ContextQuery, scope: Scope) -> Any:
    return edge.Query.Context(edge.ContextQuery(_pairs(value.context, scope)), scope.using)


def _feedback(value: models.RelevanceFeedbackQuery, scope: Scope) -> Any:
    given, naive = value.relevance_feedback, value.relevance_feedback.strategy.naive
    items = [edge.FeedbackItem(scope.vector(item.example), item.score) for item in given.feedback]
    strategy = edge.NaiveFeedbackStrategy(naive.a, naive.b, naive.c)
    query = edge.FeedbackNaiveQuery(scope.vector(given.target), items, strategy)
    return edge.Query.FeedbackNaive(query, scope.using)


def _fusion(value: models.FusionQuery, scope: Scope) -> Any:
    if value.fusion == models.Fusion.RRF:
        return edge.Fusion.Rrf(k=_DEFAULT_RRF_K)
    return edge.Fusion.Dbsf()


def _rrf(value: models.RrfQuery, scope: Scope) -> Any:
    k = _DEFAULT_RRF_K if value.rrf.k is None else _at_least(1, "rrf k", value.rrf.k)
    weights = value.rrf.weights
    return edge.Fusion.Rrf(k=k, weights=weights and [finite("rrf weight", weight) for weight in weights])


def _order_by(value: models.OrderByQuery, scope: Scope) -> Any:
    return to_edge_order(value.order_by)


def to_edge_order(value: models.OrderBy | str) -> edge.OrderBy:
    if isinstance(value, str):
        return edge.OrderBy(value)
    start: Any = value.start_from
    if isinstance(start, (int, float)):
        start = finite("start_from", start)
    elif start is not None:
        start = to_edge_datetime(start)
    return edge.OrderBy(value.key, to_edge_enum(edge.Direction, value.direction), start)


def _text(value: models.TextQuery, scope: Scope) -> Any:
    if not scope.using:
        raise BadRequest("A text query needs using=…: the payload field whose scored text index ranks the points.")
    if isinstance(value.text, str):
        return edge.TextQuery(scope.using, value.text)
    if value.text.scoring is None:
        return edge.TextQuery(scope.using, value.text.query)
    bm25 = value.text.scoring.bm25
    return edge.TextQuery(scope.using, value.text.query, edge.Bm25Params(bm25.k, bm25.b))


_QUERIES: dict[type, Callable[[Any, Scope], Any]] = {
    models.NearestQuery: _nearest,
    models.RecommendQuery: _recommend,
    models.DiscoverQuery: _discover,
    models.ContextQuery: _context,
    models.RelevanceFeedbackQuery: _feedback,
    models.FusionQuery: _fusion,
    models.RrfQuery: _rrf,
    models.OrderByQuery: _order_by,
    models.TextQuery: _text,
    models.FormulaQuery: lambda value, scope: to_edge_formula(value),
    FixedFormula: lambda value, scope: fixed_formula(value),
    models.SampleQuery: lambda value, scope: edge.Sample.Random,
}


def to_edge_params(value: models.SearchParams | None) -> edge.SearchParams | None:
    if value is None:
        return None
    return edge.SearchParams(
        hnsw_ef=value.hnsw_ef,
        exact=bool(value.exact),
        indexed_only=bool(value.indexed_only),
        quantization=_quantization(value.quantization),
        acorn=_acorn(value.acorn),
        idf=_idf(value.idf),
    )


def _quantization(value: models.QuantizationSearchParams | None) -> edge.QuantizationSearchParams | None:
    if value is None:
        return None
    return edge.QuantizationSearchParams(bool(value.ignore), value.rescore, value.oversampling)


def _acorn(value: models.AcornSearchParams | None) -> edge.AcornSearchParams | None:
    return None if value is None else edge.AcornSearchParams(bool(value.enable), value.max_selectivity)


def _idf(value: models.IdfParams | None) -> edge.IdfParams | None:
    """`IdfScope.GLOBAL` is the default, the whole collection."""
    return edge.IdfParams(to_edge_filter(value.corpus)) if isinstance(value, models.IdfCorpusParams) else None
