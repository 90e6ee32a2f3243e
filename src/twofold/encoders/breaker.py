"""A model that is down must not slow every search: after a few failures in a row it is left alone for a while."""

from __future__ import annotations

import time
from collections.abc import Callable

from twofold.errors import EncoderError

_FAILURES = 3
_PAUSE = 30.0


class Breaker:
    """Counts the failures of one model. Any success forgets them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures = 0
        self._until = 0.0

    def check(self) -> None:
        """Raise while the model is being left alone."""
        left = self._until - self._clock()
        if self._failures >= _FAILURES and left > 0:
            raise EncoderError(f"it failed {self._failures} times in a row and is tried again in {left:.0f} s")

    def failed(self) -> None:
        """The model has failed."""
        self._failures += 1
        self._until = self._clock() + _PAUSE

    def worked(self) -> None:
        """The model has answered."""
        self._failures = 0
