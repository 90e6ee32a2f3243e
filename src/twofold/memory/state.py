"""What this process knows of a collection of memories, and what all views of it share.

`Vocabulary` is what a recall has to know about a user's memories: their tags and words, their number, and what was
learned from feedback. `SharedState` keeps the vocabularies in step with what is written, and lets one writer at a time
change a user's memories. `MemoryStore` is an open collection, and `View` is what every operation works with.
"""

from __future__ import annotations

import copy
import logging
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from threading import Lock
from typing import Any, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from twofold.config import CollectionSettings, SearchConfig
from twofold.encoders.bm25 import BM25
from twofold.engine import calls
from twofold.engine.layout import Stored, from_point, metadata_key
from twofold.errors import MemoryDamaged, MemoryNotFound
from twofold.filters import Node
from twofold.flow import Flow, Turns, exclusively
from twofold.index.hybrid import HybridIndex
from twofold.index.opening import Ready, check_name
from twofold.index.searching import Searcher
from twofold.memory.config import MemoryConfig
from twofold.memory.items import MemoryItem, check_id, field_path, is_memory_id, to_item
from twofold.memory.scope import MEMORIES, Reach, Scope, Shelf
from twofold.memory.touching import RecallCounter
from twofold.ranking.vocabulary import Lexicon, Stemmer

log = logging.getLogger("twofold.memory")

T = TypeVar("T")

# --- What was learned from feedback: `learn` writes it, a recall reads it ---


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
    def from_payload(cls, payload: Any) -> Learned | None:
        """Read them back; None if they can't be computed with."""
        try:
            learned = cls(**{name: payload[name] for name in cls.__dataclass_fields__ if name in payload})
        except TypeError:  # something is missing, or it is no mapping
            return None
        numbers = (learned.alpha, learned.tag_weight, learned.recency_share, learned.judgements)
        usable = all(type(value) in (int, float) for value in numbers) and 0 <= learned.alpha <= 1
        return learned if usable and learned.tag_weight >= 0 and 0 <= learned.recency_share <= 1 else None

    @property
    def reason(self) -> str:
        """For people to read."""
        return f"learned from {self.judgements} judgement{'' if self.judgements == 1 else 's'}"


def read_learned(ready: Ready, scope: Scope) -> Flow[Learned | None]:
    """What was learned for a scope, or else for the wider ones that it is a part of; None if nothing can be read."""
    rows = yield from calls.retrieve(ready.collection, [learned_row_id(each) for each in scope.wider()])
    stored = {row.point: row.metadata for row in map(from_point, rows)}
    for each in scope.wider():
        metadata = stored.get(learned_row_id(each), {})
        if not each.holds(metadata, ("learned",)):
            continue
        learned = Learned.from_payload(metadata.get("learned"))
        if learned is not None:
            return learned
        log.warning("what was learned about %s can't be read, so the defaults are used: learn() mends it", each)
    return None


def learned_row_id(scope: Scope) -> str:
    """Where it is kept."""
    return scope.identity("learned", "")


# --- The tags and values that the memories in reach have: what a query can name ---

MAX_TAGS = 10_000
VOCABULARY_SECONDS = 60.0
"""For how long a vocabulary is used where other processes may write to the collection."""
LOOK_SECONDS = 1.0
"""How often it is looked, where that costs next to nothing, whether they wrote."""


@dataclass
class Vocabulary:
    """What the memories in reach have. Kept in step with what this process writes."""

    lexicon: Lexicon
    memories: int
    rows: int
    """Rows of the collection when it was read, less those that this process had written: it adds what it has by now."""
    fields: tuple[str, ...]
    learned: Learned | None = None
    """What feedback has taught about the memory's own scope."""
    read_at: float = field(default_factory=time.monotonic)
    looked_at: float = field(default_factory=time.monotonic)

    def add(self, item: MemoryItem) -> None:
        """A memory was written."""
        for path in self.fields:
            value: Any = vars(item)
            for part in path.split("."):
                value = value.get(part) if isinstance(value, Mapping) else None
            values = value if isinstance(value, (list, tuple)) else [value]
            self.lexicon.add(path, [v for v in values if isinstance(v, (str, int)) and not isinstance(v, bool)])


VocabularyKey: TypeAlias = tuple[Reach, tuple[str, ...]]
"""Whose vocabulary, and which fields besides the tags it has."""


def read_vocabulary(ready: Ready, key: VocabularyKey, own_rows: int) -> Flow[Vocabulary]:
    """Ask the engine what there is. Of the rows there are, `own_rows` were written by this process."""
    reach, fields = key
    where = reach.where(("memory",))
    lexicon = Lexicon(stemmer(ready))
    paths = tuple(dict.fromkeys(["tags", *(field_path(name) for name in fields)]))
    for path in paths:
        values = yield from calls.facet(ready.collection, metadata_key(path), where, MAX_TAGS)
        lexicon.add(path, values)
    memories = yield from calls.count(ready.collection, where)
    everything = yield from calls.count(ready.collection, None)
    learned = yield from read_learned(ready, reach.own)
    return Vocabulary(lexicon, memories, everything - own_rows, paths, learned)


