"""One engine at one size, in a process of its own so that memory can be told apart. Prints JSON."""

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

_CHUNK = 2048
_MOST_FILLS, _FILL_SECONDS = 7, 2.0
_WARM_SECONDS, _LEAST_SECONDS, _ENOUGH_SECONDS = 2.0, 0.5, 15.0


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


def measure(name: str, points: int) -> dict[str, Any]:
    data = Data(points)
    _ = data.dense, data.dense_queries, data.sparse, data.sparse_queries
    # Millions of numbers that no engine has anything to do with: going through them would hold everyone up for 0.2 s.
    gc.collect()
    gc.freeze()
    base = _memory()
    with tempfile.TemporaryDirectory(prefix="twofold-bench-") as folder:
        engine, result = _filled(next(e for e in ENGINES if e.name == name), Path(folder), data)
        began = time.perf_counter()
        engine.open()
        result["open_ms"] = (time.perf_counter() - began) * 1e3
        result["searches"] = _all_searches(engine)
        result["memory_mb"] = (_memory() - base) / 2**20
        if points >= 20_000 and engine.optimize():
            result["optimised"] = _all_searches(engine)
        engine.close()
    return result


def _filled(kind: type[Engine], folder: Path, data: Data) -> tuple[Engine, dict[str, Any]]:
    """An engine with all points. A small one is filled several times over, since a tenth of a second tells little."""
    fills: list[dict[str, Any]] = []
    while not fills or (len(fills) < _MOST_FILLS and sum(fill["seconds"] for fill in fills) < _FILL_SECONDS):
        engine = kind(folder / f"store{len(fills)}", data)
        engine.open()
        fills.append(_fill(engine, data.points))
        engine.close()
    seconds = float(np.median([fill["seconds"] for fill in fills]))
    longest = max(fill["longest_stall_ms"] for fill in fills)
    return engine, {"upserts_per_s": data.points / seconds, "longest_stall_ms": longest}


def _fill(engine: Engine, points: int) -> dict[str, Any]:
    spent = longest = 0.0
    for start in range(0, points, _CHUNK):
        numbers = range(start, min(points, start + _CHUNK))
        gc.collect()
        heartbeat = Heartbeat()
        heartbeat.start()
        began = time.perf_counter()
        engine.add(numbers)
        spent += time.perf_counter() - began
        longest = max(longest, heartbeat.stop())
    return {"seconds": spent, "longest_stall_ms": longest * 1e3}


def _all_searches(engine: Engine) -> dict[str, dict[str, float]]:
    return {name: _times(search, engine.data.queries) for name, search in engine.searches().items()}


def _times(search: Callable[[int], Any], queries: int) -> dict[str, float]:
    """Every query once, and again while that takes too little time to tell anything.

    Before that they are asked for a while without a clock: an engine that has just opened its files reads them with
    the first queries, which would count against whatever is measured first.
    """
    _asked(search, queries, 0.0, _WARM_SECONDS)
    took = _asked(search, queries, _LEAST_SECONDS, _ENOUGH_SECONDS)
    p50, p95 = np.percentile(took, [50, 95]) * 1e3
    return {"p50_ms": float(p50), "p95_ms": float(p95), "queries": len(took)}


def _asked(search: Callable[[int], Any], queries: int, least: float, most: float) -> list[float]:
    """The seconds of each query, asked in turn: all of them, for `least` seconds, but not for more than `most`."""
    took: list[float] = []
    spent = 0.0
    while (len(took) < queries or spent < least) and spent < most:
        began = time.perf_counter()
        search(len(took) % queries)
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


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
