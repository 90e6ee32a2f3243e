"""One collection: one engine shard, its settings, and the rules for using both from many threads.

A read passes the gate and calls the engine. A write is cut into pieces, each of which is there as a whole or not at
all; it takes the seal off, is noted for a rebuild that is under way, and is acknowledged when the engine has it in its
log. Settings change on disk first. A close flushes and puts the seal on.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import qdrant_edge as edge

from .errors import BadRequest, Conflict, EmbeddedError, EngineFailure, NotFound, StoreClosed, StoreError
from .lock import close_inherited, make_directory, remove_tree, sync_files
from .room import Room, Size, check_free, disk_errors, full, gone, speaks_of_a_full_disk
from .seal import Seal, copy_file, restore_lengths, try_to_load
from .settings import SETTINGS_FILE, Config, Settings, VectorSchema, new_shard_name, new_vector, to_edge_index

T = TypeVar("T")

_IDS_PER_PAGE = 10_000
_POINTS_PER_PAGE = 256
_LOG_FILES = 2
_SPARE_LOG_WAIT_SECONDS = 0.5
# Guesses at what is about to be written, apart from the points themselves.
_BYTES_OF_A_CHANGE = 1_024
_BYTES_IN_AN_INDEX = 512
_BYTES_OF_A_NUMBER = 6
_SAMPLED_VECTORS = 4
# Marks of a directory that may be removed at the next open. One with neither mark nor settings is left alone.
DELETED_FILE, UNFINISHED_FILE = "deleted", "unfinished"


class Pace:
    """Sizes pieces of work so that each takes `target_seconds`, as measured: the engine keeps Python's lock so long."""

    def __init__(self, target_seconds: float, start: int, smallest: int, largest: int) -> None:
        self.size = start
        self._target_seconds, self._smallest, self._largest = target_seconds, smallest, largest

    def learn(self, count: int, seconds: float) -> None:
        """A short piece says little about a full one, so it can only slow the pace down."""
        ideal = count * self._target_seconds / max(seconds, 1e-6)
        if count >= self.size or ideal < self.size:
            # Half-way steps: one slow disk access must not send the size to its minimum.
            wanted = (self.size + min(ideal, 2 * self.size)) / 2
            self.size = int(min(self._largest, max(self._smallest, wanted)))


