"""Storing memories: check, encode, find what is already there, write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from typing import Any

from twofold.documents import Record, check
from twofold.encoders.base import Sparse, Vectors, blend
from twofold.engine import calls
from twofold.engine.layout import Stored, from_point, to_point
from twofold.errors import CollectionMismatch, InvalidDocument, MemoryDamaged, MemoryNotFound
from twofold.filters import AnyOf, Node, Not, Present
from twofold.flow import Flow
from twofold.index.opening import Ready
from twofold.index.writing import encode_dense, encode_sparse
from twofold.memory.config import MemoryConfig, check_trust
from twofold.memory.items import TRUST, MemoryItem, is_memory_id
from twofold.memory.layout import as_importance, as_moment, as_tags, content_hash, damage, to_item, to_record
from twofold.memory.scope import MEMORIES, Scope, Shelf

# --- Storing memories: check, encode, find what is already there, write ---

_SPARE_IDS = 8
_PEOPLE = ("user", "system")
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
           "November", "December")  # fmt: skip


@dataclass(frozen=True)
class Draft:
    """A memory that is about to be stored: its text, and the fields that were given."""

    text: str
    given: Mapping[str, Any]

    @property
    def hash(self) -> str:
        """What tells its text from others."""
        return content_hash(self.text)


@dataclass(frozen=True)
class Encoded:
    """A memory with its vectors."""

    item: MemoryItem
    dense: Vectors | None
    sparse: Sparse | None


def draft(text: object, fields: Mapping[str, Any], position: int | None = None) -> Draft:
    """Check what `remember` was given; fields that are None were not given."""
    if not isinstance(text, str) or not text.strip():
        raise InvalidDocument(f"a memory is a text with something in it, got {text!r}", position=position)
    given = {name: value for name, value in fields.items() if value is not None}
    unknown = set(given) - set(_CHECKS)
    if unknown:
        raise InvalidDocument(
            f"unknown fields {sorted(unknown)}: put what is your own under metadata; known are "
            f"{', '.join(sorted(_CHECKS))}",
            position=position,
        )
    try:
        checked = {name: _CHECKS[name](value) for name, value in given.items()}
    except ValueError as error:
        if position is None:
            raise
        raise InvalidDocument(str(error), position=position) from error
    record = next(check([{"text": text, "metadata": checked.get("metadata", {})}], position or 0))
    return Draft(record.text, {**checked, **({"metadata": record.metadata} if "metadata" in checked else {})})


def _text(name: str) -> Any:
    def check(value: object) -> str:
        if not isinstance(value, str) or not value.strip():
            raise InvalidDocument(f"{name} must be a text with something in it, got {value!r}")
        return value

    return check


def _mapping(value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidDocument(f"metadata must be a mapping, got {type(value).__name__}")
    return dict(value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidDocument(f"pinned is True or False, got {value!r}")
    return value


_CHECKS: dict[str, Any] = {
    "type": _text("type"),
    "category": _text("category"),
    "tags": as_tags,
    "metadata": _mapping,
    "source": _text("source"),
    "trust": partial(check_trust, wrong=InvalidDocument),
    "pinned": _flag,
    "importance": as_importance,
    "created": lambda value: as_moment(value, "created"),
}


def fresh(scope: Scope, written: Draft, default_type: str) -> MemoryItem:
    """A new memory; its id is still to be found."""
    now = datetime.now(timezone.utc)
    given = dict(written.given)
    created = given.pop("created", now)
    scoped = {"user": scope.user, "agent": scope.agent, "session": scope.session}
    fields = {"type": default_type, **scoped, **given, "created": created, "updated": created}
    return MemoryItem(id="", text=written.text, content_hash=written.hash, **fields)


def refreshed(old: MemoryItem, written: Draft) -> MemoryItem:
    """The memory that is already there, with what was said anew: tags and metadata are added.

    The rest is replaced, unless who says so is trusted less than the memory is: a web page that repeats what a user
    said must not take it over.
    """
    given, less = written.given, _rank(written.given.get("trust", old.trust)) < _rank(old.trust)
    said = given.get("metadata", {})
    fields: dict[str, Any] = {} if less else {name: given[name] for name in given if name in _replaced(old, given)}
    fields["tags"] = tuple(dict.fromkeys([*old.tags, *given.get("tags", ())]))
    fields["metadata"] = {**said, **old.metadata} if less else {**old.metadata, **said}
    now = datetime.now(timezone.utc)
    return replace(old, **fields, text=written.text, content_hash=written.hash, superseded_by=None, updated=now)


def _rank(trust: str) -> int:
    """How far somebody is trusted; what something else wrote into the row counts as nobody."""
    return TRUST.index(trust) if trust in TRUST else -1


def _replaced(old: MemoryItem, given: Mapping[str, Any]) -> set[str]:
    """A person who says the same vouches for it. A tool or an agent that repeats what it read makes it no truer.

    And where it comes from stays known, so that all of one source can be forgotten.
    """
    vouched = given.get("trust", old.trust) in (old.trust, *_PEOPLE)
    return {"type", "category", "pinned", "importance", *(("trust", "source") if vouched else ())}


def encode(ready: Ready, items: Sequence[MemoryItem], config: MemoryConfig) -> Flow[list[Encoded]]:
    """Vectors for memories: meaning from the text, words from the text and with less weight from its description."""
    if ready.read_only:
        raise CollectionMismatch(ready.read_only)
    texts = [f"{item.speaker}: {item.text}" if item.speaker else item.text for item in items]
    found = yield from encode_dense(ready, texts)
    dense: Sequence[Vectors | None] = found or [None] * len(items)
    sparse = yield from lexical(ready, items, config)
    return [Encoded(*each) for each in zip(items, dense, sparse, strict=True)]


def lexical(ready: Ready, items: Sequence[MemoryItem], config: MemoryConfig) -> Flow[list[Sparse | None]]:
    """The words of memories, field by field, in one call of the encoder."""
    fields = [_fields(item, config) for item in items]
    texts = [text for each in fields for text, _ in each]
    vectors = iter((yield from encode_sparse(ready, texts)))
    if ready.no_lexical:
        return [None] * len(items)
    return [blend([(next(vectors), weight) for _, weight in each]) for each in fields]


def _fields(item: MemoryItem, config: MemoryConfig) -> list[tuple[str, float]]:
    described = [
        (item.text, 1.0),
        (item.category or "", config.category_weight),
        (" ".join([*item.tags, *_declared(item, config)]), config.tags_weight),
        (item.speaker or "", 1.0),
        (_spoken_date(item), 1.0),
    ]
    return [(text, weight) for text, weight in described if text.strip() and weight]


def _declared(item: MemoryItem, config: MemoryConfig) -> list[str]:
    """The values that a query can name, so that their words find the memory too."""
    own = {"type": item.type, "source": item.source}
    values = [own.get(name, item.metadata.get(name.removeprefix("metadata."))) for name in config.fields]
    return [str(value) for value in values if isinstance(value, (str, int)) and not isinstance(value, bool)]


def _spoken_date(item: MemoryItem) -> str:
    """The day of a turn as people name it: "in May" finds what was said in May."""
    if item.order is None or item.created is None:
        return ""
    return f"{item.created.day} {_MONTHS[item.created.month - 1]} {item.created.year}"


def put(ready: Ready, encoded: Sequence[Encoded], shelf: Shelf | None = None) -> Flow[None]:
    """Write memories that have their ids; unless told which, on the shelf where they belong."""
    if not encoded:
        return
    points = [to_point(record_of(each.item, shelf), each.dense, each.sparse) for each in encoded]
    yield from calls.upsert(ready.collection, points)
    ready.nature.changed(len(encoded))


def record_of(item: MemoryItem, shelf: Shelf | None = None) -> Record:
    """A memory as a document on the right shelf."""
    usual: Shelf = "memory" if item.superseded_by is None else "superseded"
    return to_record(item, Scope(item.user, item.agent, item.session).fields(shelf or usual))


def same_texts(ready: Ready, scope: Scope, hashes: Sequence[str]) -> Flow[dict[str, MemoryItem]]:
    """The memories of exactly this scope that have these texts, by hash. Turns are said, not remembered: not they."""
    none_of: list[Node] = [Not(Present(name)) for name in ("agent", "session") if getattr(scope, name) is None]
    texts = AnyOf("content_hash", tuple(hashes))
    where = scope.where(MEMORIES, texts, Not(Present("order")), *none_of)
    rows, _ = yield from calls.scroll(ready.collection, where, limit=4 * len(hashes) + 16)
    found = [to_item(stored) for stored in map(from_point, rows) if damage(stored) is None]
    return {item.content_hash: item for item in sorted(found, key=lambda item: item.superseded_by is None)}


def free_ids(ready: Ready, scope: Scope, hashes: Sequence[str]) -> Flow[dict[str, str]]:
    """An id for each text that no memory has. It follows from the text, so that a retry finds the same one.

    It may be taken by a memory that once had this text and has been updated since: then the next one is used.
    """
    wanted = {h: [scope.identity("memory", [h, n]) for n in range(_SPARE_IDS)] for h in hashes}
    rows = (yield from calls.retrieve(ready.collection, [ids[0] for ids in wanted.values()])) if wanted else []
    taken = {str(row.id) for row in rows}
    for text_hash, ids in wanted.items():
        if ids[0] in taken:
            more = yield from calls.retrieve(ready.collection, ids)
            occupied = {str(row.id) for row in more}
            free = [identity for identity in ids if identity not in occupied]
            wanted[text_hash] = free or [scope.identity("memory", [text_hash, datetime.now(timezone.utc).isoformat()])]
    return {text_hash: ids[0] for text_hash, ids in wanted.items()}


def find(ready: Ready, scope: Scope, ids: Sequence[str], shelves: Sequence[Shelf]) -> Flow[dict[str, Stored]]:
    """Rows of this scope by id, whatever their state; what belongs to others is not there."""
    possible = [identity for identity in ids if is_memory_id(identity)]
    rows = (yield from calls.retrieve(ready.collection, possible)) if possible else []
    stored = [from_point(row) for row in rows]
    return {each.point: each for each in stored if scope.holds(each.metadata, shelves)}


def require(found: Mapping[str, Stored], identity: str, scope: Scope) -> MemoryItem:
    """The memory, or an error that says what to do."""
    if identity not in found:
        raise MemoryNotFound(f"there is no memory {identity!r} of {scope}: list() and recall() give the ids that exist")
    return readable(found[identity])


def readable(stored: Stored) -> MemoryItem:
    """A row as a memory, or an error that says what is wrong with it."""
    wrong = damage(stored)
    if wrong is not None:
        raise MemoryDamaged(
            f"memory {stored.point!r} can't be used: {wrong}. forget({stored.point!r}) removes it, and "
            "stats(verify=True) names all that are like it",
            id=stored.point,
            reason=wrong,
        )
    return to_item(stored)
