"""What the log is told of a fault that goes on: at once, and again after a while, but not at every search."""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

AGAIN_SECONDS = 600.0
"""What goes on is told again after so long."""
_REMEMBERED = 256
# Seconds left, numbers of requests, addresses of objects: what differs each time that the same is said.
_VARYING = re.compile(r"\S*\d\S*")


class Told:
    """Which reasons the log has been told of lately. A reason with other numbers in it is the same one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: OrderedDict[str, float] = OrderedDict()
        self._lock = Lock()

    def is_news(self, reason: str) -> bool:
        """Whether it has to be told now; that counts as having been told. Of very many, the oldest are forgotten."""
        key, now = _VARYING.sub("#", reason), self._clock()
        with self._lock:
            last = self._last.get(key)
            if last is not None and now - last < AGAIN_SECONDS:
                return False
            self._last[key] = now
            self._last.move_to_end(key)
            if len(self._last) > _REMEMBERED:
                self._last.popitem(last=False)
            return True
