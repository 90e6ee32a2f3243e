"""What a filter means, in plain Python, written from the documentation and not from the code under test."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, timezone
from typing import Any

EXACT = 2**53


def holds(condition: Mapping[str, Any], metadata: Any) -> bool:
    """Whether metadata, as it is stored, fulfils a filter."""
    return all(_entry(key, value, metadata) for key, value in condition.items())


def _entry(key: str, value: Any, metadata: Any) -> bool:
    word = key.removeprefix("$")
    if word == "and":
        return all(holds(part, metadata) for part in value)
    if word == "or":
        return any(holds(part, metadata) for part in value)
    if word == "not":
        return not holds(value, metadata)
    return _field(_select(metadata, key.split(".")), value)


def _select(data: Any, path: list[str]) -> list[Any]:
    """The values at a path; `name[]` is every element of the list `name`."""
    if not path:
        return [data]
    name, rest = path[0], path[1:]
    each = name.endswith("[]") and len(name) > 2
    name = name[:-2] if each else name
    if not isinstance(data, Mapping) or name not in data:
        return []
    if not each:
        return _select(data[name], rest)
    return [value for item in data[name] for value in _select(item, rest)] if isinstance(data[name], list) else []


def _field(found: list[Any], value: Any) -> bool:
    if isinstance(value, Mapping):
        bounds = {k.removeprefix("$"): v for k, v in value.items() if k.removeprefix("$") in BOUNDS}
        others = {k.removeprefix("$"): v for k, v in value.items() if k.removeprefix("$") not in BOUNDS}
        return all(_operator(found, name, asked) for name, asked in others.items()) and (
            not bounds or any(_within(element, bounds) for element in _elements(found))
        )
    return _operator(found, "in" if isinstance(value, (list, tuple, set)) else "eq", value)


def _operator(found: list[Any], name: str, asked: Any) -> bool:
    if name == "not":
        return not _field(found, asked)
    if name == "exists":
        return _present(found) is asked
    if name == "text":
        words = _words(asked)
        return bool(words) and any(words <= _words(each) for each in _elements(found) if isinstance(each, str))
    if name in ("ne", "nin"):
        return not _operator(found, {"ne": "eq", "nin": "in"}[name], asked)
    if name == "eq" and asked is None:
        return not _present(found)
    values = list(asked) if name == "in" else [asked]
    return any(_same(element, value) for element in _elements(found) for value in values)


def _elements(found: list[Any]) -> list[Any]:
    """A list counts as its elements, one level deep."""
    return [each for value in found for each in (value if isinstance(value, list) else [value])]


def _present(found: list[Any]) -> bool:
    return any(value is not None and value != [] for value in found)


def _same(element: Any, asked: Any) -> bool:
    if isinstance(asked, date):
        return (when := _moment(element)) is not None and when == _moment(asked)
    if isinstance(element, bool) or isinstance(asked, bool) or isinstance(element, str) or isinstance(asked, str):
        return type(element) is type(asked) and element == asked
    if isinstance(asked, int) and abs(asked) > EXACT:  # where floats can't tell neighbours apart, ints match ints only
        return isinstance(element, int) and element == asked
    return isinstance(element, (int, float)) and element == asked


BOUNDS: dict[str, Callable[[Any, Any], bool]] = {
    "gt": lambda x, bound: bool(x > bound),
    "gte": lambda x, bound: bool(x >= bound),
    "lt": lambda x, bound: bool(x < bound),
    "lte": lambda x, bound: bool(x <= bound),
}


def _within(element: Any, bounds: Mapping[str, Any]) -> bool:
    if any(isinstance(bound, (str, date)) for bound in bounds.values()):
        when = _moment(element)
        return when is not None and all(BOUNDS[name](when, _moment(bound)) for name, bound in bounds.items())
    if isinstance(element, bool) or not isinstance(element, (int, float)):
        return False
    return all(BOUNDS[name](element, bound) for name, bound in bounds.items())


def _moment(value: Any) -> datetime | None:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
        except ValueError:
            return None
    if not isinstance(value, date):
        return None
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=timezone.utc)
    moment: datetime = value
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


def _words(text: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[^\W_]+", text)}
