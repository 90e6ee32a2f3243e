"""Asking all questions, one run or one for each combination of parameters."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

from twofold.errors import ConfigError, InvalidQuery
from twofold.eval.data import Dataset, Question
from twofold.eval.errors import EvaluationError
from twofold.eval.naming import describe
from twofold.eval.retrievers import Ask, IdOf, asker, found
from twofold.eval.runs import Answer, Run
from twofold.eval.scoring import METRICS, score

Progress: TypeAlias = Callable[[int, int], None]
"""Gets how many questions were asked, and of how many."""


def evaluate(
    retriever: Any,
    data: Dataset,
    *,
    k: int = 10,
    name: str | None = None,
    metrics: Sequence[str] = METRICS,
    parameters: Mapping[str, Any] | None = None,
    id_of: IdOf | None = None,
    warm_up: int = 1,
    progress: Progress | None = None,
) -> Run:
    """Ask a retriever all questions of a data set, and score what it finds.

    Args:
        retriever: A `HybridIndex`, anything with `recall`, a LangChain retriever (`invoke`) or vector store, a
            LlamaIndex retriever (`retrieve`), or a function from a query to ranked ids or hits, which may take `k` and
            `filter`.
        data: The questions.
        k: How many hits count.
        name: What to call the run.
        metrics: What to compute at k, by ranx's names.
        parameters: Passed to the retriever with every question, as {"alpha": 0.5}.
        id_of: Where the id of a hit is, if not in its `id`: a metadata field, or a function of the hit.
        warm_up: How many questions to ask before the clock starts, so that loading a model is not part of it.
        progress: Called after each question.
    """
    if k < 1:
        raise EvaluationError(f"k must be at least 1, got {k}")
    parameters = dict(parameters or {})
    ask = asker(retriever, k, parameters)
    for question in data.questions[:warm_up]:
        _answer(ask, question, k, id_of)
    answers = []
    for done, question in enumerate(data.questions, 1):
        answers.append(_answer(ask, question, k, id_of))
        if progress:
            progress(done, len(data.questions))
    scores = score([q.relevant for q in data.questions], [answer.ids for answer in answers], k, metrics)
    return Run(name or _name(retriever, parameters), k, tuple(answers), scores, parameters)


def _answer(ask: Ask, question: Question, k: int, id_of: IdOf | None) -> Answer:
    began = time.perf_counter()
    try:
        result = ask(question)
    except (EvaluationError, InvalidQuery, ConfigError):
        raise  # wrong for every question
    except Exception as error:
        # A failure must not count as a bad answer: the mean would hide it.
        raise EvaluationError(f"the retriever failed on question {question.id} ({question.text!r}): {error}") from error
    seconds = time.perf_counter() - began
    return Answer(question, tuple(found(result, k, id_of)), seconds, getattr(result, "degraded", None))


def _name(retriever: Any, parameters: Mapping[str, Any]) -> str:
    if parameters:
        return describe(parameters)
    return getattr(retriever, "__name__", type(retriever).__name__)


@dataclass(frozen=True)
class Sweep:
    """One run for each combination of parameters."""

    parameters: Mapping[str, tuple[Any, ...]]
    runs: tuple[Run, ...]

    def best(self, metric: str = "ndcg") -> Run:
        """The run that does best; of equals, the first."""
        return max(self.runs, key=lambda run: run[metric])


def sweep(
    retriever: Any,
    data: Dataset,
    grid: Mapping[str, Sequence[Any]],
    *,
    k: int = 10,
    metrics: Sequence[str] = METRICS,
    parameters: Mapping[str, Any] | None = None,
    id_of: IdOf | None = None,
    progress: Progress | None = None,
) -> Sweep:
    """Evaluate every combination of parameters: {"alpha": [0.3, 0.5, 1.0]}.

    Anything that the retriever takes with a query can be swept, and `k`; of a memory, its settings too. What decides
    the stored vectors, as BM25's k1 and b do, can be swept on a `CorpusIndex` or a `CorpusMemory`. Every question is
    asked once before the clock starts, so that the first run doesn't pay for the query vectors that the others find in
    the cache: latencies are without embedding.
    """
    grid = {name: _different(values) for name, values in grid.items()}
    combinations = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    if not combinations:
        raise EvaluationError("there is nothing to sweep: give each parameter at least one value")
    runs = []
    for number, combination in enumerate(combinations):
        chosen = {**(parameters or {}), **combination}
        run = evaluate(
            retriever,
            data,
            k=chosen.pop("k", k),
            name=describe(combination),
            metrics=metrics,
            parameters=chosen,
            id_of=id_of,
            warm_up=1 if number else len(data.questions),
            progress=_within(progress, number, len(combinations)),
        )
        runs.append(run)
    return Sweep({name: tuple(values) for name, values in grid.items()}, tuple(runs))


def _different(values: Sequence[Any]) -> list[Any]:
    """Each value once: asked twice, it would be two runs of one name and two points in one place."""
    return [value for place, value in enumerate(values) if value not in values[:place]]


def _within(progress: Progress | None, number: int, runs: int) -> Progress | None:
    """The progress of one run as that of all of them."""
    if progress is None:
        return None
    return lambda done, total: progress(number * total + done, runs * total)
