"""Points and filters in the engine's form: ids, payloads, conditions, checked on the way.

The engine writes an operation to its log before it looks at it closely, and may apply a rejected one when the
log is replayed: whatever passes here must be something the engine accepts as a whole.

Filters may be those of any version of qdrant-client: they are read by the names of their classes and fields, and
nothing of it is imported.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, timezone
from decimal import Decimal
from enum import Enum
from typing import Any, TypeVar
from uuid import UUID

import qdrant_edge as edge
from pydantic import TypeAdapter

from .collection import match_value
from .errors import BadRequest

Number = TypeVar("Number", bound=float | None)

_MAX_ID = 2**64 - 1
_CANONICAL_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_MIN_INTEGER, _MAX_INTEGER = -(2**63), 2**64 - 1
_MAX_DEPTH = 100
# A step of a path to a place in a payload, such as `a.b`, `a[].b`, `a[0]` or `a."b c"`.
_PATH_STEP = re.compile(r'"([^"]*)"|(\[\d*\])|([^.\[\]"]+)')
_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)
_SLICE: Any = edge.SliceCondition  # type: ignore[attr-defined]  # missing from the engine's stubs


def to_edge_id(value: Any) -> int | str:
    """The id as an integer or a canonical UUID string."""
    kind = type(value)
    if kind is int:
        if 0 <= value <= _MAX_ID:
            return int(value)
    elif isinstance(value, str):
        if _CANONICAL_UUID.fullmatch(value):
            return str(value)
        try:
            return str(UUID(value))
        except ValueError:
            pass
    elif isinstance(value, UUID):
        return str(value)
    elif kind is not bool and hasattr(value, "__index__"):  # numpy integers
        return to_edge_id(operator.index(value))
    raise BadRequest(
        f"{value!r} is not a valid point id: use an integer from 0 to 2**64 - 1 or a UUID "
        "(uuid.uuid5(namespace, text) makes one from any text)."
    )


def to_edge_ids(values: Iterable[Any]) -> list[int | str]:
    """Each id once, in the order in which they come."""
    return list(dict.fromkeys(to_edge_id(value) for value in values))


def finite(name: str, value: Number) -> Number:
    """The number, or None: the engine fails at NaN, or takes it for a match with everything; a server can't read it."""
    if value is not None and not math.isfinite(value):
        raise BadRequest(f"{name} is {value}: give a finite number, or leave it out.")
    return value


# --- Payloads ---


def to_edge_payload(payload: Any, levels: int = 0) -> dict[str, Any]:
    """A JSON-able copy, to be put `levels` deep; raises on what would be lost or refused."""
    if payload is None:
        return {}
    if type(payload) is not dict and not isinstance(payload, Mapping):
        raise BadRequest(f"A payload must be a dictionary, not {type(payload).__name__}.")
    _check_depth(levels, "the payload")
    return {_key(key, ""): _value(value, key, levels + 1) for key, value in payload.items()}


def check_logged(value: Any, where: str, depth: int = 0) -> None:
    """Refuse JSON that the engine could write to its log, but not read back from it."""
    _check_depth(depth, where)
    if isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            check_logged(item, where, depth + 1)


def _check_depth(depth: int, where: str) -> None:
    if depth > _MAX_DEPTH:
        raise BadRequest(f"{where[0].upper()}{where[1:]} is nested more than {_MAX_DEPTH} levels deep: flatten it.")


def _key(key: Any, where: str) -> str:
    if not isinstance(key, str):
        raise BadRequest(f"Payload keys must be strings: {key!r} in {where or 'the payload'} is not.")
    return key if key.isascii() else _text(key, where)


def _text(value: str, where: str) -> str:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise BadRequest(
            f"Payload field {where!r} holds a lone surrogate (half a character), which no UTF-8 text can "
            "hold: clean it with text.encode('utf-8', 'replace').decode()."
        ) from None
    return value


def _number(value: float, where: str) -> float:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise BadRequest(f"Payload field {where!r} is {value}, which JSON can't hold; store None instead.")
    elif not _MIN_INTEGER <= value <= _MAX_INTEGER:
        raise BadRequest(f"Payload field {where!r}: {value} doesn't fit in 64 bits; store it as a string.")
    return value


