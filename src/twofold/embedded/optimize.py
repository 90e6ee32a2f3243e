"""Building the search index without stopping anyone.

The engine's optimize() takes minutes at 100,000 points and keeps Python's global lock all the while. So a
copy of the shard is optimised by a child process while this one goes on reading and writing; the operations
written meanwhile are replayed on the copy; then the settings file is replaced, and the copy is the shard.
Writers wait only while the files are copied and for the last operations; readers only for the swap.

Killed at any moment, the store opens with the old shard or the new one, both complete, and the leftover is
removed.
"""

from __future__ import annotations

import os
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
from .errors import EmbeddedError, EngineFailure, StoreClosed, StoreError
from .settings import new_shard_name

Stage = Literal["copying", "indexing", "catching up", "done"]
# Run as a script, not as a module: the child imports the engine alone.
_CHILD_SCRIPT = Path(__file__).with_name("__main__.py")
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


class Optimization:
    """One run over one collection."""

    def __init__(self, collection: Collection, progress: Progress | None) -> None:
        self._collection = collection
        self._progress = progress
        self._began = time.monotonic()
        self.points = int(collection.read("count", edge.CountRequest(True)))
        self._shard: edge.EdgeShard | None = None
        self._covered = 0
        self._settings = collection.settings
        self._target = collection.directory / new_shard_name()

    def run(self) -> None:
        try:
            self._copy()
            self._index()
            self._take_over()
        except BaseException:
            self._collection.journal = None
            self._collection.discard(self._shard, self._target)
            raise
        self._tell("done")

    def _tell(self, stage: Stage) -> None:
        if self._progress is not None:
            name, seconds = self._collection.settings.name, time.monotonic() - self._began
            self._progress(OptimizeProgress(name, stage, self.points, seconds))

    def _copy(self) -> None:
        self._tell("copying")
        source = self._collection.directory / self._collection.settings.shard
        with self._collection.writing:
            self._collection.flush()
            _require_space(source)
            shutil.copytree(source, self._target)
            self._collection.journal = []
            self._covered = self._collection.written_points
            self._settings = self._collection.settings

    def _index(self) -> None:
        engine = Path(edge.__file__).parents[1]
        command = [sys.executable, "-I", *map(str, (_CHILD_SCRIPT, "optimize", self._target, engine, os.getpid()))]
        nothing = subprocess.DEVNULL
        with subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=subprocess.PIPE) as child:
            try:
                self._wait(child)
            except BaseException:
                child.kill()
                raise
            if child.returncode != 0:
                said = child.stderr.read().decode("utf-8", "replace")[-500:] if child.stderr else ""
                raise EngineFailure(f"Optimising {self._target.parent.name} failed ({child.returncode}): {said}")

    def _wait(self, child: subprocess.Popen[bytes]) -> None:
        while child.returncode is None:
            self._tell("indexing")
            if self._collection.closed:
                raise StoreClosed("The store was closed while it was optimised; the next optimize() starts again.")
            with suppress(subprocess.TimeoutExpired):
                child.wait(_POLL_SECONDS)

    def _take_over(self) -> None:
        self._tell("catching up")
        collection = self._collection
        shard = self._shard = load_shard(self._target, config_of(self._target, self._settings))
        for _ in range(_CATCH_UP_ROUNDS):  # most of it while writers go on
            if not self._replay(shard):
                break
        settle(self._target, collection.settings)  # here too, since nobody waits for it yet
        with collection.writing:
            self._replay(shard)
            collection.journal = None
            call(shard.flush)
            since = collection.written_points - self._covered
            settings = replace(collection.settings, optimized_points=self.points, written_points=since)
            collection.swap(shard, settings, self._target.name)
            collection.written_points = since

    def _replay(self, shard: edge.EdgeShard) -> int:
        with self._collection.writing:
            written, self._collection.journal = self._collection.journal or [], []
        for operation in written:
            with suppress(EmbeddedError):  # the live shard rejected it too, with the same partial effect
                call(shard.update, operation)
        return len(written)


def optimize(collection: Collection, progress: Progress | None = None) -> bool:
    """Optimise a collection; False if it holds nothing. A second call waits for the first."""
    if getattr(sys, "frozen", False):  # the executable is the application, and would be started once more
        raise StoreError("A frozen application can't optimise: do it with Python on the same folder, or use a server.")
    with collection.rebuilding:
        run = Optimization(collection, progress)
        if run.points == 0:
            return False
        run.run()
        return True


def _require_space(source: Path) -> None:
    stats = [file.stat() for file in source.rglob("*")]
    # In blocks: the log's files are mostly holes, which take no room.
    needed = 2 * 512 * sum(getattr(stat, "st_blocks", stat.st_size // 512) for stat in stats)
    free = shutil.disk_usage(source).free
    if free < needed:
        raise StoreError(f"Optimising needs {needed >> 20} MB of free disk for a copy, there are {free >> 20} MB.")
