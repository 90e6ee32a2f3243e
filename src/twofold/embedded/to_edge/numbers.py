"""Numbers in requests."""

from __future__ import annotations

from math import isfinite
from typing import TypeVar

from twofold.embedded.errors import BadRequest

N = TypeVar("N", bound=float | None)


def finite(name: str, value: N) -> N:
    """The number, or None: the engine fails at NaN, or takes it for a match with everything; a server can't read it."""
    if value is not None and not isfinite(value):
        raise BadRequest(f"{name} is {value}: give a finite number, or leave it out.")
    return value
