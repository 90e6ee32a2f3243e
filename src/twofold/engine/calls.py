"""The calls that flows make, with their types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from qdrant_client import models

from twofold.engine.layout import DENSE, Found, NewPoint, to_struct
from twofold.engine.requests import EngineQuery, Filter
from twofold.engine.to_models import to_filter, to_request
from twofold.flow import Call, Flow


def for_client(call: Call) -> Mapping[str, Any]:
    """The arguments of a call as a client takes them, with its own models."""
    if call.method != "upsert":
        return call.arguments
    return {**call.arguments, "points": [to_struct(point) for point in call.arguments["points"]]}


def exists(collection: str) -> Flow[bool]:
    """Is there such a collection?"""
    found: bool = yield Call("collection_exists", {"collection_name": collection})
    return found


def create(collection: str, arguments: dict[str, Any]) -> Flow[None]:
    """Create a collection."""
    yield Call("create_collection", {"collection_name": collection, **arguments})


def info(collection: str) -> Flow[models.CollectionInfo]:
    """Describe a collection."""
    found: models.CollectionInfo = yield Call("get_collection", {"collection_name": collection})
    return found


def server_version() -> Flow[str]:
    """The version of the server."""
    found: models.VersionInfo = yield Call("info")
    return found.version


def note(collection: str, metadata: dict[str, Any]) -> Flow[None]:
    """Write into the collection's own metadata."""
    yield Call("update_collection", {"collection_name": collection, "metadata": metadata})


def create_index(collection: str, key: str, schema: Any, *, wait: bool) -> Flow[None]:
    """Create a payload index."""
    yield Call(
        "create_payload_index",
        {"collection_name": collection, "field_name": key, "field_schema": schema, "wait": wait},
    )


def upsert(collection: str, points: Sequence[NewPoint]) -> Flow[None]:
    """Store points and wait until they can be searched."""
    yield Call("upsert", {"collection_name": collection, "points": points, "wait": True})


def query(
    collection: str, requests: Sequence[models.QueryRequest] | Sequence[EngineQuery]
) -> Flow[list[Sequence[Found]]]:
    """Several queries in one request."""
    made = [one if isinstance(one, models.QueryRequest) else to_request(one) for one in requests]
    found = yield Call("query_batch_points", {"collection_name": collection, "requests": made})
    return [response.points for response in found]


def scroll(collection: str, where: Filter | None, limit: int) -> Flow[list[models.Record]]:
    """Points that match a filter, in no particular order."""
    found: tuple[list[models.Record], Any] = yield Call(
        "scroll",
        {
            "collection_name": collection,
            "scroll_filter": to_filter(where),
            "limit": limit,
            "with_payload": True,
            "with_vectors": False,
        },
    )
    return found[0]


def retrieve(collection: str, ids: Sequence[str], *, only: Sequence[str] | None = None) -> Flow[list[models.Record]]:
    """Points by id, with their payload or only some fields of it; those that are not there are left out."""
    wanted: bool | list[str] = True if only is None else list(only)
    found: list[models.Record] = yield Call(
        "retrieve",
        {"collection_name": collection, "ids": list(ids), "with_payload": wanted, "with_vectors": False},
    )
    return found


def dense_vectors(collection: str, ids: Sequence[str]) -> Flow[dict[str, Sequence[float]]]:
    """The dense vectors of points; those without one are left out."""
    found: list[models.Record] = yield Call(
        "retrieve",
        {"collection_name": collection, "ids": list(ids), "with_payload": False, "with_vectors": [DENSE]},
    )
    named: dict[str, Any] = {str(point.id): point.vector or {} for point in found}
    return {identity: vectors[DENSE] for identity, vectors in named.items() if DENSE in vectors}


def optimize(collection: str, progress: Any) -> Flow[bool]:
    """Build the search graph."""
    done: bool = yield Call("optimize", {"collection_name": collection, "progress": progress})
    return done


def count(collection: str, where: Filter | None) -> Flow[int]:
    """How many points match, exactly."""
    found: models.CountResult = yield Call(
        "count", {"collection_name": collection, "count_filter": to_filter(where), "exact": True}
    )
    return found.count


def delete(collection: str, where: Filter) -> Flow[None]:
    """Delete what matches, and wait until it is gone."""
    yield Call(
        "delete",
        {
            "collection_name": collection,
            "points_selector": to_filter(where),
            "wait": True,
        },
    )


def facet(collection: str, key: str, where: Filter | None, limit: int) -> Flow[dict[Any, int]]:
    """The values of a field, with the number of points that have each."""
    found: models.FacetResponse = yield Call(
        "facet",
        {"collection_name": collection, "key": key, "facet_filter": to_filter(where), "limit": limit, "exact": True},
    )
    return {hit.value: hit.count for hit in found.hits}


def newest(collection: str, where: Filter | None, key: str, limit: int) -> Flow[list[models.Record]]:
    """Points that match a filter, those with the latest date first."""
    order = models.OrderBy(key=key, direction=models.Direction.DESC)
    found: tuple[list[models.Record], Any] = yield Call(
        "scroll",
        {
            "collection_name": collection,
            "scroll_filter": to_filter(where),
            "limit": limit,
            "order_by": order,
            "with_payload": True,
            "with_vectors": False,
        },
    )
    return found[0]


def set_payload(collection: str, key: str, payload: dict[str, Any], which: Sequence[str] | Filter) -> Flow[None]:
    """Change some fields of points, by their ids or by a filter; the others stay."""
    points = list(which) if isinstance(which, Sequence) else to_filter(which)
    yield Call(
        "set_payload",
        {"collection_name": collection, "payload": payload, "key": key, "points": points, "wait": True},
    )


def page(
    collection: str, where: Filter | None, limit: int, offset: Any, *, only: Sequence[str] | None = None
) -> Flow[tuple[list[models.Record], Any]]:
    """Some of the points that match a filter, and where to go on; None at the end."""
    found: tuple[list[models.Record], Any] = yield Call(
        "scroll",
        {
            "collection_name": collection,
            "scroll_filter": to_filter(where),
            "limit": limit,
            "offset": offset,
            "with_payload": True if only is None else list(only),
            "with_vectors": False,
        },
    )
    return found


def sample(collection: str, where: Filter | None, limit: int, key: str) -> Flow[list[models.Record]]:
    """The first points by id that match a filter, with one field of their payload."""
    found: tuple[list[models.Record], Any] = yield Call(
        "scroll",
        {
            "collection_name": collection,
            "scroll_filter": to_filter(where),
            "limit": limit,
            "with_payload": [key],
            "with_vectors": False,
        },
    )
    return found[0]


def with_vectors(collection: str, limit: int, *vectors: str, payload: bool = True) -> Flow[list[models.Record]]:
    """The first points by id with some of their vectors."""
    found: tuple[list[models.Record], Any] = yield Call(
        "scroll",
        {"collection_name": collection, "limit": limit, "with_payload": payload, "with_vectors": list(vectors)},
    )
    return found[0]
