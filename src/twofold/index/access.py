"""Documents by id and by filter: get, count, delete, describe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from qdrant_client import models

from twofold.documents import Document, point_id
from twofold.embedded import OptimizeProgress
from twofold.engine import calls
from twofold.engine.flow import Flow
from twofold.engine.layout import from_point
from twofold.engine.schema import describe
from twofold.errors import FilterError, InvalidQuery
from twofold.filters import Node, matches_all, parse
from twofold.index.opening import Ready
from twofold.results import IndexInfo

FilterLike: TypeAlias = Mapping[str, Any] | models.Filter


def where_node(where: FilterLike | None) -> Node | models.Filter | None:
    """What a filter means; a native one passes through, an empty one is none."""
    if where is None or isinstance(where, models.Filter):
        return where
    return None if isinstance(where, Mapping) and not where else parse(where)


def get(ready: Ready, ids: str | Sequence[str]) -> Flow[Document | list[Document | None] | None]:
    """Documents by id."""
    wanted = _id_list(ids)
    points = [point_id(identity) for identity in wanted]
    found = yield from calls.retrieve(ready.collection, points)
    documents = {str(point.id): from_point(point).as_document() for point in found}
    result = [documents.get(point) for point in points]
    return result[0] if isinstance(ids, str) else result


def count(ready: Ready, where: FilterLike | None) -> Flow[int]:
    """How many documents match."""
    native = yield from ready.indexes.serve(where_node(where), create=False)
    return (yield from calls.count(ready.collection, native))


def delete(ready: Ready, ids: str | Sequence[str] | None, where: FilterLike | None) -> Flow[int]:
    """Delete by ids or by filter; gives how many there were."""
    if (ids is None) == (where is None):
        raise InvalidQuery("delete takes either ids or a filter")
    node = only([point_id(identity) for identity in _id_list(ids)]) if ids is not None else where_node(where)
    if node is None or _says_nothing(node):
        raise FilterError("this filter matches everything: name what to delete")
    native = yield from ready.indexes.serve(node, create=False)
    number = yield from calls.count(ready.collection, native)
    if number and native is not None:
        yield from calls.delete(ready.collection, native)
        ready.nature.changed(number)
    return number


def _says_nothing(node: Node | models.Filter) -> bool:
    if not isinstance(node, models.Filter):
        return matches_all(node)
    return not (node.must or node.should or node.must_not or node.min_should)


def _id_list(ids: str | Sequence[str]) -> list[str]:
    if not isinstance(ids, Iterable):
        raise InvalidQuery(f"ids are strings, got {type(ids).__name__} {ids!r}")
    wanted = [ids] if isinstance(ids, str) else list(ids)
    for identity in wanted:
        if not isinstance(identity, str):
            raise InvalidQuery(f"ids are strings, got {type(identity).__name__} {identity!r}")
    return wanted


def info(ready: Ready, location: str) -> Flow[IndexInfo]:
    """What the index is made of, as it is now."""
    schema = describe((yield from calls.info(ready.collection)))
    documents = yield from calls.count(ready.collection, None)
    legs = {"dense": ready.no_dense, "lexical": ready.no_lexical}
    reasons = [reason for reason in (ready.no_dense, ready.no_lexical, ready.read_only) if reason]
    return IndexInfo(
        location=location,
        collection=ready.collection,
        documents=documents,
        dense_model=ready.dense.name,
        dense_dim=ready.dim,
        sparse=ready.sparse.settings,
        legs=tuple(name for name, reason in legs.items() if reason is None),
        indexed=tuple(sorted(schema.indexed)),
        notes=(*reasons, *ready.notes),
    )


def optimize(ready: Ready, progress: Callable[[OptimizeProgress], None] | None) -> Flow[bool]:
    """Build the search graph, where the engine doesn't do so by itself."""
    if not ready.engine.optimizes:
        return False
    return (yield from calls.optimize(ready.collection, progress))


def only(point_ids: Sequence[str]) -> models.Filter:
    """A filter for exactly these points."""
    return models.Filter(must=[models.HasIdCondition(has_id=list(point_ids))])
