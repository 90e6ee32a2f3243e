"""How a memory lies in a document: its fields are the document's metadata."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timezone
from typing import Any

from twofold.documents import Record, check, iso
from twofold.engine.layout import Stored
from twofold.errors import FilterError, InvalidDocument
from twofold.filters import All, Either, Leaf, Node, Not, parse
from twofold.memory.items import MemoryItem
from twofold.ranking.names import split
from twofold.text import normalise

INDEXES = {
    "shelf": "tenant",
    "agent": "keyword",
    "session": "keyword",
    "type": "keyword",
    "category": "keyword",
    "tags": "keyword",
    "source": "keyword",
    "trust": "keyword",
    "content_hash": "keyword",
    "superseded_by": "keyword",
    "words": "keyword",
    "created": "datetime",
    "updated": "datetime",
    "access_count": "integer",
    "importance": "float",
    "pinned": "bool",
    "order": "integer",
}
"""Payload indexes for everything that is filtered, counted, sorted or computed with: nothing is read row by row."""

OWN_FIELDS = frozenset({*INDEXES, "user", "last_accessed", "speaker", "metadata"})
MOST = 2**53
"""The largest number that every engine and every language keeps exactly."""
_SHORTEST = 4
_MOST_WORDS = 256


class Unreadable(Exception):
    """A row that can't be handed out; the message says why."""


def content_hash(text: str) -> str:
    """What tells one text from another."""
    return hashlib.sha256(normalise(text).encode()).hexdigest()


def to_record(item: MemoryItem, scope_fields: Mapping[str, Any]) -> Record:
    """A memory as a document that can be stored; raises `InvalidDocument` if it can't."""
    fields = {
        **scope_fields,
        "type": item.type,
        "category": item.category,
        "tags": list(item.tags),
        "metadata": dict(item.metadata),
        "source": item.source,
        "trust": item.trust,
        "pinned": item.pinned,
        "importance": float(item.importance),
        "created": _written(item.created),
        "updated": _written(item.updated),
        "last_accessed": _written(item.last_accessed),
        "access_count": item.access_count,
        "content_hash": item.content_hash,
        "superseded_by": item.superseded_by,
        "speaker": item.speaker,
        "order": item.order,
        "words": searchable_words(item),
    }
    metadata = {name: value for name, value in fields.items() if value is not None}
    return next(check([{"text": item.text, "id": item.id, "metadata": metadata}]))


def searchable_words(item: MemoryItem) -> list[str]:
    """The words that a mistyped one is compared with."""
    found = split(" ".join([item.text, item.category or "", *item.tags]))
    return list(dict.fromkeys(word for word in found if len(word) >= _SHORTEST))[:_MOST_WORDS]


def lexical_text(metadata: Mapping[str, Any], text: str) -> str:
    """Everything whose words find a memory."""
    tags = metadata.get("tags")
    parts = [text, metadata.get("category"), *(tags if isinstance(tags, list) else ()), metadata.get("speaker")]
    return " ".join(part for part in parts if isinstance(part, str))


def damage(stored: Stored) -> str | None:
    """Why a row can't be handed out, None if it can."""
    return Screen()(stored)


def _mismatch(stored: Stored) -> str | None:
    """Why a row can't be trusted: the text must be the one that was stored."""
    if stored.id != stored.point:
        return f"it calls itself {stored.id!r}, which is not its id"
    written = stored.metadata.get("content_hash")
    if not isinstance(written, str):
        return "it has no content hash, so Twofold did not write it as a memory"
    if written != content_hash(stored.text):
        return "its text is not the one that was stored: something else changed it"
    return None


class Screen:
    """Looks rows over before they are handed out, and keeps the memories that they are: reading one takes a while."""

    def __init__(self) -> None:
        self.items: dict[str, MemoryItem] = {}

    def __call__(self, stored: Stored) -> str | None:
        """Why a row can't be handed out, None if it can."""
        wrong = _mismatch(stored)
        if wrong is None:
            try:
                self.items[stored.id] = to_item(stored)
            except Unreadable as error:
                return str(error)
        return wrong


