"""The project's own ground truth: memories of an agent, and what should come to its mind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from twofold import Memory, MemoryConfig, MemoryResult
from twofold.eval import Dataset, Question, Run, evaluate

FOLDER = Path(__file__).parent / "ground_truth"
LANGUAGES = ("english", "portuguese", "norwegian")
CONFIG = MemoryConfig(fields={"type": "keyword", "year": "integer"}, touch=False)
RECALLED_ON = datetime(2026, 11, 17, tzinfo=timezone.utc)
"""The day on which the memories are recalled, by the dates in the file."""


def read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def memories(now: datetime) -> list[dict[str, Any]]:
    """The memories, each as old as it is on the day of recall: what fades with age must not depend on the calendar."""
    return [{**each, "created": now - (RECALLED_ON - _date(each["created"]))} for each in read("memories")]


def _date(written: str) -> datetime:
    return datetime.fromisoformat(written).replace(tzinfo=timezone.utc)


class Recaller:
    """One memory for each language; a question is asked of that of its own. Gives the keys of the ground truth."""

    def __init__(self, memories: dict[str, Memory], keys: dict[str, str]) -> None:
        self._memories = memories
        self._keys = keys

    def ask(self, query: str, k: int, language: str, **parameters: Any) -> MemoryResult:
        return self._memories[language].recall(query, k, **parameters)

    def keys(self, result: MemoryResult) -> list[str]:
        return [self._keys[identity] for identity in result.ids]

    def evaluate(self, **parameters: Any) -> Run:
        def ask(query: str, k: int, filter: dict[str, str]) -> list[str]:
            return self.keys(self.ask(query, k, filter["language"], **parameters))

        return evaluate(ask, questions(), k=10)


def questions() -> Dataset:
    return Dataset(
        "own",
        tuple(
            Question(
                id=str(number),
                text=each["query"],
                relevant=dict.fromkeys(each["expected"], 1.0),
                filter={"language": each.get("language", "english")},
                metadata={"kind": each["kind"]},
            )
            for number, each in enumerate(read("queries"))
        ),
    )


@contextmanager
def recaller(config: MemoryConfig = CONFIG, **options: Any) -> Iterator[Recaller]:
    opened: dict[str, Memory] = {}
    keys: dict[str, str] = {}
    remembered = memories(datetime.now(timezone.utc))
    with ExitStack() as stack:
        for language in LANGUAGES:
            memory = Memory.open(":memory:", user="ada", language=language, config=config, **options)
            opened[language] = stack.enter_context(memory)
            own = [each for each in remembered if each.get("language", "english") == language]
            fields = [{k: v for k, v in each.items() if k not in ("key", "language")} for each in own]
            ids = memory.remember_many(fields)
            keys |= {str(identity): each["key"] for identity, each in zip(ids, own, strict=True)}
        yield Recaller(opened, keys)
