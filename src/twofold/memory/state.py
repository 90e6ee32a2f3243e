"""The tags, values and words that a user's memories have: what a query can name, and what a typo can mean."""

from __future__ import annotations

import asyncio
import copy
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from threading import Lock
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from twofold.config import CollectionSettings, SearchConfig
from twofold.encoders.bm25 import BM25
from twofold.engine import calls
from twofold.engine.layout import from_point, metadata_key
from twofold.errors import EngineError, EngineUnavailable
from twofold.flow import Flow, Work
from twofold.index.hybrid import HybridIndex
from twofold.index.opening import Ready
from twofold.index.searching import Searcher
from twofold.memory import touching
from twofold.memory.config import MemoryConfig
from twofold.memory.items import MemoryItem
from twofold.memory.layout import field_path, searchable_words
from twofold.memory.scope import Scope
from twofold.ranking.fusion import is_number
from twofold.ranking.names import Lexicon, Stemmer, Words
from twofold.ranking.signals import Value

# --- What feedback has taught about one user: how much meaning counts, and how much tags and age do ---

log = logging.getLogger("twofold.memory")


@dataclass(frozen=True)
class Learned:
    """Settings that `learn` found, and what they rest on. `unlearn` takes them back."""

    alpha: float
    tag_weight: float
    recency_share: float
    judgements: int
    """How many pieces of feedback they rest on."""
    before: float
    """The share of pairs (useful memory, other memory) that the defaults put in the right order."""
    after: float
    """The same share with what was learned."""
    fusion: str = "auto"
    """The fusion that alpha was learned for: another one has another scale."""

    def as_payload(self) -> dict[str, Any]:
        """The fields as they are stored."""
        return asdict(self)

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any]) -> Learned:
        """Read them back."""
        return cls(**{name: payload[name] for name in cls.__dataclass_fields__ if name != "fusion" or name in payload})

    @property
    def sound(self) -> bool:
        """The settings can be computed with."""
        settings = (self.alpha, self.tag_weight, self.recency_share)
        if not all(is_number(value) for value in (*settings, self.judgements)):
            return False
        return 0 <= self.alpha <= 1 and self.tag_weight >= 0 and 0 <= self.recency_share <= 1

    @property
    def reason(self) -> str:
        """For people to read."""
        return f"learned from {self.judgements} judgement{'' if self.judgements == 1 else 's'}"


def read_learned(ready: Ready, scope: Scope) -> Flow[Learned | None]:
    """What was learned for a scope, or else for the wider ones that it is a part of; None if nothing was."""
    rows = yield from calls.retrieve(ready.collection, [row_id(each) for each in scope.wider()])
    stored = [from_point(row) for row in rows]
    for each in scope.wider():
        own = [row for row in stored if row.point == row_id(each) and each.holds(row.metadata, ("learned",))]
        found = _readable(own[0].metadata.get("learned"), each) if own else None
        if found is not None:
            return found
    return None


def exists(ready: Ready, scope: Scope) -> Flow[bool]:
    """Something was learned for this very scope."""
    rows = yield from calls.retrieve(ready.collection, [row_id(scope)])
    return any(scope.holds(from_point(row).metadata, ("learned",)) for row in rows)


def _readable(payload: Any, scope: Scope) -> Learned | None:
    """Recall does without what can't be read: it must not fail for it."""
    try:
        found = Learned.from_payload(payload)
    except (KeyError, TypeError):
        found = None
    if found is None or not found.sound:
        log.warning("what was learned about %s can't be read, so the defaults are used: learn() mends it", scope)
        return None
    return found


def row_id(scope: Scope) -> str:
    """Where it is kept."""
    return scope.identity("learned", "")


# --- The tags, values and words that a user's memories have: what a query can name, and what a typo can mean ---

_MOST_TAGS = 10_000
_MOST_WORDS = 100_000
_SHARED_FOR = 60.0


@dataclass
class Tally:
    """The rows that this process has added to a collection, and those that it has deleted."""

    added: int = 0
    deleted: int = 0
    """Engines count the words of deleted rows until they tidy up, so these never stop being in the way."""


