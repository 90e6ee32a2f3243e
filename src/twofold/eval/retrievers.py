"""Anything that finds something, as one function. Objects are told apart by their methods; no framework is imported."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from twofold.eval.data import Question
from twofold.eval.errors import EvaluationError

_METHODS = ("recall", "invoke", "retrieve", "similarity_search", "search")
"""A Memory, a LangChain retriever, a LlamaIndex retriever, a LangChain vector store, an index; the first one there."""
IdOf: TypeAlias = Callable[[Any], str] | str


@dataclass(frozen=True)
class Found:
    """What a retriever brought: the id, and the text if it came along."""

    id: str
    text: str = ""


Ask: TypeAlias = Callable[[Question], Any]


def asker(retriever: Any, k: int, parameters: Mapping[str, Any]) -> Ask:
    """A function that puts a question to a retriever, with what it takes of k, filter and the parameters.

    What it takes with no question but as a setting, as a memory takes `recency_decay`, is set beforehand.
    """
    function = _function(retriever)
    settings = {name: value for name, value in parameters.items() if not _accepts(function) & {name, "**"}}
    if settings and callable(getattr(retriever, "with_settings", None)):
        function = _function(retriever.with_settings(**settings))
        parameters = {name: value for name, value in parameters.items() if name not in settings}
    return _Asker(function, k, dict(parameters))


def _function(retriever: Any) -> Callable[..., Any]:
    """What is called with a question."""
    method = next((m for m in _METHODS if callable(getattr(retriever, m, None))), None)
    if method is None and not callable(retriever):
        raise EvaluationError(
            f"a {type(retriever).__name__} can't be evaluated: give an index, a retriever with invoke or retrieve, "
            "or a function from a query to ranked ids"
        )
    function: Callable[..., Any] = retriever if method is None else getattr(retriever, method)
    if inspect.iscoroutinefunction(function):
        raise EvaluationError("the retriever is a coroutine function: wrap it, for example with asyncio.run")
    return function


class _Asker:
    """Passes on only what the function takes; a parameter or a filter that it doesn't take is an error."""

    def __init__(self, function: Callable[..., Any], k: int, parameters: dict[str, Any]) -> None:
        self._function = function
        self._takes = _accepts(function)
        for name in parameters:
            self._check(name)
        # A retriever that doesn't take k brings as many as it was made for, and the first k count. A memory counts
        # recalls and ranks by them: measuring it must not change it.
        offered = {"k": k, "touch": False}
        self._fixed = {**{name: value for name, value in offered.items() if name in self._takes}, **parameters}

    def __call__(self, question: Question) -> Any:
        if question.filter is None:
            return self._function(question.text, **self._fixed)
        self._check("filter")
        return self._function(question.text, **self._fixed, filter=dict(question.filter))

    def _check(self, name: str) -> None:
        if not self._takes & {name, "**"}:
            written = getattr(self._function, "__name__", "the function")
            raise EvaluationError(
                f"{written} takes no {name!r}: wrap it in a function that does, as lambda query, {name}: …"
            )


def _accepts(function: Callable[..., Any]) -> frozenset[str]:
    """The names of a function's parameters; "**" where it takes any."""
    try:
        parameters = list(inspect.signature(function).parameters.values())[1:]
    except (TypeError, ValueError):  # builtins have no signature
        return frozenset()
    named = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    return frozenset(named | ({"**"} if any(p.kind is p.VAR_KEYWORD for p in parameters) else set()))


def found(result: Any, k: int, id_of: IdOf | None = None) -> list[Found]:
    """The first k different hits of whatever a retriever returned, best first."""
    if isinstance(result, (str, bytes)) or not isinstance(result, Iterable):
        raise EvaluationError(f"the retriever returned a {type(result).__name__} instead of a list of ids or hits")
    hits: dict[str, Found] = {}
    for item in result:
        hit = _found(item, id_of)
        hits.setdefault(hit.id, hit)
        if len(hits) == k:
            break
    return list(hits.values())


def _found(item: Any, id_of: IdOf | None) -> Found:
    if isinstance(item, (str, int)):
        return Found(str(item))
    if isinstance(item, tuple) and item:  # (document, score)
        item = item[0]
        if isinstance(item, (str, int)):
            return Found(str(item))
    item = getattr(item, "node", item)  # LlamaIndex wraps the node with its score
    return Found(_identity(item, id_of), _text(item))


def _identity(item: Any, id_of: IdOf | None) -> str:
    if callable(id_of):
        return str(id_of(item))
    fields = item if isinstance(item, Mapping) else None
    if isinstance(id_of, str):
        metadata = fields.get("metadata", fields) if fields else getattr(item, "metadata", {})
        value = metadata.get(id_of)
    else:
        value = fields.get("id") if fields else getattr(item, "id", None) or getattr(item, "node_id", None)
    if value is None:
        raise EvaluationError(
            f"a {type(item).__name__} came back without an id: say with id_of which metadata field holds it, or give a "
            "function"
        )
    return str(value)


def _text(item: Any) -> str:
    if isinstance(item, Mapping):
        return str(item.get("text", ""))
    return str(getattr(item, "text", None) or getattr(item, "page_content", None) or "")
