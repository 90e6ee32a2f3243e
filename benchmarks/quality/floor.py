"""What relevance says, on which the gate of a memory and every `min_score` stand.

Of each set: right best hits should have 0.5 or more, the best hit of a foreign question (of another family, in the same
language) less, and a stored text that is asked for word by word 0.95 or more. Where questions search a part, a user's
say, foreign ones are asked there too. Below stands how many best hits were right by what relevance said of them, each
set counting alike; `--plot FILE` draws it.
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
_STEPS = 10


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
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw how many are right by relevance, as SVG")
    chosen = parser.parse_args(words)
    console = Console(width=max(Console().width, _WIDTH))
    paths, model = sets.find(chosen.data, chosen.sets), model_named(chosen.model)
    everything = sets.find(chosen.data, None)
    table = Table(title="relevance of the best hit", title_justify="left")
    for column in ("set", *_COLUMNS):
        table.add_column(column, justify="left" if column == "set" else "right")
    total = Seen()
    stated: list[list[tuple[float, bool]]] = []
    for path in paths:
        with console.status(path.name):
            seen, best = measure(path, everything, chosen.cache, chosen.asked, model)
        table.add_row(path.name, *seen.cells())
        total += seen
        stated.append(best)
    table.add_section()
    table.add_row("all", *total.cells())
    console.print(table)
    steps = by_relevance(stated)
    reliability = Table(title="best hits by what relevance said of them", title_justify="left")
    for column in ("relevance", "best hits", "right"):
        reliability.add_column(column, justify="right")
    for step, (count, right) in enumerate(steps):
        reliability.add_row(f"{step / _STEPS:.1f} to {(step + 1) / _STEPS:.1f}", str(count), f"{right:.1%}")
    console.print(reliability)
    if chosen.plot:
        chosen.plot.write_text(drawn(steps), encoding="utf-8")


def by_relevance(measured: Sequence[Sequence[tuple[float, bool]]]) -> list[tuple[int, float]]:
    """For each tenth of the scale: how many best hits, and which share of them is right; each set counts alike."""
    counts, weights, rights = [0] * _STEPS, [0.0] * _STEPS, [0.0] * _STEPS
    for best in measured:
        for relevance, right in best:
            step = min(int(relevance * _STEPS), _STEPS - 1)
            counts[step] += 1
            weights[step] += 1 / len(best)
            rights[step] += right / len(best)
    return [
        (count, right / weight if weight else 0.0) for count, weight, right in zip(counts, weights, rights, strict=True)
    ]


def drawn(steps: Sequence[tuple[int, float]]) -> str:
    """The share of right best hits over what relevance said; a dot is as large as there are many of them."""
    width, height, left, top = 480, 320, 50, 20
    most = max(count for count, _ in steps) or 1
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width + left + 20} {height + top + 50}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for tenth in range(0, 11, 2):
        x, y = left + round(width * tenth / 10), top + round(height * (1 - tenth / 10))
        lines.append(f'<line x1="{left}" y1="{y}" x2="{left + width}" y2="{y}" stroke="#ddd"/>')
        lines.append(f'<text x="{left - 8}" y="{y + 4}" text-anchor="end">{tenth * 10} %</text>')
        lines.append(f'<text x="{x}" y="{top + height + 18}" text-anchor="middle">{tenth / 10:.1f}</text>')
    # Where a probability would lie.
    lines.append(
        f'<line x1="{left}" y1="{top + height}" x2="{left + width}" y2="{top}" stroke="#bbb" stroke-dasharray="4 4"/>'
    )
    points = [
        (left + width * (n + 0.5) / _STEPS, top + height * (1 - share), count) for n, (count, share) in enumerate(steps)
    ]
    path = " ".join(f"{x:.0f},{y:.0f}" for x, y, count in points if count)
    lines.append(f'<polyline points="{path}" fill="none" stroke="#2277bb" stroke-width="2"/>')
    lines += [
        f'<circle cx="{x:.0f}" cy="{y:.0f}" r="{3 + 9 * (count / most) ** 0.5:.1f}" fill="#2277bb"/>'
        for x, y, count in points
        if count
    ]
    middle = left + width // 2
    lines.append(f'<text x="{middle}" y="{top + height + 40}" text-anchor="middle">relevance of the best hit</text>')
    lines.append(f'<text x="{left + 8}" y="{top + 14}">best hits that are right</text>')
    return "\n".join([*lines, "</svg>", ""])


def measure(
    path: Path, everything: Sequence[Path], cache: Path, asked: int, model: DenseEncoder | None = None
) -> tuple[Seen, list[tuple[float, bool]]]:
    """What was seen of a set, and of each of its best hits what relevance said and whether it is right."""
    known, chance = sets.known(path.name), random.Random(path.name)
    own = material(sets.read(path), known.language, cache, model=model).without(known.apart)
    questions = chance.sample(own.data.questions, min(asked, len(own.data.questions)))
    with index(own, known.language) as opened:
        answers = [(each, opened.search(each.text, 1, filter=each.filter)) for each in questions]
        best = [(found[0].relevance, found[0].id in each.relevant) for each, found in answers if found]
        right = [relevance for relevance, is_right in best if is_right]
        parts = [each.filter for each in questions]
        strangers = foreign_questions(path.name, everything, asked)
        foreign = [_best(opened, text, chance.choice(parts)) for text in strangers]
        verbatim = _verbatim(opened, own, known.same, chance, asked)
    seen = Seen(
        len(right), sum(r >= ANSWER for r in right),
        len(foreign), sum(r < ANSWER for r in foreign),
        len(verbatim), sum(r >= VERBATIM for r in verbatim),
    )  # fmt: skip
    return seen, best


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