@dataclass
class Vocabulary:
    """What one scope's memories have. Kept in step with what this process writes."""

    lexicon: Lexicon
    words: Words
    memories: int
    rows: int
    """Rows of the collection when it was read, less those in the tally."""
    fields: tuple[str, ...]
    learned: Learned | None = None
    """What feedback has taught about this scope."""
    tally: Tally = field(default_factory=Tally)
    read_at: float = field(default_factory=time.monotonic)

    @property
    def others(self) -> int:
        """Rows of the collection that belong to others, at this moment: they write while this scope only reads."""
        return max(0, self.rows + self.tally.added - self.memories)

    def learn(self, item: MemoryItem) -> None:
        """A memory was written."""
        for path in self.fields:
            found = _at(item, path)
            values = found if isinstance(found, (list, tuple)) else [found]
            self.lexicon.add(path, [v for v in values if isinstance(v, (str, int)) and not isinstance(v, bool)])
        self.words.add(searchable_words(item))

    def outdated(self, *, shared: bool) -> bool:
        """Other processes may have written meanwhile, where they can."""
        return shared and time.monotonic() - self.read_at > _SHARED_FOR


def _at(item: MemoryItem, path: str) -> Any:
    """What a memory has at the path of a field."""
    first, *rest = path.split(".")
    found: Any = getattr(item, first, None)
    for part in rest:
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def read_vocabulary(
    ready: Ready, scope: Scope, fields: Sequence[str], stem: Stemmer, tally: Tally, *, typos: bool
) -> Flow[Vocabulary]:
    """Ask the engine what there is."""
    tallied = (
        tally.added - tally.deleted
    )  # before anything is read: what is written meanwhile may be counted twice, but not left out
    where = scope.where(("memory",))
    lexicon, words = Lexicon(stem), Words()
    paths = tuple(dict.fromkeys(["tags", *(field_path(name) for name in fields)]))
    for path in paths:
        found: dict[Value, int] = yield from calls.facet(ready.collection, metadata_key(path), where, _MOST_TAGS)
        lexicon.add(path, found)
    if typos:
        counts = yield from calls.facet(ready.collection, metadata_key("words"), where, _MOST_WORDS)
        words.add({str(word): count for word, count in counts.items()})
    memories = yield from calls.count(ready.collection, where)
    everything = yield from calls.count(ready.collection, None)
    return Vocabulary(lexicon, words, memories, everything - tallied, paths, tally=tally)


# --- What all memories on one collection have in common in this process, however often it was opened ---

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


# --- What all views of one memory store share ---

log = logging.getLogger("twofold.memory")

T = TypeVar("T")
_PATIENCE = 30.0
_POLL = 0.002