class Gate:
    """Many threads pass it at once, and one may shut it to have the place to itself.

    `with gate:` passes, though not twice: who is inside would wait for itself while another shuts. `with gate.shut():`
    waits until nobody is inside and keeps others out.
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


class Collection:
    """Any thread may read or write.

    Readers pass a gate that only a swap of shards or the close shuts. Writers take turns, one piece at
    a time: the engine works on one call at a time anyway, and their order is what a rebuild replays.
    """

    def __init__(self, directory: Path, settings: Settings, shard: edge.EdgeShard, sync: bool, seal: Seal) -> None:
        self.directory = directory
        self.settings = settings
        self.schema = settings.schema()
        self.writing = threading.RLock()
        self.gate = Gate()
        # One query at a time, which is all that the engine does: it keeps Python's global lock meanwhile. Those that
        # wait here don't stand in line for that lock, before an event loop.
        self.turn = threading.Lock()
        # Reentrant: who is told of the progress of an optimisation may close the store, which waits for its end.
        self.rebuilding = threading.RLock()
        self.journal: list[tuple[edge.UpdateOperation, Size]] | None = None
        self._shard: edge.EdgeShard | None = shard
        self._sync = sync
        # Never below 64, the batch size of both frameworks: such a batch is one piece, and so atomic.
        self._pace = Pace(target_seconds=0.02, start=64, smallest=64, largest=512)
        # A flush holds everyone up for as long as there is something to write, and so does the replay after a
        # crash, so little may be pending. Not too little: a flush has its price even when it's empty.
        self._flush_pace = Pace(target_seconds=0.05, start=4_000, smallest=1_000, largest=20_000)
        self.unflushed = 0
        self.written_points = settings.written_points
        self.last_write = time.monotonic()
        self.considered: float | None = None  # the last write after which was decided whether to optimise
        self._operations = 0
        self._seal = seal
        self._settle_in()

    @classmethod
    def create(cls, directory: Path, settings: Settings, sync: bool) -> Collection:
        """The settings file is written last: a directory without it isn't a collection yet."""
        settings.check()
        config = settings.to_edge()
        with disk_errors(directory):
            make_directory(directory)
            check_free(directory)
            (directory / UNFINISHED_FILE).touch()
            shard = call(edge.EdgeShard.create, str(directory / settings.shard), config)
            call(shard.flush)
            settle(directory / settings.shard, settings)
            settings.save(directory)
            (directory / UNFINISHED_FILE).unlink()
        return cls(directory, settings, shard, sync, Seal(directory))

    @classmethod
    def open(cls, directory: Path, settings: Settings, sync: bool) -> Collection:
        seal = Seal(directory)
        seal.check_files()
        restore_lengths(directory)
        with seal.opening():
            if not seal.there:
                try_to_load(directory / settings.shard)
            collection = cls(directory, settings, load_shard(directory / settings.shard), sync, seal)
            collection._begin()
        for leftover in directory.glob("shard-*"):
            if leftover.name != settings.shard:  # a rebuild that was killed before, or after, its swap
                remove_tree(leftover)
        return collection

    def _begin(self) -> None:
        try:
            self._seal.check_points(self._count())
            present = self.read("info").payload_schema
            for name, schema in self.settings.indexes.items():
                if name not in present:
                    self._restructure(edge.UpdateOperation.create_field_index(name, to_edge_index(schema)))
        except BaseException:
            close_shard(self._live())  # not as one that was closed in order
            raise

    def _settle_in(self) -> None:
        """Take note of the shard's place, and see to its room."""
        shard = self.directory / self.settings.shard
        self._room = Room(shard)
        with disk_errors(shard):
            self._place = place_of(shard)

    def _check_place(self) -> None:
        """The engine goes on writing to files whose folder is gone, and says that all is well."""
        shard = self.directory / self.settings.shard
        with disk_errors(shard):
            if place_of(shard) != self._place:
                raise gone(shard)

    def _count(self) -> int:
        return int(call(self._live().count, edge.CountRequest(True)))

    def read(self, method: str, *args: Any) -> Any:
        """Call a reading method of the engine."""
        with self.gate:
            return call(getattr(self._live(), method), *args)

    def apply(
        self,
        operation: edge.UpdateOperation,
        points: int = 1,
        checked: VectorSchema | None = None,
        size: Size | None = None,
    ) -> int:
        """Write one operation of about that size, whose vectors fit the schema `checked`.

        It is acknowledged when this returns its number.
        """
        with self.writing:
            if checked is not None and checked is not self.schema:
                raise Conflict(f"The vectors of {self.settings.name} were changed meanwhile: call again.")
            self._live()
            self._check_place()
            size = size or Size(points, points * _BYTES_OF_A_CHANGE)
            self._room.reserve(size, self.unflushed)
            self._seal.stay_away()
            # Before the update: a rejected operation may have been applied in part, and a rebuilt shard
            # must end up the same.
            if self.journal is not None:
                self.journal.append((operation, size))
            began = time.perf_counter()
            self.read("update", operation)
            self._pace.learn(points, time.perf_counter() - began)
            self.unflushed += points
            self.written_points += points
            self.last_write = time.monotonic()
            if self._sync:
                self._flush()
            elif self.unflushed >= self._flush_pace.size:
                self.flush()
            self._operations += 1
            return self._operations

    def apply_pieces(
        self, items: Sequence[T], make: Callable[[list[T]], edge.UpdateOperation], checked: VectorSchema | None = None
    ) -> int:
        """Write many items in order, in pieces small enough not to hold up other threads."""
        start, last = 0, self._operations
        while start < len(items):
            piece = list(items[start : start + self._pace.size])
            last = self.apply(make(piece), len(piece), checked, _size_of(piece))
            start += len(piece)
        return last

    def _restructure(self, operation: edge.UpdateOperation) -> int:
        """Write an operation that gives the shard other files."""
        with self.writing:
            points = self._count()
            number = self.apply(operation, size=Size(points, points * _BYTES_IN_AN_INDEX))
            self._room.renew()
            self._room.reserve(Size(), self.unflushed)
        return number

    def flush(self) -> None:
        """Everything acknowledged so far is on disk when this returns, even if the power fails."""
        with self.writing:
            # The engine keeps Python's global lock while it waits for the disk: so most of it gets there before.
            if self.settings.wal:  # otherwise it's one in memory
                with suppress(OSError):  # a disk that fails does so again below, where it's reported
                    sync_files(self.directory / self.settings.shard)
            pending, began = self.unflushed, time.perf_counter()
            self._flush()
            self._flush_pace.learn(pending, time.perf_counter() - began)

    def _flush(self) -> None:
        self.read("flush")
        self.unflushed = 0

    def save_count(self) -> None:
        """Keep how much was written since the last optimisation, for those who open the store next."""
        with self.writing:
            if self.written_points != self.settings.written_points:
                self.change(replace(self.settings, written_points=self.written_points))

    def copy_to(self, directory: Path) -> int:
        """Copy it, with all that was acknowledged so far, as if it had been closed; readers go on, writers wait."""
        with self.writing:
            self.flush()
            settings = replace(self.settings, written_points=self.written_points)
            shutil.copytree(self.directory / settings.shard, directory / settings.shard, copy_function=copy_file)
            sync_files(directory / settings.shard, directories=True)
            points = self._count()
        settings.save(directory)
        Seal(directory).write(points, settings.shard)
        return points

    def require(self, ids: Sequence[int | str]) -> None:
        """Refuse ids that aren't there: the engine would, after it has written the operation to its log."""
        for start in range(0, len(ids), _IDS_PER_PAGE):
            page = list(ids[start : start + _IDS_PER_PAGE])
            found = {to_plain_id(record.id) for record in self.read("retrieve", page, False, False)}
            missing = [point_id for point_id in page if point_id not in found]
            if missing:
                raise NotFound(f"No point with id {missing[0]} found.")

    def matching_ids(self, condition: edge.Filter) -> list[int | str]:
        """The ids a filter selects: writes by filter become writes by id, which can be cut and replayed."""
        pages = self._pages(_IDS_PER_PAGE, condition, False)
        return [to_plain_id(record.id) for records in pages for record in records]

    def _pages(self, size: int, condition: edge.Filter | None, whole: bool) -> Iterator[list[edge.Record]]:
        """All points that match, page by page: with payloads and vectors, or ids alone."""
        offset: Any = None
        while True:
            records, offset = self.read("scroll", edge.ScrollRequest(offset, size, condition, whole, whole))
            if records:
                yield records
            if offset is None:
                return

    def change(self, settings: Settings) -> None:
        """Put new settings in force; on disk before anything relies on them. The caller holds `writing`."""
        self._live()
        with disk_errors(self.directory):
            settings.save(self.directory)
        self.settings = settings
        schema = settings.schema()
        if schema != self.schema:
            self.schema = schema

    def create_index(self, field: str, schema: str | Config) -> int:
        """Index a payload field: `schema` is the name of a type, or the parameters of an index with their `type`."""
        operation = edge.UpdateOperation.create_field_index(field, to_edge_index(schema))
        with self.writing:
            number = self._restructure(operation)
            self.change(replace(self.settings, indexes={**self.settings.indexes, field: schema}))
        return number

    def delete_index(self, field: str) -> int:
        """Remove the index of a payload field."""
        operation = edge.UpdateOperation.delete_field_index(field)
        with self.writing:
            indexes = {name: schema for name, schema in self.settings.indexes.items() if name != field}
            self.change(replace(self.settings, indexes=indexes))
            return self.apply(operation)

    def add_vector(self, name: str, params: Config, *, sparse: bool) -> int:
        """Add a named vector that no point has yet."""
        with self.writing:
            if name in self.schema.names():
                raise BadRequest(f"Vector {name!r} already exists in the collection {self.settings.name}.")
            key = "sparse_vectors" if sparse else "vectors"
            present = self.settings.sparse_vectors() if sparse else self.settings.dense_vectors()
            settings = self.settings.with_config(**{key: {**present, name: params}})
            settings.check()
            number = self._restructure(new_vector(name, params, sparse=sparse))
            self.change(settings)
        return number

    def remove_vector(self, name: str) -> int:
        """Remove a named vector from every point and from the settings."""
        with self.writing:
            self.schema.check_name(name)
            dense, sparse = self.settings.dense_vectors(), self.settings.sparse_vectors()
            (dense if name in dense else sparse).pop(name)
            number = self.apply(edge.UpdateOperation.delete_vector_name(name))
            self.change(self.settings.with_config(vectors=dense, sparse_vectors=sparse))
        return number

    def merge_metadata(self, added: Mapping[str, Any]) -> None:
        """Change some keys of the collection's metadata, as the server does: null removes a key."""
        with self.writing:
            merged = {**(self.settings.config.get("metadata") or {}), **added}
            kept = {key: value for key, value in merged.items() if value is not None}
            self.change(self.settings.with_config(metadata=kept))

    def reconfigure(self, change: Callable[[Settings], Config]) -> None:
        """Put another configuration in force; points that are there get new index settings at the next optimize()."""
        with self.rebuilding, self.writing:
            settings = replace(self.settings, config=change(self.settings))
            if _modifiers(settings) == _modifiers(self.settings):
                self._reload(settings)
            else:
                self._rewrite(settings)

    def _reload(self, settings: Settings) -> None:
        """Load the shard again with other index settings."""
        path = self.directory / self.settings.shard
        config = config_of(path, settings)
        with self.gate.shut():
            call(self._live().flush)
            call(self._live().close)
            try:
                self._shard = load_shard(path, config)
            except BaseException:
                self._shard = load_shard(path)  # refused: go on as before
                raise
            self.change(settings)

    def _rewrite(self, settings: Settings) -> None:
        """Write every point into a new shard while writers wait: the engine fixes the modifier of a sparse vector."""
        target = self.directory / new_shard_name()
        shard = call(edge.EdgeShard.create, str(target), settings.to_edge())
        try:
            for records in self._pages(_POINTS_PER_PAGE, None, True):
                points = [edge.Point(record.id, record.vector or {}, record.payload) for record in records]
                call(shard.update, edge.UpdateOperation.upsert_points(points))
            for field, schema in settings.indexes.items():
                call(shard.update, edge.UpdateOperation.create_field_index(field, to_edge_index(schema)))
            call(shard.flush)
            self.swap(shard, replace(settings, optimized_points=0), target.name)
        except BaseException:
            self.discard(shard, target)
            raise

    def swap(self, shard: edge.EdgeShard, settings: Settings, name: str) -> None:
        """Let a rebuilt shard take over; the caller holds `writing`."""
        settle(self.directory / name, settings)
        with self.gate.shut():
            old, old_name = self._live(), self.settings.shard
            self.change(replace(settings, shard=name))
            self._shard, self.unflushed = shard, 0
            self._settle_in()
            close_shard(old)
        remove_tree(self.directory / old_name)

    def discard(self, shard: edge.EdgeShard | None, path: Path) -> None:
        """Remove a rebuilt shard that came to nothing: not one that has taken over before its rebuild failed."""
        if path.name == self.settings.shard:
            return
        if shard is not None:
            close_shard(shard)
        remove_tree(path)

    @property
    def closed(self) -> bool:
        return self._shard is None

    def close(self) -> None:
        with self.writing, self.gate.shut():
            if self._shard is None:
                return
            try:
                self._check_place()
                call(self._shard.flush)
                self.save_count()
                points = self._count()
            finally:
                shard, self._shard = self._shard, None
                call(shard.close)
            if self.settings.wal:  # otherwise it's one in memory
                with disk_errors(self.directory):
                    self._seal.write(points, self.settings.shard)

    def await_rebuild(self, seconds: float) -> None:
        """Wait for a rebuild to end; it notices within a moment that the collection is closed."""
        if self.rebuilding.acquire(timeout=seconds):
            self.rebuilding.release()

    def destroy(self) -> None:
        with self.writing, self.gate.shut():
            mark_deleted(self.directory)
            shard, self._shard = self._live(), None
            call(shard.close)
        remove_collection(self.directory)

    def poison(self) -> None:
        """After a fork: the engine's threads stayed in the parent, nothing may reach it, not even close."""
        if self._shard is not None:
            # One reference that nobody ever lets go of: dropping the last one, when the process ends, would wait for
            # those threads for ever.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._shard))
        # The engine's lock on its log is shared with the parent, and would outlive it here.
        close_inherited(self.directory / self.settings.shard / "wal")
        self._shard, self.gate, self.writing, self.turn = None, Gate(), threading.RLock(), threading.Lock()

    def _live(self) -> edge.EdgeShard:
        if self._shard is None:
            raise StoreClosed(
                f"The collection {self.settings.name!r} is closed: it was deleted, its client was closed, or "
                "this is a forked process. Open a client of your own with embedded_client(path)."
            )
        return self._shard


