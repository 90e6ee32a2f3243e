"""A memory that is opened when it is first needed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from twofold.errors import ConfigError, IndexClosed

if TYPE_CHECKING:
    from twofold.memory import Memory


class LazyMemory:
    """Opens a memory at the first use of a tool, so that a server answers before a model is loaded.

    If it can't be opened, the tool says why, and the next use tries again.
    """

    def __init__(self, opener: Callable[[], Memory]) -> None:
        if not callable(opener):
            raise ConfigError(f"give a function that opens a Memory, or a Memory itself, got {type(opener).__name__}")
        self._opener = opener
        self._memory: Memory | None = None
        self._closed = False
        self._lock = threading.Lock()

    def get(self) -> Memory:
        """The open memory."""
        with self._lock:
            if self._closed:
                raise IndexClosed("the memory was closed: start again, or open another one")
            if self._memory is None:
                self._memory = self._opener()
            return self._memory

    async def aget(self) -> Memory:
        """`get` without blocking the event loop."""
        return await asyncio.to_thread(self.get)

    def close(self) -> None:
        """Close the memory if it was opened. Closing twice is fine."""
        with self._lock:
            self._closed = True
            if self._memory is not None:
                self._memory.close()
