"""What the floor of a memory keeps and turns away, at several sizes.

Some texts of a set are remembered. Its own questions about them should find them as they would without a floor;
questions of the other sets should find nothing.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.quality import sets
from benchmarks.quality.vectors import Material, material
from twofold import Document, Memory, MemoryConfig
from twofold.eval import Question

# Prose in the language of the model. A memory of code has a greater alpha, for which there is no floor.
_PROSE = ("chunking-eval", "locomo-dev", "pira-en", "qmsum-val", "scifact-train", "xquad-en")
_SIZES = (30, 100, 300, 1000, 3000)
_CONFIG = MemoryConfig(touch=False, recency_decay=0, near_duplicate=None)


@dataclass(frozen=True)
class Kept:
    """Right best hits without a floor, and those of them that are still there with it; strangers, likewise."""

    right: int = 0
    still: int = 0
    strangers: int = 0
    refused: int = 0

    def __add__(self, other: Kept) -> Kept:
        return Kept(
            self.right + other.right,
            self.still + other.still,
            self.strangers + other.strangers,
            self.refused + other.refused,
        )

    def cells(self) -> list[str]:
        return [
            str(self.right),
            _share(self.still, self.right),
            str(self.strangers),
            _share(self.refused, self.strangers),
        ]


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality.floor", description=__doc__)
    sets.add_options(parser)
    parser.add_argument("--sets", nargs="+", metavar="SET", default=list(_PROSE), help="sets of prose, two or more")
    parser.add_argument("--sizes", nargs="+", type=int, default=list(_SIZES), help="how many texts to remember")
    parser.add_argument("--asked", type=int, default=150, help="ask at most so many questions of each kind")
    chosen = parser.parse_args(words)
    console = Console()
    with console.status("vectors"):
        all_sets = _materials(sets.find(chosen.data, chosen.sets), chosen.cache)
    table = Table(title="recall with the default floor", title_justify="left")
    for column in ("set", "texts", "right without it", "kept", "of other sets", "answered with nothing"):
        table.add_column(column, justify="left" if column == "set" else "right")
    total = Kept()
    for name, size, kept in _measured(all_sets, chosen.sizes, chosen.asked, console):
        table.add_row(name, str(size), *kept.cells())
        total += kept
    table.add_section()
    table.add_row("all", "", *total.cells())
    console.print(table)


def _materials(paths: Sequence[Path], cache: Path) -> dict[str, Material]:
    """Each set with the questions of all: every memory is asked every question."""
    found = {
        path.name: material(sets.read(path), "english", cache).without(sets.known(path.name).apart) for path in paths
    }
    questions = {text: vector for each in found.values() for text, vector in each.queries.items()}
    return {name: replace(each, queries=questions) for name, each in found.items()}


def _measured(
    all_sets: dict[str, Material], sizes: Sequence[int], asked: int, console: Console
) -> Iterator[tuple[str, int, Kept]]:
    for name, own in all_sets.items():
        strangers = [q for other, each in all_sets.items() if other != name for q in each.data.questions]
        for size in sizes:
            if size <= len(own.data.documents):
                chance = random.Random(size)
                with console.status(f"{name}: {size} texts"):
                    yield name, size, _kept(own, size, chance.sample(strangers, min(asked, len(strangers))), asked)


def _kept(own: Material, size: int, strangers: Sequence[Question], asked: int) -> Kept:
    """Texts in their own order are about one thing, as memories are; questions are those that they answer."""
    documents = list(own.data.documents)[:size]
    there = {document.id for document in documents}
    questions = [question for question in own.data.questions if there & set(question.relevant)][:asked]
    with Memory.open(":memory:", user="ada", dense=own.encoder(), config=_CONFIG) as memory:
        names = _remember(memory, documents)
        open_to_all = memory.with_settings(min_score=None)
        right = [q for q in questions if _best(open_to_all, q.text, names) in q.relevant]
        still = [q for q in right if _best(memory, q.text, names) in q.relevant]
        refused = [q for q in strangers if not memory.recall(q.text, 1)]
    return Kept(len(right), len(still), len(strangers), len(refused))


def _remember(memory: Memory, documents: Sequence[Document]) -> dict[str, str]:
    ids = memory.remember_many([document.text for document in documents])
    return {str(identity): str(document.id) for identity, document in zip(ids, documents, strict=True)}


def _best(memory: Memory, query: str, names: dict[str, str]) -> str | None:
    found = memory.recall(query, 1).ids
    return names[found[0]] if found else None


if __name__ == "__main__":
    main()
