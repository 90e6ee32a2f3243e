"""`forget`: by id, by filter, by source, or everything of a scope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twofold.engine import calls
from twofold.engine.layout import METADATA_KEY, Stored, metadata_key
from twofold.errors import InvalidQuery
from twofold.filters import AnyOf, Equals, HasPoint, Node, matches_all
from twofold.flow import Flow
from twofold.index.searching import Searcher
from twofold.memory import turns
from twofold.memory.items import is_memory_id, several
from twofold.memory.layout import condition, damage, to_item
from twofold.memory.learning import drop_orphans
from twofold.memory.listing import everything, matching
from twofold.memory.scope import EVERYTHING, Scope, Shelf
from twofold.memory.state import Keeper

# --- `forget`: by id, by filter, by source, or everything of a scope ---

_FORGET_BATCH = 256
_NEEDED = tuple(map(metadata_key, ("shelf", "user", "agent", "session", "order", "superseded_by")))
_SHELVES: tuple[Shelf, ...] = ("memory", "superseded", "log")


def forget(
    searcher: Searcher,
    keeper: Keeper,
    scope: Scope,
    ids: str | Sequence[str] | None,
    given: Mapping[str, Any] | None,
    source: str | None,
    everything: bool,
) -> Flow[int]:
    """Delete memories, and say how many there were."""
    ways = [ids is not None, given is not None, source is not None, everything]
    if sum(ways) != 1:
        raise InvalidQuery("forget takes one of: ids, filter=, source=, or everything=True")
    where = _where(scope, ids, given, source, everything)
    number = yield from keeper.alone(scope.user, _delete(searcher, keeper, scope, where))
    yield from drop_orphans(searcher.ready, scope)
    keeper.count(deleted=number)
    searcher.ready.nature.changed(number)
    keeper.forget_vocabulary(scope.user)
    return number


def _where(
    scope: Scope, ids: str | Sequence[str] | None, given: Mapping[str, Any] | None, source: str | None, everything: bool
) -> Node:
    if everything:
        return scope.where(EVERYTHING)
    if ids is not None:
        return scope.where(_SHELVES, HasPoint(tuple(filter(is_memory_id, several(ids)))))
    node: Node | None = Equals("source", source) if source is not None else condition(given)
    if node is None or matches_all(node):
        raise InvalidQuery("this filter matches everything: say everything=True if that is meant")
    return scope.where(_SHELVES, node)


def _delete(searcher: Searcher, keeper: Keeper, scope: Scope, where: Node) -> Flow[int]:
    """What others hold of these rows goes first: if that fails, nothing is deleted, and who tries again gets it all."""
    rows = yield from matching(searcher.ready, where, only=_NEEDED)
    gone = [row for row in rows if scope.holds(row.metadata, _SHELVES)]
    yield from turns.rewrite(searcher, keeper, turns.places(gone))
    yield from _restore(searcher, keeper, scope, gone)
    yield from calls.delete(searcher.ready.collection, where)
    keeper.toucher.touches.drop(scope.user, [row.point for row in gone])
    return len(gone)


def _restore(searcher: Searcher, keeper: Keeper, scope: Scope, gone: Sequence[Stored]) -> Flow[None]:
    """Memories that were replaced by what goes are there again, or stand behind what had replaced that."""
    heirs = {row.point: row.metadata.get("superseded_by") for row in gone}
    ids = list(heirs)
    for some in (ids[place : place + _FORGET_BATCH] for place in range(0, len(ids), _FORGET_BATCH)):
        hidden = yield from everything(
            searcher.ready, scope.where(("superseded",), AnyOf("superseded_by", tuple(some)))
        )
        for row in hidden:
            if row.point not in heirs:
                yield from _put_behind(searcher, keeper, scope, row, _heir(row, heirs))


def _heir(row: Stored, heirs: Mapping[str, str | None]) -> str | None:
    """The first that stays, in the chain of those that replaced each other."""
    by: str | None = row.metadata.get("superseded_by")
    for _ in range(len(heirs)):  # a chain that something else closed to a ring has no end
        by = heirs.get(by, by) if by else by
    return None if by in heirs else by


def _put_behind(searcher: Searcher, keeper: Keeper, scope: Scope, row: Stored, by: str | None) -> Flow[None]:
    fields = {"superseded_by": by, "shelf": scope.label("superseded" if by else "memory")}
    yield from calls.set_payload(searcher.ready.collection, METADATA_KEY, fields, [row.point])
    if by is None and damage(row) is None:  # a turn that is back lends itself to its neighbours again
        back = Stored(row.point, row.id, row.text, {**row.metadata, **fields})
        yield from turns.rewrite(searcher, keeper, turns.places([back]), {row.point: to_item(back)})
