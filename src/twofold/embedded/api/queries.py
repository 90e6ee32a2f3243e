"""Reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import qdrant_edge as edge
from qdrant_client import models
from qdrant_client.http.models import QueryResponse  # models.QueryResponse is another, of fastembed's

from twofold.embedded.collection import Collection
from twofold.embedded.errors import BadRequest, NotFound
from twofold.embedded.from_edge import to_facet, to_model_id, to_records, to_scored_points
from twofold.embedded.groups import query_groups
from twofold.embedded.quick import maker
from twofold.embedded.to_edge.filters import to_edge_filter
from twofold.embedded.to_edge.ids import to_edge_id, to_edge_ids
from twofold.embedded.to_edge.queries import to_edge_order, to_edge_request

from .base import StoreApi, refuse_shard_key, request

_request, _response = maker(models.QueryRequest), maker(QueryResponse)


class QueriesApi(StoreApi):
    @request
    def query_points(
        self,
        collection_name: str,
        query: Any = None,
        using: str | None = None,
        prefetch: Any = None,
        query_filter: Any = None,
        search_params: Any = None,
        limit: int = 10,
        offset: int | None = None,
        with_payload: Any = True,
        with_vectors: Any = False,
        score_threshold: float | None = None,
        lookup_from: Any = None,
        **kwargs: Any,
    ) -> QueryResponse:
        asked = _request(
            {
                "query": query,
                "using": using,
                "prefetch": prefetch,
                "filter": query_filter,
                "params": search_params,
                "limit": limit,
                "offset": offset,
                "with_payload": with_payload,
                "with_vector": with_vectors,
                "score_threshold": score_threshold,
                "lookup_from": lookup_from,
                "shard_key": None,
            }
        )
        collection = self.store.get(collection_name)
        return _response({"points": to_scored_points(collection.read("query", self._convert(collection, asked)))})

    @request
    def query_batch_points(
        self, collection_name: str, requests: Sequence[models.QueryRequest], **kwargs: Any
    ) -> list[QueryResponse]:
        if not requests:
            return []
        collection = self.store.get(collection_name)
        batch = edge.QueryBatchRequest([self._convert(collection, asked) for asked in requests])
        return [_response({"points": to_scored_points(points)}) for points in collection.read("query_batch", batch)]

    @request
    def query_points_groups(
        self,
        collection_name: str,
        group_by: str,
        query: Any = None,
        using: str | None = None,
        prefetch: Any = None,
        query_filter: Any = None,
        search_params: Any = None,
        limit: int = 10,
        group_size: int = 3,
        with_payload: Any = True,
        with_vectors: Any = False,
        score_threshold: float | None = None,
        with_lookup: Any = None,
        lookup_from: Any = None,
        **kwargs: Any,
    ) -> models.GroupsResult:
        asked = models.QueryRequest(
            query=query,
            using=using,
            prefetch=prefetch,
            filter=query_filter,
            params=search_params,
            with_payload=with_payload,
            with_vector=with_vectors,
            score_threshold=score_threshold,
            lookup_from=lookup_from,
        )
        return query_groups(self, collection_name, asked, group_by, limit, group_size, with_lookup)

    @request
    def retrieve(
        self,
        collection_name: str,
        ids: Sequence[Any],
        with_payload: Any = True,
        with_vectors: Any = False,
        **kwargs: Any,
    ) -> list[models.Record]:
        collection = self.store.get(collection_name)
        wanted = list(dict.fromkeys(to_edge_ids(ids)))
        payload, vectors = (
            to_edge_payload_choice(with_payload),
            to_edge_vector_choice(collection, with_vectors),
        )
        return to_records(collection.read("retrieve", wanted, payload, vectors))

    @request
    def scroll(
        self,
        collection_name: str,
        scroll_filter: Any = None,
        limit: int = 10,
        order_by: Any = None,
        offset: Any = None,
        with_payload: Any = True,
        with_vectors: Any = False,
        **kwargs: Any,
    ) -> tuple[list[models.Record], int | str | None]:
        collection = self.store.get(collection_name)
        if limit < 1:
            raise BadRequest(f"limit value {limit} is invalid. Must be 1 or larger.")
        if order_by is not None and offset is not None:
            raise BadRequest("Cannot use an offset with order_by: use OrderBy(start_from=…) and exclude the ids seen.")
        scroll = edge.ScrollRequest(
            offset=None if offset is None else to_edge_id(offset),
            limit=limit,
            filter=to_edge_filter(scroll_filter),
            with_payload=to_edge_payload_choice(with_payload),
            with_vector=to_edge_vector_choice(collection, with_vectors),
            order_by=None if order_by is None else to_edge_order(order_by),
        )
        records, following = collection.read("scroll", scroll)
        return to_records(records), None if following is None else to_model_id(following)

    @request
    def count(
        self, collection_name: str, count_filter: Any = None, exact: bool = True, **kwargs: Any
    ) -> models.CountResult:
        asked = edge.CountRequest(exact, to_edge_filter(count_filter))
        return models.CountResult(count=self.store.get(collection_name).read("count", asked))

    @request
    def facet(
        self,
        collection_name: str,
        key: str,
        facet_filter: Any = None,
        limit: int = 10,
        exact: bool = False,
        **kwargs: Any,
    ) -> models.FacetResponse:
        asked = edge.FacetRequest(key, limit, exact, to_edge_filter(facet_filter))
        return to_facet(self.store.get(collection_name).read("facet", asked))

    def _convert(self, collection: Collection, asked: models.QueryRequest) -> edge.QueryRequest:
        if asked.shard_key is not None:
            refuse_shard_key()

        def stored(point_id: int | str, name: str, lookup: models.LookupLocation | None) -> Any:
            source = collection if lookup is None else self.store.get(lookup.collection)
            return _stored_vector(source, point_id, name if lookup is None or lookup.vector is None else lookup.vector)

        payload = to_edge_payload_choice(asked.with_payload)
        vectors = to_edge_vector_choice(collection, asked.with_vector)
        return to_edge_request(asked, collection.schema, stored, payload, vectors)


def _stored_vector(collection: Collection, point_id: int | str, name: str) -> Any:
    collection.schema.check_name(name)
    records = collection.read("retrieve", [point_id], False, [name])
    if not records:
        raise NotFound(f"No point with id {point_id} found in {collection.settings.name}.")
    vector = records[0].vector
    if isinstance(vector, dict):
        vector = vector.get(name)
    if vector is None:
        raise BadRequest(f"Point {point_id} has no vector {name!r}: it can't serve as an example.")
    return vector


def to_edge_payload_choice(value: Any) -> Any:
    """True, False, names to include, or a selector."""
    if isinstance(value, models.PayloadSelectorInclude):
        return edge.PayloadSelector.Include(value.include)
    if isinstance(value, models.PayloadSelectorExclude):
        return edge.PayloadSelector.Exclude(value.exclude)
    return list(value) if isinstance(value, (list, tuple)) else bool(value)


def to_edge_vector_choice(collection: Collection, value: Any) -> Any:
    """True, False, or names."""
    if isinstance(value, str):
        value = [value]
    if isinstance(value, (list, tuple)):
        return [collection.schema.check_name(name) for name in value]
    return bool(value)
