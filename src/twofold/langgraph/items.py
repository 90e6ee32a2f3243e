"""How an item lies in a collection, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from langgraph.store.base import Item, PutOp, SearchItem

from twofold.documents import Document, check, iso, point_id
from twofold.engine.layout import Stored
from twofold.filters import Between, Node, Not
from twofold.langgraph import clock
from twofold.langgraph.conditions import FACTS, RANGES
from twofold.langgraph.facts import facts_of, ranges_of
from twofold.langgraph.namespaces import PATH, PREFIXES, prefixes, written
from twofold.langgraph.texts import searched_text
from twofold.results import Explanation, Hit

UPDATED = "updated"
EXPIRES = "expires"
TTL = "ttl"
INDEXES = {PREFIXES: "keyword", PATH: "keyword", FACTS: "keyword", UPDATED: "datetime", EXPIRES: "datetime"}


class ExplainedItem(SearchItem):
    """An item that was found, with where its score comes from."""

    __slots__ = ("explanation",)

    explanation: Explanation | None

    def __init__(self, *, explanation: Explanation | None = None, **fields: Any) -> None:
        super().__init__(**fields)
        self.explanation = explanation


def identity(namespace: Sequence[str], key: str) -> str:
    """The id of an item. JSON, so that no two items share one, whatever is in labels and keys."""
    return json.dumps([list(namespace), key])


def point_of(namespace: Sequence[str], key: str) -> str:
    """The id of the point that an item lies in."""
    return point_id(identity(namespace, key))


def to_document(op: PutOp, usual: Sequence[str], created: datetime | None) -> Document:
    """An item to be stored; `created` is when it was stored first."""
    value = _json(op.value or {})
    moment = clock.next_moment()
    metadata: dict[str, Any] = {
        "namespace": list(op.namespace),
        "key": op.key,
        "value": value,
        "created": iso(created or moment),
        UPDATED: iso(moment),
        PATH: written(op.namespace),
        PREFIXES: prefixes(op.namespace),
        FACTS: facts_of(value),
        RANGES: ranges_of(value),
    }
    if op.ttl is not None:
        metadata |= {TTL: op.ttl, EXPIRES: iso(moment + timedelta(minutes=op.ttl))}
    return Document(searched_text(value, op.index, usual), identity(op.namespace, op.key), metadata)


def _json(value: Mapping[str, Any]) -> dict[str, Any]:
    """A value as it will be read, or what is wrong with it."""
    (record,) = check([Document("", "-", value)])
    return record.metadata


def to_item(stored: Stored) -> Item:
    """The item as it was put."""
    return Item(**_fields(stored.metadata))


def to_search_item(found: Stored | Hit, score: float | None = None) -> SearchItem:
    """The item as a search gives it."""
    return SearchItem(**_fields(found.metadata), score=score)


def to_explained_item(hit: Hit) -> ExplainedItem:
    """The same, with where the score comes from."""
    return ExplainedItem(**_fields(hit.metadata), score=hit.score, explanation=hit.explanation)


def _fields(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "namespace": tuple(metadata["namespace"]),
        "key": metadata["key"],
        "value": metadata["value"],
        "created_at": datetime.fromisoformat(metadata["created"]),
        "updated_at": datetime.fromisoformat(metadata[UPDATED]),
    }


def alive(moment: datetime) -> Node:
    """The condition for what has not expired."""
    return Not(Between(EXPIRES, lte=moment))


def has_expired(stored: Stored, moment: datetime) -> bool:
    """The same for a row that was fetched by its id."""
    expires = stored.metadata.get(EXPIRES)
    return expires is not None and datetime.fromisoformat(expires) <= moment
