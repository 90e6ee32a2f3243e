"""Reads, by the names that QdrantClient's methods have; grouped queries, which the engine lacks; texts in requests."""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

import qdrant_edge as edge
from pydantic import BaseModel
from qdrant_client import grpc, models
from qdrant_client.conversions.conversion import GrpcToRest
from qdrant_client.embed.model_embedder import ModelEmbedder
from qdrant_client.http.models import QueryResponse  # models.QueryResponse is another, of fastembed's

from twofold.embedded.collection import Collection, to_plain_id
from twofold.embedded.errors import BadRequest
from twofold.embedded.points import first_step, split_path, to_edge_id, to_edge_ids
from twofold.embedded.store import Store

from .queries import (
    as_list,
    formula_fields,
    to_edge_order,
    to_edge_payload_choice,
    to_edge_request,
    to_edge_vector_choice,
    to_filter,
)

_GROUP_OVERSAMPLING = 4
_Groups = dict[Any, list[models.ScoredPoint]]

_TO_ENCODE: set[Any] = {models.Document, models.Image, models.InferenceObject}
# Nothing inside these can be encoded.
_PLAIN: set[Any] = {
    *(type(None), int, float, str, models.SparseVector),
    *(models.FusionQuery, models.RrfQuery, models.OrderByQuery, models.FormulaQuery, models.TextQuery),
}


class Encoder:
    """Encodes the texts and images in requests, as qdrant-client does: with fastembed, in this process."""

    def __init__(self) -> None:
        self._embedding = threading.Lock()  # the embedder keeps texts of one call in fields of its own

    def encode(self, values: Sequence[Any], *, is_query: bool = False) -> Sequence[Any]:
        """The same models with vectors in place of what has to be encoded; most of the time there is nothing."""
        if not _holds_objects(values):
            return values
        with self._embedding:
            return list(self._embedder.embed_models(values, is_query=is_query))

    def encode_stream(self, values: Iterable[Any], parallel: int) -> Iterator[Any]:
        """The same for a stream, of which either all have to be encoded or none."""
        stream = iter(values)
        first = list(itertools.islice(stream, 1))
        everything = itertools.chain(first, stream)
        if not _holds_objects(first):
            yield from everything
        else:
            with self._embedding:
                yield from self._embedder.embed_models_strict(everything, parallel=parallel)

    @functools.cached_property
    def _embedder(self) -> ModelEmbedder:
        return ModelEmbedder(is_local_mode=True)


def _holds_objects(value: Any) -> bool:
    """Whether there is a text or image in it. The types tell: to look at every number takes longer than to answer."""
    kind = type(value)  # compared by identity: isinstance on a pydantic class is slow Python
    if kind in _PLAIN:
        return False
    if kind is list or kind is tuple:
        # A vector: one number tells for all of them.
        return bool(value) and type(value[0]) not in (float, int) and any(map(_holds_objects, value))
    if kind is dict:
        return any(map(_holds_objects, value.values()))
    if kind is models.PointStruct:
        return _holds_objects(value.vector)
    if kind is models.QueryRequest or kind is models.Prefetch:
        return _holds_objects(value.query) or _holds_objects(value.prefetch)
    return kind in _TO_ENCODE or (isinstance(value, BaseModel) and any(_holds_objects(item) for _, item in value))


def refuse_shard_key() -> NoReturn:
    """Ignoring a shard key would mix what its user keeps apart."""
    raise NotImplementedError(
        "The embedded engine has no shard keys: keep tenants apart with a payload field, a keyword index "
        "with is_tenant=True and a filter, or use a Qdrant cluster."
    )


# --- Queries ---


def query_points(store: Store, collection: Collection, encoder: Encoder, **given: Any) -> QueryResponse:
    [request] = _prepared([models.QueryRequest.model_construct(**_renamed(given))], encoder)
    query = to_edge_request(request, collection, store)
    return _answer(request, _read("query", query, store, collection, [request]))


