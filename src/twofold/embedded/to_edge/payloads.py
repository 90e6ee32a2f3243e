"""Payload values the engine can store: JSON, and the Python types that have one obvious JSON form."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime, timezone
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from twofold.embedded.errors import BadRequest

_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1
_MAX_DEPTH = 100


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


def _value(value: Any, where: str, depth: int) -> Any:
    kind = type(value)
    if kind is str:
        return value if value.isascii() else _text(value, where)
    if kind is bool or value is None:
        return value
    if kind is int:
        return _integer(value, where)
    if kind is float:
        return _number(value, where)
    if depth > _MAX_DEPTH:
        _check_depth(depth, f"payload field {where!r}")
    if kind is dict or isinstance(value, Mapping):
        return {_key(key, where): _value(item, where, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_value(item, where, depth + 1) for item in value]
    return _value(_simplify(value, where), where, depth + 1)


def _text(value: str, where: str) -> str:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise BadRequest(
            f"Payload field {where!r} holds a lone surrogate (half a character), which no UTF-8 text can "
            "hold: clean it with text.encode('utf-8', 'replace').decode()."
        ) from None
    return value


def _integer(value: int, where: str) -> int:
    if not _INT_MIN <= value <= _INT_MAX:
        raise BadRequest(f"Payload field {where!r}: {value} doesn't fit in 64 bits; store it as a string.")
    return value


def _number(value: float, where: str) -> float:
    if not math.isfinite(value):
        raise BadRequest(f"Payload field {where!r} is {value}, which JSON can't hold; store None instead.")
    return value


def _simplify(value: Any, where: str) -> Any:
    """One step towards JSON for the types people put in metadata."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (str, int, float)):  # subclasses, numpy.float64 among them
        return next(base(value) for base in (str, int, float) if isinstance(value, base))
    if isinstance(value, (datetime, date)):
        return to_edge_datetime(value)
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if hasattr(value, "tolist"):  # numpy scalars and arrays
        return value.tolist()
    raise BadRequest(
        f"Payload field {where!r} holds a {type(value).__name__}, which can't be stored: convert it to text, "
        "a number, a list or a dictionary first."
    )


def to_edge_datetime(value: datetime | date | str) -> str:
    """RFC 3339; a time without a zone is UTC, as in Qdrant."""
    if isinstance(value, str):
        return value
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=timezone.utc)
    return (value if value.tzinfo else value.replace(tzinfo=timezone.utc)).isoformat()
