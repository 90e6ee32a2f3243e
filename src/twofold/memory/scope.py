"""Whose memories: the scope that every operation of a `Memory` stays in."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from twofold.errors import ConfigError
from twofold.filters import All, AnyOf, Equals, Node
from twofold.text import find_surrogate

Shelf: TypeAlias = Literal["memory", "superseded", "log", "feedback", "learned"]
MEMORIES: tuple[Shelf, ...] = ("memory", "superseded")
EVERYTHING: tuple[Shelf, ...] = ("memory", "superseded", "log", "feedback", "learned")

_NAMESPACE = uuid.UUID("0c9a1f6b-5c0e-5b3f-9a53-7f1f0d5a9a61")
_LONGEST = 512


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
        for name, value in (("agent", self.agent), ("session", self.session)):
            if value is not None:
                _check(name, value)

    def label(self, shelf: Shelf) -> str:
        """What the user's rows on a shelf carry. Shelves have no colon, so no two users can share a label."""
        return f"{shelf}:{self.user}"

    def where(self, shelves: Iterable[Shelf], *also: Node | None) -> Node:
        """The condition for everything of this scope on some shelves."""
        labels = tuple(self.label(shelf) for shelf in shelves)
        parts: list[Node] = [Equals("shelf", labels[0]) if len(labels) == 1 else AnyOf("shelf", labels)]
        parts += [Equals(name, value) for name, value in self._narrow()]
        parts += [node for node in also if node is not None]
        return parts[0] if len(parts) == 1 else All(tuple(parts))

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
        all_of_them = (self, Scope(self.user, self.agent), Scope(self.user, None, self.session), Scope(self.user))
        return tuple(dict.fromkeys(all_of_them))

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
    if len(value) > _LONGEST or find_surrogate(value) is not None:
        raise ConfigError(f"{name} must be at most {_LONGEST} characters of valid text, got {value[:40]!r}…")
