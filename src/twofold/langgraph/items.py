"""Items: how one lies in a collection, and back; and which of them a filter asks for.

An item is a document. Its id is made of namespace and key, its text is what a query finds it by, and its metadata hold
the value, the dates, the namespaces it lies in and what filters compare.

A filter compares whole values: a list with a list, 5 with 5.0, a key that has dots or quotes in it as it stands. An
engine's own conditions on a payload do otherwise (an element of a list counts, a dot means nesting). So each item
is stored with its facts, a text for each field and its value, which are compared as a whole, and with its numbers and
dates, which are compared by range. A filter becomes conditions on these two.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from threading import Lock
from typing import Any, TypeAlias, TypeVar

from langgraph.store.base import IndexConfig, InvalidNamespaceError, Item, PutOp, SearchItem
from langgraph.store.base.embed import ensure_embeddings, get_text_at_path

from twofold.documents import Document, as_moment, check, iso, without_numpy
from twofold.encoders.models import resolve_dense
from twofold.errors import ConfigError, FilterError, InvalidDocument
from twofold.filters import All, Between, Equals, Node, Not
from twofold.results import Explanation, Hit

PATH = "path"
PREFIXES = "prefixes"
UPDATED = "updated"
EXPIRES = "expires"
TTL = "ttl"
FACTS = "facts"
RANGES = "ranges"
FIELD_INDEXES = {PREFIXES: "keyword", PATH: "keyword", FACTS: "keyword", UPDATED: "datetime", EXPIRES: "datetime"}
"""The metadata fields that are filtered and sorted by, with the kind of their index."""
WHOLE_VALUE = "$"

ItemT = TypeVar("ItemT", bound=Item)
Path: TypeAlias = tuple[str, ...]
"""The names of a field and of the objects it lies in, outermost first."""

_MAX_FACT_LENGTH = 120
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?")
_OPERATORS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")


# --- namespaces ----------------------------------------------------------------------------------


def check_labels(namespace: Sequence[Any]) -> None:
    """The rules of LangGraph's own methods, for operations that come in a batch too."""
    if not isinstance(namespace, tuple):
        raise InvalidNamespaceError(f"a namespace is a tuple of labels, got {type(namespace).__name__}")
    for label in namespace:
        if not isinstance(label, str):
            raise InvalidNamespaceError(f"{label!r} in {namespace!r} is a {type(label).__name__}: labels are strings")
        if not label or "." in label or "\x00" in label:
            raise InvalidNamespaceError(
                f"{label!r} in {namespace!r} can't be a label: it must have characters, but no '.' and no NUL"
            )


def check_namespace(namespace: Sequence[Any]) -> None:
    """A namespace that something is stored in."""
    if isinstance(namespace, tuple) and not namespace:
        raise InvalidNamespaceError("an item needs a namespace: give at least one label")
    check_labels(namespace)


def _namespace_text(namespace: Iterable[str]) -> str:
    """A namespace as one text. JSON, so that no two are written alike, whatever is in their labels."""
    return json.dumps(list(namespace))


def within(prefix: Sequence[str]) -> Node:
    """The condition for everything in a namespace and below."""
    return Equals(PREFIXES, _namespace_text(prefix))


# --- the text that finds an item -----------------------------------------------------------------


def searched_fields(index: IndexConfig | Sequence[str] | None) -> tuple[str, ...]:
    """The paths that are searched unless a `put` says otherwise; the whole value by default."""
    fields: Any = index.get("fields") if isinstance(index, Mapping) else index
    return (WHOLE_VALUE,) if fields is None else _check_paths(fields, ConfigError)


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


# --- what filters compare ------------------------------------------------------------------------