class Keeper:
    """One open collection of memories."""

    def __init__(self, index: HybridIndex, config: MemoryConfig) -> None:
        self.index = index
        self.family: list[Keeper] = [self]
        """All that share the connection: closing one closes all, so each must write down what is pending."""
        self.config = config
        self.search = _search(config)
        self._common = common_of(index)
        self._locks = self._common.locks
        touches = touching.Touches()
        # Holds the index, not the keeper: what runs when the interpreter ends must not keep all of this alive.
        self.toucher = touching.Toucher(touches, partial(_write_touches, index, touches, self._locks))

    def anew_for(self, user: str) -> Keeper:
        """As it was just opened: what this process knows of the user may be from before something else wrote."""
        self.forget_vocabulary(user)
        return self

    def beside(self, collection: str, config: MemoryConfig, settings: CollectionSettings) -> Keeper:
        """The keeper of another collection at the same place; asked again, the same one."""
        for each in self.family:
            if each.index.collection == collection and each.config == config:
                return each
        other = Keeper(self.index.beside(collection, settings=settings), config)
        other.family = self.family
        self.family.append(other)
        return other

    def reconfigured(self, config: MemoryConfig) -> Keeper:
        """The same keeper, vocabularies, locks and all, for one who recalls with other settings."""
        other = copy.copy(self)
        other.config, other.search = config, _search(config)
        return other

    def vocabulary(self, searcher: Searcher, scope: Scope) -> Flow[Vocabulary]:
        """What a scope's memories have, read once and kept in step."""
        ready, common = searcher.ready, self._common
        view = View(scope, tuple(self.config.fields), self.config.typos)
        known = common.known(view)
        if known is None or known.outdated(shared=ready.engine.shared):
            changes = common.changes(scope.user)
            known = yield from read_vocabulary(
                ready, scope, view.fields, stemmer(ready), common.tally, typos=view.typos
            )
            known.learned = yield from read_learned(ready, scope)
            common.keep(view, known, changes)
        return known

    def forget_vocabulary(self, user: str) -> None:
        """Memories of a user are gone or have changed: what is left must be read anew."""
        self._common.forget(user)

    def learn(self, items: Sequence[MemoryItem], new: int) -> None:
        """Memories of one scope were written, some of them new: the views that can see them know their words."""
        self._common.learn(items, new)

    def count(self, *, added: int = 0, deleted: int = 0) -> None:
        """Rows were added or deleted whose words no view has to know."""
        self._common.count(added=added, deleted=deleted)

    def alone(self, user: str, flow: Flow[T]) -> Flow[T]:
        """Nobody else of this process changes this user's memories meanwhile."""
        return alone(self._locks[stripe(user)], flow)

    def touched(self, user: str, ids: Sequence[str]) -> None:
        """Memories were recalled. That is written down in a moment, in nobody's way."""
        if self.index.awaited_only:
            self.toucher.note_awaiting(user, ids, lambda: self.index.aperform(self.write_touches))
        else:
            self.toucher.note(user, ids)

    def count_up(self, searcher: Searcher) -> Flow[None]:
        """Write down recalls before something is read. Reading goes on where writing fails: they stay pending."""
        try:
            yield from self.write_touches(searcher)
        except EngineError as error:
            log.warning("recalls could not be counted yet: %s", error)

    def close(self) -> None:
        """Write down what is pending, here and beside, and let go of the engine."""
        try:
            for each in list(self.family):
                each.toucher.stop()
                if each.toucher.touches.pending() and not each.index.closed:
                    each.index.perform(each.write_touches)
        finally:
            self.index.close()

    async def aclose(self) -> None:
        """`close` without blocking the event loop."""
        try:
            for each in list(self.family):
                await each.toucher.astop()
                if each.toucher.touches.pending() and not each.index.closed:
                    await each.index.aperform(each.write_touches)
        finally:
            await self.index.aclose()

    def write_touches(self, searcher: Searcher) -> Flow[None]:
        """Write down all recalls that are pending."""
        return write_touches(searcher.ready, self.toucher.touches, self._locks)


def _search(config: MemoryConfig) -> SearchConfig:
    """How the index is searched for a recall."""
    return SearchConfig(
        fusion=config.fusion,
        depth=config.depth,
        min_score=None if config.min_score == "auto" else config.min_score,
        text_fallback=config.text_fallback,
        auto_index=False,
    )


def alone(lock: Lock, flow: Flow[T]) -> Flow[T]:
    """Run a flow while holding a lock. Generators let go of it also when they are dropped half way."""
    yield Work(partial(_acquire, lock), partial(_acquire_awaiting, lock))
    try:
        return (yield from flow)
    finally:
        lock.release()


def write_touches(ready: Ready, touches: touching.Touches, locks: list[Lock]) -> Flow[None]:
    """Write down all recalls that are pending."""
    for user in touches.users():
        yield from alone(locks[stripe(user)], touching.write(ready, user, touches))


def _write_touches(index: HybridIndex, touches: touching.Touches, locks: list[Lock]) -> None:
    index.perform(lambda searcher: write_touches(searcher.ready, touches, locks))


def _acquire(lock: Lock) -> None:
    if not lock.acquire(timeout=_PATIENCE):
        raise _stuck()


async def _acquire_awaiting(lock: Lock) -> None:
    """Polls, because a thread that waits for a lock can't be called off when the task is."""
    deadline = time.monotonic() + _PATIENCE
    while not lock.acquire(blocking=False):
        if time.monotonic() > deadline:
            raise _stuck()
        await asyncio.sleep(_POLL)


def _stuck() -> EngineUnavailable:
    return EngineUnavailable(
        f"another change of this user's memories has been under way for {_PATIENCE:.0f} s: nothing was written. "
        "Try again, and see whether the engine answers",
        operation="wait",
        location="this process",
    )


def stemmer(ready: Ready) -> Stemmer:
    """How words are brought to their stems: as the lexical leg does it."""
    sparse = ready.sparse
    if isinstance(sparse, BM25):
        return sparse.stem
    as_it_is: Callable[[str], str | None] = str
    return as_it_is
