"""Items: how one lies in a collection, and back.

An item is a document. Its id is made of namespace and key, its text is what a query finds it by, and its metadata hold
the value, the dates, the namespaces it lies in and the facts that filters compare.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from threading import Lock
from typing import Any

from langgraph.store.base import (
    IndexConfig,
    InvalidNamespaceError,
    Item,
    PutOp,
    SearchItem,
    ensure_embeddings,
    get_text_at_path,
)

from twofold.documents import Document, check, iso
from twofold.encoders.models import resolve_dense
from twofold.errors import ConfigError, InvalidDocument
from twofold.filters import All, Between, Equals, Node, Not
from twofold.langgraph.filters import FACTS, RANGES, facts_of, ranges_of
from twofold.results import Explanation, Hit

PATH = "path"
PREFIXES = "prefixes"
UPDATED = "updated"
EXPIRES = "expires"
TTL = "ttl"
FIELD_INDEXES = {PREFIXES: "keyword", PATH: "keyword", FACTS: "keyword", UPDATED: "datetime", EXPIRES: "datetime"}
"""The metadata fields that are filtered and sorted by, with the kind of their index."""
WHOLE_VALUE = "$"


# --- namespaces ----------------------------------------------------------------------------------


def check_labels(namespace: Sequence[Any]) -> None:
    """The rules of LangGraph's own methods, for operations that come in a batch too."""
    for label in namespace:
        if not isinstance(label, str):
            raise InvalidNamespaceError(f"{label!r} in {namespace!r} is a {type(label).__name__}: labels are strings")
        if not label or "." in label or "\x00" in label:
            raise InvalidNamespaceError(
                f"{label!r} in {namespace!r} can't be a label: it must have characters, but no '.' and no NUL"
            )


def check_namespace(namespace: Sequence[Any]) -> None:
    """A namespace that something is stored in."""
    if not namespace:
        raise InvalidNamespaceError("an item needs a namespace: give at least one label")
    check_labels(namespace)
    if namespace[0] == "langgraph":
        raise InvalidNamespaceError(f'the first label of {namespace!r} is "langgraph", which is reserved: take another')


def _namespace_text(namespace: Iterable[str]) -> str:
    """A namespace as one text. JSON, so that no two are written alike, whatever is in their labels."""
    return json.dumps(list(namespace))


def _prefixes(namespace: Sequence[str]) -> list[str]:
    """A namespace and all that it lies in; the empty one too, which marks a document as an item of a store."""
    return [_namespace_text(namespace[:depth]) for depth in range(len(namespace) + 1)]


def within(prefix: Sequence[str]) -> Node:
    """The condition for everything in a namespace and below."""
    return Equals(PREFIXES, _namespace_text(prefix))


# --- the text that finds an item -----------------------------------------------------------------


def searched_fields(index: IndexConfig | Sequence[str] | None) -> tuple[str, ...]:
    """The paths that are searched unless a `put` says otherwise; the whole value by default."""
    fields: Any = index.get("fields") if isinstance(index, Mapping) else index
    if fields is None:
        return (WHOLE_VALUE,)
    return _check_paths(fields, ConfigError)


def configured_model(index: IndexConfig | Sequence[str] | None, dense: Any) -> Any:
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
    dims = index.get("dims") if isinstance(index, Mapping) else None
    if dims not in (None, dim):
        raise ConfigError(
            f"index['dims'] is {dims!r}, but the model makes {dim} dimensions: leave dims out, or mend it"
        )


def _searched_text(value: Mapping[str, Any], index: Any, default_paths: Sequence[str]) -> str:
    """The text that finds an item; empty if nothing shall."""
    if index is False:
        return ""
    paths = default_paths if index is None else _check_paths(index, InvalidDocument)
    texts = (_lines(value, "") if path == WHOLE_VALUE else get_text_at_path(value, path) for path in paths)
    return "\n".join(line for lines in texts for line in lines)


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


def _check_paths(given: Any, error: type[ConfigError | InvalidDocument]) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(path, str) for path in given):
        raise error(f'the fields to search are a list of paths such as ["text", "chapters[*].title"], got {given!r}')
    return tuple(given)


