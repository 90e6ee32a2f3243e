"""Is one run better than another, or was it luck? Question by question, over the same questions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from twofold.eval.data import Question
from twofold.eval.errors import EvaluationError
from twofold.eval.runs import Answer, Run
from twofold.eval.scoring import Scores, label

_CHUNK = 2_000_000
"""Random numbers to hold at a time."""


@dataclass(frozen=True)
class Change:
    """One question in both runs."""

    question: Question
    before: Answer
    after: Answer
    difference: float


@dataclass(frozen=True)
class Comparison:
    """How a run differs from a baseline."""

    metric: str
    baseline: Run
    challenger: Run
    difference: float
    """The challenger's mean less the baseline's."""
    low: float
    """The difference, were other questions like these asked: 95 % of the time it is above this …"""
    high: float
    """… and below this."""
    p: float
    """How often chance alone makes a difference at least as large."""
    changes: tuple[Change, ...]
    """All questions that have an answer, largest gain first."""

    @property
    def wins(self) -> list[Change]:
        """The questions that got better, largest gain first."""
        return [change for change in self.changes if change.difference > 0]

    @property
    def losses(self) -> list[Change]:
        """The questions that got worse, largest loss first."""
        return [change for change in reversed(self.changes) if change.difference < 0]

    @property
    def significant(self) -> bool:
        """Whether p is below 0.05."""
        return self.p < 0.05

    def __str__(self) -> str:
        return (
            f"{self.challenger.name} vs {self.baseline.name}: {label(self.metric, self.baseline.k)} "
            f"{self.difference:+.3f} (95 % {self.low:+.3f} to {self.high:+.3f}, p {self.p:.4f}), "
            f"{len(self.wins)} better, {len(self.losses)} worse"
        )


def compare(baseline: Run, challenger: Run, metric: str = "ndcg", *, rounds: int = 10_000, seed: int = 0) -> Comparison:
    """Compare two runs over the same questions.

    p comes from a paired randomisation test: in each round the two scores of every question change places with even
    odds. The interval comes from a paired bootstrap over the questions. The same seed gives the same figures.
    """
    pairs = _paired(baseline, challenger, metric)
    differences = np.array([change.difference for change in pairs])
    if not len(differences):
        raise EvaluationError("no question of these runs has an answer: there is no metric to compare")
    low, high = _interval(differences, rounds, seed)
    return Comparison(
        metric,
        baseline,
        challenger,
        float(differences.mean()),
        low,
        high,
        _chance(differences, rounds, seed),
        tuple(sorted(pairs, key=lambda change: -change.difference)),
    )


def _paired(baseline: Run, challenger: Run, metric: str) -> list[Change]:
    if [a.question.id for a in baseline.answers] != [a.question.id for a in challenger.answers]:
        raise EvaluationError(f"{baseline.name} and {challenger.name} were asked different questions")
    if baseline.k != challenger.k:
        raise EvaluationError(f"{baseline.name} was measured at k={baseline.k}, {challenger.name} at {challenger.k}")
    differences = challenger.scores[metric] - baseline.scores[metric]
    rows = zip(baseline.answers, challenger.answers, differences, strict=True)
    return [Change(a.question, a, b, float(d)) for a, b, d in rows if not a.question.expects_nothing]


def _chance(differences: Scores, rounds: int, seed: int) -> float:
    changed = differences[differences != 0]
    if not len(changed):
        return 1.0
    total = abs(changed.sum()) - 1e-9
    rng = np.random.default_rng(seed)

    def at_least_as_large(count: int) -> Scores:
        signs = rng.integers(0, 2, (count, len(changed)), dtype=np.int8) * 2 - 1
        return np.asarray(np.abs(signs @ changed) >= total, dtype=np.float64)

    # The arrangement that was seen is one of the possible ones: it counts, so p is never 0.
    return float((1 + _in_chunks(at_least_as_large, rounds, len(changed)).sum()) / (rounds + 1))


def _interval(differences: Scores, rounds: int, seed: int) -> tuple[float, float]:
    rng = np.random.default_rng(seed)
    size = len(differences)

    def means(count: int) -> Scores:
        return np.asarray(differences[rng.integers(0, size, (count, size))].mean(axis=1))

    low, high = np.percentile(_in_chunks(means, rounds, size), [2.5, 97.5])
    return float(low), float(high)


def _in_chunks(draw: Callable[[int], Scores], rounds: int, size: int) -> Scores:
    """Many rounds without holding them all in memory."""
    step = max(1, _CHUNK // size)
    return np.concatenate([draw(min(step, rounds - done)) for done in range(0, rounds, step)])
