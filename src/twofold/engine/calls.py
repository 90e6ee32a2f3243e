"""The calls that flows make, with their types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qdrant_client import models

from twofold.engine.flow import Call, Flow


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


def upsert(collection: str, points: list[models.PointStruct]) -> Flow[None]:
    """Store points and wait until they can be searched."""
    yield Call("upsert", {"collection_name": collection, "points": points, "wait": True})


def query(collection: str, requests: Sequence[models.QueryRequest]) -> Flow[list[list[models.ScoredPoint]]]:
    """Several queries in one request."""
    found: list[models.QueryResponse] = yield Call(
        "query_batch_points", {"collection_name": collection, "requests": list(requests)}
    )
    return [response.points for response in found]


def scroll(collection: str, where: models.Filter | None, limit: int) -> Flow[list[models.Record]]:
    """Points that match a filter, in no particular order."""
    found: tuple[list[models.Record], Any] = yield Call(
        "scroll",
        {
            "collection_name": collection,
            "scroll_filter": where,
            "limit": limit,
            "with_payload": True,
            "with_vectors": False,
        },
    )
    return found[0]


def retrieve(collection: str, ids: Sequence[str]) -> Flow[list[models.Record]]:
    """Points by id; those that are not there are left out."""
    found: list[models.Record] = yield Call(
        "retrieve",
        {"collection_name": collection, "ids": list(ids), "with_payload": True, "with_vectors": False},
    )
    return found


def optimize(collection: str, progress: Any) -> Flow[bool]:
    """Build the search graph."""
    done: bool = yield Call("optimize", {"collection_name": collection, "progress": progress})
    return done


def count(collection: str, where: models.Filter | None) -> Flow[int]:
    """How many points match, exactly."""
    found: models.CountResult = yield Call(
        "count", {"collection_name": collection, "count_filter": where, "exact": True}
    )
    return found.count


def delete(collection: str, where: models.Filter) -> Flow[None]:
    """Delete what matches, and wait until it is gone."""
    yield Call(
        "delete",
        {"collection_name": collection, "points_selector": models.FilterSelector(filter=where), "wait": True},
    )
