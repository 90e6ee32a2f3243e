"""What a value says, in a form that any engine can compare exactly.

A filter compares whole values: a list with a list, 5 with 5.0, a key that has dots or quotes in it as it stands. An
engine's own conditions on a payload do otherwise (an element of a list counts, a dot means nesting). So each item
carries its facts: a text for each field and its value, compared as a whole, and the numbers and dates for ranges.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time, timezone
from typing import Any, TypeAlias

from twofold.documents import iso

Path: TypeAlias = tuple[str, ...]

_LONGEST = 120
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?")


def has(path: Path) -> str:
    """The field is there, and is not null."""
    return _fact("has", path)


def is_object(path: Path) -> str:
    """The field holds an object."""
    return _fact("object", path)


def equals(path: Path, value: Any) -> str:
    """The field is this value."""
    return _fact("is", path, value)


def facts_of(value: Mapping[str, Any]) -> list[str]:
    """Everything that a filter can ask about a value by equality."""
    found: list[str] = []
    for path, field in fields_of(value):
        found += [has(path), equals(path, field)]
        if isinstance(field, Mapping):
            found.append(is_object(path))
    return found


def ranges_of(value: Mapping[str, Any]) -> dict[str, float]:
    """The numbers and dates of a value, by the field they are compared under."""
    found = {}
    for path, field in fields_of(value):
        measured = measure(field)
        if measured is not None:
            kind, number = measured
            found[range_field(kind, path)] = number
    return found


def fields_of(value: Mapping[str, Any], above: Path = ()) -> Iterator[tuple[Path, Any]]:
    """All fields that hold something, with those of the objects in them."""
    for key, field in value.items():
        if field is None:
            continue
        path = (*above, key)
        yield path, field
        if isinstance(field, Mapping):
            yield from fields_of(field, path)


def measure(value: Any) -> tuple[str, float] | None:
    """A number (also one that is written as a text) or a date as a number, with its kind; None if it is neither."""
    value = bare(value)
    if isinstance(value, date):
        return "date", _moment(value).timestamp()
    if isinstance(value, str) and _DATE.fullmatch(value.strip()):
        return _written_date(value.strip())
    if not isinstance(value, (str, int, float)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return ("number", number) if math.isfinite(number) else None


def bare(value: Any) -> Any:
    """A number of numpy as Python's own, as which it is stored."""
    return value.item() if hasattr(value, "item") and getattr(value, "shape", None) == () else value


def _written_date(text: str) -> tuple[str, float] | None:
    try:
        return "date", _moment(datetime.fromisoformat(text.replace("Z", "+00:00"))).timestamp()
    except ValueError:
        return None


def _moment(value: date) -> datetime:
    if not isinstance(value, datetime):
        value = datetime.combine(value, time())
    return value if value.tzinfo else value.replace(tzinfo=timezone.utc)


def range_field(kind: str, path: Path) -> str:
    """The name under which a number or date lies: without any character that a path in a payload could trip over."""
    return f"{kind}-{hashlib.sha256(_text(path).encode()).hexdigest()[:24]}"


def _fact(kind: str, path: Path, *value: Any) -> str:
    """A text that stands for the fact, shortened by a hash if it is long: no fact begins with a # otherwise."""
    text = _text([kind, path, *value])
    return text if len(text) <= _LONGEST else f"#{hashlib.sha256(text.encode()).hexdigest()}"


def _text(value: Any) -> str:
    return json.dumps(_canonical(value), sort_keys=True, separators=(",", ":"))


def _canonical(value: Any) -> Any:
    """The same for everything that counts as equal: 5 and 5.0, a list and a tuple, a date and its stored text."""
    if isinstance(value, Mapping):
        return {str(key): _canonical(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return iso(value) if isinstance(value, date) else bare(value)
