"""Requests put together without validation, from values that were checked when they entered the library.

Validating the 384 numbers of a query again takes as long as searching with them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pydantic import BaseModel

from twofold.embedded.quick import maker

M = TypeVar("M", bound=BaseModel)


def trusted(model: type[M]) -> Callable[..., M]:
    """A constructor of `model` that believes what it is given; what it isn't given has its default."""
    make = maker(model)
    defaults = {name: field.get_default(call_default_factory=True) for name, field in model.model_fields.items()}

    def build(**fields: object) -> M:
        return make({**defaults, **fields})

    return build