def query_batch_points(
    store: Store, collection: Collection, encoder: Encoder, requests: Sequence[models.QueryRequest]
) -> list[QueryResponse]:
    if not requests:
        return []
    requests = _prepared(requests, encoder)
    batch = edge.QueryBatchRequest([to_edge_request(request, collection, store) for request in requests])
    return list(map(_answer, requests, _read("query_batch", batch, store, collection, requests)))


def _answer(request: models.QueryRequest, points: Iterable[edge.ScoredPoint]) -> QueryResponse:
    """What was found, with the vectors that were asked for: the engine adds those that MMR compared."""
    scored, wanted = to_scored_points(points), request.with_vector
    for point in scored if wanted is not True else ():
        held, names = point.vector, as_list(wanted or None)
        kept = {name: held[name] for name in names if name in held} if isinstance(held, dict) else {}
        point.vector = kept if names else None
    return QueryResponse.model_construct(points=scored)


def _read(
    method: str, query: Any, store: Store, collection: Collection, requests: Sequence[models.QueryRequest]
) -> Any:
    """The engine says only "cancelled" where a formula can't be computed: then its parts are tried one by one."""
    try:
        return collection.read(method, query)
    except BadRequest as error:
        if "cancelled" not in str(error):
            raise
        for request in requests:
            whole = request.query
            if not isinstance(whole, models.FormulaQuery):
                continue
            for part in (*formula_fields(whole.formula), whole.formula):
                tried = request.model_copy(update={"query": whole.model_copy(update={"formula": part})})
                try:
                    collection.read("query", to_edge_request(tried, collection, store))
                except BadRequest:
                    raise _formula_error(part) from error
        raise


def _formula_error(part: Any) -> BadRequest:
    if isinstance(part, str):
        kind, field = "a number", part
    elif isinstance(part, models.DatetimeKeyExpression):
        kind, field = "a datetime", part.datetime_key
    elif isinstance(part, models.GeoDistance):
        kind, field = "a geo point", part.geo_distance.to
    else:
        return BadRequest(
            "The formula produced a non-finite number for some point: a division by zero (give by_zero_default=…), "
            "or the root or logarithm of a negative number."
        )
    return BadRequest(
        f"Expected {kind} at {field!r} in the payload and/or in the formula defaults, and some point has none: give "
        "defaults={…}, or filter such points out."
    )


