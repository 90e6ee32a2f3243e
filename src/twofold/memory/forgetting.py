"""`forget`: by id, by filter, by source, or everything of a scope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from qdrant_client import models

from twofold.engine import calls
from twofold.engine.filters import compile_filter
from twofold.engine.flow import Flow
from twofold.errors import InvalidQuery
from twofold.filters import Node, matches_all
from twofold.filters.nodes import Equals
from twofold.index.searching import Searcher
from twofold.memory.fields import condition
from twofold.memory.ids import is_memory_id, several
from twofold.memory.keeper import Keeper
from twofold.memory.scope import EVERYTHING, Scope, Shelf

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
    counted = compile_filter(scope.where(_SHELVES)) if everything else where
    number = yield from keeper.alone(scope.user, _delete(searcher, where, counted))
    keeper.count(deleted=number)
    keeper.forget_vocabulary(scope.user)
    return number


def _where(
    scope: Scope, ids: str | Sequence[str] | None, given: Mapping[str, Any] | None, source: str | None, everything: bool
) -> models.Filter:
    if everything:
        return compile_filter(scope.where(EVERYTHING))
    if ids is not None:
        own = compile_filter(scope.where(_SHELVES))
        return models.Filter(must=[own, models.HasIdCondition(has_id=[*filter(is_memory_id, several(ids))])])
    node: Node | None = Equals("source", source) if source is not None else condition(given)
    if node is None or matches_all(node):
        raise InvalidQuery("this filter matches everything: say everything=True if that is meant")
    return compile_filter(scope.where(_SHELVES, node))


def _delete(searcher: Searcher, where: models.Filter, counted: models.Filter) -> Flow[int]:
    number = yield from calls.count(searcher.ready.collection, counted)
    yield from calls.delete(searcher.ready.collection, where)
    return number
