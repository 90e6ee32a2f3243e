"""What the signals look at in a stored memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Match:
    """A field of a memory that the query named: tags = rathole, type = movie, metadata.year = 2014."""

    field: str
    value: Value

    def holds(self, metadata: Mapping[str, Any]) -> bool:
        """The memory has this value, or it is among those it has."""
        found: Any = metadata
        for part in self.field.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
        return _equal(found, self.value) or (isinstance(found, list) and any(_equal(f, self.value) for f in found))


@dataclass(frozen=True, slots=True)
class Named:
    """Something that the query names once, however memories spell it: rathole, Rathole; 2014, "2014"."""

    matches: tuple[Match, ...]
    """The fields and spellings that it has in the memories. One of them is enough."""
    weight: float = 1.0
    """How much it says that a memory has it, from 0 to 1."""

    def found(self, metadata: Mapping[str, Any]) -> tuple[Match, ...]:
        """What of it a memory has."""
        return tuple(match for match in self.matches if match.holds(metadata))


def _equal(stored: object, wanted: Value) -> bool:
    """As the engine compares: true is not 1."""
    return stored == wanted and isinstance(stored, bool) == isinstance(wanted, bool)


@dataclass(frozen=True, slots=True)
class Facts:
    """The fields that decide a memory's factors. What is missing or makes no sense counts as ordinary."""

    type: str = ""
    updated: datetime | None = None
    access_count: int = 0
    importance: float = 0.5
    pinned: bool = False

    @classmethod
    def of(cls, metadata: Mapping[str, Any]) -> Facts:
        """Read them from a document's metadata."""
        kind = metadata.get("type")
        return cls(
            type=kind if isinstance(kind, str) else "",
            updated=_moment(metadata.get("updated")),
            access_count=max(0, int(_number(metadata.get("access_count"), 0))),
            importance=min(max(_number(metadata.get("importance"), 0.5), 0.0), 1.0),
            pinned=metadata.get("pinned") is True,
        )


def _number(value: object, usual: float) -> float:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else usual


def _moment(value: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return moment.replace(tzinfo=timezone.utc) if moment and moment.tzinfo is None else moment
