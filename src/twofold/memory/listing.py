"""Reading and forgetting memories: by id, in order of time, in numbers; and the daily log.

Rows that can't be read are named and left out: nothing that is stored disappears silently.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

from twofold.encoders.base import Sparse
from twofold.engine import calls
from twofold.engine.layout import DENSE, METADATA_KEY, SPARSE, Stored, from_point, metadata_key
from twofold.engine.requests import FusedQuery, NewestFirst, VectorQuery
from twofold.errors import FilterError, InvalidQuery
from twofold.filters import (
    All,
    AnyOf,
    Between,
    Either,
    Equals,
    HasPoint,
    HasVector,
    Node,
    Not,
    TextContains,
    matches_all,
)
from twofold.flow import Flow, Work
from twofold.index.queries import check_flag, check_text
from twofold.memory.items import (
    MemoryItem,
    MemoryPage,
    MemoryResult,
    MemoryStats,
    as_moment,
    as_tags,
    check_id,
    check_ids,
    check_whole_number,
    condition,
    damage,
    is_memory_id,
    pieces,
    read_rows,
    to_item,
)
from twofold.memory.learning import drop_orphans
from twofold.memory.recall import Recall, conditions, created_between, recall
from twofold.memory.scope import EVERYTHING, MEMORIES, TEXTS, Scope
from twofold.memory.state import View
from twofold.memory.writing import checked, encode, new_item, places, put, put_turns, rewrite_neighbours, turns_at
from twofold.text import clean_query, words

logger = logging.getLogger("twofold.memory")

MAX_LIMIT = 10_000
MAX_SIMILAR = 999_999
MAX_NEIGHBOURS = 1000
MAX_VALUES = 10_000
"""How many types and tags `stats` counts at most."""
_IDS_PER_FILTER = 256
_EARLIEST = datetime.min.replace(tzinfo=timezone.utc)

# --- One memory, and what is near to it ---


def get(view: View, identity: str) -> Flow[MemoryItem | None]:
    """A memory by id, with every recall counted; None if the scope has none with it."""
    identity = check_id(identity)
    yield from view.store.counter.write_before_reading(view.searcher)
    rows = yield from view.find([identity], TEXTS)
    return view.require(rows, identity) if identity in rows else None


def similar(view: View, identity: str | Sequence[float], k: int) -> Flow[MemoryResult]:
    """What is nearest in meaning to a memory, or to a vector."""
    check_whole_number(k, "k", 0, MAX_SIMILAR)
    if not isinstance(identity, str):
        nearest = Recall("", k=k, alpha=1.0, min_score=0.0, signals=False, vector=identity)
        return (yield from recall(view, nearest))
    item = yield from view.memory(identity)
    result = yield from recall(view, Recall(item.text, k=k + 1, alpha=1.0, signals=False))
    return replace(result, hits=tuple(hit for hit in result if hit.id != item.id)[:k])


def around(view: View, identity: str, before: int, after: int) -> Flow[list[MemoryItem]]:
    """A turn of a conversation, found by its id, with those around it, in their order."""
    for name, value in (("before", before), ("after", after)):
        check_whole_number(value, name, 0, MAX_NEIGHBOURS)
    item = yield from view.memory(identity, ("memory",))
    if item.order is None:
        return [item]
    orders = Between("order", gte=item.order - before, lte=item.order + after)
    return (yield from turns_at(view, Scope.of(item), orders, 2 * (before + after + 1)))


# --- `list`: newest first, a page at a time ---


def list_memories(view: View, request: Recall, limit: int, after: str | None, superseded: bool) -> Flow[MemoryPage]:
    """A page of memories that fulfil the conditions of a request, newest first, with every recall counted."""
    superseded = check_flag("superseded", superseded)
    tagged = as_tags(request.tags, "tags", InvalidQuery)
    vocabulary = (yield from view.vocabulary()) if tagged else None
    wanted = conditions(request, None, vocabulary.lexicon if vocabulary else None)
    yield from view.store.counter.write_before_reading(view.searcher)
    where = view.reach.where(MEMORIES if superseded else ("memory",), *wanted)
    return (yield from newest(view, where, limit, after))


def newest(view: View, where: Node, limit: int, after: str | None, matching: Sparse | None = None) -> Flow[MemoryPage]:
    """One page of memories (with some of the words), newest first; unreadable rows are named, and take no place."""
    check_whole_number(limit, "limit", 1, MAX_LIMIT)
    last, seen = _read_cursor(after)
    older: list[Node] = [] if last is None else [Between("created", lte=last), Not(HasPoint(tuple(seen)))]
    number = limit + 1
    while True:
        rows = yield from _newest_rows(view, All((where, *older)), number, matching)
        fit = [place for place, row in enumerate(rows, 1) if damage(row) is None]
        if len(fit) >= limit or len(rows) < number:
            break
        number *= 2
    page = rows[: fit[limit - 1]] if len(fit) >= limit else rows
    undated: list[Stored] = []
    if after is None:  # rows without a date, which an engine leaves out where it goes by the date
        undated = yield from view.rows(All((where, Not(Between("created", gte=_EARLIEST)))))
    items, problems = read_rows([*page, *undated])
    more = _cursor(page, last, seen) if len(rows) > len(page) else None
    items.sort(key=lambda item: (-item.created.timestamp() if item.created else 0.0, item.id))
    return MemoryPage(tuple(items), more, problems)


def _newest_rows(view: View, where: Node, number: int, vector: Sparse | None) -> Flow[list[Stored]]:
    collection = view.ready.collection
    if vector is None:
        rows, _ = yield from calls.scroll(collection, where, limit=number, order_by=metadata_key("created"))
        return [from_point(row) for row in rows]
    # The leg has to bring all that it finds: the newest may match worst.
    matching = yield from calls.count(collection, where)
    leg = VectorQuery(vector, max(matching, 1), where)
    answers = yield from calls.query(collection, [FusedQuery((leg,), NewestFirst("created"), number)])
    return [from_point(row) for row in answers[0]]


def _cursor(page: Sequence[Stored], before: datetime | None, seen: Sequence[str]) -> str:
    """Where the next page begins: the moment of the last row, and the rows of that moment that were shown."""
    last = page[-1].metadata["created"]
    shown = [row.point for row in page if row.metadata["created"] == last]
    if before is not None and as_moment(last, "created") == before:
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


# --- `stats` ---


def stats(view: View, verify: bool) -> Flow[MemoryStats]:
    """What is in reach, in numbers. With `verify` every row is read and checked."""
    reach, live, collection = view.reach, view.reach.where(("memory",)), view.ready.collection

    def lacking(vector: str) -> Flow[int]:
        return calls.count(collection, All((live, Not(HasVector(vector)))))

    def values(field: str) -> Flow[dict[Any, int]]:
        return calls.facet(collection, metadata_key(field), live, MAX_VALUES)

    return MemoryStats(
        memories=(yield from calls.count(collection, live)),
        superseded=(yield from calls.count(collection, reach.where(("superseded",)))),
        logs=(yield from calls.count(collection, reach.where(("log",)))),
        judgements=(yield from calls.count(collection, reach.where(("feedback",)))),
        types=(yield from values("type")),
        tags=(yield from values("tags")),
        trust=(yield from values("trust")),
        without_meaning=(yield from lacking(DENSE)),
        without_words=(yield from lacking(SPARSE)),
        problems=read_rows((yield from view.rows(reach.where(TEXTS))) if check_flag("verify", verify) else ())[1],
    )


# --- The daily log: lines in order of time, apart from the memories ---


def log(view: View, text: object, fields: Mapping[str, Any]) -> Flow[str]:
    """Write a line. The same line at another moment is another line."""
    item = new_item(view, {"type": "log", **checked({"text": text, **fields})})
    written_at = item.created.isoformat() if item.created else ""
    item = replace(item, id=view.scope.identity("log", [item.content_hash, written_at]))
    yield from put(view, (yield from encode(view, [item])), "log")
    view.shared.count(added=1)
    return item.id


def logs(
    view: View, query: str | None, day: Any, since: Any, until: Any, limit: int, after: str | None
) -> Flow[MemoryPage]:
    """Lines, newest first; with a query, those that have a word of it."""
    wanted = [created_between(since, until)]
    if day is not None:
        start = as_moment(day, "day", FilterError).replace(hour=0, minute=0, second=0, microsecond=0)
        wanted.append(Between("created", gte=start, lte=start + timedelta(days=1, microseconds=-1)))
    vector = None
    if query is not None:
        check_whole_number(limit, "limit", 1, MAX_LIMIT)
        text, _ = clean_query(check_text(query), view.store.search.max_query_chars)
        vector = yield from _words_of(view, text)
        plain = words(text)
        if not plain or (vector is not None and not vector.indices):
            return MemoryPage(())
        if vector is None:
            wanted.append(Either(tuple(map(TextContains, plain))))
    return (yield from newest(view, view.reach.where(("log",), *wanted), limit, after, vector))


def _words_of(view: View, text: str) -> Flow[Sparse | None]:
    """The words of a query as the lexical leg knows them; None where it can't be used."""
    ready = view.ready
    try:
        if not ready.no_lexical:
            vector: Sparse = yield Work(lambda: ready.sparse.embed_query(text))
            return vector
    except Exception as error:  # whatever a model raises, lines can be found without it
        logger.warning("the log was searched for plain words: %s: %s", type(error).__name__, error)
    return None


