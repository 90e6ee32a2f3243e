"""`backfill`: rows that lack a vector, because a model was down or another program wrote them, get it."""

from __future__ import annotations

from collections.abc import Sequence

from qdrant_client import models

from twofold.engine.filters import compile_filter
from twofold.engine.flow import Flow, Renew
from twofold.engine.layout import DENSE, SPARSE, Stored
from twofold.index.opening import Ready
from twofold.index.searching import Searcher
from twofold.memory import listing, turns, writing
from twofold.memory.keeper import Keeper
from twofold.memory.layout import damage, to_item
from twofold.memory.scope import Scope, Shelf

_BATCH = 64
_SHELVES: tuple[Shelf, ...] = ("memory", "superseded", "log")


def backfill(searcher: Searcher, keeper: Keeper, scope: Scope) -> Flow[int]:
    """Encode what lacks a vector, a batch at a time, and say how many lack none any more."""
    before = yield from _lacking(searcher.ready, scope)
    for place in range(0, len(before), _BATCH):
        yield Renew()
        ids = before[place : place + _BATCH]
        yield from keeper.alone(scope.user, _encode(searcher, keeper, scope, ids))
    after = (yield from _lacking(searcher.ready, scope)) if before else []
    return len({*before} - {*after})


def _lacking(ready: Ready, scope: Scope) -> Flow[list[str]]:
    """The rows without a vector that the collection has room for."""
    own = compile_filter(scope.where(_SHELVES))
    found: dict[str, None] = {}
    for name, missing in ((DENSE, ready.no_dense), (SPARSE, ready.no_lexical)):
        if missing is None:
            where = models.Filter(must=[own], must_not=[models.HasVectorCondition(has_vector=name)])
            rows = yield from listing.matching(ready, where, only=[])
            found |= dict.fromkeys(row.point for row in rows)
    return list(found)


def _encode(searcher: Searcher, keeper: Keeper, scope: Scope, ids: Sequence[str]) -> Flow[None]:
    """Rows as they are at this moment: somebody may have changed or deleted them since they were counted."""
    found = yield from writing.find(searcher.ready, scope, ids, _SHELVES)
    sound = [row for row in found.values() if damage(row) is None]
    standing = turns.places(sound)
    in_conversations = {place.id for place in standing}
    yield from turns.rewrite(
        searcher, keeper, standing, {row.point: to_item(row) for row in sound if row.point in in_conversations}
    )
    rest = [row for row in sound if row.point not in in_conversations]
    encoded = yield from writing.encode(searcher.ready, [to_item(row) for row in rest], keeper.config)
    logs = {row.point for row in rest if _is_log(row)}
    yield from writing.put(searcher.ready, [each for each in encoded if each.item.id in logs], "log")
    yield from writing.put(searcher.ready, [each for each in encoded if each.item.id not in logs])


def _is_log(row: Stored) -> bool:
    return str(row.metadata.get("shelf", "")).startswith("log:")
