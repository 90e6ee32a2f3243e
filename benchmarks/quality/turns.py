"""Chat turns through `Memory`: one by one, and as conversations whose turns lend each other context."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.quality import sets
from benchmarks.quality.vectors import Material, material, model_named
from twofold import Document, Memory, MemoryConfig
from twofold.eval import evaluate

_SET = "locomo-dev"
_METRICS = ("hit_rate", "mrr", "ndcg", "recall")
# Turns are as old as their conversation: what is measured here is finding them, not fading.
_CONFIG = MemoryConfig(touch=False, min_score=None, recency_decay=0, near_duplicate=None)

Store = Callable[[Memory, list[Document]], list[str]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality.turns", description=__doc__)
    sets.add_options(parser)
    chosen = parser.parse_args()
    (path,) = sets.find(chosen.data, [_SET])
    vectors = material(sets.read(path), "english", chosen.cache, model=model_named(chosen.model))
    vectors = vectors.without(sets.known(_SET).apart)
    table = Table(title=f"{_SET} through a memory, the first ten hits", title_justify="left")
    for column in ("turns stored with", *_METRICS):
        table.add_column(column, justify="left" if column == "turns stored with" else "right")
    for name, store in (("remember_many", _one_by_one), ("remember_turns", _as_conversations)):
        with _memories(vectors, store) as ask:
            run = evaluate(ask, vectors.data, k=10)
        table.add_row(name, *(f"{run[metric]:.3f}" for metric in _METRICS))
    Console().print(table)


@contextmanager
def _memories(vectors: Material, store: Store) -> Iterator[Callable[..., list[str]]]:
    """A memory for each pair of people; a question is asked of that of its own."""
    names: dict[str, str] = {}
    memories: dict[str, Memory] = {}
    with ExitStack() as stack:
        for sample, turns in groupby(vectors.data.documents, lambda turn: str(turn.metadata["sample"])):
            memory = Memory.open(":memory:", user=sample, dense=vectors.encoder(), config=_CONFIG)
            memories[sample] = stack.enter_context(memory)
            told = list(turns)
            names |= dict(zip(map(str, store(memory, told)), (str(turn.id) for turn in told), strict=True))

        def ask(query: str, k: int, filter: dict[str, str]) -> list[str]:
            return [names[identity] for identity in memories[filter["sample"]].recall(query, k).ids]

        yield ask


def _one_by_one(memory: Memory, turns: list[Document]) -> list[str]:
    return list(map(str, memory.remember_many([turn.text for turn in turns])))


def _as_conversations(memory: Memory, turns: list[Document]) -> list[str]:
    ids: list[str] = []
    for session, own in groupby(turns, lambda turn: str(turn.metadata["session"])):
        ids += map(str, memory.remember_turns([_turn(turn) for turn in own], session=session))
    return ids


def _turn(turn: Document) -> dict[str, Any]:
    """A turn has its speaker in front of its text; all of a session have the time at which it began."""
    speaker, _, text = turn.text.partition(": ")
    began = datetime.fromisoformat(str(turn.metadata["timestamp"]))
    time = began + timedelta(seconds=int(str(turn.metadata["turn"])))
    return {"role": speaker, "content": text, "time": time}


if __name__ == "__main__":
    main()
