"""A batch of operations as one flow over the index: everything is checked, then read, then written.

The steps are public methods of `HybridIndex`, which the store's `batch` calls and its `abatch` awaits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import NoneType
from typing import Any

from langgraph.store.base import GetOp, Item, ListNamespacesOp, MatchCondition, Op, PutOp, Result, SearchItem, SearchOp

from twofold.documents import Document, iso
from twofold.errors import ConfigError, InvalidDocument, InvalidQuery
from twofold.filters import All, Between, Node, Not, leaves
from twofold.flow import Call, Flow
from twofold.langgraph import items
from twofold.results import Hit

MAX_TTL_MINUTES = 100 * 365 * 24 * 60
"""A hundred years: neither a date nor a timer goes on for ever."""
_MAX_PAGE_END = 1_000_000
_ANY_LABEL = "*"


@dataclass(frozen=True)
class Rules:
    """What a store does the same in every batch."""

    searched_fields: tuple[str, ...]
    """The paths that are searched unless a `put` says otherwise."""
    explain: bool
    """Found items say where their score comes from."""
    omit_expired: bool
    """What has expired is not shown, even before it is swept."""

    def visible(self) -> list[Node]:
        """The conditions for what may be shown."""
        return [Not(Between(items.EXPIRES, lte=items.utc_now()))] if self.omit_expired else []


# --- checking ------------------------------------------------------------------------------------


def check_ops(ops: Iterable[Op]) -> list[Op]:
    """Every operation is checked before the first is carried out."""
    given: Any = ops
    checked: list[Any] = list(given) if isinstance(given, Iterable) and not isinstance(given, type) else [given]
    for op in checked:
        if isinstance(op, (GetOp, PutOp)) and not isinstance(op.key, str):
            raise InvalidQuery(f"a key is a string, got {type(op.key).__name__}")
        if isinstance(op, PutOp) and op.value is not None:
            items.check_namespace(op.namespace)
            check_minutes("ttl", op.ttl)
            if not isinstance(op.value, Mapping):
                raise InvalidDocument(f"a value is a mapping, got {type(op.value).__name__}: wrap it, as {{'text': …}}")
        elif isinstance(op, (GetOp, PutOp)):
            items.check_labels(op.namespace)
        elif isinstance(op, SearchOp):
            items.check_labels(op.namespace_prefix)
            if not isinstance(op.query, (str, NoneType)):
                raise InvalidQuery(f"the query must be a text or None, got {type(op.query).__name__}")
        elif isinstance(op, ListNamespacesOp):
            for pattern in op.match_conditions or ():
                items.check_labels(pattern.path)
        else:
            kind = type(op).__name__
            raise InvalidQuery(f"a batch has get, put, search and list operations of LangGraph, got {kind}")
    return checked


def check_minutes(name: str, value: object) -> None:
    """A time to live is a positive number of minutes, or None."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= MAX_TTL_MINUTES
    if value is not None and not is_number:
        limits = f"above 0 and up to {MAX_TTL_MINUTES:,}"
        raise ConfigError(f"{name} is a number of minutes {limits}, or None, got {value!r}")


def _check_whole(name: str, value: object, largest: int | None = None) -> None:
    in_range = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= (largest or value)
    if not in_range:
        up_to = "" if largest is None else f" to {largest:,}"
        raise InvalidQuery(f"{name} must be a whole number from 0{up_to}, got {value!r}")


def carry_out(ops: Sequence[Op], rules: Rules) -> Flow[list[Result]]:
    """Carry out a batch. Reads see what was there before it; of several puts of one item the last counts."""
    results: list[Result] = [None] * len(ops)
    found = yield from _get([op for op in ops if isinstance(op, GetOp)], rules)
    for position, op in enumerate(ops):
        if isinstance(op, GetOp):
            results[position] = found.get(items.item_id(op.namespace, op.key))
        elif isinstance(op, SearchOp):
            results[position] = yield from _search(op, rules)
        elif isinstance(op, ListNamespacesOp):
            results[position] = yield from _list_namespaces(op, rules)
    puts = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
    if puts:
        yield from _put(list(puts.values()), rules)
    return results


# --- reading -------------------------------------------------------------------------------------


def _get(ops: Sequence[GetOp], rules: Rules) -> Flow[dict[str, Item]]:
    """The items that are there, by id."""
    documents = yield from _stored(ops, omit_expired=rules.omit_expired)
    refreshed = {items.item_id(op.namespace, op.key) for op in ops if op.refresh_ttl}
    yield from _postpone_expiry(found for identity, found in documents.items() if identity in refreshed)
    return {identity: items.to_item(found, Item) for identity, found in documents.items()}


