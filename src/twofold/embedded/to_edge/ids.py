"""Point ids: unsigned 64-bit integers or UUIDs."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from twofold.embedded.errors import BadRequest

_MAX_ID = 2**64 - 1
_CANONICAL = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def to_edge_id(value: Any) -> int | str:
    """The id as an integer or a canonical UUID string."""
    kind = type(value)
    if kind is int:
        if 0 <= value <= _MAX_ID:
            return int(value)
    elif isinstance(value, str):
        if _CANONICAL.fullmatch(value):
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
    return [to_edge_id(value) for value in values]
