"""Filters, every kind of condition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import qdrant_edge as edge
from qdrant_client import models

from twofold.embedded.errors import BadRequest

from .ids import to_edge_ids
from .numbers import finite
from .payloads import to_edge_datetime

_SLICE: Any = edge.SliceCondition  # type: ignore[attr-defined]  # missing from the engine's stubs


def to_edge_filter(value: models.Filter | None) -> edge.Filter | None:
    """None stays None: every point matches."""
    if value is None:
        return None
    if isinstance(value, dict):
        value = models.Filter(**value)
    if not isinstance(value, models.Filter):
        raise BadRequest(f"A filter must be a models.Filter, not {type(value).__name__}.")
    return edge.Filter(
        must=_conditions(value.must),
        should=_conditions(value.should),
        must_not=_conditions(value.must_not),
        min_should=_min_should(value.min_should),
    )


def exclude_ids(condition: edge.Filter | None, ids: set[int | str]) -> edge.Filter | None:
    """The same filter without these points: a query by example doesn't return its examples."""
    if not ids:
        return condition
    others = [condition] if condition is not None else []
    return edge.Filter(must=list(others), must_not=[edge.HasIdCondition(ids)])  # type: ignore[arg-type]


def _conditions(value: Any) -> list[Any] | None:
    if not value:
        return None
    return [to_edge_condition(item) for item in (value if isinstance(value, list) else [value])]


def _min_should(value: models.MinShould | None) -> edge.MinShould | None:
    if value is None:
        return None
    return edge.MinShould(_conditions(value.conditions) or [], value.min_count)


def to_edge_condition(value: Any) -> Any:
    """One condition of any kind."""
    convert = _CONDITIONS.get(type(value))
    if convert is None:
        raise BadRequest(f"{type(value).__name__} is not a filter condition.")
    return convert(value)


def _field(value: models.FieldCondition) -> Any:
    tests: dict[str, Any] = {
        "match": value.match and _match(value.match),
        "range": value.range and _range(value.range),
        "geo_bounding_box": value.geo_bounding_box and _box(value.geo_bounding_box),
        "geo_radius": value.geo_radius and _radius(value.geo_radius),
        "geo_polygon": value.geo_polygon and _polygon(value.geo_polygon),
        "values_count": value.values_count and _count(value.values_count),
        "is_empty": value.is_empty,
        "is_null": value.is_null,
    }
    given = [(name, test) for name, test in tests.items() if test is not None]
    if not given:
        raise BadRequest(f"The condition on {value.key!r} tests nothing: give it match=…, range=… or another test.")
    parts: list[Any] = [edge.FieldCondition(value.key, **{name: test}) for name, test in given]
    # The engine looks at the first test only, so several become several conditions.
    return parts[0] if len(parts) == 1 else edge.Filter(must=parts)


def _match(value: Any) -> Any:
    for attribute, make in _MATCHES.items():
        if hasattr(value, attribute):
            return make(getattr(value, attribute))
    raise BadRequest(f"{type(value).__name__} is not a match condition.")


def _range(value: models.Range | models.DatetimeRange) -> Any:
    bounds = {name: getattr(value, name) for name in ("gte", "gt", "lte", "lt")}
    if isinstance(value, models.DatetimeRange):
        return edge.RangeDateTime(**{k: v and to_edge_datetime(v) for k, v in bounds.items()})
    return edge.RangeFloat(**{name: finite(name, bound) for name, bound in bounds.items()})


def to_edge_geo_point(value: models.GeoPoint) -> edge.GeoPoint:
    return edge.GeoPoint(lon=value.lon, lat=value.lat)


def _box(value: models.GeoBoundingBox) -> edge.GeoBoundingBox:
    return edge.GeoBoundingBox(to_edge_geo_point(value.top_left), to_edge_geo_point(value.bottom_right))


def _radius(value: models.GeoRadius) -> edge.GeoRadius:
    return edge.GeoRadius(to_edge_geo_point(value.center), value.radius)


def _polygon(value: models.GeoPolygon) -> edge.GeoPolygon:
    def ring(line: models.GeoLineString) -> list[edge.GeoPoint]:
        return [to_edge_geo_point(point) for point in line.points]

    return edge.GeoPolygon(ring(value.exterior), [ring(line) for line in value.interiors or []])


def _count(value: models.ValuesCount) -> edge.ValuesCount:
    return edge.ValuesCount(lt=value.lt, gt=value.gt, lte=value.lte, gte=value.gte)


def _nested(value: models.NestedCondition) -> edge.NestedCondition:
    inner = to_edge_filter(value.nested.filter)
    return edge.NestedCondition(value.nested.key, inner or edge.Filter())


class _Bool:
    """A truth value that the engine takes for one.

    It tries integers first, and Python's True is the integer 1, which matches no boolean. What it recognises
    by name as numpy's boolean it reads as a boolean; numpy's own, in its older versions, is an integer too.
    """

    def __init__(self, value: bool) -> None:
        self._value = value

    def __bool__(self) -> bool:
        return self._value


_Bool.__module__, _Bool.__name__ = "numpy", "bool_"


def _value(value: bool | int | str) -> edge.MatchValue:
    return edge.MatchValue(_Bool(value) if isinstance(value, bool) else value)  # type: ignore[arg-type]


_MATCHES: dict[str, Callable[[Any], Any]] = {
    "value": _value,
    "text": edge.MatchText,
    "text_any": edge.MatchTextAny,
    "phrase": edge.MatchPhrase,
    "prefix": edge.MatchPrefix,
    "substring": edge.MatchSubstring,
    "any": edge.MatchAny,
    "except_": edge.MatchExcept,
}

_CONDITIONS: dict[type, Callable[[Any], Any]] = {
    models.FieldCondition: _field,
    models.IsEmptyCondition: lambda value: edge.IsEmptyCondition(value.is_empty.key),
    models.IsNullCondition: lambda value: edge.IsNullCondition(value.is_null.key),
    models.HasIdCondition: lambda value: edge.HasIdCondition(set(to_edge_ids(value.has_id))),
    models.HasVectorCondition: lambda value: edge.HasVectorCondition(value.has_vector),
    models.SliceCondition: lambda value: _SLICE(value.slice.total, value.slice.index),
    models.NestedCondition: _nested,
    models.Filter: to_edge_filter,
}
