"""What `tune` and `calibrate` bring: tuned on one half of a set's questions, tried on the other half.

`calibrate` is tried with the language declared, with nobody saying it, and with a model that nobody knows: the bundled
one in disguise.
"""

from __future__ import annotations

import argparse
import random
from dataclasses import replace
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.quality import sets
from benchmarks.quality.systems import index
from benchmarks.quality.vectors import Material, material
from twofold import HybridIndex, Pair
from twofold.encoders import models
from twofold.eval import Dataset, evaluate

_WIDTH = 200  # a table that is cut to a narrow terminal shows no figures
_COLUMNS = ("set", "default", "calibrated", "undeclared", "calibrated", "own model", "calibrated", "tuned", "tuning")


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
    for path in sets.find(chosen.data, chosen.sets):
        known = sets.known(path.name)
        with console.status(path.name):
            vectors = material(sets.read(path), known.language, chosen.cache, chosen.sample)
            table.add_row(path.name, *_row(vectors.without(known.apart)))
    console.print(table)


def _row(vectors: Material) -> list[str]:
    mine, theirs = _halves(vectors.data)
    pairs = [Pair(q.text, frozenset(q.relevant), q.filter) for q in mine.questions]
    vectors = _with_pieces(vectors)
    with index(vectors, vectors.language) as declared:
        figures = _calibrated(declared, theirs)
        declared.untune()
        tuning = declared.tune(pairs)
        tuned = _score(declared, theirs)
    with index(vectors, None) as undeclared:
        figures += _calibrated(undeclared, theirs)
    with index(vectors, vectors.language, unknown=True) as unknown:
        figures += _calibrated(unknown, theirs)
    return [*(f"{figure:.4f}" for figure in (*figures, tuned)), str(tuning)]


def _calibrated(opened: HybridIndex, data: Dataset) -> list[float]:
    """The figure without and with calibration."""
    default = _score(opened, data)
    opened.calibrate()
    return [default, _score(opened, data)]


def _halves(data: Dataset) -> tuple[Dataset, Dataset]:
    questions = list(data.questions)
    random.Random(11).shuffle(questions)
    middle = len(questions) // 2
    return replace(data, questions=tuple(questions[:middle])), replace(data, questions=tuple(questions[middle:]))


def _score(opened: HybridIndex, data: Dataset) -> float:
    return evaluate(opened, data, k=10)["ndcg"]


def _with_pieces(vectors: Material) -> Material:
    """Calibration asks for pieces of texts, which the model has to embed."""
    model = _model()

    class Embedding(dict[str, Any]):
        def __missing__(self, text: str) -> Any:
            return np.asarray(model.embed_query(text))

    return replace(vectors, queries=Embedding(vectors.queries))


def _model() -> Any:
    return models.bundled_dense()


if __name__ == "__main__":
    main()