def to_item(stored: Stored) -> MemoryItem:
    """A row as a memory; raises `Unreadable` if a field is not what it should be."""
    fields = stored.metadata
    try:
        return MemoryItem(
            id=stored.id,
            text=stored.text,
            type=_of(fields, "type", str),
            category=_of(fields, "category", str, None),
            tags=_texts(fields, "tags"),
            metadata=_of(fields, "metadata", dict, {}),
            source=_of(fields, "source", str, None),
            trust=_of(fields, "trust", str),
            pinned=_of(fields, "pinned", bool, False),
            importance=_within(0, 1, _of(fields, "importance", (int, float), 0.5), "importance"),
            created=_moment(fields, "created", _MISSING),
            updated=_moment(fields, "updated", _MISSING),
            last_accessed=_moment(fields, "last_accessed"),
            access_count=_within(0, MOST, _of(fields, "access_count", int, 0), "access_count"),
            content_hash=_of(fields, "content_hash", str, ""),
            superseded_by=_of(fields, "superseded_by", str, None),
            user=_of(fields, "user", str),
            agent=_of(fields, "agent", str, None),
            session=_of(fields, "session", str, None),
            speaker=_of(fields, "speaker", str, None),
            order=_within(0, MOST, _of(fields, "order", int, None), "order"),
        )
    except (TypeError, ValueError) as error:
        raise Unreadable(str(error)) from error


_MISSING: Any = object()


def _of(fields: Mapping[str, Any], name: str, kind: Any, default: Any = _MISSING) -> Any:
    value = fields.get(name, default)
    if value is _MISSING:
        raise ValueError(f"its field {name!r} is missing")
    if value is not default and (not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)):
        raise ValueError(f"its field {name!r} is a {type(value).__name__}")
    return value


def _within(low: float, high: float, value: Any, name: str) -> Any:
    """What lies outside can't be computed with: one such row would spoil the answer for all the others."""
    if value is not None and not low <= value <= high:
        raise ValueError(f"its field {name!r} is {value}, and not from {low} to {high}")
    return value


def _texts(fields: Mapping[str, Any], name: str) -> tuple[str, ...]:
    values = tuple(_of(fields, name, list, []))
    if not all(isinstance(value, str) for value in values):
        raise ValueError(f"its field {name!r} has values that are no texts")
    return values


def _moment(fields: Mapping[str, Any], name: str, default: Any = None) -> datetime | None:
    value = _of(fields, name, str, default)
    return None if value is None else as_moment(value, name)


def _written(moment: datetime | None) -> str | None:
    return None if moment is None else iso(moment.astimezone(timezone.utc))


def as_moment(value: object, name: str) -> datetime:
    """A date, a datetime or an ISO text as a moment; without a zone it is taken as UTC."""
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
    except ValueError:
        pass
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=timezone.utc)
    try:
        if isinstance(value, datetime):
            moment = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
            moment.astimezone(timezone.utc)  # what lies before the year 1 or after 9999 there can't be written
            return moment
    except OverflowError:
        pass
    raise InvalidDocument(f"{name} must be a date, a datetime or an ISO text such as 2026-02-21, got {value!r}")


def as_tags(value: Sequence[str] | str | None) -> tuple[str, ...]:
    """Tags without blanks around them and without repetitions."""
    if value is not None and not isinstance(value, (str, list, tuple, set, frozenset, Sequence)):
        raise InvalidDocument(f"give one text or a list of them, got {value!r}")
    given = [value] if isinstance(value, str) else list(value or ())
    for tag in given:
        if not isinstance(tag, str) or not tag.strip():
            raise InvalidDocument(f"a tag is a word or a few, got {tag!r}: leave it out or name it")
    return tuple(dict.fromkeys(normalise(tag).strip() for tag in given))


def as_importance(value: object) -> float:
    """A number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1 or math.isnan(value):
        raise InvalidDocument(f"importance must be a number from 0 to 1, got {value!r}")
    return float(value)


# --- Filters over memories: the names that a memory has, and the caller's own ---


def condition(given: Mapping[str, Any] | None) -> Node | None:
    """A filter dict as a condition: {"type": "note"} is a memory's own field, {"project": "x"} the caller's."""
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise FilterError(f"a filter is a dict such as {{'type': 'note'}}, got {type(given).__name__}")
    return _placed(parse(given)) if given else None


def _placed(node: Node) -> Node:
    if isinstance(node, All):
        return All(tuple(_placed(part) for part in node.parts))
    if isinstance(node, Either):
        return Either(tuple(_placed(part) for part in node.parts))
    if isinstance(node, Not):
        return Not(_placed(node.part))
    return replace(node, field=field_path(node.field)) if isinstance(node, Leaf) else node


def field_path(name: str) -> str:
    """Where a field lies: a memory's own under its name, the caller's under `metadata`."""
    return name if name.split(".")[0] in OWN_FIELDS else f"metadata.{name}"
