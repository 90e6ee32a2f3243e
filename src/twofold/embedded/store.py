"""A directory of collections, open in one process and shared by all who use it there.

From top to bottom: `open_store` finds or opens the store of a path; the `Store` locks the directory, loads its
collections and hands them out by name; a `Housekeeper` flushes and optimises them when nobody needs them; the last one
to let go closes it all. At the end stands what happens after a fork and at the end of the process.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Literal
from uuid import uuid4

from .collection import DELETED_FILE, UNFINISHED_FILE, Collection, mark_deleted, remove_collection
from .errors import (
    BadRequest,
    Conflict,
    DiskFull,
    EmbeddedError,
    EngineFailure,
    LocalStoreFound,
    NotFound,
    StoreClosed,
    StoreError,
    StoreFormatError,
)
from .lock import StoreLock, make_directory, read_versioned, remove_tree, sync_directory, write_versioned
from .optimize import optimize
from .room import check_free, disk_errors
from .serving import Server
from .settings import SETTINGS_FILE, Settings, load_settings

Durability = Literal["process", "power"]
Optimizing = Literal["auto", "manual"]

_LOG = logging.getLogger("twofold.embedded")
_STORE_FILE = "twofold.json"
_LOCAL_MODE_FILE = "meta.json"
_REBUILD_WAIT_SECONDS = 5.0
_FORBIDDEN_IN_NAMES = re.compile(r'[<>:"/\\|?*\x00-\x1f]')
_DIRECTORY_NUMBER_LENGTH = 8

_TICK_SECONDS = 1.0
_IDLE_SECONDS_BEFORE_FLUSH = 2.0
_IDLE_SECONDS_BEFORE_OPTIMIZE = 5.0
# Below, a search looks at every vector in a few milliseconds anyway, and building the index wouldn't pay.
_MIN_POINTS_TO_OPTIMIZE = 20_000
_MIN_SHARE_TO_OPTIMIZE = 0.2

_open_stores: dict[str, Store] = {}
_registry = threading.Lock()
# Stores whose clients were garbage collected. Python does that at any moment and in any thread, which may hold any
# lock then, so a thread of its own closes them.
_forgotten: SimpleQueue[Store] = SimpleQueue()
_closer: threading.Thread | None = None


@dataclass(frozen=True)
class Options:
    """How a store is opened; all who share one agree on them."""

    durability: Durability = "process"
    optimize: Optimizing = "auto"
    lock_wait_seconds: float = 0.5
    share: bool = True
    """Let other processes of this user in, and join the one that has the store open already."""

    def __post_init__(self) -> None:
        if not isinstance(self.durability, str) or self.durability not in ("process", "power"):
            raise BadRequest(f"durability must be 'process' or 'power', not {self.durability!r}.")
        if not isinstance(self.optimize, str) or self.optimize not in ("auto", "manual"):
            raise BadRequest(f"optimize must be 'auto' or 'manual', not {self.optimize!r}.")


def open_store(path: str | os.PathLike[str], options: Options, *, joined: bool = False) -> Store:
    """The store at `path`, shared if this process has it open already. Every call needs its own `release`.

    Who had `joined` it in another process went by that one's options, and goes by those of this one now.
    """
    global _closer
    key = os.path.realpath(path)
    with _registry:
        if _closer is None:
            _closer = threading.Thread(target=_close_forgotten, args=(_forgotten,), name="twofold-closer", daemon=True)
            _closer.start()
        if os.fspath(path) == ":memory:":
            return Store(None, options)
        store = _open_stores.get(key)
        if store is None:
            store = _open_stores[key] = Store(Path(key), options)
        elif options != store.options and not (joined and options.durability in ("process", store.options.durability)):
            raise StoreError(
                f"{store.path} is open in this process with {store.options}: open it with the same options, or "
                "close the other client first."
            )
        else:
            store.users += 1
        return store


def _close_forgotten(forgotten: SimpleQueue[Store]) -> None:
    while True:
        try:
            forgotten.get().release()
        except Exception:
            _LOG.exception("closing a store whose client was forgotten failed")


class Store:
    """Collections by name. `release` closes it when its last user has let go."""

    def __init__(self, path: Path | None, options: Options) -> None:
        # A store in memory is a directory nobody else knows, without the log that survives a crash.
        self.in_memory = path is None
        self.path = path or Path(tempfile.mkdtemp(prefix="twofold-"))
        self.options = options
        self.users = 1  # changed under the lock of the registry
        self._changing = threading.RLock()
        self._lock: StoreLock | None = None
        self._server: Server | None = None
        self._sync = options.durability == "power"
        self._housekeeper = Housekeeper(weakref.WeakMethod(self.collections), options.optimize == "auto")
        self._collections: dict[str, Collection] = {}
        # Those that can't be loaded, and why. The name stays taken, so that nobody starts over without noticing; where
        # it can't be read, the slug that begins the directory's name stands for all names that become it.
        self._damaged: dict[str, tuple[Path, Exception]] = {}
        self._damaged_slugs: dict[str, tuple[Path, Exception]] = {}
        try:
            if self.path.is_file():
                raise StoreError(f"{self.path} is a file: an embedded store needs a directory.")
            if (self.path / _LOCAL_MODE_FILE).exists() and not (self.path / _STORE_FILE).exists():
                raise LocalStoreFound(str(self.path))
            make_directory(self.path)
            check_free(self.path)
            self._lock = StoreLock(self.path, options.lock_wait_seconds, join=options.share)
            if options.share and not self.in_memory and (server := Server.at(self.path)):
                self._server = server
                self._lock.announce(**server.announcement, durability=options.durability)
            if not (self.path / _STORE_FILE).exists():
                self._set_aliases({})
            self._aliases = read_versioned(self.path / _STORE_FILE, lambda raw: dict(raw["aliases"]))
            for directory in sorted((self.path / "collections").glob("*")):
                self._open_collection(directory)
        except BaseException:
            self._close()
            if self.in_memory:
                remove_tree(self.path)
            raise
        _alive.add(self)
        self._housekeeper.start()
        if self._server is not None:
            self._server.start(self)

    def collections(self) -> list[Collection]:
        """Those that could be loaded."""
        return list(self._collections.values())

    def _open_collection(self, directory: Path) -> None:
        named, name = self._damaged_slugs, directory.name[: -_DIRECTORY_NUMBER_LENGTH - 1]
        try:
            if (directory / SETTINGS_FILE).exists():
                settings = load_settings(directory)
                named, name = self._damaged, settings.name
                self._collections[name] = Collection.open(directory, settings, self._sync)
            elif (directory / DELETED_FILE).exists() or (directory / UNFINISHED_FILE).exists():
                remove_collection(directory)  # killed while it was deleted, or made
            elif any(directory.glob("shard-*")):
                raise StoreFormatError(f"{directory / SETTINGS_FILE} is missing")
        except DiskFull:
            raise  # nothing is wrong with the collection
        except (StoreError, EmbeddedError, EngineFailure) as error:
            _LOG.warning("the collection %s in %s can't be loaded: %s", name, directory, error)
            named[name] = directory, error

    def forget(self) -> None:
        """As `release`, a moment later and without waiting: for finalisers."""
        _forgotten.put(self)

    def release(self) -> None:
        """Let go; the last one closes the collections and frees the lock."""
        with _registry, self._changing:
            self.users -= 1
            if self.users <= 0:
                self._close()

    def _close(self) -> None:
        lock, self._lock = self._lock, None
        if lock is None:
            return
        _open_stores.pop(str(self.path), None)
        # Carried out from the last to the first, each of them even if another fails.
        with ExitStack() as steps:
            if self.in_memory:
                steps.callback(remove_tree, self.path)
            steps.callback(lock.release)
            steps.callback(self._collections.clear)
            # So that no file is written or removed once others may open the store. Only so long: a rebuild held up
            # by whoever watches its progress works on a directory of its own, and can do no harm.
            for collection in self.collections():
                steps.callback(collection.await_rebuild, _REBUILD_WAIT_SECONDS)
            steps.callback(self._housekeeper.end)
            for collection in self.collections():
                steps.callback(collection.close)
            if self._server is not None:
                steps.callback(self._server.close)

    def poison(self) -> None:
        """In a forked child: the parent keeps the store, the child may only join it (`sharing.py`)."""
        for collection in self._collections.values():
            collection.poison()
        self._collections, self._changing = {}, threading.RLock()
        if self._server is not None:
            self._server.abandon()
        if self._lock is not None:
            self._lock.abandon()
            self._lock = None

    def names(self) -> list[str]:
        self._check_open()
        return sorted([*self._collections, *self._damaged])

    @property
    def unreadable(self) -> list[str]:
        """What the names of collections begin with whose settings can't be read."""
        self._check_open()
        return sorted(self._damaged_slugs)

    def get(self, name: str) -> Collection:
        """The collection of this name or alias."""
        collection = self._collections.get(name)
        if collection is None:
            self._check_open()
            target = self._aliases.get(name, name)
            collection = self._collections.get(target)
        if collection is None:
            self._refuse_damaged(target)
            known = ", ".join(self.names()) or "none"
            # A server's words and local mode's: callers match either.
            message = f"Not found: Collection {name} not found: this store has {known}"
            raise NotFound(f"{message}. Make it with create_collection(…).")
        return collection

    def _refuse_damaged(self, name: str) -> None:
        kind: type[StoreError] = StoreFormatError
        way_out = "remove that folder to give it up"
        damaged = self._damaged_slugs.get(_slug(name))
        if damaged is None:
            kind, way_out = StoreError, f"give it up with delete_collection({name!r})"
            damaged = self._damaged.get(name)
        if damaged is not None:
            directory, error = damaged
            message = f"The collection {name} can't be used ({error}). Close the client and restore {directory}"
            raise kind(f"{message} from a backup, or {way_out}.") from error

    def has(self, name: str) -> bool:
        self._check_open()
        known = name in self._collections or name in self._damaged or name in self._aliases
        return known or _slug(name) in self._damaged_slugs

    def create(self, settings: Settings) -> None:
        name = settings.name
        check_collection_name(name)
        with self._changing:
            if self.has(name):
                kind = "Alias" if name in self._aliases else "Collection"
                raise Conflict(f"{kind} {name} already exists: delete it first, or choose another name.")
            unique = f"{_slug(name)}-{uuid4().hex[:_DIRECTORY_NUMBER_LENGTH]}"
            self._collections[name] = Collection.create(self.path / "collections" / unique, settings, self._sync)

    def delete(self, name: str) -> bool:
        with self._changing:
            self._check_open()
            if name not in self._collections and name not in self._damaged:
                self._refuse_damaged(name)
                return False
            if name in self._aliases.values():
                self._set_aliases({alias: target for alias, target in self._aliases.items() if target != name})
            if name in self._damaged:
                directory, _ = self._damaged.pop(name)
                mark_deleted(directory)
                remove_collection(directory)
            else:
                self._collections.pop(name).destroy()
            return True

    def back_up(self, target: Path) -> dict[str, int]:
        """Copy every collection into a new folder that opens as a store; how many points each has there.

        It appears under its name when it is complete, and what was acknowledged before this began is in it.
        """
        if self.in_memory:
            raise BadRequest("A store in memory has no folder to copy: export its collections.")
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise Conflict(f"{target} is there already: back up into a new folder, or remove that one first.")
        if self.path in target.resolve().parents:
            raise BadRequest(f"{target} lies in the store itself: back up into another place.")
        unfinished = target.with_name(f"{target.name}.unfinished")
        with self._changing:
            self._check_open()
            for name in self._damaged:
                self._refuse_damaged(name)
            for directory, error in self._damaged_slugs.values():
                raise StoreFormatError(f"{directory} can't be read, so it can't be copied: {error}") from error
            try:
                remove_tree(unfinished)  # of one that was killed
                make_directory(unfinished)
                write_versioned(unfinished / _STORE_FILE, {"aliases": self.aliases})
                copied = {
                    name: held.copy_to(unfinished / "collections" / held.directory.name)
                    for name, held in sorted(self._collections.items())
                }
                unfinished.replace(target)
                sync_directory(target.parent)
            except BaseException:
                remove_tree(unfinished)
                raise
            return copied

    @property
    def aliases(self) -> dict[str, str]:
        self._check_open()
        return dict(self._aliases)

    @contextmanager
    def changing_aliases(self) -> Iterator[dict[str, str]]:
        """The aliases, to be edited; nobody else does meanwhile."""
        with self._changing:
            aliases = self.aliases
            yield aliases
            self._set_aliases(aliases)

    def _set_aliases(self, aliases: dict[str, str]) -> None:
        with disk_errors(self.path):
            write_versioned(self.path / _STORE_FILE, {"aliases": aliases})
        self._aliases = aliases

    def _check_open(self) -> None:
        if self._lock is None:
            raise self.closed_error()

    def closed_error(self) -> StoreClosed:
        """For whoever goes on after closing."""
        return StoreClosed(f"The client for {self.path} is closed: open another with embedded_client(path).")