def _outdated(ready: Ready, reach: Reach, kept: Vocabulary) -> Flow[bool]:
    """Whether others may have written since a vocabulary was read."""
    now = time.monotonic()
    if now - kept.read_at > VOCABULARY_SECONDS:
        return True
    if not ready.engine.near or now - kept.looked_at < LOOK_SECONDS:
        return False
    kept.looked_at = now
    return (yield from calls.count(ready.collection, reach.where(("memory",)))) != kept.memories


def stemmer(ready: Ready) -> Stemmer:
    """How words are brought to their stems: as the lexical leg does it."""
    return ready.sparse.stem if isinstance(ready.sparse, BM25) else str


# --- What all views of one collection share in this process, however often it was opened ---

LOCKS = 64
MAX_VOCABULARIES = 1000
_ROWS_PER_PAGE = 256


class SharedState:
    """The vocabularies of a collection, how many rows were written, and the locks under which that happens."""

    def __init__(self, new_lock: Callable[[str], Turns]) -> None:
        self.locks = [new_lock(f"users {number}") for number in range(LOCKS)]
        """Each is for some of the owners: users and projects."""
        self.added = 0
        """How many rows this process has added to the collection."""
        self._deleted = 0  # apart, since an engine counts the words of deleted rows for a while
        self._vocabularies: dict[VocabularyKey, Vocabulary] = {}
        self._versions = [0] * LOCKS
        self._imports = 0
        self._guard = Lock()

    def exclusively(self, owner: str, flow: Flow[T]) -> Flow[T]:
        """Run a flow while nobody else changes this owner's memories, of this process or another on the folder."""
        return exclusively(self.locks[_slot(owner)], flow, "this user's memories")

    def vocabulary(self, ready: Ready, key: VocabularyKey) -> Flow[Vocabulary]:
        """What the memories in reach have, read once and kept in step."""
        if ready.sampler.imports != self._imports:  # by an import through the index, for anybody
            with self._guard:
                self._imports = ready.sampler.imports
                self._vocabularies.clear()
        kept = self._vocabularies.get(key)
        if kept is not None and not (ready.engine.shared and (yield from _outdated(ready, key[0], kept))):
            return kept
        slots = [_slot(owner) for owner in key[0].owners]
        versions = [self._versions[slot] for slot in slots]
        # Taken before anything is read: what is written meanwhile may be counted twice, but is not left out.
        new = yield from read_vocabulary(ready, key, self.added - self._deleted)
        with self._guard:
            if [self._versions[slot] for slot in slots] == versions:  # else it may lack what was written meanwhile
                self._vocabularies.pop(key, None)
                self._vocabularies[key] = new
            while len(self._vocabularies) > MAX_VOCABULARIES:
                self._vocabularies.pop(next(iter(self._vocabularies)))
        return new

    def forget_vocabulary(self, owner: str) -> None:
        """Memories of an owner are gone or have changed: what is left must be read anew."""
        with self._guard:
            self._versions[_slot(owner)] += 1
            for key in [key for key in self._vocabularies if owner in key[0].owners]:
                del self._vocabularies[key]

    def add(self, items: Sequence[MemoryItem]) -> None:
        """New memories of one scope were written: the views that can see them know their words."""
        written = Scope.of(items[0])
        with self._guard:
            self._versions[_slot(written.owner)] += 1
            self.added += len(items)
            for (reach, _), vocabulary in self._vocabularies.items():
                if reach.covers(written):
                    vocabulary.memories += len(items)
                    for item in items:
                        vocabulary.add(item)

    def count(self, *, added: int = 0, deleted: int = 0) -> None:
        """Rows were added or deleted, without new words for anybody."""
        with self._guard:
            self.added += added
            self._deleted += deleted


def _slot(owner: str) -> int:
    """Which of the locks is this owner's; some owners share one."""
    return zlib.crc32(owner.encode("utf-8", "surrogatepass")) % LOCKS  # in every process the same


_states: WeakKeyDictionary[object, dict[str, SharedState]] = WeakKeyDictionary()
_states_guard = Lock()


# --- An open collection, and one view of it ---


