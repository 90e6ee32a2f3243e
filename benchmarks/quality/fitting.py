"""What `tune` brings: tuned on one half of a set's questions, tried on the other half."""

from __future__ import annotations

import argparse
import random
from dataclasses import replace

from rich.console import Console
from rich.table import Table

from benchmarks.quality import sets
from benchmarks.quality.systems import index
from benchmarks.quality.vectors import Material, material, model_named
from twofold import HybridIndex, Pair
from twofold.eval import Dataset, evaluate

_WIDTH = 140  # a table that is cut to a narrow terminal shows no figures
_COLUMNS = ("set", "default", "tuned", "tuning")


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality.fitting", description=__doc__)
    sets.add_options(parser)
    parser.add_argument("--sets", nargs="+", metavar="SET", help="only these; by default all that are there")
    parser.add_argument("--sample", type=int, default=400, help="ask at most so many questions of each set")
    chosen = parser.parse_args(words)
    console = Console(width=max(Console().width, _WIDTH))
    table = Table(title="nDCG@10 of the half that had no part in tuning", title_justify="left")
    for column in _COLUMNS:
        table.add_column(column, justify="left" if column in ("set", "tuning") else "right")
    paths, model = sets.find(chosen.data, chosen.sets), model_named(chosen.model)
    for path in paths:
        known = sets.known(path.name)
        with console.status(path.name):
            vectors = material(sets.read(path), known.language, chosen.cache, chosen.sample, model)
            table.add_row(path.name, *_row(vectors.without(known.apart)))
    console.print(table)


def _row(vectors: Material) -> list[str]:
    mine, theirs = _halves(vectors.data)
    pairs = [Pair(q.text, frozenset(q.relevant), q.filter) for q in mine.questions]
    with index(vectors, vectors.language) as opened:
        default = _score(opened, theirs)
        tuning = opened.tune(pairs)
        tuned = _score(opened, theirs)
    return [f"{default:.4f}", f"{tuned:.4f}", str(tuning)]


def _halves(data: Dataset) -> tuple[Dataset, Dataset]:
    questions = list(data.questions)
    random.Random(11).shuffle(questions)
    middle = len(questions) // 2
    return replace(data, questions=tuple(questions[:middle])), replace(data, questions=tuple(questions[middle:]))


def _score(opened: HybridIndex, data: Dataset) -> float:
    return evaluate(opened, data, k=10)["ndcg"]


if __name__ == "__main__":
    main()
