"""Counting recalls without making anybody wait: noted at once, written a moment later, in one go."""

from __future__ import annotations

import asyncio
import logging
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TypeAlias

from twofold.documents import iso
from twofold.engine import calls
from twofold.engine.layout import METADATA_KEY, from_point, metadata_key
from twofold.errors import EngineError, IndexClosed
from twofold.flow import Flow
from twofold.index.hybrid import HybridIndex
from twofold.index.opening import Ready
from twofold.index.searching import Searcher
from twofold.memory.items import MAX_EXACT_INTEGER, pieces

log = logging.getLogger("twofold.memory")

Exclusively: TypeAlias = Callable[[str, Flow[None]], Flow[None]]
"""Runs a flow while nobody else of this process changes a user's memories."""

WRITE_DELAY_SECONDS = 5.0
"""How long recalls are collected before they are written."""
MAX_RETRY_DELAY_SECONDS = 30.0
# Read many, so that those with the same count are written together; write few at a time, since who recalls meanwhile
# waits for one of these writes at most.
_IDS_PER_READ, _IDS_PER_WRITE = 256, 32


@dataclass(frozen=True, slots=True)
class Recalls:
    """How often a memory was recalled since that was last written down, and when the last time was."""

    count: int
    last: datetime


class PendingRecalls:
    """Recalls that are not written down yet, by user and memory."""

    def __init__(self, exclusively: Exclusively) -> None:
        self._exclusively = exclusively
        self._lock = threading.Lock()
        self._pending: dict[str, dict[str, Recalls]] = {}
        self._writing: set[str] = set()

    def note(self, user: str, recalls: Mapping[str, Recalls]) -> None:
        """Add recalls of a user's memories to those that are pending."""
        with self._lock:
            own = self._pending.setdefault(user, {}) if recalls else {}
            for identity, new in recalls.items():
                before = own.get(identity, Recalls(0, new.last))
                own[identity] = Recalls(before.count + new.count, max(before.last, new.last))

    def drop(self, user: str, ids: Iterable[str]) -> None:
        """These memories are gone: what gets their ids later was not recalled."""
        gone = set(ids)
        with self._lock:
            left = {each: recalls for each, recalls in self._pending.pop(user, {}).items() if each not in gone}
            if left:
                self._pending[user] = left

    def take(self, user: str) -> dict[str, Recalls]:
        """What is pending for a user. It is being written from now on, until `settle` says what has become of it."""
        with self._lock:
            self._writing.add(user)
            return self._pending.pop(user, {})

    def settle(self, user: str, left: Mapping[str, Recalls]) -> None:
        """What was taken has been written, but for what is left: that is pending again."""
        self.note(user, left)
        with self._lock:
            self._writing.discard(user)

    def users(self) -> list[str]:
        """Those for whom something is pending, or just being written."""
        with self._lock:
            return list({*self._pending, *self._writing})

    def any(self) -> bool:
        """Something has to be written that nobody is writing."""
        with self._lock:
            return bool(self._pending)

    def write(self, searcher: Searcher) -> Flow[None]:
        """Write all that is pending, user by user."""
        for user in self.users():
            yield from self._exclusively(user, self._write_user(searcher.ready, user))

    def _write_user(self, ready: Ready, user: str) -> Flow[None]:
        """Write what is pending for a user. What can't be written is pending again; what is gone is left out."""
        taken = self.take(user)
        try:
            for ids in pieces(list(taken), _IDS_PER_READ):
                yield from _write_some(ready, ids, taken)
        finally:  # also when a task is called off half way
            self.settle(user, taken)


def _write_some(ready: Ready, ids: Sequence[str], taken: dict[str, Recalls]) -> Flow[None]:
    rows = yield from calls.retrieve(ready.collection, ids, only=[metadata_key("access_count")])
    before = {each.point: each.metadata.get("access_count", 0) for each in map(from_point, rows)}
    alike: dict[int, list[str]] = {}
    for identity in ids:
        count = before.get(identity)
        if type(count) is int and 0 <= count < MAX_EXACT_INTEGER:
            alike.setdefault(count + taken[identity].count, []).append(identity)
        else:  # what is gone or damaged can't be counted
            del taken[identity]
    for count, same in ((count, piece) for count, ids in alike.items() for piece in pieces(ids, _IDS_PER_WRITE)):
        # One time for all of them, since they were recalled within seconds: a write for each would slow recalls down.
        last = max(taken[identity].last for identity in same).replace(microsecond=0)
        changed = {"access_count": count, "last_accessed": iso(last)}
        yield from calls.set_payload(ready.collection, METADATA_KEY, changed, same)
        for identity in same:  # written: if a later group fails, these must not be counted twice
            del taken[identity]