def _compared(value: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that a filter can ask about a value: by equality, and by range."""
    facts: list[str] = []
    ranges: dict[str, float] = {}
    for path, field in _fields(value):
        facts += [_fact("has", path), _fact("is", path, field)]
        facts += [_fact("object", path)] if isinstance(field, Mapping) else []
        ranges |= _measured(path, field)
    return {FACTS: facts, RANGES: ranges}


def _fields(value: Mapping[str, Any], above: Path = ()) -> Iterator[tuple[Path, Any]]:
    """All fields that hold something, with those of the objects in them."""
    for key, field in value.items():
        if field is not None:
            yield (*above, key), field
        if isinstance(field, Mapping):
            yield from _fields(field, (*above, key))


def _fact(kind: str, path: Path, *value: Any) -> str:
    """A text for "path has a value", "path is this value" or "path is an object"; # and a hash if it is long."""
    text = _canonical_text([kind, path, *value])
    return text if len(text) <= _MAX_FACT_LENGTH else f"#{hashlib.sha256(text.encode()).hexdigest()}"


def _canonical_text(value: Any) -> str:
    return json.dumps(_canonical(value), sort_keys=True, separators=(",", ":"))


def _canonical(value: Any) -> Any:
    """The same for everything that counts as equal: 5 and 5.0, a list and a tuple, a date and its stored text."""
    if isinstance(value, Mapping):
        return {str(key): _canonical(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return iso(value) if isinstance(value, date) else without_numpy(value)


def _measured(path: Path, value: Any) -> dict[str, float]:
    """A number (also one that is written as a text) or a date as a number, by its name; empty if it is neither."""
    kind, value = "number", without_numpy(value)
    try:
        if isinstance(value, str) and _DATE.fullmatch(value.strip()):
            value = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
        if isinstance(value, date):
            kind, value = "date", as_moment(value).timestamp()
        number = float(value) if isinstance(value, (str, int, float)) else math.nan
    except (ValueError, OverflowError):
        return {}
    if not math.isfinite(number):
        return {}
    # The name has no character that a path in a payload could trip over.
    return {f"{kind}-{hashlib.sha256(_canonical_text(path).encode()).hexdigest()[:24]}": number}


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


def to_document(op: PutOp, default_paths: Sequence[str], before: Document | None) -> Document:
    """An item to be stored; `before` is what it replaces, whose date of creation it keeps."""
    (record,) = check([Document("", "-", op.value or {})])  # the value as it will be read, or what is wrong with it
    value = record.metadata
    moment = _next_moment()
    metadata: dict[str, Any] = {
        "namespace": list(op.namespace),
        "key": op.key,
        "value": value,
        "created": before.metadata["created"] if before else iso(moment),
        UPDATED: iso(moment),
        PATH: _namespace_text(op.namespace),
        # The namespace and all that it lies in; the empty one too, which marks a document as an item of a store.
        PREFIXES: [_namespace_text(op.namespace[:depth]) for depth in range(len(op.namespace) + 1)],
        **_compared(value),
    }
    if op.ttl is not None:
        metadata |= {TTL: op.ttl, EXPIRES: iso(moment + timedelta(minutes=op.ttl))}
    return Document(_searched_text(value, op.index, default_paths), item_id(op.namespace, op.key), metadata)


def to_item(stored: Document | Hit, kind: type[ItemT], **score: Any) -> ItemT:
    """The item as it was put; `score` is what a search adds."""
    metadata = stored.metadata
    created, updated = (datetime.fromisoformat(metadata[name]) for name in ("created", UPDATED))
    own = {"key": metadata["key"], "value": metadata["value"], "created_at": created, "updated_at": updated}
    return kind(namespace=tuple(metadata["namespace"]), **own, **score)


def to_search_item(found: Document | Hit, *, explain: bool) -> SearchItem:
    """The item as a search gives it; one that was found without a query has no score to explain."""
    if not isinstance(found, Hit):
        return to_item(found, SearchItem)
    if explain:
        return to_item(found, ExplainedItem, score=found.relevance, explanation=found.explanation)
    return to_item(found, SearchItem, score=found.relevance)


def has_expired(document: Document, moment: datetime) -> bool:
    """It may not be shown any more."""
    expires = document.metadata.get(EXPIRES)
    return expires is not None and datetime.fromisoformat(expires) <= moment


def expired(moment: datetime) -> Node:
    """The condition for the items that a sweep deletes; other documents of the collection are none."""
    return All((within(()), Between(EXPIRES, lte=moment)))


# --- what a filter asks for ----------------------------------------------------------------------


def conditions(wanted: Mapping[str, Any] | None) -> list[Node]:
    """What a filter such as {"type": "note", "score": {"$gte": 3}} asks for; all of it must hold."""
    if wanted is None:
        return []
    if not isinstance(wanted, Mapping):
        raise FilterError(f"a filter is a dict such as {{'type': 'note'}}, got {type(wanted).__name__}")
    for key in wanted:
        if not isinstance(key, str) or key.startswith("$"):
            raise FilterError(
                f"{key!r} is not the name of a field: write operators below one, {{'score': {{'$gt': 3}}}}"
            )
    return [_field_condition((key,), value) for key, value in wanted.items()]


def _field_condition(path: Path, wanted: Any) -> Node:
    if not isinstance(wanted, Mapping):
        return _equality(path, wanted)
    if any(str(key).startswith("$") for key in wanted):
        return All(tuple(_operator(path, name, value) for name, value in wanted.items()))
    inside = [_field_condition((*path, str(key)), value) for key, value in wanted.items()]
    return All((Equals(FACTS, _fact("object", path)), *inside))


def _operator(path: Path, name: str, value: Any) -> Node:
    if name in ("$eq", "$ne"):
        return _equality(path, value) if name == "$eq" else Not(_equality(path, value))
    if name not in _OPERATORS:
        raise FilterError(f"{_dotted(path)}: unknown operator {name!r}: use one of {', '.join(_OPERATORS)}")
    measured = _measured(path, value)
    if not measured:
        raise FilterError(f"{_dotted(path)}: {name} needs a number or a date (2026-05-01), got {value!r}")
    ((measure, number),) = measured.items()
    return Between(f"{RANGES}.{measure}", **{name.removeprefix("$"): number})


def _equality(path: Path, value: Any) -> Node:
    """Null is the same as not there."""
    if value is None:
        return Not(Equals(FACTS, _fact("has", path)))
    _check_value(path, value)
    return Equals(FACTS, _fact("is", path, value))


def _check_value(path: Path, value: Any) -> None:
    """Refuse what no item can hold, and an operator within a value: it would be taken for a part of it."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            if str(key).startswith("$"):
                raise FilterError(f"{_dotted(path)}: {key!r} can't stand in a list or a value: compare whole values")
            _check_value(path, part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            _check_value(path, part)
    elif not (value is None or isinstance(without_numpy(value), (str, int, float, date))):
        raise FilterError(
            f"{_dotted(path)}: no item holds a {type(value).__name__}: convert it as you did to store it, to a string, "
            "a number or a list"
        )


def _dotted(path: Path) -> str:
    return repr(".".join(path))
