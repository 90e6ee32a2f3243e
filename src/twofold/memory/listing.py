"""Memories by id, in order of time, and in numbers."""

from __future__ import annotations

import base64
import binascii
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any, Literal

from twofold.encoders.base import Sparse
from twofold.engine import calls
from twofold.engine.layout import DENSE, SPARSE, Stored, from_point, metadata_key
from twofold.engine.requests import FusedQuery, NewestFirst, VectorQuery
from twofold.errors import InvalidQuery
from twofold.filters import All, AnyOf, Between, HasPoint, HasVector, Node, Not
from twofold.flow import Flow, Work
from twofold.index.opening import Ready
from twofold.index.searching import Searcher
from twofold.memory import writing
from twofold.memory.items import MemoryItem, MemoryPage, MemoryStats, is_memory_id
from twofold.memory.layout import as_moment, damage, to_item
from twofold.memory.recall import between, moment
from twofold.memory.scope import Scope, Shelf
from twofold.memory.state import Keeper
from twofold.memory.writing import Draft
from twofold.ranking.names import split
from twofold.results import Problem
from twofold.text import clean_query

# --- Memories by id, in order of time, and in numbers ---

_MOST = 10_000
_AT_ONCE = 256
_EARLIEST = datetime.min.replace(tzinfo=timezone.utc)


def newest(
    ready: Ready,
    scope: Scope,
    shelves: Sequence[Shelf],
    conditions: Sequence[Node | None],
    limit: int,
    after: str | None,
    probe: Sparse | None = None,
) -> Flow[MemoryPage]:
    """One page of memories, or of those that a leg finds, newest first.

    Rows that can't be read are named, and take no place.
    """
    check_limit(limit)
    moment, seen = _read_cursor(after)
    bound = None if moment is None else Between("created", lte=moment)
    unseen = Not(HasPoint(tuple(seen))) if seen else None
    where = scope.where(shelves, *conditions, bound, unseen)
    stored, page = yield from _readable_page(ready, where, limit, probe)
    undated = (yield from _undated(ready, scope, shelves, conditions)) if after is None else []
    items, problems = split_readable([*page, *undated])
    more = _cursor(page, moment, seen) if len(stored) > len(page) else None
    return MemoryPage(tuple(sorted(items, key=newest_first)), more, problems)


def _undated(
    ready: Ready, scope: Scope, shelves: Sequence[Shelf], conditions: Sequence[Node | None]
) -> Flow[list[Stored]]:
    """Rows without a date, which an engine leaves out where it goes by the date."""
    return (yield from everything(ready, scope.where(shelves, *conditions, Not(Between("created", gte=_EARLIEST)))))


def _readable_page(
    ready: Ready, where: Node, limit: int, probe: Sparse | None
) -> Flow[tuple[list[Stored], list[Stored]]]:
    """Rows, and as many of the first of them as it takes for `limit` that can be read."""
    wanted = limit + 1
    while True:
        stored = yield from _newest_rows(ready, where, wanted, probe)
        fit = [place for place, row in enumerate(stored, 1) if damage(row) is None]
        if len(fit) >= limit or len(stored) < wanted:
            return stored, stored[: fit[limit - 1]] if len(fit) >= limit else stored
        wanted *= 2


def _newest_rows(ready: Ready, where: Node, wanted: int, probe: Sparse | None) -> Flow[list[Stored]]:
    key = metadata_key("created")
    if probe is None:
        rows, _ = yield from calls.scroll(ready.collection, where, limit=wanted, order_by=key)
        return [from_point(row) for row in rows]
    # The leg has to bring all that it finds: the newest may match worst.
    most = yield from calls.count(ready.collection, where)
    leg = VectorQuery(probe, max(most, 1), where)
    found = yield from calls.query(ready.collection, [FusedQuery((leg,), NewestFirst("created"), wanted)])
    return [from_point(row) for row in found[0]]


