"""Recall of 10,000 memories with every signal on, against pure vector search of the same memories in the same run."""

from __future__ import annotations

import argparse
import random
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from benchmarks.data import DIM, Data
from twofold import Memory, MemoryConfig
from twofold.encoders import models
from twofold.encoders.base import DenseEncoder

_TAGS = 200
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
CONFIG = MemoryConfig(
    fields={"type": "keyword", "year": "integer"},
    type_weights={"decision": 1.1},
    near_duplicate=None,
)


def prepared(data: Data) -> DenseEncoder:
    """The bundled model, but with every vector ready: what is measured is recall, not a model."""

    def documents(texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return data.dense[[int(text.split(maxsplit=1)[0].removeprefix("no")) % data.points for text in texts]]

    return DenseEncoder(
        name=models.MINILM,
        dim=DIM,
        languages=frozenset({"english"}),
        embed_documents=documents,
        embed_query=lambda text: data.dense_queries[zlib.crc32(text.encode()) % data.queries],
    )


def measure(memories: int = 10_000, queries: int = 400) -> dict[str, dict[str, float]]:
    """Milliseconds of recalls and of pure vector searches, taken in turns."""
    data = Data(memories, queries)
    with (
        tempfile.TemporaryDirectory(prefix="twofold-bench-") as folder,
        Memory.open(folder, user="ada", dense=prepared(data), config=CONFIG) as memory,
    ):
        fill(memory, memories)
        asked = questions(memories, queries)
        ways = _ways(memory)
        took: dict[str, list[float]] = {name: [] for name in ways}
        for query in [*asked[:20], *asked]:  # the first ones warm up
            for name, way in ways.items():
                way(query)  # now its vector is cached, so that encoding doesn't count
                began = time.perf_counter()
                way(query)
                took[name].append((time.perf_counter() - began) * 1e3)
    return {name: _percentiles(times[-queries:]) for name, times in took.items()}


def _ways(memory: Memory) -> dict[str, Callable[[str], Any]]:
    own = {"shelf": f"memory:{memory.user}"}
    return {
        "pure vector": lambda q: memory.index.search(q, alpha=1.0, filter=own),
        "recall": lambda q: memory.recall(q),
        "recall, explained": lambda q: memory.recall(q, explain=True),
        "recall, no signals": lambda q: memory.recall(q, signals=False),
    }


def fill(memory: Memory, count: int) -> None:
    rng = random.Random(5)
    now = datetime.now(timezone.utc)
    memory.remember_many(
        {
            "text": f"no{number} {_words(rng, 30)}",
            "type": rng.choice(["note", "decision", "link", "movie"]),
            "tags": [_tag(rng.randrange(_TAGS)) for _ in range(3)],
            "category": rng.choice(["infra", "people", "code"]),
            "metadata": {"year": rng.randrange(2000, 2027)},
            "importance": rng.random(),
            "pinned": rng.random() < 0.02,
            "created": now - timedelta(days=rng.random() * 365),
        }
        for number in range(count)
    )


def questions(memories: int, count: int) -> list[str]:
    """Six words, a tag and a year; every third has a word that nobody has."""
    rng = random.Random(6)
    return [
        f"{_words(rng, 6)} {_tag(rng.randrange(_TAGS))} {rng.randrange(2000, 2027)} {'kuberntes' if n % 3 == 0 else ''}"
        for n in range(count)
    ]


def _words(rng: random.Random, count: int) -> str:
    """Words that follow Zipf's law."""
    return " ".join(_word(int(20_000 ** rng.random())) for _ in range(count))


def _word(number: int) -> str:
    rng = random.Random(number)
    return "".join(rng.choices(_LETTERS, k=rng.randrange(4, 11)))


def _tag(number: int) -> str:
    return f"{_word(100_000 + number)}-{number % 7}" if number % 5 == 0 else _word(100_000 + number)


def _percentiles(times: Sequence[float]) -> dict[str, float]:
    return {"p50_ms": float(np.percentile(times, 50)), "p95_ms": float(np.percentile(times, 95))}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recall", description=__doc__)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=400)
    arguments = parser.parse_args()
    Console().print(table(arguments.memories, measure(arguments.memories, arguments.queries)))


def table(memories: int, result: dict[str, dict[str, float]]) -> Table:
    """Everything against pure vector search."""
    shown = Table(title=f"{memories:,} memories, encoding excluded", title_justify="left")
    for column in ("", "p50 ms", "p95 ms", "p50 / pure vector", "p95 / pure vector"):
        shown.add_column(column, justify="right" if column else "left")
    base = result["pure vector"]
    for name, took in result.items():
        ratios = [f"{took[key] / base[key]:.2f} x" for key in ("p50_ms", "p95_ms")]
        shown.add_row(name, f"{took['p50_ms']:.2f}", f"{took['p95_ms']:.2f}", *ratios)
    return shown


if __name__ == "__main__":
    main()
