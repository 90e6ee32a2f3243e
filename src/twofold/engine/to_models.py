"""Requests in the form that qdrant-client takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qdrant_client import models

from twofold.encoders.base import Sparse
from twofold.engine.filters import compile_filter
from twofold.engine.layout import DENSE, SPARSE, metadata_key, to_sparse
from twofold.engine.requests import (
    DbsfFusion,
    EngineQuery,
    Filter,
    FusedQuery,
    NativeFusion,
    NewestFirst,
    Payload,
    PayloadWithout,
    RrfFusion,
    VectorQuery,
)
from twofold.ranking import expressions as ex

_HALF = 0.5


def to_request(query: EngineQuery) -> models.QueryRequest:
    """A query as one request of a batch."""
    wanted = {"with_payload": to_payload(query.with_payload), "with_vector": [DENSE] if query.with_dense else False}
    if isinstance(query, FusedQuery):
        legs = [models.Prefetch.model_construct(**_leg(leg)) for leg in query.legs]
        how = _fusion(query.fusion)
        return models.QueryRequest.model_construct(prefetch=legs, query=how, limit=query.limit, **wanted)
    return models.QueryRequest.model_construct(**_leg(query), **wanted)


def to_filter(given: Filter | None) -> models.Filter | None:
    """A condition in qdrant-client's form; a native one is that already."""
    return given if given is None or isinstance(given, models.Filter) else compile_filter(given)


def _leg(leg: VectorQuery) -> dict[str, Any]:
    sparse = isinstance(leg.vector, Sparse)
    return {
        "query": to_sparse(leg.vector) if isinstance(leg.vector, Sparse) else leg.vector.tolist(),
        "using": SPARSE if sparse else DENSE,
        "filter": to_filter(leg.filter),
        "limit": leg.limit,
        "score_threshold": leg.score_threshold,
        "params": _params(leg),
    }


def _params(leg: VectorQuery) -> models.SearchParams | None:
    corpus = to_filter(leg.idf_corpus)
    if corpus is not None:
        return models.SearchParams(idf=models.IdfCorpusParams(corpus=corpus))
    if leg.hnsw_ef is None and not leg.exact:
        return None
    return models.SearchParams(hnsw_ef=leg.hnsw_ef, exact=leg.exact)


def to_payload(wanted: Payload) -> Any:
    """What of the payload to bring along."""
    if isinstance(wanted, PayloadWithout):
        return models.PayloadSelectorExclude(exclude=[metadata_key(field) for field in wanted.fields])
    return wanted


def _fusion(how: NativeFusion) -> Any:
    if isinstance(how, RrfFusion):
        # The engine computes 1 / (rank + k - 1); its weighted form is another function than Σ w / (k + rank).
        return models.RrfQuery(rrf=models.Rrf(k=how.k + 1))
    if isinstance(how, DbsfFusion):
        return models.FusionQuery(fusion=models.Fusion.DBSF)
    if isinstance(how, NewestFirst):
        order = models.OrderBy(key=metadata_key(how.field), direction=models.Direction.DESC)
        return models.OrderByQuery(order_by=order)
    defaults: dict[str, Any] = {f"$score[{leg}]": score for leg, score in enumerate(how.missing)}
    return models.FormulaQuery.model_construct(formula=_expression(how.expression, defaults), defaults=defaults)


def _expression(value: ex.Expression, defaults: dict[str, Any]) -> Any:
    """One node of a formula; what it looks up in the payload leaves its default behind."""
    if isinstance(value, (int, float)):
        return value
    return _EXPRESSIONS[type(value)](value, defaults)


def _field(value: ex.FieldValue, defaults: dict[str, Any]) -> str:
    key = metadata_key(value.field)
    defaults[key] = value.default
    return key


def _condition(value: ex.Holds, defaults: dict[str, Any]) -> Any:
    compiled = compile_filter(value.condition)
    return compiled.must[0] if isinstance(compiled.must, list) and len(compiled.must) == 1 else compiled


def _freshness(value: ex.Freshness, defaults: dict[str, Any]) -> models.ExpDecayExpression:
    key = metadata_key(value.field)
    defaults[key] = value.now
    return models.ExpDecayExpression(
        exp_decay=models.DecayParamsExpression(
            x=models.DatetimeKeyExpression(datetime_key=key),
            target=models.DatetimeExpression(datetime=value.now),
            scale=value.half_life_seconds,
            midpoint=_HALF,
        )
    )


def _ramp(value: ex.Ramp, defaults: dict[str, Any]) -> models.LinDecayExpression:
    # Older servers have no max, and x + |x| reads x twice. It falls again beyond 1, where x doesn't come.
    params = models.DecayParamsExpression.model_construct(
        x=_expression(value.of, defaults), target=1.0, scale=(1 - value.zero) / 2, midpoint=_HALF
    )
    return models.LinDecayExpression.model_construct(lin_decay=params)


def _quotient(value: ex.Quotient, defaults: dict[str, Any]) -> models.DivExpression:
    params = models.DivParams.model_construct(
        left=_expression(value.left, defaults), right=_expression(value.right, defaults)
    )
    return models.DivExpression.model_construct(div=params)


_EXPRESSIONS: dict[type, Callable[[Any, dict[str, Any]], Any]] = {
    ex.LegScore: lambda value, _: f"$score[{value.leg}]",
    ex.FieldValue: _field,
    ex.Holds: _condition,
    ex.Freshness: _freshness,
    ex.Ramp: _ramp,
    ex.Quotient: _quotient,
    ex.Absolute: lambda value, d: models.AbsExpression.model_construct(abs=_expression(value.of, d)),
    ex.Sum: lambda value, d: models.SumExpression.model_construct(sum=[_expression(each, d) for each in value.terms]),
    ex.Product: lambda value, d: models.MultExpression.model_construct(
        mult=[_expression(each, d) for each in value.factors]
    ),
}