# --- the time ------------------------------------------------------------------------------------

_last_moment = datetime.min.replace(tzinfo=timezone.utc)
_last_moment_lock = Lock()


def utc_now() -> datetime:
    """The current moment."""
    return datetime.now(timezone.utc)


def _next_moment() -> datetime:
    """A moment of its own for each item, so that those of one batch keep their order."""
    global _last_moment
    with _last_moment_lock:
        _last_moment = max(utc_now(), _last_moment + timedelta(microseconds=1))
        return _last_moment


# --- items as documents, and back ----------------------------------------------------------------


class ExplainedItem(SearchItem):
    """An item that was found, with where its score comes from."""

    __slots__ = ("explanation",)

    explanation: Explanation | None

    def __init__(self, *, explanation: Explanation | None = None, **fields: Any) -> None:
        super().__init__(**fields)
        self.explanation = explanation


def item_id(namespace: Sequence[str], key: str) -> str:
    """The id of an item's document. JSON, so that no two items share one, whatever is in labels and keys."""
    return json.dumps([list(namespace), key])


def to_document(op: PutOp, default_paths: Sequence[str], created: datetime | None) -> Document:
    """An item to be stored; `created` is when it was stored first."""
    (record,) = check([Document("", "-", op.value or {})])  # the value as it will be read, or what is wrong with it
    value = record.metadata
    moment = _next_moment()
    metadata: dict[str, Any] = {
        "namespace": list(op.namespace),
        "key": op.key,
        "value": value,
        "created": iso(created or moment),
        UPDATED: iso(moment),
        PATH: _namespace_text(op.namespace),
        PREFIXES: _prefixes(op.namespace),
        FACTS: facts_of(value),
        RANGES: ranges_of(value),
    }
    if op.ttl is not None:
        metadata |= {TTL: op.ttl, EXPIRES: iso(moment + timedelta(minutes=op.ttl))}
    return Document(_searched_text(value, op.index, default_paths), item_id(op.namespace, op.key), metadata)


def to_item(document: Document) -> Item:
    """The item as it was put."""
    return Item(**_item_fields(document.metadata))


def to_search_item(found: Document | Hit, *, explain: bool) -> SearchItem:
    """The item as a search gives it; one that was found without a query has no score to explain."""
    fields = _item_fields(found.metadata)
    if not isinstance(found, Hit):
        return SearchItem(**fields, score=None)
    if explain:
        return ExplainedItem(**fields, score=found.score, explanation=found.explanation)
    return SearchItem(**fields, score=found.score)


def created_at(document: Document) -> datetime:
    """When the item was stored first."""
    return datetime.fromisoformat(document.metadata["created"])


def _item_fields(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "namespace": tuple(metadata["namespace"]),
        "key": metadata["key"],
        "value": metadata["value"],
        "created_at": datetime.fromisoformat(metadata["created"]),
        "updated_at": datetime.fromisoformat(metadata[UPDATED]),
    }


def not_expired(moment: datetime) -> Node:
    """The condition for what may still be shown."""
    return Not(Between(EXPIRES, lte=moment))


def has_expired(document: Document, moment: datetime) -> bool:
    """The same for a document that was fetched by its id."""
    expires = document.metadata.get(EXPIRES)
    return expires is not None and datetime.fromisoformat(expires) <= moment


def expired(moment: datetime) -> Node:
    """The condition for the items that a sweep deletes; other documents of the collection are none."""
    return All((within(()), Between(EXPIRES, lte=moment)))


def postponement(ids: Sequence[str], minutes: float, moment: datetime) -> dict[str, Any]:
    """The arguments of `update_metadata` that let items of this time to live, which were just read, live on.

    One that was put anew meanwhile with another time to live, or has expired meanwhile, is left alone.
    """
    changes = {EXPIRES: iso(moment + timedelta(minutes=minutes))}
    return {"changes": changes, "filter": {"$id": list(ids), TTL: minutes, EXPIRES: {"gt": moment}}}
