"""How much to hand the engine in one call."""

from __future__ import annotations


class Pace:
    """Sizes pieces of work so that each takes about `target` seconds.

    The engine keeps Python's global lock for a whole call. How long one point takes depends on its
    dimensions, payload, text indexes and the machine, so it's measured instead of guessed.
    """

    def __init__(self, target: float, start: int, smallest: int, largest: int) -> None:
        self.size = start
        self._target, self._smallest, self._largest = target, smallest, largest

    def learn(self, count: int, seconds: float) -> None:
        """A short piece says little about a full one, so it can only slow the pace down."""
        ideal = count * self._target / max(seconds, 1e-6)
        if count >= self.size or ideal < self.size:
            # Half-way steps: one slow disk access must not send the size to its minimum.
            wanted = (self.size + min(ideal, 2 * self.size)) / 2
            self.size = int(min(self._largest, max(self._smallest, wanted)))