def place_of(path: Path) -> tuple[int, int]:
    """What tells a folder from another of the same name."""
    stat = os.stat(path)
    return stat.st_dev, stat.st_ino


def _size_of(piece: list[Any]) -> Size:
    """About how large points are, or changes to the points with these ids."""
    if not isinstance(piece[0], edge.Point):
        return Size(len(piece), len(piece) * _BYTES_OF_A_CHANGE)
    payloads = sum(len(str(point.payload)) for point in piece)
    # Those of one collection are of a size, and reading them all would take a third of the time that writing does.
    sampled = piece[:: max(1, len(piece) // _SAMPLED_VECTORS)]
    return Size(len(piece), payloads, len(piece) * max(_bytes_of(point.vector) for point in sampled))


def _bytes_of(vector: Any) -> int:
    """In the log, where vectors take the most."""
    if isinstance(vector, dict):
        return sum(map(_bytes_of, vector.values()))
    if isinstance(vector, list):
        nested = bool(vector) and isinstance(vector[0], list)
        return sum(map(_bytes_of, vector)) if nested else _BYTES_OF_A_NUMBER * len(vector)
    return 2 * _BYTES_OF_A_NUMBER * len(vector.indices)


def mark_deleted(directory: Path) -> None:
    """The moment of deletion: a crash afterwards is cleaned up at the next open."""
    (directory / SETTINGS_FILE).replace(directory / DELETED_FILE)


def remove_collection(directory: Path) -> None:
    """Remove a collection that is marked for it. The mark goes last: killed before, the next open goes on."""
    for shard in directory.glob("shard-*"):
        remove_tree(shard)
    remove_tree(directory)


def close_shard(shard: edge.EdgeShard) -> None:
    """Close a shard whose files are about to be removed: whatever it says is of no interest."""
    with suppress(EmbeddedError, StoreError, EngineFailure):
        call(shard.close)


def settle(shard: Path, settings: Settings) -> None:
    """Put a new shard's files on disk: the engine leaves that to the system, and the settings are to name them next."""
    if settings.wal:  # otherwise it's one in memory
        # A thread of the engine makes the next file of the log. Found empty after a power loss it can't be loaded.
        deadline = time.monotonic() + _SPARE_LOG_WAIT_SECONDS
        while len(list(shard.glob("wal/open-*"))) < _LOG_FILES and time.monotonic() < deadline:
            time.sleep(0.001)
        sync_files(shard, directories=True)


def config_of(shard: Path, settings: Settings) -> edge.EdgeConfig:
    """The engine's settings for a shard that is there already: a search thread for each segment but the newest."""
    # A query keeps Python's global lock here, so none runs beside it, and threads without a large segment of their own
    # only hand work around. The newest segment is the small one that takes new points.
    segments = len(list((shard / "segments").iterdir()))
    return settings.to_edge(threads=max(1, min(segments - 1, os.cpu_count() or 1)))


def load_shard(path: Path, config: edge.EdgeConfig | None = None) -> edge.EdgeShard:
    """A shard with the settings it was made with, or with others."""
    try:
        shard: edge.EdgeShard = call(edge.EdgeShard.load, str(path), config)
    except EmbeddedError as error:
        raise StoreError(f"{path} can't be loaded: {error}") from error
    return shard


def _modifiers(settings: Settings) -> dict[str, bool]:
    return {name: params.get("modifier") == "idf" for name, params in settings.sparse_vectors().items()}


# --- The engine's own ways ---


def call(function: Callable[..., Any], *args: Any) -> Any:
    """Call the engine, with its errors told apart by their text or name: it has no exception classes to import."""
    try:
        return function(*args)
    except EmbeddedError:
        raise
    except Exception as error:
        text = str(error)
        if speaks_of_a_full_disk(text):
            raise full() from error
        if "not initialized" in text:
            raise StoreClosed("The engine's shard is closed: open the store again.") from error
        raise (NotFound if text.startswith("No point with id") else BadRequest)(text) from error
    except BaseException as error:
        if type(error).__name__ == "PanicException":
            raise EngineFailure(f"The engine failed: {error}. Close the store and open it again.") from error
        raise


class _Boolean:
    """A truth value that the engine takes for one.

    It tries integers first, and Python's True is the integer 1, which matches no boolean. It reads as a boolean what
    it recognises by name as numpy's; numpy's own, in its older versions, is an integer too.
    """

    def __init__(self, value: bool) -> None:
        self._value = value

    def __bool__(self) -> bool:
        return self._value


_Boolean.__module__, _Boolean.__name__ = "numpy", "bool_"


def match_value(value: bool | int | str) -> edge.MatchValue:
    """The condition that a payload field has this value."""
    return edge.MatchValue(_Boolean(value) if isinstance(value, bool) else value)  # type: ignore[arg-type]


def to_plain_id(value: Any) -> int | str:
    """The id of a point that the engine returned: integers as they are, UUIDs as text, as a server sends them."""
    return value if type(value) is int else str(value)
