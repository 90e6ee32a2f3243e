"""Counting recalls without making anybody wait: noted at once, written a moment later, in one go."""

from __future__ import annotations

import asyncio
import logging
import threading
import weakref
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Literal, TypeAlias

from twofold.documents import iso
from twofold.engine import calls
from twofold.engine.layout import METADATA_KEY, from_point, metadata_key
from twofold.errors import IndexClosed
from twofold.flow import Flow
from twofold.index.opening import Ready
from twofold.memory.layout import MOST

log = logging.getLogger("twofold.memory")

Outcome: TypeAlias = Literal["done", "failed", "closed"]

_SOON = 5.0
_PATIENT = 30.0
# Read many, so that those with the same count are written together; write few at a time, since who recalls meanwhile
# waits for one of these writes at most.
_READ, _WRITTEN = 256, 32
_COUNT = metadata_key("access_count")


@dataclass(frozen=True, slots=True)
class Touch:
    """How often a memory was recalled since that was last written down, and when the last time was."""

    count: int
    last: datetime


class Touches:
    """Recalls that are not written down yet, by user and memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: dict[str, dict[str, Touch]] = {}
        self._writing: Counter[str] = Counter()

    def note(self, user: str, touched: dict[str, Touch]) -> None:
        """Add recalls of a user's memories to those that are pending."""
        with self._lock:
            own = self._pending.setdefault(user, {})
            for identity, touch in touched.items():
                before = own.get(identity, Touch(0, touch.last))
                own[identity] = Touch(before.count + touch.count, max(before.last, touch.last))

    def drop(self, user: str, ids: Iterable[str]) -> None:
        """These memories are gone: what gets their ids later was not recalled."""
        with self._lock:
            own = self._pending.pop(user, {})
            for identity in ids:
                own.pop(identity, None)
            if own:
                self._pending[user] = own

    def take(self, user: str) -> dict[str, Touch]:
        """What is pending for a user. It is being written from now on, until `settle` says what has become of it."""
        with self._lock:
            self._writing[user] += 1
            return self._pending.pop(user, {})

    def settle(self, user: str, left: dict[str, Touch]) -> None:
        """What was taken has been written, but for what is left: that is pending again."""
        if left:
            self.note(user, left)
        with self._lock:
            self._writing[user] -= 1
            self._writing += Counter()  # drops those that are 0

    def users(self) -> list[str]:
        """Those for whom something is pending, or just being written."""
        with self._lock:
            return list({**self._pending, **self._writing})

    def pending(self) -> bool:
        """Something has to be written that nobody is writing."""
        with self._lock:
            return bool(self._pending)


def recalled(ids: Sequence[str]) -> dict[str, Touch]:
    """Memories that were recalled just now."""
    now = datetime.now(timezone.utc)
    return {identity: Touch(1, now) for identity in ids}


def write(ready: Ready, user: str, touches: Touches) -> Flow[None]:
    """Write down what is pending for a user. What can't be written is pending again; what is gone is left out."""
    taken = touches.take(user)
    try:
        ids = list(taken)
        for some in _pieces(ids, _READ):
            yield from _write_some(ready, some, taken)
    finally:  # also when a task is called off half way
        touches.settle(user, taken)


def _write_some(ready: Ready, ids: Sequence[str], taken: dict[str, Touch]) -> Flow[None]:
    rows = yield from calls.retrieve(ready.collection, ids, only=[_COUNT])
    before = {each.point: each.metadata.get("access_count", 0) for each in map(from_point, rows)}
    counts = {identity: count for identity, count in before.items() if type(count) is int and 0 <= count < MOST}
    for identity in ids:  # what is gone or damaged can't be counted
        if identity not in counts:
            del taken[identity]
    alike: dict[int, list[str]] = {}
    for identity, known in counts.items():
        alike.setdefault(known + taken[identity].count, []).append(identity)
    for count, same in ((count, piece) for count, ids in alike.items() for piece in _pieces(ids, _WRITTEN)):
        # One time for all of them, since they were recalled within seconds: a write for each would slow recalls down.
        last = max(taken[identity].last for identity in same).replace(microsecond=0)
        changed = {"access_count": count, "last_accessed": iso(last)}
        yield from calls.set_payload(ready.collection, METADATA_KEY, changed, same)
        for identity in same:  # written: if a later group fails, these must not be counted twice
            del taken[identity]


def _pieces(ids: Sequence[str], size: int) -> list[Sequence[str]]:
    return [ids[start : start + size] for start in range(0, len(ids), size)]


class Toucher:
    """Has touches written down soon: by a thread of its own, or by a task where only awaiting works."""

    def __init__(self, touches: Touches, write_all: Callable[[], object]) -> None:
        self.touches = touches
        self._write_all = write_all
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self._task: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._closing = threading.Event()
        # An interpreter that ends without `close()` still writes down what is pending.
        self._at_exit = weakref.finalize(self, _finish, touches, write_all)

    def note(self, user: str, ids: Sequence[str]) -> None:
        """Count these recalls; a thread writes them down in a moment."""
        with self._guard:
            self.touches.note(user, recalled(ids))
            if self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(target=self._later, name="twofold-touch", daemon=True)
                self._thread.start()

    def note_awaiting(self, user: str, ids: Sequence[str], write_all: Callable[[], Awaitable[object]]) -> None:
        """Count these recalls; a task of the running loop writes them down in a moment."""
        self.touches.note(user, recalled(ids))
        loop = asyncio.get_running_loop()
        if self._task is None or self._task.done() or self._task.get_loop() is not loop:
            self._hurry = asyncio.Event()
            self._task = loop.create_task(_later_awaiting(self.touches, write_all, self._hurry))

    def stop(self) -> None:
        """No more in the background; what is just being written is finished. Whoever closes writes what is pending."""
        self._at_exit.detach()
        self._closing.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    async def astop(self) -> None:
        """`stop` without blocking the event loop."""
        await asyncio.to_thread(self.stop)
        if self._task is not None and self._task.get_loop() is asyncio.get_running_loop():
            self._hurry.set()
            await asyncio.wait([self._task])

    def _later(self) -> None:
        delay = _SOON
        while not self._closing.wait(delay):
            outcome = _tried(self._write_all)
            delay = min(2 * delay, _PATIENT) if outcome == "failed" else _SOON
            with self._guard:
                if outcome == "closed" or not self.touches.pending():
                    self._thread = None
                    return


async def _later_awaiting(touches: Touches, write_all: Callable[[], Awaitable[object]], hurry: asyncio.Event) -> None:
    delay = _SOON
    while touches.pending() and not hurry.is_set():
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(hurry.wait(), delay)
        try:
            await write_all()
        except Exception as error:
            if _said(error) == "closed":
                return
            delay = min(2 * delay, _PATIENT)


def _tried(write_all: Callable[[], object]) -> Outcome:
    try:
        write_all()
    except Exception as error:
        return _said(error)
    return "done"


def _said(error: Exception) -> Outcome:
    """A failure may pass; an index that was closed under its memory doesn't come back."""
    if isinstance(error, IndexClosed):
        log.warning("the last recalls were not counted: %s. Close the memory, not the index underneath", error)
        return "closed"
    log.warning("recalls could not be counted yet: %s", error)
    return "failed"


def _finish(touches: Touches, write_all: Callable[[], object]) -> None:
    if touches.users():
        _tried(write_all)
