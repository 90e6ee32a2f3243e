"""The daily log: lines in order of time, apart from the memories."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal

from twofold.engine.flow import Flow
from twofold.errors import InvalidQuery
from twofold.filters import Node
from twofold.index.searching import Searcher
from twofold.memory import listing, writing
from twofold.memory.items import MemoryPage
from twofold.memory.keeper import Keeper
from twofold.memory.layout import as_moment
from twofold.memory.recalling import Recall, between, recall
from twofold.memory.scope import Scope
from twofold.memory.writing import Draft

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
    """Lines, newest first."""
    if query is None:
        conditions = [between("created", since, until), _on(day)]
        return (yield from listing.newest(searcher.ready, scope, (LOG,), conditions, limit, after))
    if after is not None:
        raise InvalidQuery("after= goes without a query: raise the limit instead")
    since, until = _within(day, since, until)
    listing.check_limit(limit)
    most = max(limit, keeper.config.depth)  # more than is shown: the newest lines are not the best matches
    asked = Recall(query, k=most, alpha=0.0, since=since, until=until, signals=False, min_score=None, shelf=LOG)
    found = yield from recall(searcher, keeper, scope, asked)
    newest = sorted((hit.memory for hit in found), key=listing.newest_first)[:limit]
    return MemoryPage(tuple(newest), None, found.problems)


def _within(day: Any, since: Any, until: Any) -> tuple[Any, Any]:
    """Both at once, where both are given."""
    if day is None:
        return since, until
    start, end = _bounds(day)
    low = start if since is None else max(start, as_moment(since, "since"))
    return low, end if until is None else min(end, as_moment(until, "until"))


def _on(day: Any) -> Node | None:
    return None if day is None else between("created", *_bounds(day))


def _bounds(day: Any) -> tuple[Any, Any]:
    start = as_moment(day, "day").replace(hour=0, minute=0, second=0, microsecond=0)
    return start, start + timedelta(days=1, microseconds=-1)
