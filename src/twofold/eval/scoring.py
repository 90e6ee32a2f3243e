"""What came out of an evaluation: the metrics of each question, the run as a whole, and whether two runs differ.

ranx computes the metrics, scipy says what chance alone would do.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from itertools import compress, count
from types import NoneType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from twofold.errors import EvaluationError
from twofold.eval.data import Question
from twofold.ranking.fusion import Strategy

Scores: TypeAlias = npt.NDArray[np.float64]
METRICS = ("hit_rate", "mrr", "ndcg", "recall")
"""What is measured at k unless you ask for others; ranx knows more, such as "precision" and "map"."""
_LABELS = {"hit_rate": "hit rate", "mrr": "MRR", "ndcg": "nDCG", "map": "MAP"}
_MAX_RESAMPLED_VALUES = 2_000_000
"""Resampled differences to hold in memory at a time."""


# The metrics of each question


def label(metric: str, k: int | str | None = None) -> str:
    """How a metric is written for people: nDCG@10."""
    name = _LABELS.get(metric, metric.replace("_", " "))
    return name if k is None else f"{name}@{k}"


def score(
    relevant: Sequence[Mapping[str, float]], ranked: Sequence[Sequence[str]], k: int, metrics: Sequence[str] = METRICS
) -> dict[str, Scores]:
    """Each metric at k for each question. A question with no result scores 0; one with no right answer is NaN."""
    judged = [i for i, answers in enumerate(relevant) if answers]
    scores = {metric: np.full(len(relevant), np.nan) for metric in metrics}
    if judged:
        # ranx compares numbers: each id gets the next one, so that no two ids share one as hashes might.
        number: defaultdict[str, int] = defaultdict(count().__next__)

        def best_first(graded: Iterable[tuple[str, float]]) -> Scores:
            rows = sorted(((number[identity], grade) for identity, grade in graded), key=lambda row: -row[1])
            return np.array(rows, dtype=np.float64).reshape(-1, 2)

        qrels = [best_first(relevant[i].items()) for i in judged]
        run = [best_first((identity, -rank) for rank, identity in enumerate(ranked[i][:k])) for i in judged]
        names = [f"{metric}@{k}" for metric in metrics]
        try:
            # ranx 0.3.21 can't return the scores of a single metric: the first is asked for twice.
            computed = _ranx().evaluate(qrels, run, [*names, names[0]], return_mean=False)
        except (AssertionError, ValueError) as error:
            raise EvaluationError(f"ranx can't compute {', '.join(names)}: {error}") from error
        for metric, name in zip(metrics, names, strict=True):
            scores[metric][judged] = computed[name]
    return scores


@lru_cache(maxsize=1)
def _ranx() -> Any:
    """The package as plain Python, a second for a thousand questions: to compile it, numba takes half a minute."""
    try:
        import numba
        from numba.typed import Dict, List  # noqa: F401  # before the switch: they work compiled only, for others

        settings: Any = numba.config  # which counts when a function is defined: it is put back after the import
        compiled, settings.DISABLE_JIT = settings.DISABLE_JIT, True
        try:
            with warnings.catch_warnings():  # it is compiled at its first import, and its escapes are old-fashioned
                warnings.simplefilter("ignore")
                import ranx
        finally:
            settings.DISABLE_JIT = compiled
    except ImportError as error:
        raise EvaluationError("evaluation needs ranx: pip install 'twofold[eval]'") from error
    except OSError as error:  # ir_datasets, which ranx imports, makes a folder in the home
        raise EvaluationError(
            f"ranx can't be loaded ({error}): set IR_DATASETS_HOME to a folder to write to"
        ) from error
    return ranx


# A run: all answers of one retriever


@dataclass(frozen=True)
class Found:
    """What a retriever brought: the id, and the text if it came along."""

    id: str
    text: str = ""


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
        return self._part([keep(answer.question) for answer in self.answers])

    def by(self, name: str) -> dict[str, Run]:
        """The run in parts, by a metadata field of the questions."""
        values = [str(answer.question.metadata.get(name, "")) for answer in self.answers]
        return {value: self._part([each == value for each in values]) for value in sorted(set(values))}

    def _part(self, kept: list[bool]) -> Run:
        answers = tuple(compress(self.answers, kept))
        return replace(self, answers=answers, scores={metric: scores[kept] for metric, scores in self.scores.items()})

    def summary(self) -> dict[str, Any]:
        """The figures, for a table or a file."""
        return {
            "name": self.name,
            "parameters": {
                name: value if isinstance(value, (str, int, float, NoneType)) else _written(value)
                for name, value in self.parameters.items()
            },
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


def _share(outcomes: list[bool]) -> float | None:
    return sum(outcomes) / len(outcomes) if outcomes else None


def _number(value: float | None) -> float | None:
    return None if value is None or np.isnan(value) else round(value, 6)


def describe(parameters: Mapping[str, Any], between: str = " ") -> str:
    """Parameters as one types them: alpha=0.5 fusion=rrf(k=20)."""
    return between.join(f"{name}={_written(value)}" for name, value in parameters.items())


def _written(value: Any) -> str:
    """One value; a fusion with those of its settings that are not the usual ones."""
    if isinstance(value, Strategy):
        own = ((each, getattr(value, each.name)) for each in fields(value))
        unusual = {each.name: setting for each, setting in own if setting != each.default}
        return f"{value.name}({describe(unusual, ', ')})" if unusual else value.name
    return f"{value:g}" if isinstance(value, float) else str(value)


# Two runs, question by question


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
    odds; where there are no more than `rounds` ways to do so, each is tried once. The interval comes from a paired
    bootstrap over the questions. The same seed gives the same figures.
    """
    if [a.question.id for a in baseline.answers] != [a.question.id for a in challenger.answers]:
        raise EvaluationError(f"{baseline.name} and {challenger.name} were asked different questions")
    if baseline.k != challenger.k:
        raise EvaluationError(f"{baseline.name} was measured at k={baseline.k}, {challenger.name} at {challenger.k}")
    differences = challenger.scores[metric] - baseline.scores[metric]
    rows = zip(baseline.answers, challenger.answers, differences, strict=True)
    changes = [Change(a.question, a, b, float(d)) for a, b, d in rows if not a.question.expects_nothing]
    if not changes:
        raise EvaluationError("no question of these runs has an answer: there is no metric to compare")
    differences = np.array([change.difference for change in changes])
    low, high, p = _significance(differences, rounds, seed)
    changes.sort(key=lambda change: -change.difference)
    return Comparison(metric, baseline, challenger, float(differences.mean()), low, high, p, tuple(changes))


def compare_to_first(runs: Sequence[Run], metric: str = "ndcg") -> list[Comparison]:
    """Every other run against the first; nothing where they differ in k or no question has an answer."""
    if len({run.k for run in runs}) > 1 or np.isnan(runs[0][metric]):
        return []
    return [compare(runs[0], run, metric) for run in runs[1:]]


def _significance(differences: Scores, rounds: int, seed: int) -> tuple[float, float, float]:
    """The 95 % interval of the mean difference, and p."""
    from scipy import stats

    if len(differences) == 1:  # scipy refuses it: there is nothing to draw from, and either sign is as likely
        return float(differences[0]), float(differences[0]), 1.0
    drawing: dict[str, Any] = {
        "statistic": np.mean,
        "n_resamples": rounds,
        "batch": max(1, _MAX_RESAMPLED_VALUES // len(differences)),
        "rng": np.random.default_rng(seed),
    }
    interval = stats.bootstrap((differences,), method="percentile", **drawing).confidence_interval
    # Of one sample, the signs change. What was seen counts as one of the arrangements: p is never 0.
    chance = stats.permutation_test((differences,), permutation_type="samples", **drawing)
    return float(interval.low), float(interval.high), float(chance.pvalue)
