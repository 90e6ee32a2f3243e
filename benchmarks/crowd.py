"""Many users of one process at once: how long each waits, and for how long an event loop stands still.

32 users, as threads and as tasks, each ask questions nobody has asked before; then one event loop opens a folder, and
answers hundreds of searches and recalls at once.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.data import Data
from twofold import HybridIndex, Memory
from twofold.encoders.bm25 import known_words

USERS = 32
_SEARCHES, _RECALLS = 200, 150
_BEAT_SECONDS = 0.002


class Beat:
    """Wakes an event loop every 2 ms; the longest time it could not is how long the loop stood still.

    On a machine with other work, that is also how long others had its cores: what this process computed meanwhile is
    told beside it, and the lesser of both is what the process did to itself.
    """

    def __init__(self) -> None:
        self.longest_ms = self.own_ms = 0.0

    async def __aenter__(self) -> Beat:
        self._task = asyncio.ensure_future(self._run())
        await asyncio.sleep(5 * _BEAT_SECONDS)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.sleep(5 * _BEAT_SECONDS)
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            began, spent = time.perf_counter(), time.process_time()
            await asyncio.sleep(_BEAT_SECONDS)
            stood = time.perf_counter() - began - _BEAT_SECONDS
            self.longest_ms = max(self.longest_ms, stood * 1e3)
            self.own_ms = max(self.own_ms, min(stood, time.process_time() - spent) * 1e3)


def questions(seed: int) -> Iterator[str]:
    """Questions of four to twelve English words; no two alike."""
    rng, known = random.Random(seed), sorted(word for word in known_words() if len(word) > 3)
    while True:
        yield " ".join(rng.choices(known, k=rng.randrange(4, 13)))


def fill(index: HybridIndex, documents: int) -> None:
    """English words, and vectors without a model: what is measured is asking."""
    asked = questions(0)
    texts = [" ".join([next(asked), next(asked)]) for _ in range(documents)]
    index.add(texts, vectors=Data(documents).dense, batch_size=1024)


def by_threads(index: HybridIndex, each: int) -> dict[str, float]:
    """Users in threads of their own."""

    def user(number: int) -> list[float]:
        took = []
        for query, _ in zip(questions(1000 + number), range(each), strict=False):
            began = time.perf_counter()
            index.search(query)
            took.append(time.perf_counter() - began)
        return took

    began, spent = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(USERS) as pool:
        took = [seconds for own in pool.map(user, range(USERS)) for seconds in own]
    return _figures(took, time.perf_counter() - began, time.process_time() - spent)


async def by_tasks(index: HybridIndex, each: int) -> dict[str, float]:
    """Users as tasks of one event loop."""

    async def user(number: int) -> list[float]:
        took = []
        for query, _ in zip(questions(2000 + number), range(each), strict=False):
            began = time.perf_counter()
            await index.asearch(query)
            took.append(time.perf_counter() - began)
        return took

    began, spent = time.perf_counter(), time.process_time()
    took = [seconds for own in await asyncio.gather(*map(user, range(USERS))) for seconds in own]
    return _figures(took, time.perf_counter() - began, time.process_time() - spent)


def alone(index: HybridIndex, count: int) -> dict[str, float]:
    """One user, for comparison."""
    took, asked = [], questions(3)
    began, spent = time.perf_counter(), time.process_time()
    for _ in range(count):
        query, start = next(asked), time.perf_counter()
        index.search(query)
        took.append(time.perf_counter() - start)
    return _figures(took, time.perf_counter() - began, time.process_time() - spent)


def _figures(took: list[float], seconds: float, cpu: float) -> dict[str, float]:
    p50, p95 = np.percentile(took, [50, 95]) * 1e3
    return {
        "p50_ms": float(p50),
        "p95_ms": float(p95),
        "per_second": len(took) / seconds,
        "cpu_ms_each": cpu / len(took) * 1e3,
    }


async def stalls(folder: Path, memories: Memory) -> dict[str, Beat]:
    """The longest that the event loop stood still in each kind of work."""
    asked = questions(4)
    found: dict[str, Beat] = {}

    async def measured(name: str, work: Callable[[], Awaitable[object]]) -> None:
        async with Beat() as beat:
            await work()
        found[name] = beat

    opened: list[HybridIndex] = []

    async def opening() -> None:
        opened.append(await HybridIndex.aopen(folder))

    await measured("aopen", opening)
    (index,) = opened
    await measured("first asearch", lambda: index.asearch(next(asked)))
    await measured(
        f"{_SEARCHES} asearch", lambda: asyncio.gather(*(index.asearch(next(asked)) for _ in range(_SEARCHES)))
    )
    await measured("first arecall", lambda: memories.arecall(next(asked)))
    await measured(
        f"{_RECALLS} arecall", lambda: asyncio.gather(*(memories.arecall(next(asked)) for _ in range(_RECALLS)))
    )
    await index.aclose()
    return found


def measure(documents: int, each: int, opened: int) -> tuple[dict[str, dict[str, float]], dict[str, Beat]]:
    """What users wait, and how long the event loop stands still."""
    with tempfile.TemporaryDirectory(prefix="twofold-bench-") as place:
        folder = Path(place)
        with HybridIndex.open(folder / "large") as large:
            fill(large, opened)
        with HybridIndex.open(folder / "small") as index, Memory.open(folder / "memories", user="ada") as memories:
            fill(index, documents)
            asked = questions(5)
            memories.remember_many([next(asked) for _ in range(300)])
            standing = asyncio.run(stalls(folder / "large", memories))
            index.search(next(asked))
            waits = {
                "one user": alone(index, 5 * each),
                f"{USERS} threads": by_threads(index, each),
                f"{USERS} tasks": asyncio.run(by_tasks(index, each)),
            }
    return waits, standing


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crowd", description=__doc__)
    parser.add_argument("--documents", type=int, default=2_000, help="in the index that users search")
    parser.add_argument("--each", type=int, default=25, help="searches of each user")
    parser.add_argument("--opened", type=int, default=20_000, help="documents in the folder that is opened")
    arguments = parser.parse_args()
    waits, standing = measure(arguments.documents, arguments.each, arguments.opened)
    table = Table(title=f"searches of {arguments.documents:,} documents", title_justify="left")
    for column in ("", "p50 ms", "p95 ms", "searches/s", "CPU ms each"):
        table.add_column(column, justify="right" if column else "left")
    for name, result in waits.items():
        table.add_row(name, *(f"{value:,.1f}" for value in result.values()))
    Console().print(table)
    table = Table("", "longest stall ms", "by itself ms", title=f"event loop, {arguments.opened:,} documents")
    for name, beat in standing.items():
        table.add_row(name, f"{beat.longest_ms:.0f}", f"{beat.own_ms:.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
