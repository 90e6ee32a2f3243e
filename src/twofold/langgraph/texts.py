"""Which part of a value is searched, and as what text."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from langgraph.store.base import IndexConfig, ensure_embeddings, get_text_at_path

from twofold.encoders.models import resolve_dense
from twofold.errors import ConfigError, InvalidDocument

WHOLE = "$"


def fields_of(index: IndexConfig | Sequence[str] | None) -> tuple[str, ...]:
    """The paths that are searched unless a `put` says otherwise; the whole value by default."""
    fields: Any = index.get("fields") if isinstance(index, Mapping) else index
    if fields is None:
        return (WHOLE,)
    return _paths(fields, ConfigError)


def model_of(index: IndexConfig | Sequence[str] | None, dense: Any) -> Any:
    """The model for meaning, from `dense=` or from LangGraph's own index configuration."""
    if not isinstance(index, Mapping) or index.get("embed") is None:
        return dense
    if dense is not None:
        raise ConfigError("there is a model in dense= and another in index['embed']: keep one")
    model = ensure_embeddings(index["embed"])
    # One that can only be awaited can't be asked how long its vectors are.
    awaited_only = inspect.iscoroutinefunction(index["embed"])
    return replace(resolve_dense(model), dim=index.get("dims")) if awaited_only else model


def check_dims(index: IndexConfig | Sequence[str] | None, dim: int) -> None:
    """LangGraph's configuration says how long vectors are: the model must agree."""
    said = index.get("dims") if isinstance(index, Mapping) else None
    if said not in (None, dim):
        raise ConfigError(
            f"index['dims'] is {said!r}, but the model makes {dim} dimensions: leave dims out, or mend it"
        )


def searched_text(value: Mapping[str, Any], index: Any, usual: Sequence[str]) -> str:
    """The text that finds an item; empty if nothing shall."""
    if index is False:
        return ""
    paths = usual if index is None else _paths(index, InvalidDocument)
    return "\n".join(text for path in paths for text in _texts(value, path))


def _texts(value: Mapping[str, Any], path: str) -> list[str]:
    return list(_lines(value, "")) if path == WHOLE else get_text_at_path(value, path)


def _lines(value: Any, name: str) -> Iterator[str]:
    """A value as a person would write it down. The names of its fields are words to be found too."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _lines(part, f"{name} {key}".strip())
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _lines(part, name)
    elif value is not None:
        yield f"{name}: {value}"


def _paths(given: Any, error: type[ConfigError | InvalidDocument]) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(path, str) for path in given):
        raise error(f'the fields to search are a list of paths such as ["text", "chapters[*].title"], got {given!r}')
    return tuple(given)
