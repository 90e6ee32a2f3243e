"""Counting recalls without making anybody wait: noted at once, written a moment later, in one go."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from typing import NamedTuple, TypeAlias

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
"""Runs a flow while nobody else of this process changes an owner's memories."""

WRITE_DELAY_SECONDS = 5.0
"""How long recalls are collected before they are written."""
MAX_RETRY_DELAY_SECONDS = 30.0
# Read many, so that those with the same count are written together; write few at a time, since who recalls meanwhile
# waits for one of these writes at most.
_IDS_PER_READ, _IDS_PER_WRITE = 256, 32
_FORBIDDEN = 403


class Recalls(NamedTuple):
    """How often a memory was recalled since that was last written down, and when the last time was."""

    number: int
    last: datetime


class PendingRecalls:
    """Recalls that are not written down yet, by owner (a user or a project) and memory: each stays here until it is."""

    def __init__(self, exclusively: Exclusively) -> None:
        self._exclusively = exclusively
        self._lock = threading.Lock()
        self._pending: dict[str, dict[str, Recalls]] = {}
        self._forbidden = False

    def note(self, owner: str, ids: Iterable[str]) -> None:
        """Count a recall of each of these memories, unless that may not be written."""
        with self._lock:
            if self._forbidden:
                return
            now, own = datetime.now(timezone.utc), self._pending.setdefault(owner, {})
            for identity in ids:
                own[identity] = Recalls(own[identity].number + 1 if identity in own else 1, now)

    def settle(self, owner: str, done: Mapping[str, float]) -> None:
        """So many recalls of each memory are written down; infinitely many of what is gone, whoever gets its id."""
        with self._lock:
            own = self._pending.pop(owner, {})
            for identity in own.keys() & done.keys():
                recalls = own.pop(identity)
                if recalls.number > done[identity]:  # recalled again while that was written
                    own[identity] = Recalls(recalls.number - int(done[identity]), recalls.last)
            if own:
                self._pending[owner] = own

    def owners(self) -> list[str]:
        """Those for whom something is pending, or just being written."""
        with self._lock:
            return list(self._pending)

    def write(self, searcher: Searcher) -> Flow[None]:
        """Write all that is pending. A key that may only read is told of once, and nothing is counted."""
        try:
            for owner in self.owners():
                yield from self._exclusively(owner, self._write_owner(searcher.ready, owner))
        except EngineError as error:
            if error.status != _FORBIDDEN:
                raise
            with self._lock:
                self._forbidden = True
                self._pending.clear()
            log.warning("recalls are not counted, since this api_key may only read: %s", error)

    def _write_owner(self, ready: Ready, owner: str) -> Flow[None]:
        with self._lock:
            recalls = dict(self._pending.get(owner, {}))
        for ids in pieces(list(recalls), _IDS_PER_READ):
            rows = yield from calls.retrieve(ready.collection, ids, only=[metadata_key("access_count")])
            before = {each.point: each.metadata.get("access_count", 0) for each in map(from_point, rows)}
            alike: dict[int, list[str]] = {}
            for identity in ids:
                count = before.get(identity)
                if type(count) is int and 0 <= count < MAX_EXACT_INTEGER:
                    alike.setdefault(count + recalls[identity].number, []).append(identity)
                else:  # what is gone or damaged can't be counted
                    self.settle(owner, {identity: math.inf})
            for total, same in ((n, some) for n, every in alike.items() for some in pieces(every, _IDS_PER_WRITE)):
                # One time for all, since they were recalled within seconds: a write for each would slow recalls down.
                last = max(recalls[identity].last for identity in same).replace(microsecond=0)
                changed = {"access_count": total, "last_accessed": iso(last)}
                yield from calls.set_payload(ready.collection, METADATA_KEY, changed, same)
                # Settled at once: if a later group fails, these must not be counted twice.
                self.settle(owner, {identity: recalls[identity].number for identity in same})


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

    def note(self, owner: str, ids: Sequence[str]) -> None:
        """Count a recall of these memories; it is written in a moment, in nobody's way."""
        with self._guard:
            self.pending.note(owner, ids)
            if self._index.awaited_only:
                loop = asyncio.get_running_loop()
                if self._task is None or self._task.done() or self._task.get_loop() is not loop:
                    self._hurry = asyncio.Event()
                    self._task = loop.create_task(self._write_in_task(self._hurry))
            elif (self._thread is None or not self._thread.is_alive()) and not self._closing.is_set():  # after a fork
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
        if self.pending.owners() and not self._index.closed:
            self._index.perform(self.pending.write)

    async def aclose(self) -> None:
        """`close` without blocking the event loop."""
        await asyncio.to_thread(self._stop_thread)
        if self._task is not None and self._task.get_loop() is asyncio.get_running_loop():
            self._hurry.set()
            await asyncio.wait([self._task])
        if self.pending.owners() and not self._index.closed:
            await self._index.aperform(self.pending.write)

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
                if isinstance(error, IndexClosed) or not self.pending.owners():
                    self._thread = None
                    return

    async def _write_in_task(self, hurry: asyncio.Event) -> None:
        delay = WRITE_DELAY_SECONDS
        while self.pending.owners() and not hurry.is_set():
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
        if pending.owners():
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
