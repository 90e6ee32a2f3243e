"""What a memory is, what a recall gives back, and what else the methods of `Memory` answer with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, overload

from twofold.results import Hit, Problem, SearchResult

TRUST = ("web", "tool", "agent", "user", "system")
"""Where a memory comes from, the least trusted first."""


@dataclass(frozen=True)
class MemoryItem:
    """One memory, with everything that is known about it."""

    id: str
    text: str
    type: str = "note"
    category: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    source: str | None = None
    """Where it comes from: a file, a URL, a tool, a conversation."""
    trust: str = "user"
    """Who says so: one of `TRUST`."""
    pinned: bool = False
    importance: float = 0.5
    created: datetime | None = None
    updated: datetime | None = None
    last_accessed: datetime | None = None
    access_count: int = 0
    content_hash: str = ""
    superseded_by: str | None = None
    user: str = ""
    agent: str | None = None
    session: str | None = None
    speaker: str | None = None
    """Who said it, for a turn of a conversation."""
    order: int | None = None
    """The place of a turn in its session."""


@dataclass(frozen=True)
class MemoryHit(Hit):
    """A memory that was found. `metadata` is the caller's own; everything else is in `memory`."""

    memory: MemoryItem = field(default_factory=lambda: MemoryItem("", ""))


@dataclass(frozen=True)
class MemoryResult(SearchResult):
    """What a recall found, best first, and how."""

    alpha: float | None = None
    """How much meaning counted, from 0 to 1."""
    alpha_reason: str = ""
    """Where alpha comes from."""
    tags: tuple[str, ...] = ()
    """The tags and field values that the query names."""
    corrections: Mapping[str, str] = field(default_factory=dict)
    """Words that no memory has, and the ones that were looked for as well."""

    @overload
    def __getitem__(self, index: int) -> MemoryHit: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[MemoryHit, ...]: ...
    def __getitem__(self, index: int | slice) -> MemoryHit | tuple[MemoryHit, ...]:
        return self.hits[index]  # type: ignore[return-value]

    def __iter__(self) -> Iterator[MemoryHit]:
        return iter(self.hits)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Similar:
    """A memory that says nearly the same."""

    id: str
    text: str
    cosine: float


class Remembered(str):
    """The id of a memory, and what storing it brought to light."""

    is_new: bool
    """False if the same text was there already, and has been refreshed."""
    similar: tuple[Similar, ...]
    """Memories that say nearly the same. They are left alone: `supersedes=` or `forget` decides about them."""

    __slots__ = ("is_new", "similar")

    def __new__(  # noqa: D102
        cls, identity: str, *, is_new: bool = True, similar: Sequence[Similar] = ()
    ) -> Remembered:
        made = super().__new__(cls, identity)
        made.is_new = is_new
        made.similar = tuple(similar)
        return made

    @property
    def id(self) -> str:
        """The id as a plain string."""
        return str(self)

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:
        return (str(self),), {"is_new": self.is_new, "similar": self.similar}


@dataclass(frozen=True)
class MemoryPage(Sequence[MemoryItem]):
    """Some memories of a longer list."""

    items: tuple[MemoryItem, ...]
    next: str | None = None
    """Give it to the next call as `after=`; None on the last page."""
    problems: tuple[Problem, ...] = ()
    """Rows that could not be read."""

    @overload
    def __getitem__(self, index: int) -> MemoryItem: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[MemoryItem, ...]: ...
    def __getitem__(self, index: int | slice) -> MemoryItem | tuple[MemoryItem, ...]:
        return self.items[index]

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[MemoryItem]:
        return iter(self.items)


@dataclass(frozen=True)
class MemoryStats:
    """A user's memories in numbers."""

    memories: int
    superseded: int
    logs: int
    judgements: int
    """Feedback that `learn` can use."""
    types: Mapping[str, int]
    tags: Mapping[str, int]
    trust: Mapping[str, int]
    without_meaning: int
    """Memories that lack a dense vector: only their words find them."""
    without_words: int
    """Memories that lack a sparse vector: only their meaning finds them."""
    problems: tuple[Problem, ...] = ()
    """Rows that could not be read, where they were looked for."""
