"""One rule for every enumeration: the engine spells `max_sim` as `MaxSim`."""

from __future__ import annotations

from enum import Enum
from functools import cache
from typing import Any

import qdrant_edge as edge
from qdrant_client import models

from twofold.embedded.errors import BadRequest


@cache
def _members(edge_enum: type) -> dict[str, Any]:
    names = (name for name in dir(edge_enum) if not name.startswith("_"))
    return {name.replace("_", "").lower(): getattr(edge_enum, name) for name in names}


def to_edge_enum(edge_enum: Any, value: Enum | str | None) -> Any:
    """The engine's member of the same name, None for None."""
    if value is None:
        return None
    text = str(value.value if isinstance(value, Enum) else value)
    member = _members(edge_enum).get(text.replace("_", "").lower())
    if member is None:
        raise NotImplementedError(
            f"{edge_enum.__name__} {text!r} isn't in the embedded engine (it has: "
            f"{', '.join(sorted(_members(edge_enum)))}). Choose one of those, or use a Qdrant server."
        )
    return member


def modifier(value: models.Modifier | str | None) -> edge.Modifier | None:
    """`Modifier.NONE` is the absence of a modifier."""
    if value is None or value in (models.Modifier.NONE, "none"):
        return None
    if value not in (models.Modifier.IDF, "idf"):
        raise BadRequest(f"Unknown sparse vector modifier {value!r}: use Modifier.IDF or none.")
    return edge.Modifier.Idf
