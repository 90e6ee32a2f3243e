"""Scoring formulas."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import qdrant_edge as edge
from qdrant_client import models

from twofold.embedded.errors import BadRequest

from .filters import to_edge_condition, to_edge_geo_point
from .payloads import to_edge_payload

_E = edge.Expression
_MOST_KEPT = 512


class FixedFormula(models.FormulaQuery):
    """A formula that nobody changes once it's made. It's met again and again, and converted the first time."""

    __hash__, __eq__ = object.__hash__, object.__eq__


class FixedSum(models.SumExpression):
    """A sum of this kind."""

    __hash__, __eq__ = object.__hash__, object.__eq__


class FixedProduct(models.MultExpression):
    """A product of this kind."""

    __hash__, __eq__ = object.__hash__, object.__eq__


def to_edge_formula(value: models.FormulaQuery) -> edge.Formula:
    return edge.Formula(to_edge_expression(value.formula), to_edge_payload(value.defaults))


fixed_formula = lru_cache(_MOST_KEPT)(to_edge_formula)


def to_edge_expression(value: Any) -> Any:
    """One node of a formula: a number, a variable, a condition (1 or 0), or an operation on nodes."""
    convert = _EXPRESSIONS.get(type(value))
    if convert is not None:
        return convert(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):  # numpy's numbers among them
        return _E.Constant(float(value))
    return _E.Variable(value) if isinstance(value, str) else _E.Condition(to_edge_condition(value))


def _all(values: list[Any]) -> list[Any]:
    return [to_edge_expression(value) for value in values]


def _some(make: Callable[[list[Any]], Any], values: list[Any]) -> Any:
    if not values:
        raise BadRequest("The maximum or minimum of nothing: give the expression at least one operand.")
    return make(_all(values))


def _div(value: models.DivParams) -> Any:
    left, right = to_edge_expression(value.left), to_edge_expression(value.right)
    return _E.Div(left, right, value.by_zero_default)


def _pow(value: models.PowParams) -> Any:
    return _E.Pow(to_edge_expression(value.base), to_edge_expression(value.exponent))


def _decay(kind: Any, value: models.DecayParamsExpression) -> Any:
    target = None if value.target is None else to_edge_expression(value.target)
    return _E.Decay(kind, to_edge_expression(value.x), target, value.midpoint, value.scale)


def _distance(value: models.GeoDistanceParams) -> Any:
    return _E.GeoDistance(to_edge_geo_point(value.origin), value.to)


_one = to_edge_expression

_EXPRESSIONS: dict[type, Callable[[Any], Any]] = {
    float: _E.Constant,
    int: lambda value: _E.Constant(float(value)),
    str: _E.Variable,
    models.MultExpression: lambda value: _E.Mult(_all(value.mult)),
    models.SumExpression: lambda value: _E.Sum(_all(value.sum)),
    FixedSum: lru_cache(_MOST_KEPT)(lambda value: _E.Sum(_all(value.sum))),
    FixedProduct: lru_cache(_MOST_KEPT)(lambda value: _E.Mult(_all(value.mult))),
    models.MaxExpression: lambda value: _some(_E.Max, value.max),
    models.MinExpression: lambda value: _some(_E.Min, value.min),
    models.NegExpression: lambda value: _E.Neg(_one(value.neg)),
    models.AbsExpression: lambda value: _E.Abs(_one(value.abs)),
    models.SqrtExpression: lambda value: _E.Sqrt(_one(value.sqrt)),
    models.ExpExpression: lambda value: _E.Exp(_one(value.exp)),
    models.Log10Expression: lambda value: _E.Log10(_one(value.log10)),
    models.LnExpression: lambda value: _E.Ln(_one(value.ln)),
    models.AcoshExpression: lambda value: _E.Acosh(_one(value.acosh)),
    models.DivExpression: lambda value: _div(value.div),
    models.PowExpression: lambda value: _pow(value.pow),
    models.GeoDistance: lambda value: _distance(value.geo_distance),
    models.DatetimeExpression: lambda value: _E.Datetime(value.datetime),
    models.DatetimeKeyExpression: lambda value: _E.DatetimeKey(value.datetime_key),
    models.LinDecayExpression: lambda value: _decay(edge.DecayKind.Lin, value.lin_decay),
    models.ExpDecayExpression: lambda value: _decay(edge.DecayKind.Exp, value.exp_decay),
    models.GaussDecayExpression: lambda value: _decay(edge.DecayKind.Gauss, value.gauss_decay),
}
