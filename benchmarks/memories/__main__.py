"""How well a memory answers natural questions, and whether it says nothing where it knows nothing.

Each store is remembered by a user of its own, all in one collection for each language, and asked with the default
settings, by meaning only (alpha 1) and by words only (alpha 0).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from twofold import Memory, MemoryConfig

FOLDER = Path(__file__).parent
NOTHING = "nothing"
WAYS: Mapping[str, dict[str, Any]] = {"auto": {}, "meaning only": {"alpha": 1.0}, "words only": {"alpha": 0.0}}
_CONFIG = MemoryConfig(touch=False, near_duplicate=None)
_SHOWN = 10
_WIDTH = 140
_GATED = ("without the gate: at 1", "within 3", "lost to the gate", "nothing, rightly")


@dataclass(frozen=True)
class Answer:
    """What was found for one question: through the gate, and what would have been without."""

    question: Mapping[str, Any]
    found: Sequence[str]
    ungated: Sequence[str]

    @property
    def expects_nothing(self) -> bool:
        return not self.question["expected"]

    def right_within(self, k: int, *, gated: bool = True) -> bool:
        return not set(self.question["expected"]).isdisjoint((self.found if gated else self.ungated)[:k])

    @property
    def lost(self) -> bool:
        """The gate withheld a right memory."""
        wanted = set(self.question["expected"])
        return not wanted.isdisjoint(self.ungated) and wanted.isdisjoint(self.found)


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memories", description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="with memories.jsonl and questions.jsonl")
    parser.add_argument(
        "--model", help="fast, best, multilingual, or one of fastembed's list; the memory's own by default"
    )
    parser.add_argument("--wrong", action="store_true", help="show each question that `auto` answers wrongly")
    chosen = parser.parse_args(words)
    console = Console(width=max(Console().width, _WIDTH))
    memories, questions = (read(chosen.folder / f"{name}.jsonl") for name in ("memories", "questions"))
    with console.status("asking"):
        answers = measure(memories, questions, dense=chosen.model)
    console.print(table(answers))
    if chosen.wrong:
        texts = {memory["id"]: memory["text"] for memory in memories}
        for line in wrong(answers["auto"], texts):
            console.print(line, soft_wrap=True, markup=False)


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def measure(
    memories: Sequence[Mapping[str, Any]], questions: Sequence[Mapping[str, Any]], **settings: Any
) -> dict[str, list[Answer]]:
    """Every question asked in every way. `settings` are those of `Memory.open`."""
    with ExitStack() as stack:
        stores = _remember(memories, stack, settings)
        return {way: [_ask(stores, each, options) for each in questions] for way, options in WAYS.items()}


def _remember(
    memories: Sequence[Mapping[str, Any]], stack: ExitStack, settings: Mapping[str, Any]
) -> dict[str, tuple[Memory, dict[str, str]]]:
    """A view for each user, and the set's ids of what it holds."""
    users = {each["user"]: each["language"] for each in memories}
    opened: dict[str, Memory] = {}
    stores = {}
    for user, language in users.items():
        if language not in opened:
            memory = Memory.open(":memory:", user=user, language=language, config=_CONFIG, **settings)
            opened[language] = stack.enter_context(memory)
        view = opened[language].for_user(user)
        own = [each for each in memories if each["user"] == user]
        ids = view.remember_many([{"text": each["text"], "tags": each.get("tags", [])} for each in own])
        stores[user] = (view, {str(stored): each["id"] for stored, each in zip(ids, own, strict=True)})
    return stores


def _ask(
    stores: Mapping[str, tuple[Memory, dict[str, str]]], question: Mapping[str, Any], options: Mapping[str, Any]
) -> Answer:
    memory, names = stores[question["user"]]
    asked = (memory, memory.with_settings(min_score=None))
    found, ungated = ([names[each] for each in way.recall(question["query"], _SHOWN, **options).ids] for way in asked)
    return Answer(question, found, ungated)


def table(answers: Mapping[str, Sequence[Answer]]) -> Table:
    """All questions, then by language and by kind, for each way to ask."""
    shown = Table(title="natural questions to short memories", title_justify="left")
    columns = ("questions", "asked by", "answerable", "right at 1", "within 3", *_GATED)
    for column in columns:
        shown.add_column(column, justify="left" if column in columns[:2] else "right")
    first = next(iter(answers.values()))
    groups: dict[str, Callable[[Answer], bool]] = {"all": lambda answer: True}
    for field in ("language", "kind"):
        for value in dict.fromkeys(answer.question[field] for answer in first):
            groups[value] = lambda answer, field=field, value=value: answer.question[field] == value  # type: ignore[misc]
    for group, belongs in groups.items():
        for place, (way, given) in enumerate(answers.items()):
            shown.add_row(group if not place else "", way, *cells([each for each in given if belongs(each)]))
        shown.add_section()
    return shown


def cells(answers: Sequence[Answer]) -> list[str]:
    answerable = [answer for answer in answers if not answer.expects_nothing]
    nothing = [answer for answer in answers if answer.expects_nothing]
    return [
        str(len(answerable)),
        _share(answer.right_within(1) for answer in answerable),
        _share(answer.right_within(3) for answer in answerable),
        _share(answer.right_within(1, gated=False) for answer in answerable),
        _share(answer.right_within(3, gated=False) for answer in answerable),
        _share(answer.lost for answer in answerable),
        _share(not answer.found for answer in nothing),
    ]


def _share(values: Iterable[bool]) -> str:
    counted = list(values)
    return f"{sum(counted) / len(counted):.1%} ({sum(counted)})" if counted else "-"


def wrong(answers: Sequence[Answer], texts: Mapping[str, str]) -> list[str]:
    """The questions whose first memory is not the right one, with what came instead."""
    lines = []
    for answer in answers:
        if answer.found if answer.expects_nothing else not answer.right_within(1):
            wanted = texts[answer.question["expected"][0]] if answer.question["expected"] else NOTHING
            came = texts[answer.found[0]] if answer.found else NOTHING
            query, kind = answer.question["query"], answer.question["kind"]
            lines.append(f"{answer.question['id']}, {kind}: {query}\n   wanted: {wanted}\n   came:   {came}")
    return lines


if __name__ == "__main__":
    main()
