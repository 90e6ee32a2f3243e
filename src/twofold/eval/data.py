"""What an evaluation asks: questions with their right answers, and the documents where they come along."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from twofold.documents import Document
from twofold.eval.errors import EvaluationError


@dataclass(frozen=True)
class Question:
    """A query and what it should find."""

    id: str
    text: str
    relevant: Mapping[str, float]
    """The ids of the right answers, each with its grade (1 or more). Empty: the right answer is nothing."""
    filter: Mapping[str, Any] | None = None
    """What to limit this search to."""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def expects_nothing(self) -> bool:
        """Whether nothing is the right answer."""
        return not self.relevant


@dataclass(frozen=True)
class Dataset:
    """Questions to ask, and the documents to ask them of, unless those are in an index already."""

    name: str
    questions: tuple[Question, ...]
    documents: tuple[Document, ...] = ()

    def __post_init__(self) -> None:
        if not self.questions:
            raise EvaluationError(f"{self.name} has no questions with judgements: check the file or the split")

    def sample(self, count: int) -> Dataset:
        """At most `count` questions, spread evenly, always the same ones."""
        if count < 1:
            raise EvaluationError(f"a sample needs at least 1 question, got {count}")
        total = len(self.questions)
        kept = tuple(self.questions[i * total // count] for i in range(min(count, total)))
        return self if count >= total else replace(self, questions=kept)

    def where(self, name: str, *values: Any) -> Dataset:
        """The questions whose metadata has one of these values."""
        kept = tuple(question for question in self.questions if question.metadata.get(name) in values)
        return replace(self, questions=kept)


def load(path: str | Path, *, same: str | None = None, split: str | None = None) -> Dataset:
    """Read a BEIR-style folder, or a file of queries with their expected ids.

    Args:
        path: A folder with corpus.jsonl, queries.jsonl and qrels.tsv (or qrels/*.tsv), or a .jsonl or .csv file.
        same: A metadata field of questions and documents: a question searches only documents with its own value, as
            a question about one conversation among many does.
        split: Which of qrels/*.tsv; by default "test" if it is there.
    """
    from twofold.eval import beir, pairs

    place = Path(path).expanduser()
    if place.is_dir():
        data = beir.read(place, split)
    elif place.is_file():
        data = pairs.read(place)
    else:
        raise EvaluationError(f"{path} does not exist: give a folder with corpus.jsonl, or a .jsonl or .csv file")
    return data if same is None else replace(data, questions=tuple(_limited(q, same) for q in data.questions))


def _limited(question: Question, name: str) -> Question:
    if name not in question.metadata:
        raise EvaluationError(f"question {question.id} has no metadata field {name!r} to limit its search by")
    return replace(question, filter={**(question.filter or {}), name: question.metadata[name]})
