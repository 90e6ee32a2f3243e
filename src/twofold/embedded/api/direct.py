"""The two calls an index makes all the time, without what only strangers need.

An index has checked every document and made every id, payload and request by itself, and it reads three fields of
an answer. So here ids and payloads are taken as they are, and answers are the engine's own points. Vectors come from
models, which may be anybody's: they are checked as everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import qdrant_edge as edge
from qdrant_client import models

from twofold.embedded.to_edge.queries import to_edge_request

from .base import StoreApi, request
from .queries import to_edge_payload_choice


class Answer(NamedTuple):
    """What a query found."""

    points: list[edge.ScoredPoint]


class MadePoint(Protocol):
    """A point with a canonical id, named vectors (arrays, or objects with indices and values) and plain JSON."""

    @property
    def id(self) -> str: ...
    @property
    def vector(self) -> Mapping[str, Any]: ...
    @property
    def payload(self) -> dict[str, Any]: ...


class DirectApi(StoreApi):
    @request
    def upsert_made(self, collection_name: str, points: Sequence[MadePoint], **kwargs: Any) -> int:
        """Store points."""
        collection = self.store.get(collection_name)
        schema = collection.schema
        made = [edge.Point(point.id, schema.struct(point.vector), point.payload) for point in points]
        return collection.apply_pieces(made, edge.UpdateOperation.upsert_points, schema)

    @request
    def query_made(self, collection_name: str, requests: Sequence[models.QueryRequest], **kwargs: Any) -> list[Answer]:
        """Answer queries by vectors and fusions of them, with their payload and named vectors where wanted."""
        collection = self.store.get(collection_name)
        asked = [
            to_edge_request(
                one,
                collection.schema,
                _no_examples,
                to_edge_payload_choice(one.with_payload),
                one.with_vector or False,
            )
            for one in requests
        ]
        if len(asked) == 1:  # what most searches are, and quicker than a batch of one
            return [Answer(collection.read("query", asked[0]))]
        return [Answer(points) for points in collection.read("query_batch", edge.QueryBatchRequest(asked))]


def _no_examples(point_id: int | str, name: str, lookup: models.LookupLocation | None) -> Any:
    raise NotImplementedError("An index asks by vectors: use query_batch_points to ask by the id of a point.")
