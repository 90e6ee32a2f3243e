"""Building the search index without stopping anyone.

The engine's optimize() takes minutes at 100,000 points and keeps Python's global lock all the while. So a
copy of the shard is optimised by a child process while this one goes on reading and writing; the operations
written meanwhile are replayed on the copy; then the settings file is replaced, and the copy is the shard.
Writers wait only while the files are copied and for the last operations; readers only for the swap.

Killed at any moment, the store opens with the old shard or the new one, both complete, and the leftover is
removed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import qdrant_edge as edge

from .collection import Collection, call, config_of, load_shard, settle
from .errors import DiskFull, EmbeddedError, EngineFailure, StoreClosed, StoreError
from .room import Room, check_free, disk_errors, full, speaks_of_a_full_disk
from .seal import copy_file, engine_command
from .settings import Settings, new_shard_name

Stage = Literal["copying", "indexing", "catching up", "done"]
_POLL_SECONDS = 0.2
_CATCH_UP_ROUNDS = 5


@dataclass(frozen=True)
class OptimizeProgress:
    """Where an optimisation is. The engine tells no percentage; `points` and `seconds` help to judge."""

    collection: str
    stage: Stage
    points: int
    seconds: float


Progress = Callable[[OptimizeProgress], None]


def optimize(collection: Collection, progress: Progress | None = None) -> bool:
    """Optimise a collection; False if it holds nothing. A second call waits for the first."""
    if getattr(sys, "frozen", False):  # the executable is the application, and would be started once more
        raise StoreError("A frozen application can't optimise: do it with Python on the same folder, or use a server.")
    with collection.rebuilding:
        began, points = time.monotonic(), int(collection.read("count", edge.CountRequest(True)))

        def tell(stage: Stage) -> None:
            if progress is not None:
                progress(OptimizeProgress(collection.settings.name, stage, points, time.monotonic() - began))

        if points == 0:
            return False
        target, shard = collection.directory / new_shard_name(), None
        try:
            tell("copying")
            covered, settings = _copy(collection, target)
            _index(collection, target, tell)
            tell("catching up")
            check_free(target)
            shard = load_shard(target, config_of(target, settings))
            _take_over(collection, shard, target, points, covered)
        except BaseException:
            collection.journal = None
            collection.discard(shard, target)
            raise
        tell("done")
        return True


def _copy(collection: Collection, target: Path) -> tuple[int, Settings]:
    """Copy the shard; returns how much of what was written is in it, and the settings it was made with."""
    source = collection.directory / collection.settings.shard
    with collection.writing:
        collection.flush()
        _require_space(source)
        with disk_errors(target):
            shutil.copytree(source, target, copy_function=copy_file)
        collection.journal = []
        return collection.written_points, collection.settings


def _index(collection: Collection, target: Path, tell: Callable[[Stage], None]) -> None:
    command, nothing = engine_command("optimize", target), subprocess.DEVNULL
    with subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=subprocess.PIPE) as child:
        try:
            while child.returncode is None:
                tell("indexing")
                if collection.closed:
                    raise StoreClosed("The store was closed while it was optimised; the next optimize() starts again.")
                with suppress(subprocess.TimeoutExpired):
                    child.wait(_POLL_SECONDS)
        except BaseException:
            child.kill()
            raise
        if child.returncode != 0:
            check_free(target)  # a write that finds no room ends the process
            said = child.stderr.read().decode("utf-8", "replace")[-500:] if child.stderr else ""
            if speaks_of_a_full_disk(said):
                raise full(target)
            raise EngineFailure(f"Optimising {target.parent.name} failed ({child.returncode}): {said}")


def _take_over(collection: Collection, shard: edge.EdgeShard, target: Path, points: int, covered: int) -> None:
    room = Room(target)
    for _ in range(_CATCH_UP_ROUNDS):  # most of it while writers go on
        if not _replay(collection, shard, room):
            break
    settle(target, collection.settings)  # here too, since nobody waits for it yet
    with collection.writing:
        _replay(collection, shard, room)
        collection.journal = None
        call(shard.flush)
        since = collection.written_points - covered
        settings = replace(collection.settings, optimized_points=points, written_points=since)
        collection.swap(shard, settings, target.name)
        collection.written_points = since


def _replay(collection: Collection, shard: edge.EdgeShard, room: Room) -> int:
    with collection.writing:
        written, collection.journal = collection.journal or [], []
    unflushed = 0
    for operation, size in written:
        room.reserve(size, unflushed)
        unflushed += size.points
        with suppress(EmbeddedError):  # the live shard rejected it too, with the same partial effect
            call(shard.update, operation)
    return len(written)


def _require_space(source: Path) -> None:
    stats = [file.stat() for file in source.rglob("*")]
    # In blocks: the log's files are mostly holes, which take no room.
    needed = 2 * 512 * sum(getattr(stat, "st_blocks", stat.st_size // 512) for stat in stats)
    free = shutil.disk_usage(source).free
    if free < needed:
        raise DiskFull(f"Optimising needs {needed >> 20} MB of free disk for a copy, there are {free >> 20} MB.")
