"""A small thread-safe cache for query vectors: agents ask the same thing again and again."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Generic, TypeVar

from twofold.errors import ConfigError

T = TypeVar("T")


class LRU(Generic[T]):
    """The last `size` values by key, least recently used out first. Size 0 keeps nothing."""

    def __init__(self, size: int) -> None:
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise ConfigError(f"cache_size must be a whole number from 0, got {size!r}")
        self._size = size
        self._values: OrderedDict[str, T] = OrderedDict()
        self._lock = Lock()

    def get(self, key: str) -> T | None:
        """The value of `key`, or None."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key]

    def put(self, key: str, value: T) -> None:
        """Keep `value`, and drop the oldest if there are too many."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self._size:
                self._values.popitem(last=False)

    def __len__(self) -> int:
        return len(self._values)
