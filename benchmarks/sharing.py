"""How long a search takes in the process that holds a folder, and in one that joined it, in turns.

python -m benchmarks.sharing --points 10000
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from statistics import median

from twofold import HybridIndex
from twofold.testing import HashEmbedding

_TURNS = 5
_QUERIES = 100
_WORDS = 3000
_DIMENSIONS = 384


def _texts(number: int, words: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(f"word{min(int(rng.paretovariate(0.5)), _WORDS)}" for _ in range(words)) for _ in range(number)]


def _open(folder: str) -> HybridIndex:
    return HybridIndex.open(folder, dense=HashEmbedding(dim=_DIMENSIONS), optimize="manual")


def _measure(index: HybridIndex) -> list[float]:
    """Seconds of each search; what a query looks like as a vector is remembered, so no model is measured."""
    took = []
    for query in _texts(_QUERIES, 4, 1):
        began = time.perf_counter()
        index.search(query, k=10)
        took.append(time.perf_counter() - began)
    return took


def _hold(folder: str, points: int) -> None:
    with _open(folder) as index:
        index.add(_texts(points, 30, 0))
        _measure(index)
        sys.stdout.write("ready\n")
        for line in sys.stdin:
            answer = index.optimize(progress=None) if line.strip() == "optimise" else _measure(index)
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sharing", description=__doc__)
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--hold", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.hold:
        _hold(given.hold, given.points)
        return
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-u", "-m", "benchmarks.sharing", "--points", str(given.points), "--hold", folder]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
            _compare(holder, folder, given.points)


def _compare(holder: subprocess.Popen[str], folder: str, points: int) -> None:
    if holder.stdin is None or holder.stdout is None:
        raise RuntimeError("the holder has no pipes")

    def ask(what: str) -> list[float]:
        holder.stdin.write(what + "\n")  # type: ignore[union-attr]
        holder.stdin.flush()  # type: ignore[union-attr]
        answer: list[float] = json.loads(holder.stdout.readline())  # type: ignore[union-attr]
        return answer

    holder.stdout.readline()
    with _open(folder) as joined:
        _measure(joined)
        for stage in ("as written", "optimised"):
            if stage == "optimised":
                ask("optimise")
            held, asked = [], []
            for _ in range(_TURNS):
                held += ask("measure")
                asked += _measure(joined)
            ours, theirs = median(asked) * 1000, median(held) * 1000
            sys.stdout.write(
                f"{points:,} points, {stage}: p50 {theirs:.2f} ms in the holder, {ours:.2f} ms joined: "
                f"{ours / theirs:.2f} times\n"
            )
    holder.stdin.close()


if __name__ == "__main__":
    main()
