"""What all views of one memory store share: the index, its vocabularies, its locks, and what is still to be written."""

from __future__ import annotations

import asyncio
import copy
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock
from typing import TypeVar

from twofold.config import CollectionSettings, SearchConfig
from twofold.encoders.bm25 import BM25
from twofold.engine.flow import Flow, Work
from twofold.errors import EngineError, EngineUnavailable
from twofold.index.hybrid import HybridIndex
from twofold.index.opening import Ready
from twofold.index.searching import Searcher
from twofold.memory import learned, touching, vocabulary
from twofold.memory.common import View, common_of, stripe
from twofold.memory.config import MemoryConfig
from twofold.memory.items import MemoryItem
from twofold.memory.scope import Scope
from twofold.memory.vocabulary import Vocabulary
from twofold.signals.matching import Stemmer

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
            known = yield from vocabulary.read(
                ready, scope, view.fields, stemmer(ready), common.tally, typos=view.typos
            )
            known.learned = yield from learned.read(ready, scope)
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