def _stored(ops: Sequence[GetOp | PutOp], *, omit_expired: bool) -> Flow[dict[str, Document]]:
    """The documents of the items that these operations name, by id; those that aren't there are left out."""
    ids = list(dict.fromkeys(items.item_id(op.namespace, op.key) for op in ops))
    documents: list[Document | None] = yield Call("get", {"ids": ids})
    found = {identity: document for identity, document in zip(ids, documents, strict=True) if document is not None}
    if omit_expired:
        moment = items.utc_now()
        found = {each: document for each, document in found.items() if not items.has_expired(document, moment)}
    return found


def _search(op: SearchOp, rules: Rules) -> Flow[list[SearchItem]]:
    wanted = items.conditions(op.filter)
    for leaf in leaves(All(tuple(wanted))):
        if isinstance(leaf, Between):  # a range, whose field holds numbers alone: so an index can't mislead
            yield Call("create_field_index", {"field": leaf.field, "kind": "float"})
    where = All((items.within(op.namespace_prefix), *rules.visible(), *wanted))
    found: Sequence[Document | Hit]
    if op.query:
        page = {"query": op.query, "k": op.limit, "offset": op.offset}
        found = yield Call("search", {**page, "filter": where, "explain": rules.explain})
    else:  # what was stored last comes first
        _check_whole("limit", op.limit, _MAX_PAGE_END)
        _check_whole("offset", op.offset, _MAX_PAGE_END)
        newest = {"filter": where, "limit": op.offset + op.limit, "newest_first": items.UPDATED}
        found = (yield Call("fetch", newest))[op.offset :]
    if op.refresh_ttl:
        yield from _postpone_expiry(found)
    return [items.to_search_item(each, explain=rules.explain) for each in found]


def _postpone_expiry(read: Iterable[Document | Hit]) -> Flow[None]:
    """Items that were read live on for their time, unless they were put anew with another one or have expired."""
    ids_by_ttl: dict[float, dict[str, None]] = {}
    for each in read:
        minutes = each.metadata.get(items.TTL)
        if minutes is not None and each.id is not None:
            ids_by_ttl.setdefault(minutes, {})[each.id] = None
    moment = items.utc_now()
    for minutes, ids in ids_by_ttl.items():
        changes = {items.EXPIRES: iso(moment + timedelta(minutes=minutes))}
        unchanged = {"$id": list(ids), items.TTL: minutes, items.EXPIRES: {"gt": moment}}
        yield Call("update_metadata", {"changes": changes, "filter": unchanged})


def _list_namespaces(op: ListNamespacesOp, rules: Rules) -> Flow[list[tuple[str, ...]]]:
    """The namespaces that have items, sorted."""
    for name, value in (
        ("limit", op.limit),
        ("offset", op.offset),
        ("max_depth", 0 if op.max_depth is None else op.max_depth),
    ):
        _check_whole(name, value)
    patterns = op.match_conditions or ()
    # What the engine can do of the patterns: a beginning without wildcards.
    plain = [p.path for p in patterns if p.match_type == "prefix" and _ANY_LABEL not in p.path]
    where = All((items.within(max(plain, key=len, default=())), *rules.visible()))
    paths: Iterable[str] = yield Call("values", {"field": items.PATH, "filter": where})
    namespaces = [tuple(json.loads(path)) for path in paths]
    matching = {path[: op.max_depth] for path in namespaces if all(_matches(path, pattern) for pattern in patterns)}
    return sorted(matching)[op.offset : op.offset + op.limit]


def _matches(namespace: tuple[str, ...], pattern: MatchCondition) -> bool:
    wanted, labels = list(pattern.path), list(namespace)
    if pattern.match_type == "suffix":
        wanted, labels = wanted[::-1], labels[::-1]
    elif pattern.match_type != "prefix":
        raise InvalidQuery(f"a namespace is matched by 'prefix' or 'suffix', got {pattern.match_type!r}")
    pairs = zip(wanted, labels, strict=False)
    return len(wanted) <= len(labels) and all(want in (_ANY_LABEL, label) for want, label in pairs)


def _put(ops: Sequence[PutOp], rules: Rules) -> Flow[None]:
    """Store, which leaves the date of creation as it is, and delete. What can't be stored fails before any write."""
    stored = [op for op in ops if op.value is not None]
    before = yield from _stored(stored, omit_expired=True)
    documents = [
        items.to_document(op, rules.searched_fields, before.get(items.item_id(op.namespace, op.key))) for op in stored
    ]
    yield Call("add", {"documents": documents})
    deleted = [items.item_id(op.namespace, op.key) for op in ops if op.value is None]
    if deleted:
        yield Call("delete", {"ids": deleted})
