"""What relevance says, on which the gate of a memory and every `min_score` stand.

Of each set: right best hits should have 0.5 or more, the best hit of a foreign question (of another family, in the same
language) less, and a stored text that is asked for word by word 0.95 or more. Where questions search a part, a user's
say, foreign ones are asked there too.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.quality import sets
from benchmarks.quality.systems import index
from benchmarks.quality.vectors import Material, material, model_named
from twofold import HybridIndex
from twofold.encoders.base import DenseEncoder

ANSWER, VERBATIM = 0.5, 0.95
_COLUMNS = ("right first", f"at {ANSWER} or more", "foreign", f"below {ANSWER}", "texts", f"at {VERBATIM} or more")
_WIDTH = 120


@dataclass(frozen=True)
class Seen:
    """How many there were, and of how many of them relevance said what it should."""

    right: int = 0
    answered: int = 0
    foreign: int = 0
    refused: int = 0
    texts: int = 0
    verbatim: int = 0

    def __add__(self, other: Seen) -> Seen:
        return Seen(*(one + another for one, another in zip(astuple(self), astuple(other), strict=True)))

    def cells(self) -> list[str]:
        pairs = ((self.right, self.answered), (self.foreign, self.refused), (self.texts, self.verbatim))
        return [cell for whole, part in pairs for cell in (str(whole), f"{part / whole:.1%}" if whole else "-")]


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality.floor", description=__doc__)
    sets.add_options(parser)
    parser.add_argument("--sets", nargs="+", metavar="SET", help="only these; by default all that are there")
    parser.add_argument("--asked", type=int, default=150, help="ask at most so many of each kind")
    chosen = parser.parse_args(words)
    console = Console(width=max(Console().width, _WIDTH))
    paths, model = sets.find(chosen.data, chosen.sets), model_named(chosen.model)
    everything = sets.find(chosen.data, None)
    table = Table(title="relevance of the best hit", title_justify="left")
    for column in ("set", *_COLUMNS):
        table.add_column(column, justify="left" if column == "set" else "right")
    total = Seen()
    for path in paths:
        with console.status(path.name):
            seen = measure(path, everything, chosen.cache, chosen.asked, model)
        table.add_row(path.name, *seen.cells())
        total += seen
    table.add_section()
    table.add_row("all", *total.cells())
    console.print(table)


def measure(path: Path, everything: Sequence[Path], cache: Path, asked: int, model: DenseEncoder | None = None) -> Seen:
    known, chance = sets.known(path.name), random.Random(path.name)
    own = material(sets.read(path), known.language, cache, model=model).without(known.apart)
    questions = chance.sample(own.data.questions, min(asked, len(own.data.questions)))
    with index(own, known.language) as opened:
        best = [(each, opened.search(each.text, 1, filter=each.filter)) for each in questions]
        right = [found[0].relevance for each, found in best if found and found[0].id in each.relevant]
        parts = [each.filter for each in questions]
        strangers = foreign_questions(path.name, everything, asked)
        foreign = [_best(opened, text, chance.choice(parts)) for text in strangers]
        verbatim = _verbatim(opened, own, known.same, chance, asked)
    return Seen(
        len(right), sum(r >= ANSWER for r in right),
        len(foreign), sum(r < ANSWER for r in foreign),
        len(verbatim), sum(r >= VERBATIM for r in verbatim),
    )  # fmt: skip


def foreign_questions(name: str, everything: Sequence[Path], asked: int) -> list[str]:
    """Of sets of other families in the same language, as many of each; always the same ones."""
    others = [path for path in everything if _is_foreign(name, path.name)]
    texts: list[str] = []
    for path in others:
        questions = sets.read(path).questions
        share = -(-asked // len(others))
        texts += [each.text for each in random.Random(name).sample(questions, min(share, len(questions)))]
    return texts[:asked]


def _is_foreign(name: str, other: str) -> bool:
    """Sets in other languages are one family by name only: there it is enough that a set is another."""
    own, known = sets.known(name), sets.known(other)
    if name == other or own.language != known.language:
        return False
    return own.language != sets.ENGLISH or own.family != known.family


def _best(opened: HybridIndex, query: str, where: Mapping[str, Any] | None) -> float:
    found = opened.search(query, 1, filter=where)
    return found[0].relevance if found else 0.0


def _verbatim(opened: HybridIndex, own: Material, same: str | None, chance: random.Random, asked: int) -> list[float]:
    texts = chance.sample(own.data.documents, min(asked, len(own.data.documents)))
    return [_best(opened, each.text, {same: each.metadata[same]} if same else None) for each in texts]


if __name__ == "__main__":
    main()
