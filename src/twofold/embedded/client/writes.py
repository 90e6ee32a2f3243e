"""Writes, by the names that QdrantClient's methods have. Each is checked as a whole, then applied in pieces.

What holds for other threads, and after a crash: a piece is there as a whole or not at all. A call with up to
64 points is one piece; a longer one is cut into pieces of 64 to 512 points, of about 20 ms each, applied in
order. So an interrupted call leaves a beginning of its batch, and calling again with the same ids completes
it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

import numpy as np
import qdrant_edge as edge
from qdrant_client import models
from qdrant_client.common.validation import require_length, vectors_length

from twofold.embedded.collection import Collection
from twofold.embedded.errors import BadRequest
from twofold.embedded.points import check_logged, split_path, to_edge_id, to_edge_ids, to_edge_payload
from twofold.embedded.settings import VectorSchema, to_edge_enum

from .queries import to_filter
from .reads import Encoder, refuse_shard_key

_POINTS_PER_UPLOAD = 1_000
_Operation = edge.UpdateOperation

# A write that has been checked and only needs to be carried out; returns its number. Whoever calls a function here
# carries it out, and a batch of operations does so once all of them have been checked.
Ready = Callable[[], int]
Row = tuple[Any, Any, Any]  # the id, vectors and payload of a point


# --- Points ---


def upsert(collection: Collection, encoder: Encoder, points: Any, update_filter: Any, update_mode: Any) -> Ready:
    if isinstance(points, models.Batch):
        [points] = encoder.encode([points])
    elif isinstance(points, list):
        points = encoder.encode(points)
    return _upsert(collection, _rows(points), update_filter, update_mode)


def upload_points(
    collection: Collection, encoder: Encoder, points: Iterable[Any], update_filter: Any, update_mode: Any, parallel: int
) -> None:
    """`batch_size` and `max_retries` serve a network and mean nothing here."""
    points = encoder.encode_stream(points, parallel)
    _upload(collection, ((point.id, point.vector, point.payload) for point in points), update_filter, update_mode)


def upload_collection(
    collection: Collection,
    encoder: Encoder,
    vectors: Any,
    payload: Iterable[dict[Any, Any]] | None,
    ids: Iterable[Any] | None,
    update_filter: Any,
    update_mode: Any,
    parallel: int,
) -> None:
    count = vectors_length(vectors)
    if count is not None:
        ids, payload = require_length(ids, count, "ids"), require_length(payload, count, "payload")
    if not isinstance(vectors, (dict, np.ndarray)):
        vectors = encoder.encode_stream(vectors, parallel)
    every_id = (str(uuid4()) for _ in itertools.count()) if ids is None else ids
    every_payload = itertools.repeat(None) if payload is None else payload
    # The vectors come first: zip must not take an id or payload for a vector that isn't there.
    rows = zip(_vector_rows(vectors), every_id, every_payload, strict=False)
    _upload(collection, ((point_id, vector, load) for vector, point_id, load in rows), update_filter, update_mode)


def _upload(collection: Collection, rows: Iterator[Row], condition: Any, mode: Any) -> None:
    while batch := list(itertools.islice(rows, _POINTS_PER_UPLOAD)):
        _upsert(collection, batch, condition, mode)()


def _upsert(collection: Collection, rows: Sequence[Row], condition: Any, mode: Any) -> Ready:
    if not rows:
        raise BadRequest("Empty update request: there are no points to upsert.")
    schema = collection.schema
    without = not schema.names()  # then [] is no vector, as for a server
    vectors = schema.structs({} if vector is None or (without and vector == []) else vector for _, vector, _ in rows)
    points = [
        edge.Point(to_edge_id(point_id), vector, to_edge_payload(payload))
        for (point_id, _, payload), vector in zip(rows, vectors, strict=True)
    ]
    where, how = _to_logged_filter(condition), to_edge_enum(edge.UpdateMode, mode)
    return lambda: collection.apply_pieces(points, lambda piece: _Operation.upsert_points(piece, where, how), schema)


def _rows(points: Any) -> list[Row]:
    if isinstance(points, models.PointsBatch):
        points = points.batch
    if isinstance(points, models.PointsList):
        points = points.points
    if not isinstance(points, models.Batch):
        return [(point.id, point.vector, point.payload) for point in points]
    ids, vectors = points.ids, list(_vector_rows(points.vectors))
    payloads: list[Any] = points.payloads or [None] * len(ids)
    if not len(ids) == len(vectors) == len(payloads):
        raise BadRequest(f"{len(ids)} ids, {len(vectors)} vectors and {len(payloads)} payloads: they must match.")
    return list(zip(ids, vectors, payloads, strict=True))


def _vector_rows(vectors: Any) -> Iterator[Any]:
    """One vector struct per point, from one column per name or from a list."""
    if not isinstance(vectors, Mapping):
        return iter(vectors)
    if len({len(column) for column in vectors.values()}) > 1:
        raise BadRequest("Each named vector should have the same number of vectors.")
    return (dict(zip(vectors, row, strict=True)) for row in zip(*vectors.values(), strict=True))


def _to_logged_filter(condition: models.Filter | None) -> edge.Filter | None:
    if isinstance(condition, models.Filter):
        check_logged(condition.model_dump(mode="json", exclude_none=True), "update_filter")
    return to_filter(condition)


# --- Parts of points, by id or filter ---


def update_vectors(collection: Collection, encoder: Encoder, points: Sequence[Any], update_filter: Any) -> Ready:
    points, schema = encoder.encode(points), collection.schema
    ids, where = [to_edge_id(point.id) for point in points], _to_logged_filter(update_filter)
    changed = list(map(edge.PointVectors, ids, schema.structs(point.vector for point in points)))

    def carry_out() -> int:
        with collection.writing:
            if where is None:
                collection.require(ids)
            return collection.apply_pieces(changed, lambda piece: _Operation.update_vectors(piece, where), schema)

    return carry_out


Make = Callable[[Any], edge.UpdateOperation]


def _by_id(
    collection: Collection, selector: Any, *steps: Make, must_exist: bool = True, checked: VectorSchema | None = None
) -> Ready:
    """A write to selected points: a filter is resolved to ids at the moment it's carried out."""
    for make in steps:
        make([])  # the engine reads paths and payloads here, so a bad one fails before anything is written
    ids, condition = _selected(selector)

    def carry_out() -> int:
        with collection.writing:
            if condition is None and must_exist:
                collection.require(ids)
            chosen = ids if condition is None else collection.matching_ids(condition)
            return max(collection.apply_pieces(chosen, make, checked) for make in steps)

    return carry_out


