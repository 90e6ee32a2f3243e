"""Asking all questions of a data set: of any retriever, in one run or in one for each combination of parameters.

A retriever becomes one function from a question to whatever it finds. Retrievers are told apart by their methods; no
framework is imported.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

from twofold.errors import ConfigError, EvaluationError, InvalidQuery
from twofold.eval.data import Dataset, Question
from twofold.eval.scoring import METRICS, Answer, Found, Run, describe, score

_METHODS = ("recall", "invoke", "retrieve", "similarity_search", "search")
"""A Memory, a LangChain retriever, a LlamaIndex retriever, a LangChain vector store, an index; the first one there."""
IdOf: TypeAlias = Callable[[Any], str] | str
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
    retrieve = _retrieval(retriever, k, parameters)
    for question in data.questions[:warm_up]:
        _answer(retrieve, question, k, id_of)
    answers = []
    for done, question in enumerate(data.questions, 1):
        answers.append(_answer(retrieve, question, k, id_of))
        if progress:
            progress(done, len(data.questions))
    scores = score([q.relevant for q in data.questions], [answer.ids for answer in answers], k, metrics)
    called: str = getattr(retriever, "__name__", type(retriever).__name__)
    return Run(name or describe(parameters) or called, k, tuple(answers), scores, parameters)


def _answer(retrieve: Callable[[Question], Any], question: Question, k: int, id_of: IdOf | None) -> Answer:
    began = time.perf_counter()
    try:
        result = retrieve(question)
    except (EvaluationError, InvalidQuery, ConfigError):
        raise  # wrong for every question
    except Exception as error:
        # A failure must not count as a bad answer: the mean would hide it.
        raise EvaluationError(f"the retriever failed on question {question.id} ({question.text!r}): {error}") from error
    seconds = time.perf_counter() - began
    if isinstance(result, (str, bytes)) or not isinstance(result, Iterable):
        raise EvaluationError(f"the retriever returned a {type(result).__name__} instead of a list of ids or hits")
    found: dict[str, Found] = {}  # the first k different hits
    for hit in (_hit(item, id_of) for item in result):
        found.setdefault(hit.id, hit)
        if len(found) == k:
            break
    return Answer(question, tuple(found.values()), seconds, getattr(result, "degraded", None))


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
    # Each value once: asked twice, it would be two runs of one name and two points in one place.
    values_of = {
        name: tuple(value for place, value in enumerate(values) if value not in values[:place])
        for name, values in grid.items()
    }
    combinations = [dict(zip(values_of, values, strict=True)) for values in product(*values_of.values())]
    if not combinations:
        raise EvaluationError("there is nothing to sweep: give each parameter at least one value")
    runs = [(describe(each), {**(parameters or {}), **each}) for each in combinations]
    done = evaluate_each(retriever, data, runs, k=k, metrics=metrics, id_of=id_of, progress=progress)
    return Sweep(values_of, tuple(done))


def evaluate_each(
    retriever: Any,
    data: Dataset,
    runs: Sequence[tuple[str, Mapping[str, Any]]],
    *,
    k: int,
    progress: Progress | None = None,
    **options: Any,
) -> list[Run]:
    """One run for each name with its parameters, `k` among them. Progress counts over all runs."""
    done: list[Run] = []

    def report(asked: int, total: int) -> None:
        if progress:
            progress(len(done) * total + asked, len(runs) * total)

    for name, parameters in runs:
        chosen = {"k": k, **parameters}
        warm_up = 1 if done else len(data.questions)  # the others find the first one's query vectors cached
        options |= {"k": chosen.pop("k"), "name": name, "warm_up": warm_up, "progress": report}
        done.append(evaluate(retriever, data, parameters=chosen, **options))
    return done


# Any retriever as one function


def _retrieval(retriever: Any, k: int, parameters: Mapping[str, Any]) -> Callable[[Question], Any]:
    """What asks the retriever a question, with what it takes of k and the parameters; another parameter is an error."""
    function = _query_function(retriever)
    takes = _named_parameters(function)
    # Taken as a setting and not with a query, as a memory takes `recency_decay`.
    settings = {name: value for name, value in parameters.items() if not takes & {name, "**"}}
    if settings and callable(getattr(retriever, "with_settings", None)):
        function = _query_function(retriever.with_settings(**settings))
        parameters = {name: value for name, value in parameters.items() if name not in settings}
    # A retriever that doesn't take k brings as many as it was made for, and the first k count. A memory counts
    # recalls and ranks by them: measuring it must not change it.
    offered = {name: value for name, value in {"k": k, "touch": False}.items() if name in takes}

    def retrieve(question: Question) -> Any:
        limited = {} if question.filter is None else {"filter": dict(question.filter)}
        for name in (*parameters, *limited):
            if not takes & {name, "**"}:
                written = getattr(function, "__name__", "the function")
                raise EvaluationError(
                    f"{written} takes no {name!r}: wrap it in a function that does, as lambda query, {name}: …"
                )
        return function(question.text, **{**offered, **parameters}, **limited)

    return retrieve


def _query_function(retriever: Any) -> Callable[..., Any]:
    """What is called with a query."""
    methods = (getattr(retriever, name, None) for name in _METHODS)
    function: Callable[..., Any] = next(filter(callable, methods), retriever)
    if not callable(function):
        raise EvaluationError(
            f"a {type(retriever).__name__} can't be evaluated: give an index, a retriever with invoke or retrieve, "
            "or a function from a query to ranked ids"
        )
    if inspect.iscoroutinefunction(function):
        raise EvaluationError("the retriever is a coroutine function: wrap it, for example with asyncio.run")
    return function


def _named_parameters(function: Callable[..., Any]) -> set[str]:
    """The names of the parameters after the query; "**" where a function takes any."""
    try:
        parameters = list(inspect.signature(function).parameters.values())[1:]
    except (TypeError, ValueError):  # builtins have no signature
        return set()
    unnamed = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
    return {"**" if each.kind is each.VAR_KEYWORD else each.name for each in parameters if each.kind not in unnamed}


def _hit(item: Any, id_of: IdOf | None) -> Found:
    if isinstance(item, tuple) and item:  # (document, score)
        item = item[0]
    if isinstance(item, (str, int)):
        return Found(str(item))
    item = getattr(item, "node", item)  # LlamaIndex wraps the node with its score
    fields = item if isinstance(item, Mapping) else {}

    def read(name: str) -> Any:
        return fields.get(name) if fields else getattr(item, name, None)

    if id_of is None:
        identity = read("node_id") if read("id") is None else read("id")
    else:
        identity = id_of(item) if callable(id_of) else (read("metadata") or fields).get(id_of)
    if identity is None:
        raise EvaluationError(
            f"a {type(item).__name__} came back without an id: say with id_of which metadata field holds it, or give a "
            "function"
        )
    return Found(str(identity), str(read("text") or read("page_content") or ""))
