"""Items that expire: put off by reading them, swept away when their time has come."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from datetime import timedelta

from langgraph.store.base import TTLConfig

from twofold.documents import iso
from twofold.engine import calls
from twofold.engine.layout import METADATA_KEY, Stored
from twofold.errors import ConfigError
from twofold.filters import All, Between, Equals, HasPoint
from twofold.flow import Flow
from twofold.index import writing
from twofold.index.searching import Searcher
from twofold.langgraph import clock
from twofold.langgraph.items import EXPIRES, TTL
from twofold.langgraph.namespaces import within

log = logging.getLogger("twofold")
_KEYS = {"refresh_on_read", "omit_expired", "default_ttl", "sweep_interval_minutes"}
_USUAL_INTERVAL = 5.0
_MOST = 100 * 365 * 24 * 60
"""A hundred years, in minutes: neither a date nor a timer goes on for ever."""


def check_config(ttl: TTLConfig | None) -> TTLConfig | None:
    """LangGraph's own configuration of expiry."""
    unknown = set(ttl or {}) - _KEYS
    if unknown:
        raise ConfigError(f"ttl has {', '.join(sorted(unknown))}: it may have {', '.join(sorted(_KEYS))}")
    check_minutes("default_ttl", (ttl or {}).get("default_ttl"))
    check_minutes("sweep_interval_minutes", (ttl or {}).get("sweep_interval_minutes"))
    return ttl


def check_minutes(name: str, value: object) -> None:
    """A time to live is a positive number of minutes, or None."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= _MOST:
        raise ConfigError(f"{name} is a number of minutes above 0 and up to {_MOST:,}, or None, got {value!r}")


def put_off(searcher: Searcher, read: Iterable[Stored]) -> Flow[None]:
    """Items that were read live on for their time. One that was put anew meanwhile with another time is left alone."""
    alike: dict[float, list[str]] = {}
    for stored in read:
        if stored.metadata.get(TTL) is not None:
            alike.setdefault(stored.metadata[TTL], []).append(stored.point)
    moment, collection = clock.now(), searcher.ready.collection
    for minutes, points in alike.items():
        where = All((Equals(TTL, minutes), Between(EXPIRES, gt=moment), HasPoint(tuple(points))))
        changed = {EXPIRES: iso(moment + timedelta(minutes=minutes))}
        yield from calls.set_payload(collection, METADATA_KEY, changed, where)


def sweep(searcher: Searcher) -> Flow[int]:
    """Delete what has expired; gives how many items it was."""
    over = All((within(()), Between(EXPIRES, lte=clock.now())))
    return (yield from writing.delete(searcher.ready, None, over))


class Sweeper:
    """A thread that sweeps from time to time."""

    def __init__(self, sweep: Callable[[], int]) -> None:
        self._sweep = sweep
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, minutes: float | None) -> None:
        """Begin; does nothing if it is running."""
        if self._thread is None or not self._thread.is_alive():
            self._stop.clear()
            seconds = 60 * (_USUAL_INTERVAL if minutes is None else minutes)
            self._thread = threading.Thread(target=self._run, args=(seconds,), name="twofold-sweeper", daemon=True)
            self._thread.start()

    def stop(self, timeout: float | None) -> bool:
        """End; says whether the thread has come to its end within `timeout` seconds."""
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)
            return not self._thread.is_alive()
        return True

    def _run(self, seconds: float) -> None:
        while not self._stop.wait(seconds):
            try:
                self._sweep()
            except Exception as error:  # the next round may fare better; who reads is not shown what has expired
                log.warning("expired items could not be deleted: %s", error)