def _renamed(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a query as the fields of its request."""
    fields = {"query_filter": "filter", "search_params": "params", "with_vectors": "with_vector"}
    return {fields.get(name, name): value for name, value in arguments.items()}


def _prepared(requests: Sequence[models.QueryRequest], encoder: Encoder) -> Sequence[models.QueryRequest]:
    """The requests without texts, and without forms of a query that the embedder or the engine don't know."""
    prepared = []
    for request in requests:
        if request.shard_key is not None:
            refuse_shard_key()
        query: Any = request.query
        if type(query) in _TO_ENCODE:
            request = request.model_copy(update={"query": models.NearestQuery(nearest=query)})
        elif isinstance(query, grpc.PointId):
            request = request.model_copy(update={"query": GrpcToRest.convert_point_id(query)})
        prepared.append(request)
    return encoder.encode(prepared, is_query=True)


def query_points_groups(
    store: Store, collection: Collection, encoder: Encoder, group_by: str, limit: int, group_size: int, **given: Any
) -> models.GroupsResult:
    """The best `limit` groups, each with its best `group_size` points, in the order of their best point."""
    if limit < 1 or group_size < 1:
        raise BadRequest("limit and group_size must be 1 or larger.")
    with_lookup = given.pop("with_lookup", None)
    [request] = _prepared([models.QueryRequest(**_renamed(given))], encoder)
    groups = _fill_groups(store, collection, request, group_by, limit, group_size)
    _attach(collection, request, groups)
    answer = [models.PointGroup.model_construct(id=key, hits=hits, lookup=None) for key, hits in groups.items()]
    if with_lookup is not None:
        _look_up(store, answer, with_lookup)
    return models.GroupsResult.model_construct(groups=answer)


def _fill_groups(
    store: Store, collection: Collection, request: models.QueryRequest, group_by: str, limit: int, size: int
) -> _Groups:
    """Ask for more points than needed, and for more still, until the groups are full."""
    everything = int(collection.read("count", edge.CountRequest(True)))
    wanted = limit * size * _GROUP_OVERSAMPLING
    while True:
        needed = {"with_payload": [first_step(group_by)], "with_vector": False}
        widened = to_edge_request(_widen(request, wanted).model_copy(update=needed), collection, store)
        points = to_scored_points(collection.read("query", widened))
        groups = _group(points, group_by, limit, size)
        full = len(groups) == limit and all(len(hits) == size for hits in groups.values())
        if full or len(points) < wanted or wanted >= everything:
            return groups
        wanted *= _GROUP_OVERSAMPLING


def _widen(value: Any, wanted: int) -> Any:
    """The request, or prefetch, with room for so many points: a short prefetch would starve the groups."""
    inner = [_widen(item, wanted) for item in as_list(value.prefetch)]
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
        indexed, number = step.startswith("["), step[1:-1]  # `[]` stands for every item, `[0]` for one
        items = value[int(number) : int(number) + 1] if indexed and number else value
        for item in items:
            yield from _keys(item, path[1:] if indexed else path)
    elif path:
        if isinstance(value, dict):
            yield from _keys(value.get(step), path[1:])
    elif isinstance(value, (str, int)) and not isinstance(value, bool):
        yield value


def _attach(collection: Collection, request: models.QueryRequest, groups: _Groups) -> None:
    """Give the hits the payload and vectors that were asked for."""
    ids = {hit.id for hits in groups.values() for hit in hits}
    records = retrieve(collection, ids, request.with_payload, request.with_vector)
    whole = {record.id: {"payload": record.payload, "vector": record.vector} for record in records}
    for key, hits in groups.items():
        groups[key] = [hit.model_copy(update=whole[hit.id]) for hit in hits if hit.id in whole]


def _look_up(store: Store, groups: list[models.PointGroup], lookup: models.WithLookupInterface) -> None:
    if isinstance(lookup, str):
        lookup = models.WithLookup(collection=lookup)
    payload = True if lookup.with_payload is None else lookup.with_payload
    for group in groups:
        try:
            records = retrieve(store.get(lookup.collection), [group.id], payload, lookup.with_vectors or False)
        except BadRequest:
            continue  # a group named by a text that is no point id has nothing to look up
        group.lookup = records[0] if records else None


# --- Points by id, by filter, and counts; how near points are to each other ---


def retrieve(collection: Collection, ids: Iterable[Any], with_payload: Any, with_vectors: Any) -> list[models.Record]:
    payload, vectors = to_edge_payload_choice(with_payload), to_edge_vector_choice(collection, with_vectors)
    return to_records(collection.read("retrieve", to_edge_ids(ids), payload, vectors))


def scroll(
    collection: Collection,
    scroll_filter: Any,
    limit: int,
    order_by: Any,
    offset: Any,
    with_payload: Any,
    with_vectors: Any,
) -> tuple[list[models.Record], int | str | None]:
    if limit < 1:
        raise BadRequest(f"limit value {limit} is invalid. Must be 1 or larger.")
    if order_by is not None and offset is not None:
        raise BadRequest("Cannot use an offset with order_by: use OrderBy(start_from=…) and exclude the ids seen.")
    request = edge.ScrollRequest(
        offset=None if offset is None else to_edge_id(offset),
        limit=limit,
        filter=to_filter(scroll_filter),
        with_payload=to_edge_payload_choice(with_payload),
        with_vector=to_edge_vector_choice(collection, with_vectors),
        order_by=None if order_by is None else to_edge_order(order_by),
    )
    records, following = collection.read("scroll", request)
    return to_records(records), None if following is None else to_plain_id(following)


def count(collection: Collection, count_filter: Any, exact: bool) -> models.CountResult:
    request = edge.CountRequest(exact, to_filter(count_filter))
    return models.CountResult(count=collection.read("count", request))


def facet(collection: Collection, key: str, facet_filter: Any, limit: int, **given: Any) -> models.FacetResponse:
    """Always exact: the engine's estimate leaves frequent values out, and others each time.

    Without the values that only deleted points had, which it lists with 0.
    """
    response = collection.read("facet", edge.FacetRequest(key, limit, True, to_filter(facet_filter)))
    hits = (hit for hit in response.hits if hit.count)
    return models.FacetResponse.model_construct(
        hits=[models.FacetValueHit.model_construct(value=hit.value, count=hit.count) for hit in hits]
    )


def search_matrix_pairs(
    collection: Collection, query_filter: Any, limit: int, sample: int, using: str | None
) -> models.SearchMatrixPairsResponse:
    _, cells = _nearest_in_sample(collection, query_filter, limit, sample, using or "")
    return models.SearchMatrixPairsResponse(
        pairs=[models.SearchMatrixPair(a=a, b=b, score=score) for a, b, score in cells]
    )


def search_matrix_offsets(
    collection: Collection, query_filter: Any, limit: int, sample: int, using: str | None
) -> models.SearchMatrixOffsetsResponse:
    ids, cells = _nearest_in_sample(collection, query_filter, limit, sample, using or "")
    place = {identity: number for number, identity in enumerate(ids)}
    rows, columns = [place[a] for a, _, _ in cells], [place[b] for _, b, _ in cells]
    scores = [score for _, _, score in cells]
    return models.SearchMatrixOffsetsResponse(offsets_row=rows, offsets_col=columns, scores=scores, ids=ids)


def _nearest_in_sample(
    collection: Collection, condition: Any, limit: int, sample: int, using: str
) -> tuple[list[Any], list[tuple[Any, Any, float]]]:
    """The ids of a random sample in order; and for each of them the nearest others of the sample, and how near."""
    if limit < 1 or sample < 2:
        raise BadRequest("limit must be 1 or larger, and sample 2 or larger.")
    has_vector = edge.HasVectorCondition(collection.schema.check_name(using))
    where = edge.Filter(must=[*as_list(to_filter(condition)), has_vector])
    sampled = edge.QueryRequest(limit=sample, query=edge.Sample.Random, filter=where, with_vector=[using])
    points = {to_plain_id(point.id): point.vector for point in collection.read("query", sampled)}
    ids = sorted(points, key=lambda identity: (isinstance(identity, str), identity)) if len(points) > 1 else []
    queries = []
    for identity in ids:
        vector: Any = points[identity]
        rest: Any = {*ids} - {identity}
        nearest = edge.Query.Nearest(vector[using] if isinstance(vector, dict) else vector, using)
        queries.append(
            edge.QueryRequest(limit=limit, query=nearest, filter=edge.Filter(must=[edge.HasIdCondition(rest)]))
        )
    answers = collection.read("query_batch", edge.QueryBatchRequest(queries)) if ids else []
    found = zip(ids, answers, strict=True)
    return ids, [(a, to_plain_id(point.id), point.score) for a, answer in found for point in answer]


# --- Answers ---


def to_scored_points(points: Iterable[edge.ScoredPoint]) -> list[models.ScoredPoint]:
    """What a query answers. The engine has typed the values: they need no validation, which takes most of the time."""
    return [
        models.ScoredPoint.model_construct(**_to_fields(point), version=point.version, score=point.score)
        for point in points
    ]


def to_records(records: Iterable[edge.Record]) -> list[models.Record]:
    """What a scroll or a look-up by id answers."""
    return [models.Record.model_construct(**_to_fields(record)) for record in records]


def _to_fields(point: edge.ScoredPoint | edge.Record) -> dict[str, Any]:
    vectors: Any = point.vector
    if type(vectors) is dict:
        for name, vector in vectors.items():
            if isinstance(vector, edge.SparseVector):
                vectors[name] = models.SparseVector.model_construct(indices=vector.indices, values=vector.values)
    known = {"payload": point.payload, "vector": vectors, "order_value": point.order_value}
    return {"id": to_plain_id(point.id), "shard_key": None, **known}
