"""A gate many threads pass at once, and one may shut to have the place to itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """`with gate:` passes; `with gate.shut():` waits until nobody is inside and keeps others out.

    Passing isn't reentrant: a thread inside must not pass again, or it waits for itself while another shuts.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._inside = 0
        self._shut = False

    def __enter__(self) -> None:
        with self._lock:
            while self._shut:
                self._changed.wait()
            self._inside += 1

    def __exit__(self, *exc: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._shut:
                self._changed.notify_all()

    @contextmanager
    def shut(self) -> Iterator[None]:
        with self._changed:
            while self._shut:
                self._changed.wait()
            self._shut = True
            while self._inside:
                self._changed.wait()
        try:
            yield
        finally:
            with self._changed:
                self._shut = False
                self._changed.notify_all()
