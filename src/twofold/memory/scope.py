"""Whose memories: what every operation of a `Memory` stays in.

A `Scope` owns rows: a user (with one agent and one session of theirs, or without), or a project. A memory writes into
one scope; its `Reach` is what it sees: that scope, and the projects that it was opened for.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from twofold.errors import ConfigError
from twofold.filters import All, AnyOf, Either, Equals, Node, Not, Present
from twofold.text import find_surrogate

if TYPE_CHECKING:
    from twofold.memory.items import MemoryItem

Shelf: TypeAlias = Literal["memory", "superseded", "log", "feedback", "learned"]
"""The rows of an owner lie on shelves, so that one condition tells their memories from their logs and feedback."""
MEMORIES: tuple[Shelf, ...] = ("memory", "superseded")
TEXTS: tuple[Shelf, ...] = (*MEMORIES, "log")
"""The shelves of rows that have a text, and so vectors."""
EVERYTHING: tuple[Shelf, ...] = (*TEXTS, "feedback", "learned")
_NAMESPACE = uuid.UUID("0c9a1f6b-5c0e-5b3f-9a53-7f1f0d5a9a61")
_MAX_NAME_LENGTH = 512


def check_name(name: str, value: object) -> None:
    """What names somebody or something that memories belong to."""
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(
            f"{name} must be a name, got {value!r}: memories belong to somebody, so say whose they are, "
            f'as Memory.open(…, user="ada")'
        )
    if len(value) > _MAX_NAME_LENGTH or find_surrogate(value) is not None:
        limit = f"at most {_MAX_NAME_LENGTH} characters of valid text"
        raise ConfigError(f"{name} must be {limit}, got {value[:40]!r}…")


def as_projects(given: str | Sequence[str]) -> tuple[str, ...]:
    """One project or several, each once."""
    if not isinstance(given, (str, list, tuple)):
        raise ConfigError(f"projects must be a name or a list of names, got {given!r}")
    projects = (given,) if isinstance(given, str) else tuple(given)
    for project in projects:
        check_name("project", project)
    return tuple(dict.fromkeys(projects))


@dataclass(frozen=True, slots=True)
class Scope:
    """A user, and optionally one agent and one session of theirs; or a project, whoever works on it."""

    user: str | None
    """None for a project: its memories belong to all who work on it."""
    agent: str | None = None
    session: str | None = None
    project: str | None = None

    def __post_init__(self) -> None:
        check_name("user", self.user) if self.project is None else check_name("project", self.project)
        for name, value in self.narrow:
            check_name(name, value)

    @classmethod
    def of(cls, item: MemoryItem) -> Scope:
        """The scope that a memory was written into."""
        return cls(item.user if item.project is None else None, item.agent, item.session, item.project)

    @property
    def narrow(self) -> list[tuple[str, str]]:
        """What its rows carry besides their owner."""
        return [(n, v) for n, v in (("agent", self.agent), ("session", self.session)) if v is not None]

    @property
    def whole(self) -> Scope:
        """Everything of the same owner."""
        return replace(self, agent=None, session=None)

    @property
    def owner(self) -> str:
        """The user or the project, told apart: what is locked, counted and known for each."""
        return self.label("memory")

    def label(self, shelf: Shelf) -> str:
        """What the owner's rows on a shelf carry.

        Up to the first colon it says what owns the row, so no user shares a label with another, or with a project.
        """
        return f"{shelf}:{self.user}" if self.project is None else f"project-{shelf}:{self.project}"

    def where(self, shelves: Iterable[Shelf], *also: Node | None) -> Node:
        """The condition for everything of this scope on some shelves."""
        return Reach(self).where(shelves, *also)

    def exactly(self, *names: str) -> list[Node]:
        """Conditions that leave out rows of an agent or a session where this scope names none."""
        return [Not(Present(name)) for name in names if getattr(self, name) is None]

    def holds(self, metadata: Mapping[str, Any], shelves: Iterable[Shelf]) -> bool:
        """A row that was fetched by its id belongs to this scope."""
        return Reach(self).holds(metadata, shelves)

    def wider(self) -> tuple[Scope, ...]:
        """This scope and those that it is a part of, the narrowest first."""
        parts = (self, replace(self, session=None), replace(self, agent=None), self.whole)
        return tuple(dict.fromkeys(parts))

    def identity(self, shelf: str, content: object) -> str:
        """An id for this content, in this scope: the same every time, and no other scope can come by it."""
        owner: list[Any] = [self.user, self.agent, self.session]
        parts = json.dumps([*owner, *([] if self.project is None else [self.project]), shelf, content])
        return str(uuid.uuid5(_NAMESPACE, hashlib.sha256(parts.encode()).hexdigest()))

    def fields(self, shelf: Shelf) -> dict[str, Any]:
        """What a new row of this scope carries."""
        owner = {"user": self.user} if self.project is None else {"project": self.project}
        return {"shelf": self.label(shelf), **owner, **dict(self.narrow)}

    def __str__(self) -> str:
        owner = repr(self.user) if self.project is None else f"project {self.project!r}"
        return " ".join([owner, *(f"{name} {value!r}" for name, value in self.narrow)])


@dataclass(frozen=True, slots=True)
class Reach:
    """What a memory sees: its own scope, where it also writes, and projects. What lies beyond isn't there for it."""

    own: Scope
    projects: tuple[str, ...] = ()
    general: bool = False
    """Of a scope with an agent or a session: also the user's memories that belong to none."""

    @classmethod
    def of(
        cls, user: str, agent: str | None, session: str | None, projects: str | Sequence[str], general: bool
    ) -> Reach:
        """What a memory sees that is opened with these."""
        return cls(Scope(user, agent, session), as_projects(projects)).with_general(general)

    def with_general(self, general: bool) -> Reach:
        """The same, which sees the memories of no agent and no session as well, or doesn't."""
        if not isinstance(general, bool):
            raise ConfigError(f"general must be True or False, got {type(general).__name__}")
        return replace(self, general=general and bool(self.own.narrow))

    @property
    def parts(self) -> tuple[Reach, ...]:
        """The same, owner by owner."""
        return replace(self, projects=()), *(Reach(Scope(None, project=project)) for project in self.projects)

    @property
    def owners(self) -> tuple[str, ...]:
        """The user and the projects."""
        return tuple(part.own.owner for part in self.parts)

    def where(self, shelves: Iterable[Shelf], *also: Node | None) -> Node:
        """One condition for everything in reach on some shelves."""
        wanted = tuple(shelves)
        narrow = [self._narrowed(name, value) for name, value in self.own.narrow]
        if narrow and self.projects:
            reached: list[Node] = [Either(tuple(part.where(wanted) for part in self.parts))]
        else:
            labels = tuple(part.own.label(shelf) for part in self.parts for shelf in wanted)
            reached = [Equals("shelf", labels[0]) if len(labels) == 1 else AnyOf("shelf", labels), *narrow]
        conditions = [*reached, *(node for node in also if node is not None)]
        return All(tuple(conditions)) if len(conditions) > 1 else conditions[0]

    def _narrowed(self, name: str, value: str) -> Node:
        own = Equals(name, value)
        return Either((own, Not(Present(name)))) if self.general else own

    def as_filter(self) -> dict[str, Any]:
        """The condition for the memories in reach, as a filter of the index underneath."""
        filters: list[dict[str, Any]] = []
        for part in self.parts:
            narrow = [{"or": [{n: v}, {n: {"exists": False}}]} if part.general else {n: v} for n, v in part.own.narrow]
            filters.append({"and": [{"shelf": part.own.label("memory")}, *narrow]})
        return filters[0] if len(filters) == 1 else {"or": filters}

    def holds(self, metadata: Mapping[str, Any], shelves: Iterable[Shelf]) -> bool:
        """A row that was fetched by its id is in reach."""
        wanted = tuple(shelves)
        for part in self.parts:
            if metadata.get("shelf") in {part.own.label(shelf) for shelf in wanted}:
                return all(part._admits(value, metadata.get(name)) for name, value in part.own.narrow)
        return False

    def covers(self, scope: Scope) -> bool:
        """Whatever is written into a scope is in reach."""
        for part in self.parts:
            if part.own.owner == scope.owner:
                return all(part._admits(value, getattr(scope, name)) for name, value in part.own.narrow)
        return False

    def _admits(self, own: str, value: object) -> bool:
        return value == own or (self.general and value is None)

    def __str__(self) -> str:
        return " and ".join(str(part.own) for part in self.parts)


def scopes_in(labels: Iterable[str]) -> list[Scope]:
    """Whose labels these are, users and projects, each once."""
    owners = (label.partition(":") for label in labels)
    scopes = (Scope(None, project=name) if shelf.startswith("project-") else Scope(name) for shelf, _, name in owners)
    return list(dict.fromkeys(scopes))


def users_in(labels: Mapping[Any, int]) -> dict[str, int]:
    """Whose labels these are, and how many rows they have on the shelf of memories; projects are no users."""
    numbers: dict[str, int] = {}
    for label, number in labels.items():
        shelf, _, user = str(label).partition(":")
        if shelf in EVERYTHING:
            numbers[user] = numbers.get(user, 0) + (number if shelf == "memory" else 0)
    return dict(sorted(numbers.items()))