def _value(value: Any, where: str, depth: int) -> Any:
    kind = type(value)
    if kind is str:
        return value if value.isascii() else _text(value, where)
    if kind is bool or value is None:
        return value
    if kind is int or kind is float:
        return _number(value, where)
    if depth > _MAX_DEPTH:
        _check_depth(depth, f"payload field {where!r}")
    if kind is dict or isinstance(value, Mapping):
        return {_key(key, where): _value(item, where, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_value(item, where, depth + 1) for item in value]
    return _value(_simplify(value, where), where, depth + 1)


def _simplify(value: Any, where: str) -> Any:
    """One step towards JSON for the types people put in metadata."""
    for kind, convert in _SIMPLER.items():
        if isinstance(value, kind):
            return convert(value)
    if hasattr(value, "tolist"):  # numpy scalars and arrays
        return value.tolist()
    try:  # dates, times, bytes, UUIDs, models: by pydantic, which writes what qdrant-client sends to a server
        return _ANYTHING.dump_python(value, mode="json")
    except ValueError:
        raise BadRequest(
            f"Payload field {where!r} holds a {type(value).__name__}, which can't be stored: convert it to text, "
            "a number, a list or a dictionary first."
        ) from None


def to_edge_datetime(value: datetime | date | str) -> str:
    """RFC 3339; a time without a zone is UTC, as in Qdrant."""
    if isinstance(value, str):
        return value
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=timezone.utc)
    return (value if value.tzinfo else value.replace(tzinfo=timezone.utc)).isoformat()


# The first that fits.
_SIMPLER: dict[type, Callable[[Any], Any]] = {
    Enum: lambda value: value.value,
    str: str,  # subclasses; of float, numpy.float64 is one
    int: int,
    float: float,
    Decimal: float,
}


def split_path(path: str) -> list[str]:
    """The steps of a path: keys without their quotes, `[]` and `[0]` as they are."""
    return [quoted or index or key for quoted, index, key in _PATH_STEP.findall(path)]


def first_step(path: str) -> str:
    """As it's written: a path by itself."""
    found = _PATH_STEP.match(path)
    return found.group() if found else path


# --- Filters ---


def to_edge_filter(value: Any) -> edge.Filter | None:
    """A `models.Filter`; None stays None: every point matches."""
    if value is None:
        return None
    if not hasattr(value, "must_not"):
        raise BadRequest(f"A filter must be a models.Filter, not {type(value).__name__}.")
    given = getattr(value, "min_should", None)
    least = None if given is None else edge.MinShould(_conditions(given.conditions) or [], given.min_count)
    return edge.Filter(_conditions(value.must), _conditions(value.should), _conditions(value.must_not), least)


def _conditions(value: Any) -> list[Any] | None:
    if not value:
        return None
    return [to_edge_condition(item) for item in (value if isinstance(value, list) else [value])]


def to_edge_condition(value: Any) -> Any:
    """One condition of any kind."""
    convert = _CONDITIONS.get(type(value).__name__)
    if convert is None:
        raise BadRequest(f"{type(value).__name__} is not a filter condition.")
    return convert(value)


def _field(value: Any) -> Any:
    tests = {name: to_edge_same(test) for name, test in value if name != "key" and test is not None}
    if not tests:
        raise BadRequest(f"The condition on {value.key!r} tests nothing: give it match=…, range=… or another test.")
    parts: list[Any] = [edge.FieldCondition(value.key, **{name: test}) for name, test in tests.items()]
    # The engine looks at the first test only, so several become several conditions.
    return parts[0] if len(parts) == 1 else edge.Filter(must=parts)


def to_edge_same(value: Any) -> Any:
    """A value in the engine's form: most models have a class of the same name there, with the same fields."""
    kind = type(value).__name__
    if kind in _NOT_THE_SAME:
        return _NOT_THE_SAME[kind](value)
    same = getattr(edge, kind, None)
    if same is None:
        return value
    given = {name: to_edge_same(item) for name, item in value if item is not None}
    return same(*given.values()) if kind.startswith("Match") else same(**given)  # `except` can't be named


def _polygon(value: Any) -> edge.GeoPolygon:
    lines = (value.exterior, *(value.interiors or ()))
    exterior, *interiors = ([to_edge_same(point) for point in line.points] for line in lines)
    return edge.GeoPolygon(exterior, interiors)


_NOT_THE_SAME: dict[str, Callable[[Any], Any]] = {
    "MatchValue": lambda match: match_value(match.value),
    "Range": lambda value: edge.RangeFloat(**{name: finite(name, bound) for name, bound in value}),
    "DatetimeRange": lambda value: edge.RangeDateTime(**{name: at and to_edge_datetime(at) for name, at in value}),
    "GeoPolygon": _polygon,
    "IdfScope": lambda scope: None,  # the whole collection, as without
    "IdfCorpusParams": lambda idf: edge.IdfParams(to_edge_filter(idf.corpus)),
}

_CONDITIONS: dict[str, Callable[[Any], Any]] = {
    "FieldCondition": _field,
    "IsEmptyCondition": lambda value: edge.IsEmptyCondition(value.is_empty.key),
    "IsNullCondition": lambda value: edge.IsNullCondition(value.is_null.key),
    "HasIdCondition": lambda value: edge.HasIdCondition(set(to_edge_ids(value.has_id))),
    "HasVectorCondition": lambda value: edge.HasVectorCondition(value.has_vector),
    "SliceCondition": lambda value: _SLICE(value.slice.total, value.slice.index),
    "NestedCondition": lambda value: edge.NestedCondition(
        value.nested.key, to_edge_filter(value.nested.filter) or edge.Filter()
    ),
    "Filter": to_edge_filter,
}