def check_collection_name(name: str) -> None:
    """Refuse what can't be the name of a collection."""
    if not name or name in (".", "..") or len(name) > 255 or _FORBIDDEN_IN_NAMES.search(name):
        raise BadRequest(
            f'{name!r} is not a collection name: use 1 to 255 characters, none of < > : " / \\ | ? * or control ones.'
        )


def _slug(name: str) -> str:
    """What the directory of a collection begins with; several names may have the same."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:40]


class Housekeeper(threading.Thread):
    """Flushes idle collections, and optimises where it pays. It holds the store weakly: one may be forgotten open."""

    def __init__(self, collections: weakref.WeakMethod[Callable[[], Iterable[Collection]]], auto: bool) -> None:
        super().__init__(name="twofold-housekeeper", daemon=True)
        self._collections = collections
        self._auto = auto
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(_TICK_SECONDS):
            list_them = self._collections()
            if list_them is None:
                return
            for collection in list(list_them()):
                self._tend(collection)
            del list_them

    def end(self) -> None:
        """Wait for what it's doing: an optimisation notices within a moment that the store is closed."""
        self._ended.set()
        if self.is_alive() and threading.current_thread() is not self:
            self.join(timeout=5)

    def _tend(self, collection: Collection) -> None:
        try:
            idle = time.monotonic() - collection.last_write
            if collection.unflushed and idle > _IDLE_SECONDS_BEFORE_FLUSH:
                collection.flush()
                collection.save_count()
            if self._auto and idle > _IDLE_SECONDS_BEFORE_OPTIMIZE and collection.considered != collection.last_write:
                collection.considered = collection.last_write
                if should_optimize(collection):
                    _LOG.info("optimising %s in the background", collection.settings.name)
                    optimize(collection)
                    _LOG.info("optimised %s", collection.settings.name)
        except StoreError as error:  # closed meanwhile, or no room on the disk
            _LOG.debug("housekeeping of %s: %s", collection.settings.name, error)
        except Exception:
            _LOG.exception("housekeeping of %s failed", collection.settings.name)


def should_optimize(collection: Collection) -> bool:
    """Whether enough has been written since the last optimisation for another one to speed up queries."""
    if not collection.rebuilding.acquire(blocking=False):
        return False  # it's being done
    collection.rebuilding.release()
    points = collection.read("info").points_count
    # The first is right even where the count was lost in a crash, the second knows what was written over.
    changed = max(abs(points - collection.settings.optimized_points), collection.written_points)
    return bool(changed >= max(_MIN_POINTS_TO_OPTIMIZE, _MIN_SHARE_TO_OPTIMIZE * points))


_alive: weakref.WeakSet[Store] = weakref.WeakSet()


def _after_fork() -> None:
    global _registry, _forgotten, _closer
    _registry, _forgotten, _closer = threading.Lock(), SimpleQueue(), None
    _open_stores.clear()
    for store in list(_alive):
        store.poison()


@atexit.register
def _at_exit() -> None:
    """Close what was left open: flushed, and with no child process at work for nobody."""
    for store in list(_alive):
        try:
            store._close()
        except Exception:
            if store.path.exists():
                raise
            _LOG.warning("%s was removed while it was open: close a store before its folder goes", store.path)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
