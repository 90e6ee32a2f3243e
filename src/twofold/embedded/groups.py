"""Grouped queries, which the engine lacks: ask for more points than needed until the groups are full."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from qdrant_client import models

from .errors import BadRequest
from .to_edge.paths import chosen, first_step, split_path

if TYPE_CHECKING:
    from .api.queries import QueriesApi

_OVERSAMPLE = 4
_Groups = dict[Any, list[models.ScoredPoint]]


def query_groups(
    api: QueriesApi,
    name: str,
    asked: models.QueryRequest,
    group_by: str,
    limit: int,
    size: int,
    lookup: models.WithLookupInterface | None,
) -> models.GroupsResult:
    """The best `limit` groups, each with its best `size` points, in the order of their best point."""
    if limit < 1 or size < 1:
        raise BadRequest("limit and group_size must be 1 or larger.")
    groups = _fill(api, name, asked, group_by, limit, size)
    _attach(api, name, asked, groups)
    found = [models.PointGroup.model_construct(id=key, hits=hits, lookup=None) for key, hits in groups.items()]
    if lookup is not None:
        _look_up(api, found, lookup)
    return models.GroupsResult.model_construct(groups=found)


def _fill(api: QueriesApi, name: str, asked: models.QueryRequest, group_by: str, limit: int, size: int) -> _Groups:
    everything = api.count(name).count
    wanted = limit * size * _OVERSAMPLE
    while True:
        widened = _widen(asked, wanted, group_by)
        points = api.query_batch_points(name, [widened])[0].points
        groups = _group(points, group_by, limit, size)
        full = len(groups) == limit and all(len(hits) == size for hits in groups.values())
        if full or len(points) < wanted or wanted >= everything:
            return groups
        wanted *= _OVERSAMPLE


def _widen(asked: models.QueryRequest, wanted: int, group_by: str) -> models.QueryRequest:
    fields = [first_step(group_by)]
    prefetch = _widen_prefetch(asked.prefetch, wanted)
    changes = {"limit": wanted, "prefetch": prefetch, "with_payload": fields, "with_vector": False}
    return asked.model_copy(update=changes)


def _widen_prefetch(value: Any, wanted: int) -> Any:
    """A short prefetch would starve the groups, so each gives at least as many points as are wanted."""
    if isinstance(value, list):
        return [_widen_prefetch(item, wanted) for item in value]
    if value is None:
        return None
    inner = _widen_prefetch(value.prefetch, wanted)
    return value.model_copy(update={"limit": max(value.limit or 0, wanted), "prefetch": inner})


def _group(points: list[models.ScoredPoint], group_by: str, limit: int, size: int) -> _Groups:
    groups: _Groups = {}
    for point in points:
        for key in dict.fromkeys(_keys(point.payload, split_path(group_by))):
            if key in groups or len(groups) < limit:
                hits = groups.setdefault(key, [])
                if len(hits) < size:
                    hits.append(point)
    return groups


def _keys(value: Any, path: list[str]) -> Iterator[Any]:
    """The values at a path that can name a group: strings and integers, and those in lists."""
    step = path[0] if path else ""
    if isinstance(value, list):
        indexed = step.startswith("[")
        for item in value[chosen(step)] if indexed else value:
            yield from _keys(item, path[1:] if indexed else path)
    elif path:
        if isinstance(value, dict):
            yield from _keys(value.get(step), path[1:])
    elif isinstance(value, (str, int)) and not isinstance(value, bool):
        yield value


def _attach(api: QueriesApi, name: str, asked: models.QueryRequest, groups: _Groups) -> None:
    """Give the hits the payload and vectors that were asked for."""
    ids = {hit.id for hits in groups.values() for hit in hits}
    records = api.retrieve(name, list(ids), asked.with_payload, asked.with_vector) if ids else []
    by_id = {record.id: record for record in records}
    for key, hits in groups.items():
        whole = ((hit, by_id[hit.id]) for hit in hits if hit.id in by_id)
        groups[key] = [
            hit.model_copy(update={"payload": record.payload, "vector": record.vector}) for hit, record in whole
        ]


def _look_up(api: QueriesApi, groups: list[models.PointGroup], lookup: models.WithLookupInterface) -> None:
    if isinstance(lookup, str):
        lookup = models.WithLookup(collection=lookup)
    payload = True if lookup.with_payload is None else lookup.with_payload
    for group in groups:
        try:
            records = api.retrieve(lookup.collection, [group.id], payload, lookup.with_vectors or False)
        except BadRequest:
            continue  # a group named by a text that is no point id has nothing to look up
        group.lookup = records[0] if records else None
