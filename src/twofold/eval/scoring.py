"""The metrics, computed by ranx."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from twofold.eval.errors import EvaluationError

Scores: TypeAlias = npt.NDArray[np.float64]
METRICS = ("hit_rate", "mrr", "ndcg", "recall")
"""What is measured at k unless you ask for others; ranx knows more, such as "precision" and "map"."""
_LABELS = {"hit_rate": "hit rate", "mrr": "MRR", "ndcg": "nDCG", "map": "MAP"}
_NO_DOCUMENT = -1.0
"""An id that no document has, and a grade that doesn't count."""


def label(metric: str, k: int | str | None = None) -> str:
    """How a metric is written for people: nDCG@10."""
    name = _LABELS.get(metric, metric.replace("_", " "))
    return name if k is None else f"{name}@{k}"


def score(
    relevant: Sequence[Mapping[str, float]], ranked: Sequence[Sequence[str]], k: int, metrics: Sequence[str] = METRICS
) -> dict[str, Scores]:
    """Each metric at k for each question. A question with no result scores 0; one with no right answer is NaN."""
    judged = [i for i, answers in enumerate(relevant) if answers]
    found = {metric: np.full(len(relevant), np.nan) for metric in metrics}
    if judged:
        number = _Numbers()
        qrels = _qrels([relevant[i] for i in judged], number)
        run = _run([ranked[i][:k] for i in judged], number)
        for metric, scores in zip(metrics, _evaluate(qrels, run, [f"{metric}@{k}" for metric in metrics]), strict=True):
            found[metric][judged] = scores
    return found


class _Numbers(dict[str, int]):
    """ranx compares numbers: each id gets the next one, so that no two ids share one as hashes might."""

    def __missing__(self, key: str) -> int:
        self[key] = len(self)
        return self[key]


def _qrels(relevant: Sequence[Mapping[str, float]], number: _Numbers) -> Scores:
    """(questions, answers, [id, grade]), best grade first, as the ideal ranking has it; no document fills up."""
    table = np.full((len(relevant), max(map(len, relevant)), 2), _NO_DOCUMENT)
    for row, answers in zip(table, relevant, strict=True):
        best_first = sorted(answers.items(), key=lambda pair: -pair[1])
        row[: len(best_first)] = [(number[identity], grade) for identity, grade in best_first]
    return table


def _run(ranked: Sequence[Sequence[str]], number: _Numbers) -> Scores:
    """(questions, ranks, [id, score]); no document fills up."""
    table = np.full((len(ranked), max(1, *map(len, ranked)), 2), _NO_DOCUMENT)
    for row, ids in zip(table, ranked, strict=True):
        for rank, identity in enumerate(ids):
            row[rank] = number[identity], -rank
    return table


def _evaluate(qrels: Scores, run: Scores, metrics: list[str]) -> list[Scores]:
    try:
        # ranx 0.3.21 can't return the scores of a single metric: the first is asked for twice.
        found = _ranx().evaluate(qrels, run, [*metrics, metrics[0]], return_mean=False)
    except (AssertionError, ValueError) as error:
        raise EvaluationError(f"ranx can't compute {', '.join(metrics)}: {error}") from error
    return [found[metric] for metric in metrics]


@lru_cache(maxsize=1)
def _ranx() -> Any:
    """ranx, as plain Python.

    Compiled by numba, its first call takes half a minute; uncompiled, a thousand questions take less than one second.
    numba decides when a function is defined, so the switch matters while ranx is imported and is put back after it.
    """
    try:
        import numba
        from numba.typed import Dict, List  # noqa: F401  # before the switch: they work compiled only, for others

        settings: Any = numba.config
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
