"""Filters in the engine's form."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

from qdrant_client import models

from twofold.engine.layout import TEXT_KEY, metadata_key
from twofold.engine.quick import trusted
from twofold.filters import (
    All,
    AnyOf,
    Between,
    Contains,
    Either,
    Equals,
    HasPoint,
    HasVector,
    Leaf,
    Native,
    Node,
    Not,
    Scalar,
    TextContains,
)

# Beyond this a float can't tell whole numbers apart, so the range that stands for equality would be too wide.
_EXACT = 2**53
_condition, _match, _range = trusted(models.FieldCondition), trusted(models.MatchValue), trusted(models.Range)
NOTHING = models.HasIdCondition(has_id=[])


def compile_filter(node: Node) -> models.Filter:
    """The filter that the engine evaluates."""
    condition = _compile(node)
    return condition if isinstance(condition, models.Filter) else models.Filter(must=[condition])


def _compile(node: Node) -> models.Condition:
    if isinstance(node, All):
        return models.Filter(must=[_compile(part) for part in node.parts])
    if isinstance(node, Either):
        return any_of([_compile(part) for part in node.parts])
    if isinstance(node, Not):
        return models.Filter(must_not=[_compile(node.part)])
    return _leaf(node) if isinstance(node, Leaf) else _point(node)


def _point(node: HasPoint | HasVector | TextContains | Native) -> models.Condition:
    if isinstance(node, HasPoint):
        return models.HasIdCondition(has_id=[native_id(point) for point in node.ids])
    if isinstance(node, HasVector):
        return models.HasVectorCondition(has_vector=node.name)
    if isinstance(node, TextContains):
        return models.FieldCondition(key=TEXT_KEY, match=models.MatchText(text=node.text))
    native: models.Filter = node.filter
    return native


def native_id(point: str) -> int | str:
    """A point's id as the engine has it: a collection that others wrote may number its points."""
    return int(point) if point.isdecimal() else point


def _leaf(node: Leaf) -> models.Condition:
    key = metadata_key(node.field)
    if isinstance(node, Equals):
        return equals(key, node.value)
    if isinstance(node, AnyOf):
        return one_of(key, node.values)
    if isinstance(node, Between):
        return _between(key, node)
    if isinstance(node, Contains):
        return models.FieldCondition(key=key, match=models.MatchText(text=node.text))
    return models.Filter(must_not=[models.IsEmptyCondition(is_empty=models.PayloadField(key=key))])


def equals(key: str, value: Scalar | datetime) -> models.FieldCondition:
    """The field has this value, or has it among others."""
    if isinstance(value, datetime):
        return models.FieldCondition(key=key, range=models.DatetimeRange(gte=value, lte=value))
    if isinstance(value, (str, bool)) or (isinstance(value, int) and abs(value) > _EXACT):
        return _condition(key=key, match=_match(value=value))
    # The engine's match tells 5 from 5.0, a range does not.
    return _condition(key=key, range=_range(gte=_below(float(value)), lte=_above(float(value))))


def one_of(key: str, values: tuple[Scalar | datetime, ...]) -> models.Condition:
    """The field has one of these values, or has it among others."""
    texts = [value for value in values if isinstance(value, str)]
    conditions: list[models.Condition] = [equals(key, value) for value in values if not isinstance(value, str)]
    if texts:
        any_text = models.FieldCondition(key=key, match=models.MatchAny(any=texts))
        conditions.append(equals(key, texts[0]) if len(texts) == 1 else any_text)
    return any_of(conditions)


def any_of(conditions: list[models.Condition]) -> models.Condition:
    """One of them holds. An empty `should` means "everything" to the engine; an empty `or` here means nothing."""
    if len(conditions) == 1:
        return conditions[0]
    return models.Filter(should=conditions) if conditions else NOTHING


def _between(key: str, node: Between) -> models.Condition:
    bounds: dict[str, Any] = {"gt": node.gt, "gte": node.gte, "lt": node.lt, "lte": node.lte}
    dates = any(isinstance(bound, datetime) for bound in bounds.values())
    if dates:
        return models.FieldCondition(key=key, range=models.DatetimeRange(**bounds))
    inclusive = {"gte": _below(node.gte), "lte": _above(node.lte)}
    return models.FieldCondition(key=key, range=models.Range(**{**bounds, **inclusive}))


# The engine keeps payloads as text, and reads one fraction in ten back as the float next to it. So what is to include
# a fraction includes its neighbours.
def _below(number: Any) -> float | None:
    return number if number is None or float(number).is_integer() else math.nextafter(number, -math.inf)


def _above(number: Any) -> float | None:
    return number if number is None or float(number).is_integer() else math.nextafter(number, math.inf)


def native_part_of(where: models.Filter) -> models.Filter | None:
    """The part of a collection that a native filter names, as `filters.part_of` does for ours."""
    named = _named(where)
    return models.Filter(must=named) if named else None


def _named(where: models.Filter) -> list[models.Condition]:
    """The conditions that must hold for a field to have a certain text. Ranges and alternatives name nothing."""
    named: list[models.Condition] = []
    must = where.must if isinstance(where.must, list) else [where.must] if where.must is not None else []
    for condition in must:
        if isinstance(condition, models.Filter):
            named += _named(condition)
        elif isinstance(condition, models.FieldCondition) and _is_text(condition.match):
            named.append(condition)
    return named


def _is_text(match: object) -> bool:
    return isinstance(match, models.MatchValue) and isinstance(match.value, str)
