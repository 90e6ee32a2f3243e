"""What a split into shards changes in a ranking: the same texts and questions in one shard and in several.

Needs a Qdrant server. One node will do: what differs is how rare a word is, which each shard counts by itself.
"""

from __future__ import annotations

import argparse
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from qdrant_client import QdrantClient
from rich.console import Console
from rich.table import Table

from benchmarks.quality import sets
from benchmarks.quality.vectors import Material, material, model_named
from twofold import CollectionSettings, HybridIndex
from twofold.eval import Run, evaluate

SETS = ("covid-faq-en", "cranfield", "tldr", "scifact-train")
K = 10
_COLUMNS = ("texts", "shards", "questions", "other ten", "other order", "other first", "hits exchanged", "nDCG@10")
_WIDTH = 120


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shards", description=__doc__)
    sets.add_options(parser)
    parser.add_argument("--url", default=os.environ.get("QDRANT_URL", "http://localhost:6333"))
    parser.add_argument("--sets", nargs="+", metavar="SET", default=list(SETS), help=f"by default {', '.join(SETS)}")
    parser.add_argument("--questions", type=int, default=200, help="ask so many of each set")
    parser.add_argument("--shards", type=int, nargs="+", default=[1, 2, 3, 6], help="again with 1: what chance does")
    chosen = parser.parse_args(words)
    console = Console(width=max(Console().width, _WIDTH))
    table = Table(title=f"the first {K} hits, against one shard", title_justify="left")
    for column in ("set", *_COLUMNS):
        table.add_column(column, justify="left" if column == "set" else "right")
    for path in sets.find(chosen.data, chosen.sets):
        language = sets.known(path.name).language
        vectors = material(sets.read(path), language, chosen.cache, chosen.questions, model_named(chosen.model))
        one = answered(chosen.url, vectors, 1)
        table.add_row(path.name, f"{len(vectors.data.documents):,}", "1", *["", "", "", "", ""], f"{one['ndcg']:.3f}")
        for shards in chosen.shards:
            table.add_row("", "", str(shards), *compared(one, answered(chosen.url, vectors, shards)))
    console.print(table)


def answered(url: str, vectors: Material, shards: int) -> Run:
    """What all questions find in a collection of so many shards."""
    with opened(url, vectors, shards) as index:
        index.add(vectors.data.documents)
        return evaluate(index, vectors.data, k=K, metrics=("ndcg",))


def compared(one: Run, other: Run) -> list[str]:
    """The share of questions whose hits differ, and the score."""
    pairs = [(a.ids, b.ids) for a, b in zip(one.answers, other.answers, strict=True)]
    count = len(pairs)
    differing = (
        sum(set(a) != set(b) for a, b in pairs),
        sum(a != b for a, b in pairs),
        sum(a[:1] != b[:1] for a, b in pairs),
    )
    exchanged = sum(len(set(a) - set(b)) for a, b in pairs) / max(sum(len(a) for a, _ in pairs), 1)
    return [str(count), *(f"{each / count:.1%}" for each in differing), f"{exchanged:.1%}", f"{other['ndcg']:.3f}"]


@contextmanager
def opened(url: str, vectors: Material, shards: int) -> Iterator[HybridIndex]:
    """A collection that is gone afterwards."""
    name, key = f"shards-{uuid.uuid4().hex}", os.environ.get("QDRANT_API_KEY")
    settings = CollectionSettings(shard_number=shards)
    asked: dict[str, Any] = {
        "dense": vectors.encoder(),
        "language": vectors.language,
        "settings": settings,
        "timeout": 120,
    }
    with HybridIndex.open(url, name, api_key=key, **asked) as index:
        try:
            yield index
        finally:
            QdrantClient(url=url, api_key=key, check_compatibility=False).delete_collection(name)


if __name__ == "__main__":
    main()