# --- `forget`: by id, by filter, by source, or everything of a scope ---


def forget(
    view: View, ids: str | Sequence[str] | None, filter: Mapping[str, Any] | None, source: str | None, everything: bool
) -> Flow[int]:
    """Delete memories, and say how many there were."""
    everything = check_flag("everything", everything)
    if sum([ids is not None, filter is not None, source is not None, everything]) != 1:
        raise InvalidQuery("forget takes one of: ids, filter=, source=, or everything=True")
    node: Node | None = None
    if ids is not None:
        node = HasPoint(tuple(each for each in check_ids(ids) if is_memory_id(each)))
    elif not everything:
        node = Equals("source", source) if source is not None else condition(filter)
        if node is None or matches_all(node):
            raise InvalidQuery("this filter matches everything: say everything=True if that is meant")
    number = 0
    # What isn't named one by one goes from where this memory writes: a project's memories are not one user's to clear.
    for each in view.owners() if ids is not None else [view.at(view.scope)]:
        where = each.reach.where(EVERYTHING if everything else TEXTS, node)
        number += yield from each.exclusively(_delete(each, where))
        each.shared.forget_vocabulary(each.scope.owner)
    yield from drop_orphans(view)
    view.shared.count(deleted=number)
    view.ready.sampler.changed(number)
    return number


