"""What a store does by itself when nobody needs it."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterable

from .collection import Collection
from .errors import StoreError
from .optimize import optimize

_LOG = logging.getLogger("twofold.embedded")
_TICK_SECONDS = 1.0
_IDLE_BEFORE_FLUSH = 2.0
_IDLE_BEFORE_OPTIMIZE = 5.0
# Below, a search looks at every vector in a few milliseconds anyway, and building the index wouldn't pay.
_PAYS_FROM_POINTS = 20_000
_PAYS_FROM_SHARE = 0.2


class Housekeeper(threading.Thread):
    """Flushes collections that have been idle for two seconds, and optimises those for which it pays.

    It knows the store weakly: one that is forgotten without being closed can still be collected.
    """

    def __init__(self, collections: weakref.WeakMethod[Callable[[], Iterable[Collection]]], auto: bool) -> None:
        super().__init__(name="twofold-housekeeper", daemon=True)
        self._collections = collections
        self._auto = auto
        self._ended = threading.Event()
        # The last write that was looked at: without a new one, nothing has to be decided again.
        self._seen: weakref.WeakKeyDictionary[Collection, float] = weakref.WeakKeyDictionary()

    def run(self) -> None:
        while not self._ended.wait(_TICK_SECONDS):
            list_them = self._collections()
            if list_them is None:
                return
            for collection in list(list_them()):
                self._look_after(collection)
            del list_them

    def end(self) -> None:
        """Wait for what it's doing: an optimisation notices within a moment that the store is closed."""
        self._ended.set()
        if self.is_alive() and threading.current_thread() is not self:
            self.join(timeout=5)

    def _look_after(self, collection: Collection) -> None:
        try:
            idle = time.monotonic() - collection.last_write
            if collection.unflushed and idle > _IDLE_BEFORE_FLUSH:
                collection.flush()
                collection.save_count()
            if self._auto and idle > _IDLE_BEFORE_OPTIMIZE:
                self._optimize(collection)
        except StoreError as error:  # closed meanwhile, or no room on the disk
            _LOG.debug("housekeeping of %s: %s", collection.settings.name, error)
        except Exception:
            _LOG.exception("housekeeping of %s failed", collection.settings.name)

    def _optimize(self, collection: Collection) -> None:
        if self._seen.get(collection) == collection.last_write:
            return
        self._seen[collection] = collection.last_write
        if pays(collection):
            _LOG.info("optimising %s in the background", collection.settings.name)
            optimize(collection)
            _LOG.info("optimised %s", collection.settings.name)


def pays(collection: Collection) -> bool:
    """Whether enough has been written since the last optimisation for another one to speed up queries."""
    if not collection.rebuilding.acquire(blocking=False):
        return False  # it's being done
    collection.rebuilding.release()
    points = collection.read("info").points_count
    # The first is right even where the count was lost in a crash, the second knows what was written over.
    changed = max(abs(points - collection.settings.optimized_points), collection.written_points)
    return bool(changed >= max(_PAYS_FROM_POINTS, _PAYS_FROM_SHARE * points))