def _selected(given: Any) -> tuple[list[int | str], edge.Filter | None]:
    selector = given
    if hasattr(given, "shard_key"):  # a model with ids, a filter or both
        if given.shard_key is not None:
            refuse_shard_key()
        points = getattr(given, "points", None)
        selector = getattr(given, "filter", None) if points is None else points
    if isinstance(selector, models.Filter):
        return [], to_filter(selector)
    if not isinstance(selector, (list, tuple, set)):
        raise BadRequest(f"Select points by a list of ids or a Filter, not by {type(given).__name__}.")
    if not selector:
        raise BadRequest("Empty update request: there are no points to change.")
    return to_edge_ids(selector), None


def delete_vectors(collection: Collection, vectors: Sequence[str], points: Any) -> Ready:
    schema = collection.schema
    known = [schema.check_name(name) for name in vectors]
    # The engine forgets to take a deleted sparse vector out of its index: once the point gets another, the
    # old one scores again with it. Emptying it first does take it out.
    empty: Any = {name: edge.SparseVector([], []) for name in known if name in schema.sparse}
    steps: list[Make] = [lambda ids: _Operation.delete_vectors(ids, known)]
    if empty:
        steps.insert(0, lambda ids: _Operation.update_vectors([edge.PointVectors(i, empty) for i in ids]))
    return _by_id(collection, points, *steps, checked=schema)


def delete(collection: Collection, points_selector: Any) -> Ready:
    return _by_id(collection, points_selector, _Operation.delete_points, must_exist=False)


def set_payload(collection: Collection, payload: Any, points: Any, key: str | None) -> Ready:
    clean = to_edge_payload(payload, len(split_path(key or "")))
    return _by_id(collection, points, lambda ids: _Operation.set_payload(ids, clean, key))


def overwrite_payload(collection: Collection, payload: Any, points: Any, key: str | None = None) -> Ready:
    clean = to_edge_payload(payload, len(split_path(key or "")))
    return _by_id(collection, points, lambda ids: _Operation.overwrite_payload(ids, clean, key))


def delete_payload(collection: Collection, keys: Sequence[str], points: Any) -> Ready:
    return _by_id(collection, points, lambda ids: _Operation.delete_payload(ids, list(keys)))


def clear_payload(collection: Collection, points_selector: Any) -> Ready:
    return _by_id(collection, points_selector, _Operation.clear_payload)


# --- Batches of operations ---


def batch_update_points(
    collection: Collection, encoder: Encoder, update_operations: Sequence[Any]
) -> list[models.UpdateResult]:
    """All operations are checked before the first is carried out."""
    ready = []
    for operation in encoder.encode(update_operations):
        if type(operation) not in _BATCHED:
            raise BadRequest(f"Unknown update operation: {type(operation).__name__}.")
        [(_, given)] = operation
        ready.append(_BATCHED[type(operation)](collection, encoder, given))
    return [completed(carry_out()) for carry_out in ready]


def completed(operation: int) -> models.UpdateResult:
    """What every write answers."""
    return models.UpdateResult.model_construct(operation_id=operation, status=models.UpdateStatus.COMPLETED)


# What the only field of an operation holds are the arguments of the method that it's called after.
_BATCHED: dict[type, Callable[[Collection, Encoder, Any], Ready]] = {
    models.UpsertOperation: lambda c, e, given: upsert(c, e, given, given.update_filter, given.update_mode),
    models.UpdateVectorsOperation: lambda c, e, given: update_vectors(c, e, given.points, given.update_filter),
    models.DeleteOperation: lambda c, e, given: delete(c, given),
    models.ClearPayloadOperation: lambda c, e, given: clear_payload(c, given),
    models.SetPayloadOperation: lambda c, e, given: set_payload(c, given.payload, given, given.key),
    models.OverwritePayloadOperation: lambda c, e, given: overwrite_payload(c, given.payload, given, given.key),
    models.DeletePayloadOperation: lambda c, e, given: delete_payload(c, given.keys, given),
    models.DeleteVectorsOperation: lambda c, e, given: delete_vectors(c, given.vector, given),
}
