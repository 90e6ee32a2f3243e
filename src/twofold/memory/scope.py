"""Whose memories: the scope that every operation of a `Memory` stays in, and the rows that belong to it."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

from twofold.engine import calls
from twofold.engine.layout import Stored, from_point
from twofold.errors import ConfigError, MemoryDamaged, MemoryNotFound
from twofold.filters import All, AnyOf, Equals, Node, Not, Present
from twofold.flow import Flow
from twofold.index.opening import Ready
from twofold.memory.items import MemoryItem, is_memory_id, to_item
from twofold.text import find_surrogate

Shelf: TypeAlias = Literal["memory", "superseded", "log", "feedback", "learned"]
"""The rows of a user lie on shelves, so that one condition tells their memories from their logs and feedback."""
MEMORIES: tuple[Shelf, ...] = ("memory", "superseded")
TEXTS: tuple[Shelf, ...] = (*MEMORIES, "log")
"""The shelves of rows that have a text, and so vectors."""
EVERYTHING: tuple[Shelf, ...] = (*TEXTS, "feedback", "learned")

T = TypeVar("T")
_NAMESPACE = uuid.UUID("0c9a1f6b-5c0e-5b3f-9a53-7f1f0d5a9a61")
_MAX_NAME_LENGTH = 512
_ROWS_PER_PAGE = 256


@dataclass(frozen=True, slots=True)
class Scope:
    """A user, and optionally one agent and one session of theirs.

    A narrower scope sees less: memories of other agents and sessions are not there for it.
    """

    user: str
    agent: str | None = None
    session: str | None = None

    def __post_init__(self) -> None:
        _check("user", self.user)
        for name, value in self._narrow():
            _check(name, value)

    def label(self, shelf: Shelf) -> str:
        """What the user's rows on a shelf carry. Shelves have no colon, so no two users can share a label."""
        return f"{shelf}:{self.user}"

    def where(self, shelves: Iterable[Shelf], *also: Node | None) -> Node:
        """The condition for everything of this scope on some shelves."""
        labels = tuple(self.label(shelf) for shelf in shelves)
        own = Equals("shelf", labels[0]) if len(labels) == 1 else AnyOf("shelf", labels)
        more = [*(Equals(name, value) for name, value in self._narrow()), *(node for node in also if node is not None)]
        return All((own, *more)) if more else own

    def exactly(self, *names: str) -> list[Node]:
        """Conditions that leave out rows of an agent or a session where this scope names none."""
        return [Not(Present(name)) for name in names if getattr(self, name) is None]

    def holds(self, metadata: Mapping[str, Any], shelves: Iterable[Shelf]) -> bool:
        """A row that was fetched by its id belongs to this scope."""
        if metadata.get("shelf") not in {self.label(shelf) for shelf in shelves}:
            return False
        return all(metadata.get(name) == value for name, value in self._narrow())

    def sees(self, user: str, agent: str | None, session: str | None) -> bool:
        """What is written in that scope is there for this one."""
        return self.user == user and self.agent in (None, agent) and self.session in (None, session)

    def wider(self) -> tuple[Scope, ...]:
        """This scope and those that it is a part of, the narrowest first."""
        user, agent, session = self.user, self.agent, self.session
        return tuple(dict.fromkeys([self, Scope(user, agent), Scope(user, None, session), Scope(user)]))

    def identity(self, shelf: str, content: object) -> str:
        """An id for this content, in this scope: the same every time, and no other scope can come by it."""
        parts = json.dumps([self.user, self.agent, self.session, shelf, content], ensure_ascii=True)
        return str(uuid.uuid5(_NAMESPACE, hashlib.sha256(parts.encode()).hexdigest()))

    def fields(self, shelf: Shelf) -> dict[str, Any]:
        """What a new row of this scope carries."""
        own = {"shelf": self.label(shelf), "user": self.user, "agent": self.agent, "session": self.session}
        return {name: value for name, value in own.items() if value is not None}

    def _narrow(self) -> list[tuple[str, str]]:
        return [(n, v) for n, v in (("agent", self.agent), ("session", self.session)) if v is not None]

    def __str__(self) -> str:
        return " ".join([repr(self.user), *(f"{name} {value!r}" for name, value in self._narrow())])


def _check(name: str, value: object) -> None:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(
            f"{name} must be a name, got {value!r}: memories belong to somebody, so say whose they are, "
            f'as Memory.open(…, user="ada")'
        )
    if len(value) > _MAX_NAME_LENGTH or find_surrogate(value) is not None:
        raise ConfigError(f"{name} must be at most {_MAX_NAME_LENGTH} characters of valid text, got {value[:40]!r}…")


# --- The rows of a scope ---


def pieces(items: Sequence[T], size: int) -> list[Sequence[T]]:
    """So many at a time."""
    return [items[start : start + size] for start in range(0, len(items), size)]


def find(ready: Ready, scope: Scope, ids: Sequence[str], shelves: Sequence[Shelf]) -> Flow[dict[str, Stored]]:
    """Rows of this scope by id, whatever their state; what belongs to others is not there."""
    possible = [identity for identity in ids if is_memory_id(identity)]
    rows = (yield from calls.retrieve(ready.collection, possible)) if possible else []
    stored = [from_point(row) for row in rows]
    return {each.point: each for each in stored if scope.holds(each.metadata, shelves)}


def require(rows: Mapping[str, Stored], identity: str, scope: Scope) -> MemoryItem:
    """The memory, or an error that says what to do."""
    if identity not in rows:
        raise MemoryNotFound(f"there is no memory {identity!r} of {scope}: list() and recall() give the ids that exist")
    return readable(rows[identity])


def readable(stored: Stored) -> MemoryItem:
    """A row as a memory, or an error that says what is wrong with it."""
    try:
        return to_item(stored)
    except ValueError as error:
        raise MemoryDamaged(
            f"memory {stored.point!r} can't be used: {error}. forget({stored.point!r}) removes it, and "
            "stats(verify=True) names all that are like it",
            id=stored.point,
            reason=str(error),
        ) from error


def all_rows(
    ready: Ready, where: Node, *, only: Sequence[str] | None = None, keep: Callable[[Stored], bool] = lambda row: True
) -> Flow[list[Stored]]:
    """All rows that match, whatever their state, a page at a time; with `only`, some fields of them."""
    rows, offset, collection = list[Stored](), None, ready.collection
    while True:
        points, offset = yield from calls.scroll(collection, where, limit=_ROWS_PER_PAGE, offset=offset, only=only)
        rows += filter(keep, map(from_point, points))
        if offset is None:
            return rows
