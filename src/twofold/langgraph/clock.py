"""The time, as the store writes it down."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from threading import Lock

_guard = Lock()
_last = datetime.min.replace(tzinfo=timezone.utc)


def now() -> datetime:
    """The current moment."""
    return datetime.now(timezone.utc)


def next_moment() -> datetime:
    """A moment of its own for each item, so that those of one batch keep their order."""
    global _last
    with _guard:
        _last = max(now(), _last + timedelta(microseconds=1))
        return _last
