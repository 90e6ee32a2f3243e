"""A batch of operations as one flow: everything is read first, then everything is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from langgraph.store.base import GetOp, Item, ListNamespacesOp, Op, PutOp, Result, SearchItem, SearchOp

from twofold.config import SearchConfig
from twofold.documents import Document, point_id
from twofold.engine import calls
from twofold.engine.layout import Stored, from_point, metadata_key
from twofold.errors import InvalidDocument, InvalidQuery
from twofold.filters import All, Between, Node, leaves
from twofold.flow import Flow
from twofold.index import writing
from twofold.index.queries import check_query
from twofold.index.searching import Searcher
from twofold.langgraph import clock, items
from twofold.langgraph.conditions import conditions
from twofold.langgraph.expiry import check_minutes, put_off
from twofold.langgraph.namespaces import check_labels, check_namespace, listed, within
from twofold.results import Hit

_BATCH = 64
_MOST = 1_000_000


@dataclass(frozen=True)
class Rules:
    """What a store does the same in every batch."""

    fields: tuple[str, ...]
    """The paths that are searched unless a `put` says otherwise."""
    search: SearchConfig
    explain: bool
    omit_expired: bool

    def alive(self) -> list[Node]:
        """The condition for what may be shown."""
        return [items.alive(clock.now())] if self.omit_expired else []

    def shows(self, stored: Stored, moment: datetime) -> bool:
        """The same for a row that was fetched by its id."""
        return not (self.omit_expired and items.has_expired(stored, moment))


def check_ops(ops: Iterable[Op]) -> list[Op]:
    """Every operation is checked before the first is carried out."""
    checked = list(ops)
    for op in checked:
        _check(op)
    return checked


def _check(op: Any) -> None:
    if isinstance(op, GetOp):
        check_labels(op.namespace)
    elif isinstance(op, SearchOp):
        check_labels(op.namespace_prefix)
    elif isinstance(op, ListNamespacesOp):
        for pattern in op.match_conditions or ():
            check_labels(pattern.path)
    elif isinstance(op, PutOp):
        _check_put(op)
    else:
        raise InvalidQuery(f"a batch has get, put, search and list operations of LangGraph, got {type(op).__name__}")


def _check_put(op: PutOp) -> None:
    value: object = op.value
    if value is None:
        return check_labels(op.namespace)
    check_namespace(op.namespace)
    check_minutes("ttl", op.ttl)
    if not isinstance(value, Mapping):
        raise InvalidDocument(f"a value is a mapping, got {type(value).__name__}: wrap it, as {{'text': …}}")
    return None


def perform(searcher: Searcher, rules: Rules, ops: Sequence[Op]) -> Flow[list[Result]]:
    """Carry out a batch. Reads see what was there before it; of several puts of one item the last counts."""
    results: list[Result] = [None] * len(ops)
    gets = {place: op for place, op in enumerate(ops) if isinstance(op, GetOp)}
    for place, item in (yield from _get(searcher, rules, gets)).items():
        results[place] = item
    for place, op in enumerate(ops):
        if isinstance(op, SearchOp):
            results[place] = yield from _search(searcher, rules, op)
        elif isinstance(op, ListNamespacesOp):
            results[place] = yield from listed(searcher.ready, op, rules.alive())
    puts = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
    yield from _put(searcher, rules, list(puts.values()))
    return results


def _fetch(searcher: Searcher, points: Sequence[str]) -> Flow[dict[str, Stored]]:
    if not points:
        return {}
    rows = yield from calls.retrieve(searcher.ready.collection, list(dict.fromkeys(points)))
    return {stored.point: stored for stored in map(from_point, rows)}


def _get(searcher: Searcher, rules: Rules, ops: dict[int, GetOp]) -> Flow[dict[int, Item]]:
    points = {place: items.point_of(op.namespace, op.key) for place, op in ops.items()}
    rows = yield from _fetch(searcher, list(points.values()))
    moment = clock.now()
    found = {place: rows[p] for place, p in points.items() if p in rows and rules.shows(rows[p], moment)}
    yield from put_off(searcher, {s.point: s for place, s in found.items() if ops[place].refresh_ttl}.values())
    return {place: items.to_item(stored) for place, stored in found.items()}


def _search(searcher: Searcher, rules: Rules, op: SearchOp) -> Flow[list[SearchItem]]:
    wanted = conditions(op.filter)
    yield from _serve_ranges(searcher, wanted)
    where = All((within(op.namespace_prefix), *rules.alive(), *wanted))
    found = yield from (_ranked(searcher, rules, op, where) if op.query else _newest(searcher, op, where))
    if op.refresh_ttl:
        yield from put_off(searcher, [_row(each) for each in found])
    return [_shown(each, rules) for each in found]


def _serve_ranges(searcher: Searcher, wanted: Sequence[Node]) -> Flow[None]:
    """An index on the numbers that are compared. Their fields hold nothing else, so it can't mislead."""
    for leaf in leaves(All(tuple(wanted))):
        if isinstance(leaf, Between):
            yield from searcher.ready.indexes.ensure(leaf.field, "float")


def _shown(found: Stored | Hit, rules: Rules) -> SearchItem:
    if not isinstance(found, Hit):
        return items.to_search_item(found)
    return items.to_explained_item(found) if rules.explain else items.to_search_item(found, found.score)


def _row(found: Stored | Hit) -> Stored:
    return Stored(point_id(found.id), found.id, found.text, found.metadata) if isinstance(found, Hit) else found


def _ranked(searcher: Searcher, rules: Rules, op: SearchOp, where: Node) -> Flow[Sequence[Stored | Hit]]:
    query = check_query(
        op.query, k=op.limit, offset=op.offset, where=where, config=rules.search, overrides={}, explain=rules.explain
    )
    return (yield from searcher.search(query)).result.hits


def _newest(searcher: Searcher, op: SearchOp, where: Node) -> Flow[Sequence[Stored | Hit]]:
    """Without a query: what was stored last comes first."""
    for name, value in (("limit", op.limit), ("offset", op.offset)):
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST:
            raise InvalidQuery(f"{name} must be a whole number from 0 to {_MOST:,}, got {value!r}")
    if not op.limit:
        return []
    key = metadata_key(items.UPDATED)
    limit = op.offset + op.limit
    rows, _ = yield from calls.scroll(searcher.ready.collection, where, limit=limit, order_by=key)
    return [from_point(row) for row in rows[op.offset :]]


def _put(searcher: Searcher, rules: Rules, ops: Sequence[PutOp]) -> Flow[None]:
    """Store and delete. What can't be stored is found out before anything is written."""
    if not ops:
        return
    stored = [op for op in ops if op.value is not None]
    documents = yield from _documents(searcher, rules, stored)
    yield from writing.add(searcher.ready, documents, writing.Columns(), _BATCH, lambda done: None)
    gone = [items.identity(op.namespace, op.key) for op in ops if op.value is None]
    if gone:
        yield from writing.delete(searcher.ready, gone, None)


def _documents(searcher: Searcher, rules: Rules, ops: Sequence[PutOp]) -> Flow[list[Document]]:
    """Items to be stored. Those that are there already keep the date of their creation."""
    points = [items.point_of(op.namespace, op.key) for op in ops]
    before = yield from _fetch(searcher, points)
    moment = clock.now()
    documents = []
    for op, point in zip(ops, points, strict=True):
        old = before.get(point)
        known = old is not None and not items.has_expired(old, moment)
        created = datetime.fromisoformat(old.metadata["created"]) if old is not None and known else None
        documents.append(items.to_document(op, rules.fields, created))
    return documents
