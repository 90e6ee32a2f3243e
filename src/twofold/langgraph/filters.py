"""LangGraph's filters: what an item states about its value, and which statements a filter asks for.

A filter compares whole values: a list with a list, 5 with 5.0, a key that has dots or quotes in it as it stands. An
engine's own conditions on a payload do otherwise (an element of a list counts, a dot means nesting). So each item
is stored with its facts, a text for each field and its value, which are compared as a whole, and with its numbers and
dates, which are compared by range. A filter becomes conditions on these two.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from typing import Any, TypeAlias

from twofold.documents import iso
from twofold.errors import FilterError
from twofold.filters import All, Between, Equals, Node, Not, as_moment, without_numpy

FACTS = "facts"
RANGES = "ranges"

Path: TypeAlias = tuple[str, ...]
"""The names of a field and of the objects it lies in, outermost first."""

_MAX_FACT_LENGTH = 120
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?")
_BOUNDS = ("$gt", "$gte", "$lt", "$lte")
_OPERATORS = ("$eq", "$ne", *_BOUNDS)


def facts_of(value: Mapping[str, Any]) -> list[str]:
    """Everything that a filter can ask about a value by equality."""
    facts: list[str] = []
    for path, field in _fields(value):
        facts += [_fact("has", path), _fact("is", path, field)]
        if isinstance(field, Mapping):
            facts.append(_fact("object", path))
    return facts


def ranges_of(value: Mapping[str, Any]) -> dict[str, float]:
    """The numbers and dates of a value, by the name they are compared under."""
    measured = ((path, _measure(field)) for path, field in _fields(value))
    return {_range_name(measure[0], path): measure[1] for path, measure in measured if measure is not None}


def _fields(value: Mapping[str, Any], above: Path = ()) -> Iterator[tuple[Path, Any]]:
    """All fields that hold something, with those of the objects in them."""
    for key, field in value.items():
        if field is None:
            continue
        path = (*above, key)
        yield path, field
        if isinstance(field, Mapping):
            yield from _fields(field, path)


def _fact(kind: str, path: Path, *value: Any) -> str:
    """A text for "path has a value", "path is this value" or "path is an object".

    A long one is shortened by a hash: no fact begins with a # otherwise.
    """
    text = _canonical_text([kind, path, *value])
    return text if len(text) <= _MAX_FACT_LENGTH else f"#{hashlib.sha256(text.encode()).hexdigest()}"


def _canonical_text(value: Any) -> str:
    return json.dumps(_canonical(value), sort_keys=True, separators=(",", ":"))


def _canonical(value: Any) -> Any:
    """The same for everything that counts as equal: 5 and 5.0, a list and a tuple, a date and its stored text."""
    if isinstance(value, Mapping):
        return {str(key): _canonical(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return iso(value) if isinstance(value, date) else without_numpy(value)


def _range_name(kind: str, path: Path) -> str:
    """The name under which a number or date lies: without any character that a path in a payload could trip over."""
    return f"{kind}-{hashlib.sha256(_canonical_text(path).encode()).hexdigest()[:24]}"


def _measure(value: Any) -> tuple[str, float] | None:
    """A number (also one that is written as a text) or a date as a number, with its kind; None if it is neither."""
    value = without_numpy(value)
    try:
        if isinstance(value, str) and _DATE.fullmatch(value.strip()):
            value = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
        if isinstance(value, date):
            return "date", as_moment(value).timestamp()
        number = float(value) if isinstance(value, (str, int, float)) else math.nan
    except (ValueError, OverflowError):
        return None
    return ("number", number) if math.isfinite(number) else None


# --- what a filter asks for ----------------------------------------------------------------------


def conditions(wanted: Mapping[str, Any] | None) -> list[Node]:
    """What a filter such as {"type": "note", "score": {"$gte": 3}} asks for; all of it must hold."""
    if wanted is None:
        return []
    if not isinstance(wanted, Mapping):
        raise FilterError(f"a filter is a dict such as {{'type': 'note'}}, got {type(wanted).__name__}")
    for key in wanted:
        if not isinstance(key, str) or key.startswith("$"):
            raise FilterError(
                f"{key!r} is not the name of a field: write operators below one, {{'score': {{'$gt': 3}}}}"
            )
    return [_field_condition((key,), value) for key, value in wanted.items()]


def _field_condition(path: Path, wanted: Any) -> Node:
    if not isinstance(wanted, Mapping):
        return _equality(path, wanted)
    if any(str(key).startswith("$") for key in wanted):
        return All(tuple(_operator(path, name, value) for name, value in wanted.items()))
    inside = [_field_condition((*path, str(key)), value) for key, value in wanted.items()]
    return All((Equals(FACTS, _fact("object", path)), *inside))


def _operator(path: Path, name: str, value: Any) -> Node:
    if name in _BOUNDS:
        return _bound(path, name, value)
    if name == "$eq":
        return _equality(path, value)
    if name == "$ne":
        return Not(_equality(path, value))
    raise FilterError(f"{_dotted(path)}: unknown operator {name!r}: use one of {', '.join(_OPERATORS)}")


def _equality(path: Path, value: Any) -> Node:
    """Null is the same as not there."""
    if value is None:
        return Not(Equals(FACTS, _fact("has", path)))
    _check_value(path, value)
    return Equals(FACTS, _fact("is", path, value))


def _check_value(path: Path, value: Any) -> None:
    """Refuse what no item can hold, and an operator within a value: it would be taken for a part of it."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            if str(key).startswith("$"):
                raise FilterError(f"{_dotted(path)}: {key!r} can't stand in a list or a value: compare whole values")
            _check_value(path, part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            _check_value(path, part)
    elif not (value is None or isinstance(without_numpy(value), (str, int, float, date))):
        raise FilterError(
            f"{_dotted(path)}: no item holds a {type(value).__name__}: convert it as you did to store it, to a string, "
            "a number or a list"
        )


def _bound(path: Path, name: str, value: Any) -> Node:
    measured = _measure(value)
    if measured is None:
        raise FilterError(f"{_dotted(path)}: {name} needs a number or a date (2026-05-01), got {value!r}")
    kind, number = measured
    return Between(f"{RANGES}.{_range_name(kind, path)}", **{name.removeprefix("$"): number})


def _dotted(path: Path) -> str:
    return repr(".".join(path))
