"""The verbs of an engine, as flows make them: each yields one `Call` and gives its answer.

`edge.EdgeEngine` has a method for each verb, `client.VERBS` says how a `QdrantClient` is asked for it. Filters are
conditions of ours or a native `models.Filter`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from twofold.engine.layout import OWN, Layout, NewPoint, Point, Schema, ScoredPoint
from twofold.engine.layouts import restored
from twofold.engine.requests import EngineQuery, Filter
from twofold.engine.state import Replica, State
from twofold.flow import Call, Flow


def _call(verb: str, **arguments: Any) -> Flow[Any]:
    return (yield Call(verb, arguments))


def version() -> Flow[str]:
    """The version of the engine."""
    return _call("version")


def backup(path: str) -> Flow[dict[str, int]]:
    """Copy all collections of a folder into a new one; how many points each has there."""
    return _call("backup", path=path)


def exists(collection: str) -> Flow[bool]:
    """Is there such a collection?"""
    return _call("exists", collection=collection)


def collections() -> Flow[list[str]]:
    """The names of all collections, also of those that can't be used."""
    return _call("collections")


def aliases() -> Flow[dict[str, str]]:
    """The other names that collections have, and whose they are."""
    return _call("aliases")


def set_alias(alias: str, to: str) -> Flow[None]:
    """Let an alias stand for that collection from now on."""
    return _call("set_alias", alias=alias, to=to)


def drop(collection: str) -> Flow[None]:
    """Delete a collection."""
    return _call("drop", collection=collection)


def add_words(collection: str, name: str, *, idf: bool) -> Flow[None]:
    """Add a sparse vector that no point has yet, where the engine can (`Capabilities.adds_vectors`)."""
    return _call("add_words", collection=collection, name=name, idf=idf)


def create(collection: str, settings: Mapping[str, Any]) -> Flow[None]:
    """Create a collection with settings as `layout.creation` makes them."""
    return _call("create", collection=collection, settings=settings)


def describe(collection: str) -> Flow[Schema]:
    """What a collection offers."""
    return _call("describe", collection=collection)


def inspect(collection: str) -> Flow[State]:
    """The state that a collection is in."""
    return _call("inspect", collection=collection)


def replicas(collection: str) -> Flow[list[Replica]]:
    """The copies of its shards; none where the engine is no server."""
    return _call("replicas", collection=collection)


def set_idf(collection: str, name: str) -> Flow[None]:
    """Let a sparse vector count words by how rare they are."""
    return _call("set_idf", collection=collection, name=name)


def described(collection: str) -> Flow[Schema]:
    """`describe`, with the layout that the collection's record notes."""
    schema: Schema = yield from describe(collection)
    return schema if schema.record is None else replace(schema, layout=restored(schema.record))


def set_metadata(collection: str, metadata: Mapping[str, Any]) -> Flow[None]:
    """Change some keys of the collection's own metadata."""
    return _call("set_metadata", collection=collection, metadata=metadata)


def create_index(collection: str, key: str, schema: str | Mapping[str, Any], *, wait: bool) -> Flow[None]:
    """Create a payload index: the name of its kind, or its parameters with their `type`."""
    return _call("create_index", collection=collection, key=key, schema=schema, wait=wait)


def optimize(collection: str, progress: Any) -> Flow[bool]:
    """Build the search graph, on an engine that has to be told to."""
    return _call("optimize", collection=collection, progress=progress)


def query(collection: str, queries: Sequence[EngineQuery]) -> Flow[list[Sequence[ScoredPoint]]]:
    """Several queries in one request: the points that each of them found, the best first."""
    return _call("query", collection=collection, queries=queries)


def scroll(
    collection: str,
    where: Filter | None,
    *,
    limit: int,
    offset: Any = None,
    order_by: str | None = None,
    only: Sequence[str] | None = None,
    vectors: Sequence[str] = (),
) -> Flow[tuple[Sequence[Point], Any]]:
    """Points that match a filter, page by page, and where the next page begins; None if this is the last one.

    They come in the order of their ids, or those with the latest value of the payload key `order_by` first: then
    there is one page only. `only` names the payload keys to bring along (by default all), `vectors` the vectors.
    """
    place = {"collection": collection, "where": where, "limit": limit, "offset": offset}
    return _call("scroll", **place, order_by=order_by, only=only, vectors=vectors)


def retrieve(
    collection: str, ids: Sequence[str], *, only: Sequence[str] | None = None, vectors: Sequence[str] = ()
) -> Flow[Sequence[Point]]:
    """Points by id, with their payload or only some keys of it; those that are not there are left out."""
    return _call("retrieve", collection=collection, ids=ids, only=only, vectors=vectors)


def dense_vectors(collection: str, ids: Sequence[str], layout: Layout = OWN) -> Flow[dict[str, Sequence[float]]]:
    """The dense vectors of points; those without one are left out."""
    points = yield from retrieve(collection, ids, only=(), vectors=layout.dense_names)
    found: dict[str, Any] = {str(point.id): layout.dense_of(point) for point in points}
    return {identity: vector for identity, vector in found.items() if vector is not None}


def count(collection: str, where: Filter | None) -> Flow[int]:
    """How many points match, exactly."""
    return _call("count", collection=collection, where=where)


def facet(collection: str, key: str, where: Filter | None, limit: int) -> Flow[dict[Any, int]]:
    """The values of a payload key, with the number of points that have each."""
    return _call("facet", collection=collection, key=key, where=where, limit=limit)


# Each of these waits until its change can be seen by everybody.


def upsert(collection: str, points: Sequence[NewPoint]) -> Flow[None]:
    """Store points; one whose id is there is replaced."""
    return _call("upsert", collection=collection, points=points)


def update_vectors(collection: str, points: Sequence[NewPoint]) -> Flow[None]:
    """Give points these vectors; their others stay, and so does their payload."""
    return _call("update_vectors", collection=collection, points=points)


def set_payload(
    collection: str, key: str | None, payload: Mapping[str, Any], which: Sequence[str] | Filter
) -> Flow[None]:
    """Change some fields below a payload key, or at the top, of points by their ids or a filter."""
    return _call("set_payload", collection=collection, key=key, payload=payload, points=which)


def delete(collection: str, where: Filter) -> Flow[None]:
    """Delete what matches."""
    return _call("delete", collection=collection, where=where)
