"""What all memories on one collection have in common in this process, however often it was opened."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import NamedTuple
from weakref import WeakKeyDictionary

from twofold.index.hybrid import HybridIndex
from twofold.memory.items import MemoryItem
from twofold.memory.scope import Scope
from twofold.memory.vocabulary import Tally, Vocabulary

_STRIPES = 64
_MOST_VIEWS = 1000


class View(NamedTuple):
    """Whose vocabulary, and what of it."""

    scope: Scope
    fields: tuple[str, ...]
    typos: bool


class Common:
    """The vocabularies of a collection, how much was written, and the locks under which it is."""

    def __init__(self) -> None:
        self.tally = Tally()
        self.locks = [Lock() for _ in range(_STRIPES)]
        self._vocabularies: dict[View, Vocabulary] = {}
        self._changes = [0] * _STRIPES
        self._guard = Lock()

    def known(self, view: View) -> Vocabulary | None:
        """What has been read for a view."""
        return self._vocabularies.get(view)

    def changes(self, user: str) -> int:
        """Another number after each change of this user's memories."""
        return self._changes[stripe(user)]

    def keep(self, view: View, known: Vocabulary, changes: int) -> None:
        """Remember what was read, unless it may lack what was written meanwhile."""
        with self._guard:
            if self.changes(view.scope.user) == changes:
                self._vocabularies.pop(view, None)
                self._vocabularies[view] = known
            while len(self._vocabularies) > _MOST_VIEWS:
                self._vocabularies.pop(next(iter(self._vocabularies)))

    def forget(self, user: str) -> None:
        """Memories of a user are gone or have changed: what is left must be read anew."""
        with self._guard:
            self._changes[stripe(user)] += 1
            for view in [view for view in self._vocabularies if view.scope.user == user]:
                del self._vocabularies[view]

    def learn(self, items: Sequence[MemoryItem], new: int) -> None:
        """Memories of one scope were written, some of them new: the views that can see them know their words."""
        if not items:
            return
        whose = (items[0].user, items[0].agent, items[0].session)
        with self._guard:
            self._changes[stripe(whose[0])] += 1
            self.tally.added += new
            for view, known in self._vocabularies.items():
                if view.scope.sees(*whose):
                    known.memories += new
                    for item in items:
                        known.learn(item)

    def count(self, *, added: int = 0, deleted: int = 0) -> None:
        """Rows were added or deleted, without new words for anybody."""
        with self._guard:
            self.tally.added += added
            self.tally.deleted += deleted


def stripe(user: str) -> int:
    """Which of the locks is this user's; some users share one."""
    return hash(user) % _STRIPES


_commons: WeakKeyDictionary[object, dict[str, Common]] = WeakKeyDictionary()
_commons_guard = Lock()


def common_of(index: HybridIndex) -> Common:
    """The same for every memory on one client and collection, since they write to the same rows."""
    with _commons_guard:
        return _commons.setdefault(index.store, {}).setdefault(index.collection, Common())
