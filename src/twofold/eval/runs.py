"""What came out: a run, its means, and its parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from twofold.eval.data import Question
from twofold.eval.naming import written
from twofold.eval.retrievers import Found
from twofold.eval.scoring import Scores, label


@dataclass(frozen=True)
class Answer:
    """A question, what was found, and how long it took."""

    question: Question
    found: tuple[Found, ...]
    seconds: float
    degraded: str | None = None
    """Why the search did less than was asked, where it says so."""

    @property
    def ids(self) -> list[str]:
        """The ids that were found, best first."""
        return [hit.id for hit in self.found]


@dataclass(frozen=True, eq=False)
class Run:
    """All answers of a retriever to a data set, and their scores."""

    name: str
    k: int
    answers: tuple[Answer, ...]
    scores: Mapping[str, Scores]
    """For each metric the score of each question; NaN where nothing is the right answer."""
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, metric: str) -> float:
        """The mean of a metric over the questions that have an answer; NaN if none has."""
        scores = self.scores[metric][~np.isnan(self.scores[metric])]
        return float(scores.mean()) if len(scores) else float("nan")

    @property
    def metrics(self) -> dict[str, float]:
        """The mean of each metric."""
        return {metric: self[metric] for metric in self.scores}

    @property
    def answered_nothing(self) -> float | None:
        """Of the questions whose right answer is nothing, the share that got it; None if there are none."""
        return _share([not answer.found for answer in self.answers if answer.question.expects_nothing])

    @property
    def unanswered(self) -> float | None:
        """Of the questions that have an answer, the share that got nothing."""
        return _share([not answer.found for answer in self.answers if not answer.question.expects_nothing])

    @property
    def degraded(self) -> list[str]:
        """Why searches did less than was asked: if there is anything in it, the figures are not what they seem."""
        return list(dict.fromkeys(answer.degraded for answer in self.answers if answer.degraded))

    def latency(self, percentile: float = 50) -> float:
        """Milliseconds a question took: the median, or another percentile."""
        return float(np.percentile([answer.seconds for answer in self.answers], percentile)) * 1e3

    def where(self, keep: Callable[[Question], bool]) -> Run:
        """The part of the run with the questions that fulfil a condition."""
        kept = [keep(answer.question) for answer in self.answers]
        answers = tuple(answer for answer, wanted in zip(self.answers, kept, strict=True) if wanted)
        return replace(self, answers=answers, scores={metric: scores[kept] for metric, scores in self.scores.items()})

    def by(self, name: str) -> dict[str, Run]:
        """The run in parts, by a metadata field of the questions."""
        values = sorted({str(answer.question.metadata.get(name, "")) for answer in self.answers})
        return {value: self.where(partial(_has, name, value)) for value in values}

    def summary(self) -> dict[str, Any]:
        """The figures, for a table or a file."""
        return {
            "name": self.name,
            "parameters": {name: _plain(value) for name, value in self.parameters.items()},
            "questions": len(self.answers),
            **{f"{metric}@{self.k}": _number(value) for metric, value in self.metrics.items()},
            "unanswered": _number(self.unanswered),
            "answered_nothing": _number(self.answered_nothing),
            "degraded": self.degraded,
            "p50_ms": round(self.latency(50), 3),
            "p95_ms": round(self.latency(95), 3),
        }

    def __str__(self) -> str:
        figures = "  ".join(f"{label(metric, self.k)} {value:.3f}" for metric, value in self.metrics.items())
        nothing = self.answered_nothing
        return f"{self.name}: {figures}" + ("" if nothing is None else f"  nothing {nothing:.3f}")


def common_k(runs: Sequence[Run]) -> int | str:
    """The k of all runs; "k" where they differ."""
    return runs[0].k if len({run.k for run in runs}) == 1 else "k"


def floor_matters(runs: Sequence[Run]) -> bool:
    """Whether something was, or should have been, answered with nothing: then both sides of that are worth a look."""
    return any(run.answered_nothing is not None or run.unanswered for run in runs)


def _has(name: str, value: str, question: Question) -> bool:
    return str(question.metadata.get(name, "")) == value


def _share(outcomes: list[bool]) -> float | None:
    return sum(outcomes) / len(outcomes) if outcomes else None


def _number(value: float | None) -> float | None:
    return None if value is None or np.isnan(value) else round(value, 6)


def _plain(value: Any) -> Any:
    return value if isinstance(value, (str, int, float, bool, type(None))) else written(value)
