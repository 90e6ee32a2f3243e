"""What a typing error costs: one slip in the rarest word of each question, with and without correcting it.

And whether right words stay what they are: words from the questions of the other sets, most of which these texts lack.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.quality import sets
from benchmarks.quality.vectors import Material, material, model_named
from twofold import HybridIndex, Memory, MemoryConfig, SearchConfig
from twofold.encoders.bm25 import BM25
from twofold.eval import Dataset, evaluate
from twofold.ranking.vocabulary import fold, split

SETS = ("scifact-train", "cosqa-dev", "cranfield")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_SHORTEST = 4
_WIDTH = 120
_COLUMNS = ("right", "corrected anyway", "slip", "corrected", "loss left", "right words", "changed")
Opener = Callable[[Material, bool], Any]


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.typos", description=__doc__)
    sets.add_options(parser)
    parser.add_argument("--sets", nargs="+", metavar="SET", default=list(SETS), help=f"by default {', '.join(SETS)}")
    parser.add_argument("--questions", type=int, default=200, help="ask so many of each set")
    parser.add_argument("--words", type=int, default=500, help="look for so many right words in each set")
    parser.add_argument("--seed", type=int, default=5)
    chosen = parser.parse_args(words)
    console = Console(width=max(Console().width, _WIDTH))
    paths = {path.name: path for path in sets.find(chosen.data, chosen.sets)}
    questions = {path.name: sets.read(path).questions for path in sets.find(chosen.data, None)}
    table = Table(title="nDCG@10, one slip in the rarest word of each question", title_justify="left")
    for column in ("set", "of", *_COLUMNS):
        table.add_column(column, justify="left" if column in ("set", "of") else "right")
    for name, path in paths.items():
        vectors = material(sets.read(path), sets.known(name).language, chosen.cache, None, model_named(chosen.model))
        right, mistyped = disturbed(vectors.data, chosen.questions, random.Random(chosen.seed))
        language = sets.known(name).language
        others = [q.text for other in questions if sets.known(other).language == language for q in questions[other]]
        asked = sorted({word for text in others for word in split(text) if len(word) >= _SHORTEST and word.isalpha()})
        asked = random.Random(chosen.seed).sample(asked, min(chosen.words, len(asked)))
        for kind, opener in (("index", open_index), ("memory", open_memory)):
            cells, changed = measure(replace(vectors, data=right), mistyped, asked, opener)
            table.add_row(name, kind, *cells)
            console.print(f"{name}, {kind}: {', '.join(cells)}; read as others: {changed}", markup=False)
    console.print(table)


def measure(vectors: Material, mistyped: Dataset, words: list[str], opener: Opener) -> tuple[list[str], dict[str, str]]:
    """The cells of a row, and the right words that were read as others."""
    scores = {}
    changed: dict[str, str] = {}
    for typos in (False, True):
        with opener(vectors, typos) as (retriever, find):
            for name, data in (("right", vectors.data), ("slip", mistyped)):
                scores[name, typos] = evaluate(retriever, data, metrics=("ndcg",))["ndcg"]
            for word in words if typos else ():
                changed.update(find(word).corrections)
    lost, left = (scores["right", False] - scores["slip", typos] for typos in (False, True))
    figures = [scores[name, typos] for name in ("right", "slip") for typos in (False, True)]
    share = f"{left / lost:.0%}" if lost else "-"
    return [*(f"{figure:.3f}" for figure in figures), share, str(len(words)), str(len(changed))], changed


@contextmanager
def open_index(vectors: Material, typos: bool) -> Iterator[Any]:
    config = SearchConfig(typos=typos)
    with HybridIndex.open(":memory:", dense=vectors.encoder(), language=vectors.language, config=config) as index:
        index.add(vectors.data.documents)
        yield index, index.search


@contextmanager
def open_memory(vectors: Material, typos: bool) -> Iterator[Any]:
    """Every document is a memory; a text that is there twice is one memory, found as the first of the two."""
    config = MemoryConfig(typos=typos, touch=False, min_score=None)
    with Memory.open(
        ":memory:", user="ada", dense=vectors.encoder(), language=vectors.language, config=config
    ) as memory:
        documents = [document for document in vectors.data.documents if document.text.strip()]
        stored = [each.id for each in memory.remember_many([document.text for document in documents])]
        first = dict(zip(reversed(stored), [str(each.id) for each in reversed(documents)], strict=True))

        def retrieve(query: str, k: int) -> list[str]:
            return [first[hit.id] for hit in memory.recall(query, k)]

        yield retrieve, memory.recall


# --- Slips ---


def disturbed(data: Dataset, count: int, chance: random.Random) -> tuple[Dataset, Dataset]:
    """Some questions as they are, and with one slip in the rarest of their words that the documents have."""
    texts = Counter(word for document in data.documents for word in set(split(document.text)))
    stem = BM25().stem
    right, wrong = [], []
    for question in chance.sample(data.questions, len(data.questions)):
        words = [w for w in split(question.text) if len(w) >= _SHORTEST and w.isalpha() and stem(w) and texts[w]]
        place = -1
        if words:
            rarest = min(words, key=lambda word: (texts[word], word))
            place = fold(question.text).find(rarest)
        if place >= 0 and len(fold(question.text)) == len(question.text):
            text = question.text[:place] + slip(rarest, chance) + question.text[place + len(rarest) :]
            right.append(question)
            wrong.append(replace(question, text=text))
        if len(right) == count:
            break
    return replace(data, questions=tuple(right)), replace(data, questions=tuple(wrong))


def slip(word: str, chance: random.Random) -> str:
    """A letter left out, one too many, another one, or two swapped; anywhere in the word."""
    while True:
        place, letter = chance.randrange(len(word)), chance.choice(_LETTERS)
        before, at, after = word[:place], word[place], word[place + 1 :]
        swapped = before + after[:1] + at + after[1:]
        typed = chance.choice([before + after, before + letter + at + after, before + letter + after, swapped])
        if typed != word:
            return typed


if __name__ == "__main__":
    main()
