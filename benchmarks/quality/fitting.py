"""What `tune` and `calibrate` bring: tuned on one half of a set's questions, tried on the other half."""

from __future__ import annotations

import argparse
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.quality import sets
from benchmarks.quality.systems import SYSTEMS
from benchmarks.quality.vectors import Material, material
from twofold import HybridIndex, Pair
from twofold.eval import Dataset, evaluate

_OPEN = SYSTEMS[0].open


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality.fitting", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder with the sets")
    parser.add_argument("--sets", nargs="+", metavar="SET", help="only these; by default all that are there")
    parser.add_argument("--sample", type=int, default=600, help="ask at most so many questions of each set")
    parser.add_argument("--cache", type=Path, default=Path(".cache/quality"), help="where vectors are kept")
    chosen = parser.parse_args()
    console = Console()
    table = Table(title="nDCG@10 of the half that had no part in tuning", title_justify="left")
    for column in ("set", "default", "calibrated", "tuned", "tuning"):
        table.add_column(column, justify="left" if column in ("set", "tuning") else "right")
    for path in sets.find(chosen.data, chosen.sets):
        known = sets.known(path.name)
        with console.status(path.name):
            vectors = material(sets.read(path), known.language, chosen.cache, chosen.sample)
            table.add_row(path.name, *_row(vectors.without(known.apart)))
    console.print(table)


def _row(vectors: Material) -> list[str]:
    mine, theirs = _halves(vectors.data)
    pairs = [Pair(q.text, frozenset(q.relevant), q.filter) for q in mine.questions]
    with _OPEN(_with_pieces(vectors)) as index:
        default = _score(index, theirs)
        index.calibrate()
        calibrated = _score(index, theirs)
        index.untune()
        tuning = index.tune(pairs)
        tuned = _score(index, theirs)
    return [f"{default:.4f}", f"{calibrated:.4f}", f"{tuned:.4f}", str(tuning)]


def _halves(data: Dataset) -> tuple[Dataset, Dataset]:
    questions = list(data.questions)
    random.Random(11).shuffle(questions)
    middle = len(questions) // 2
    return replace(data, questions=tuple(questions[:middle])), replace(data, questions=tuple(questions[middle:]))


def _score(index: HybridIndex, data: Dataset) -> float:
    return evaluate(index, data, k=10)["ndcg"]


def _with_pieces(vectors: Material) -> Material:
    """Calibration asks for pieces of texts, which the model has to embed."""
    from twofold.encoders import bundled

    model = bundled.encoder()

    class Embedding(dict[str, Any]):
        def __missing__(self, text: str) -> Any:
            return model.embed_query(text)

    return replace(vectors, queries=Embedding(vectors.queries))


if __name__ == "__main__":
    main()