# --- In the background ---


class RecallCounter:
    """Counts recalls, and has them written soon: by a thread of its own, or by a task where only awaiting works."""

    def __init__(self, index: HybridIndex, exclusively: Exclusively) -> None:
        self.pending = PendingRecalls(exclusively)
        self._index = index
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self._task: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._closing = threading.Event()
        # An interpreter that ends without `close()` still writes what is pending. What it calls must not hold the
        # counter itself, or the counter would never go.
        self._at_exit = weakref.finalize(self, _write_now, index, self.pending)

    def note(self, user: str, ids: Sequence[str]) -> None:
        """Count a recall of these memories; it is written in a moment, in nobody's way."""
        now = datetime.now(timezone.utc)
        with self._guard:
            self.pending.note(user, {identity: Recalls(1, now) for identity in ids})
            if self._index.awaited_only:
                loop = asyncio.get_running_loop()
                if self._task is None or self._task.done() or self._task.get_loop() is not loop:
                    self._hurry = asyncio.Event()
                    self._task = loop.create_task(self._write_in_task(self._hurry))
            elif self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(target=self._write_in_thread, name="twofold-touch", daemon=True)
                self._thread.start()

    def write_before_reading(self, searcher: Searcher) -> Flow[None]:
        """Write recalls before memories are read. Reading goes on where writing fails: they stay pending."""
        try:
            yield from self.pending.write(searcher)
        except EngineError as error:
            _report(error)

    def close(self) -> None:
        """End what runs in the background, and write what is pending."""
        self._stop_thread()
        if self.pending.any() and not self._index.closed:
            self._index.perform(self.pending.write)

    async def aclose(self) -> None:
        """`close` without blocking the event loop."""
        await self.astop()
        if self.pending.any() and not self._index.closed:
            await self._index.aperform(self.pending.write)

    async def astop(self) -> None:
        """End what runs in the background, once it has written what it is writing."""
        await asyncio.to_thread(self._stop_thread)
        if self._task is not None and self._task.get_loop() is asyncio.get_running_loop():
            self._hurry.set()
            await asyncio.wait([self._task])

    def _stop_thread(self) -> None:
        self._at_exit.detach()
        self._closing.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _write_in_thread(self) -> None:
        delay = WRITE_DELAY_SECONDS
        while not self._closing.wait(delay):
            error = _write_now(self._index, self.pending)
            delay = min(2 * delay, MAX_RETRY_DELAY_SECONDS) if error else WRITE_DELAY_SECONDS
            with self._guard:
                if isinstance(error, IndexClosed) or not self.pending.any():
                    self._thread = None
                    return

    async def _write_in_task(self, hurry: asyncio.Event) -> None:
        delay = WRITE_DELAY_SECONDS
        while self.pending.any() and not hurry.is_set():
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(hurry.wait(), delay)
            try:
                await self._index.aperform(self.pending.write)
            except Exception as error:
                _report(error)
                if isinstance(error, IndexClosed):
                    return
                delay = min(2 * delay, MAX_RETRY_DELAY_SECONDS)


def _write_now(index: HybridIndex, pending: PendingRecalls) -> Exception | None:
    """Write what is pending, and say what came in the way."""
    try:
        if pending.users():
            index.perform(pending.write)
    except Exception as error:
        _report(error)
        return error
    return None


def _report(error: Exception) -> None:
    """A failure may pass; an index that was closed under its memory doesn't come back."""
    if isinstance(error, IndexClosed):
        log.warning("the last recalls were not counted: %s. Close the memory, not the index underneath", error)
    else:
        log.warning("recalls could not be counted yet: %s", error)
