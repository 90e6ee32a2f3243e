"""The daily log: lines in order of time, apart from the memories."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal

from twofold.encoders.base import Sparse
from twofold.engine.flow import Flow, Work
from twofold.engine.requests import Probe
from twofold.errors import InvalidQuery
from twofold.filters import Node
from twofold.filters.nodes import AnyOf
from twofold.index.opening import Ready
from twofold.index.searching import Searcher
from twofold.memory import listing, writing
from twofold.memory.asked import between, moment
from twofold.memory.items import MemoryPage
from twofold.memory.keeper import Keeper
from twofold.memory.scope import Scope
from twofold.memory.writing import Draft
from twofold.signals.matching import split
from twofold.text import clean_query

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
        return (yield from listing.newest(searcher.ready, scope, (LOG,), conditions, limit, after))
    if not isinstance(query, str):
        raise InvalidQuery(f"the query must be a string, got {type(query).__name__}")
    listing.check_limit(limit)
    text, _ = clean_query(query, keeper.search.max_query_chars)
    probe = yield from _probe(searcher.ready, text)
    if probe is None:  # the words that are stored to compare mistyped ones with
        conditions.append(AnyOf("words", tuple(split(text))))
    elif isinstance(probe.vector, Sparse) and not probe.vector.indices:
        return MemoryPage(())
    return (yield from listing.newest(searcher.ready, scope, (LOG,), conditions, limit, after, probe))


def _probe(ready: Ready, text: str) -> Flow[Probe | None]:
    """The words of a query as the lexical leg knows them; None where it can't be used."""
    try:
        if not ready.no_lexical:
            return Probe("lexical", (yield Work(lambda: ready.sparse.embed_query(text))))
    except Exception as error:  # whatever a model raises, lines can be found without it
        _notes.warning("the log was searched for plain words: %s: %s", type(error).__name__, error)
    return None


def _on(day: Any) -> Node | None:
    return None if day is None else between("created", *_bounds(day))


def _bounds(day: Any) -> tuple[Any, Any]:
    start = moment(day, "day").replace(hour=0, minute=0, second=0, microsecond=0)
    return start, start + timedelta(days=1, microseconds=-1)
