"""One engine at one size, measured a step at a time.

Run as a program it takes its steps from standard input: the engines have a process each, so that their memory can be
told apart, and take turns, so that a machine that is slower for a while is slower for all of them.
"""

from __future__ import annotations

import gc
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import Data
from benchmarks.engines import ENGINES, Engine

TURNS = 5
_CHUNK = 2048
_MOST_FILLS, _FILL_SECONDS = 7, 2.0
_WARM_SECONDS, _LEAST_SECONDS, _ENOUGH_SECONDS = 2.0, 0.1, 3.0


class Heartbeat(threading.Thread):
    """Wakes every few milliseconds; the longest time it could not is how long others were held up."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.longest = 0.0
        self._ended = threading.Event()

    def run(self) -> None:
        last = time.perf_counter()
        while not self._ended.wait(0.005):
            now = time.perf_counter()
            self.longest = max(self.longest, now - last)
            last = now

    def stop(self) -> float:
        self._ended.set()
        self.join()
        return self.longest


class Subject:
    """What is measured, and what has been measured so far."""

    def __init__(self, name: str, points: int) -> None:
        self._kind = next(engine for engine in ENGINES if engine.name == name)
        self._data = Data(points)
        _ = self._data.dense, self._data.dense_queries, self._data.sparse, self._data.sparse_queries
        self._before = _memory()
        self._folder = tempfile.TemporaryDirectory(prefix="twofold-bench-")
        self._engine: Engine | None = None
        self._fills: list[float] = []
        self._filled = 0
        self._longest = 0.0
        self._took: dict[str, list[float]] = {}
        self._result: dict[str, Any] = {}

    def ready(self) -> bool:
        """Whether the data are there; asked of all before the first turn."""
        return True

    def fill(self) -> bool:
        """Add the next points; False when all are there. A small store is filled several times over."""
        if self._engine is None:
            self._engine = self._kind(Path(self._folder.name) / f"store{len(self._fills)}", self._data)
            self._engine.open()
            self._filled = 0
            self._fills.append(0.0)
        numbers = range(self._filled, min(self._data.points, self._filled + _CHUNK))
        gc.collect()
        heartbeat = Heartbeat()
        heartbeat.start()
        began = time.perf_counter()
        self._engine.add(numbers)
        self._fills[-1] += time.perf_counter() - began
        self._longest = max(self._longest, heartbeat.stop())
        self._filled = numbers.stop
        if self._filled < self._data.points:
            return True
        self._engine.close()
        if len(self._fills) < _MOST_FILLS and sum(self._fills) < _FILL_SECONDS:
            self._engine = None
            return True
        self._result["upserts_per_s"] = self._data.points / float(np.median(self._fills))
        self._result["longest_stall_ms"] = self._longest * 1e3
        return False

    def open(self) -> None:
        """Open what was filled."""
        began = time.perf_counter()
        self._opened.open()
        self._result["open_ms"] = (time.perf_counter() - began) * 1e3

    def warm(self) -> list[str]:
        """Search in every way without a clock, and name the ways.

        An engine that has just opened its files reads them with the first queries, which would count against whatever
        is measured first.
        """
        self._searches = self._opened.searches()
        for search in self._searches.values():
            _asked(search, range(self._data.queries), 0.0, _WARM_SECONDS)
        return list(self._searches)

    def search(self, name: str, turn: int) -> None:
        """Ask the queries of this turn, and again while that takes too little time to tell anything."""
        mine = range(turn, self._data.queries, TURNS)
        self._took.setdefault(name, []).extend(_asked(self._searches[name], mine, _LEAST_SECONDS, _ENOUGH_SECONDS))

    def settle(self, stage: str) -> None:
        """Put down what the searches took."""
        self._result[stage] = {name: _summary(took) for name, took in self._took.items()}
        self._result.setdefault("memory_mb", (_memory() - self._before) / 2**20)
        self._took = {}

    def optimize(self) -> bool:
        """Build the search graph, where that is a step of its own."""
        return self._opened.optimize()

    def end(self) -> dict[str, Any]:
        """Everything that was measured."""
        self._opened.close()
        self._folder.cleanup()
        return self._result

    @property
    def _opened(self) -> Engine:
        if self._engine is None:
            raise RuntimeError("nothing is filled yet")
        return self._engine


def _summary(took: list[float]) -> dict[str, float]:
    p50, p95 = np.percentile(took, [50, 95]) * 1e3
    return {"p50_ms": float(p50), "p95_ms": float(p95), "queries": len(took)}


def _asked(search: Callable[[int], Any], queries: range, least: float, most: float) -> list[float]:
    """The seconds of each query, asked in turn: all of them, for `least` seconds, but not for more than `most`."""
    took: list[float] = []
    spent = 0.0
    while (len(took) < len(queries) or spent < least) and spent < most:
        began = time.perf_counter()
        search(queries[len(took) % len(queries)])
        took.append(time.perf_counter() - began)
        spent += took[-1]
    return took


def _memory() -> float:
    """Bytes of memory in use now; 0 where the system doesn't tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * 4096.0


def main(name: str, points: int) -> None:
    subject = Subject(name, points)
    # Its millions of numbers have nothing to do with any engine: to look through them would hold everyone up for 0.2 s.
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        step, *arguments = json.loads(line)
        print(json.dumps(getattr(subject, step)(*arguments)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