class MemoryStore:
    """An open collection of memories, and the settings to recall with."""

    def __init__(self, index: HybridIndex, config: MemoryConfig, kind: str, beside: MemoryStore | None = None) -> None:
        self.index = index
        self.default_type = "fact" if kind == "knowledge" else "note"
        with _states_guard:  # the same for every memory on one client and collection: they write to the same rows
            states = _states.setdefault(index.store, {})
            if index.collection not in states:
                states[index.collection] = SharedState(index.new_lock)
            self.shared = states[index.collection]
        self.counter = RecallCounter(index, self.shared.exclusively)
        self.siblings: list[MemoryStore] = [] if beside is None else beside.siblings
        """All that share the connection: closing one closes all, so each must write what is pending."""
        self.siblings.append(self)
        self._configure(config)

    def _configure(self, config: MemoryConfig) -> None:
        self.config = config
        self.search = SearchConfig(
            fusion=config.fusion,
            depth=config.depth,
            min_score=None if config.min_score == "auto" else config.min_score,
            text_fallback=config.text_fallback,
            auto_index=False,
            rerank=config.rerank,
            rerank_top=config.rerank_top,
            rerank_timeout=config.rerank_timeout,
            log_queries=config.log_queries,
        )

    def knowledge(self, collection: str, config: MemoryConfig, settings: CollectionSettings) -> MemoryStore:
        """A collection of knowledge at the same place; the same one for the same name and settings."""
        check_name(collection)
        for each in self.siblings:
            if (each.index.collection, each.default_type, each.config) == (collection, "fact", config):
                return each
        return MemoryStore(self.index.beside(collection, settings=settings), config, "knowledge", self)

    def with_config(self, config: MemoryConfig) -> MemoryStore:
        """The same collection, counter and shared state, recalled with other settings."""
        other = copy.copy(self)
        other._configure(config)
        return other

    def close(self) -> None:
        """Write what is pending, here and beside, and let go of the engine."""
        try:
            for each in list(self.siblings):
                each.counter.close()
        finally:
            self.index.close()

    async def aclose(self) -> None:
        """`close` without blocking the event loop."""
        try:
            for each in list(self.siblings):
                await each.counter.aclose()
        finally:
            await self.index.aclose()


@dataclass(frozen=True, slots=True)
class View:
    """What every operation works with: an open collection, ready to be used, and whose memories it is about."""

    searcher: Searcher
    store: MemoryStore
    reach: Reach
    """What is seen."""
    user: str
    """Who works with it: what they store for a project is still known to be from them."""

    @property
    def scope(self) -> Scope:
        """Where it writes."""
        return self.reach.own

    def at(self, reach: Reach | Scope) -> View:
        """The same for another scope, or a part of what is in reach."""
        return replace(self, reach=Reach(reach) if isinstance(reach, Scope) else reach)

    def owners(self) -> list[View]:
        """One view for each owner: what changes rows does so owner by owner."""
        return [self.at(part) for part in self.reach.parts]

    def touch(self, items: Sequence[MemoryItem]) -> None:
        """Count a recall of these memories, each with those of its owner."""
        owners = [Scope.of(item).owner for item in items]
        for owner in dict.fromkeys(owners):
            self.store.counter.note(owner, [item.id for item, its in zip(items, owners, strict=True) if its == owner])

    @property
    def ready(self) -> Ready:
        """The open collection, with its models."""
        return self.searcher.ready

    @property
    def config(self) -> MemoryConfig:
        """The settings in force."""
        return self.store.config

    @property
    def shared(self) -> SharedState:
        """What all views of the collection share in this process."""
        return self.store.shared

    def vocabulary(self) -> Flow[Vocabulary]:
        """What the memories in reach have."""
        return self.shared.vocabulary(self.ready, (self.reach, tuple(self.config.fields)))

    def exclusively(self, flow: Flow[T]) -> Flow[T]:
        """Run a flow while nobody else changes this owner's memories."""
        return self.shared.exclusively(self.scope.owner, flow)

    def find(self, ids: Sequence[str], shelves: Sequence[Shelf]) -> Flow[dict[str, Stored]]:
        """Rows in reach by id, whatever their state; what belongs to others is not there."""
        possible = [identity for identity in ids if is_memory_id(identity)]
        rows = (yield from calls.retrieve(self.ready.collection, possible)) if possible else []
        stored = [from_point(row) for row in rows]
        return {each.point: each for each in stored if self.reach.holds(each.metadata, shelves)}

    def memory(self, identity: str, shelves: Sequence[Shelf] = MEMORIES) -> Flow[MemoryItem]:
        """A memory in reach by id, or an error that says what to do."""
        return self.require((yield from self.find([check_id(identity)], shelves)), identity)

    def require(self, rows: Mapping[str, Stored], identity: str) -> MemoryItem:
        """The memory with this id among rows that were found, or an error that says what to do."""
        if identity not in rows:
            advice = "list() and recall() give the ids that exist"
            raise MemoryNotFound(f"there is no memory {identity!r} of {self.reach}: {advice}")
        try:
            return to_item(rows[identity])
        except ValueError as error:
            advice = f"forget({identity!r}) removes it, and stats(verify=True) names all that are like it"
            message = f"memory {identity!r} can't be used: {error}. {advice}"
            raise MemoryDamaged(message, id=identity, reason=str(error)) from error

    def rows(
        self, where: Node, *, only: Sequence[str] | None = None, keep: Callable[[Stored], bool] = lambda row: True
    ) -> Flow[list[Stored]]:
        """All rows that match, whatever their state, a page at a time; with `only`, some fields of them."""
        rows, offset, collection = list[Stored](), None, self.ready.collection
        while True:
            points, offset = yield from calls.scroll(collection, where, limit=_ROWS_PER_PAGE, offset=offset, only=only)
            rows += filter(keep, map(from_point, points))
            if offset is None:
                return rows