def check_limit(limit: object) -> None:
    """How many rows a page may have."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= _MOST:
        raise InvalidQuery(f"limit must be a whole number from 1 to {_MOST:,}, got {limit!r}")


def newest_after_touches(
    searcher: Searcher,
    keeper: Keeper,
    scope: Scope,
    shelves: Sequence[Shelf],
    conditions: Sequence[Node | None],
    limit: int,
    after: str | None,
) -> Flow[MemoryPage]:
    """One page of memories, with every recall counted."""
    yield from keeper.count_up(searcher)
    return (yield from newest(searcher.ready, scope, shelves, conditions, limit, after))


def newest_first(item: MemoryItem) -> tuple[float, str]:
    """For sorting."""
    return (-item.created.timestamp() if item.created else 0.0, item.id)


def split_readable(rows: Sequence[Stored]) -> tuple[list[MemoryItem], tuple[Problem, ...]]:
    """Rows that can be read, and what is wrong with the others."""
    wrong = [(row, damage(row)) for row in rows]
    items = [to_item(row) for row, said in wrong if said is None]
    return items, tuple(Problem(row.id, said) for row, said in wrong if said is not None)


def _cursor(page: Sequence[Stored], moment: datetime | None, seen: Sequence[str]) -> str:
    """Where the next page begins: the moment of the last row, and the rows of that moment that were shown."""
    last = page[-1].metadata["created"]
    shown = [row.point for row in page if row.metadata["created"] == last]
    if moment is not None and as_moment(last, "created") == moment:
        shown = [*seen, *shown]
    return base64.urlsafe_b64encode(json.dumps([last, shown]).encode()).decode()


def _read_cursor(after: str | None) -> tuple[datetime | None, list[str]]:
    if after is None:
        return None, []
    try:
        last, seen = json.loads(base64.urlsafe_b64decode(after.encode()))
        if not all(is_memory_id(identity) for identity in seen):
            raise ValueError("ids that are none")
        return as_moment(last, "after"), seen
    except (ValueError, TypeError, binascii.Error, AttributeError) as error:
        raise InvalidQuery(f"after must be the `next` of a page, got {after!r}: leave it out to begin anew") from error


def everything(ready: Ready, where: Node) -> Flow[list[Stored]]:
    """All rows that match, whatever their state."""
    return (yield from matching(ready, where))


def matching(ready: Ready, where: Node, *, only: Sequence[str] | None = None) -> Flow[list[Stored]]:
    """All rows that match, or only some fields of them."""
    rows: list[Stored] = []
    offset: Any = None
    while True:
        points, offset = yield from calls.scroll(ready.collection, where, limit=_AT_ONCE, offset=offset, only=only)
        rows += [from_point(point) for point in points]
        if offset is None:
            return rows


def stats(ready: Ready, scope: Scope, *, verify: bool) -> Flow[MemoryStats]:
    """A scope in numbers. With `verify` every row is read and checked."""
    counts: dict[Shelf, int] = {}
    shelves: tuple[Shelf, ...] = ("memory", "superseded", "log", "feedback")
    for shelf in shelves:
        counts[shelf] = yield from calls.count(ready.collection, scope.where((shelf,)))
    live = scope.where(("memory",))
    tables: dict[str, Mapping[Any, int]] = {}
    for field in ("type", "tags", "trust"):
        tables[field] = yield from calls.facet(ready.collection, metadata_key(field), live, _MOST)
    lacking = {}
    for name in (DENSE, SPARSE):
        without = All((live, Not(HasVector(name))))
        lacking[name] = yield from calls.count(ready.collection, without)
    rows = (yield from everything(ready, scope.where(("memory", "superseded", "log")))) if verify else []
    return MemoryStats(
        memories=counts["memory"],
        superseded=counts["superseded"],
        logs=counts["log"],
        judgements=counts["feedback"],
        types=dict(tables["type"]),
        tags=dict(tables["tags"]),
        trust=dict(tables["trust"]),
        without_meaning=lacking[DENSE],
        without_words=lacking[SPARSE],
        problems=split_readable(rows)[1],
    )


# --- The daily log: lines in order of time, apart from the memories ---

_notes = logging.getLogger("twofold.memory")

LOG: Literal["log"] = "log"


def log(searcher: Searcher, keeper: Keeper, scope: Scope, written: Draft) -> Flow[str]:
    """Write a line. The same line at another moment is another line."""
    item = writing.fresh(scope, written, LOG)
    moment = item.created.isoformat() if item.created else ""
    item = replace(item, id=scope.identity(LOG, [item.content_hash, moment]))
    encoded = yield from writing.encode(searcher.ready, [item], keeper.config)
    yield from writing.put(searcher.ready, encoded, LOG)
    keeper.count(added=1)
    return item.id


def logs(
    searcher: Searcher,
    keeper: Keeper,
    scope: Scope,
    query: str | None,
    day: Any,
    since: Any,
    until: Any,
    limit: int,
    after: str | None,
) -> Flow[MemoryPage]:
    """Lines, newest first; with a query, those that have a word of it."""
    conditions = [between("created", since, until), _on(day)]
    if query is None:
        return (yield from newest(searcher.ready, scope, (LOG,), conditions, limit, after))
    if not isinstance(query, str):
        raise InvalidQuery(f"the query must be a string, got {type(query).__name__}")
    check_limit(limit)
    text, _ = clean_query(query, keeper.search.max_query_chars)
    probe = yield from _probe(searcher.ready, text)
    if probe is None:  # the words that are stored to compare mistyped ones with
        conditions.append(AnyOf("words", tuple(split(text))))
    elif not probe.indices:
        return MemoryPage(())
    return (yield from newest(searcher.ready, scope, (LOG,), conditions, limit, after, probe))


def _probe(ready: Ready, text: str) -> Flow[Sparse | None]:
    """The words of a query as the lexical leg knows them; None where it can't be used."""
    try:
        if not ready.no_lexical:
            vector: Sparse = yield Work(lambda: ready.sparse.embed_query(text))
            return vector
    except Exception as error:  # whatever a model raises, lines can be found without it
        _notes.warning("the log was searched for plain words: %s: %s", type(error).__name__, error)
    return None


def _on(day: Any) -> Node | None:
    return None if day is None else between("created", *_bounds(day))


def _bounds(day: Any) -> tuple[Any, Any]:
    start = moment(day, "day").replace(hour=0, minute=0, second=0, microsecond=0)
    return start, start + timedelta(days=1, microseconds=-1)