def _delete(view: View, where: Node) -> Flow[int]:
    """What others hold of these rows goes first: if that fails, nothing is deleted, and who tries again gets it all."""
    needed = [metadata_key(name) for name in ("shelf", "user", "agent", "session", "project", "order", "superseded_by")]
    rows = yield from view.rows(where, only=needed)
    gone = [row for row in rows if view.reach.holds(row.metadata, TEXTS)]
    yield from rewrite_neighbours(view, places(gone))
    yield from _restore_superseded(view, gone)
    yield from calls.delete(view.ready.collection, where)
    view.store.counter.pending.settle(view.scope.owner, {row.point: math.inf for row in gone})
    return len(gone)


def _restore_superseded(view: View, gone: Sequence[Stored]) -> Flow[None]:
    """Memories that were replaced by what goes are there again, or stand behind what had replaced that."""
    successors = {row.point: row.metadata.get("superseded_by") for row in gone}
    for ids in pieces(list(successors), _IDS_PER_FILTER):
        hidden = yield from view.rows(view.scope.whole.where(("superseded",), AnyOf("superseded_by", tuple(ids))))
        for row in hidden:
            if row.point in successors:
                continue
            by: str | None = row.metadata.get("superseded_by")
            for _ in successors:  # as many steps as there can be: a chain closed to a ring by something else has no end
                by = successors.get(by, by) if by else None
            by = None if by in successors else by
            fields = {"superseded_by": by, "shelf": view.scope.label("superseded" if by else "memory")}
            yield from calls.set_payload(view.ready.collection, METADATA_KEY, fields, [row.point])
            back = Stored(row.point, row.id, row.text, {**row.metadata, **fields})
            if places([back]) and damage(row) is None:  # a turn that is back lends itself to its neighbours again
                yield from put_turns(view, [to_item(back)], gone=successors)
