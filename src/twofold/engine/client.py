"""The engine behind a qdrant-client: local mode, and any client that somebody brought.

`VERBS` says for each verb which method of the client is called, how its arguments are built and how its answer is
read; `send` and `asend` make the call, blocking and awaited. `remote` sends the same way to a server by its URL. Below
stand the translations: of errors into ours, and of queries, formulas and filters into qdrant-client's models, all of
which qdrant-client has had since 1.16.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import lru_cache
from threading import Lock
from typing import Any, ClassVar, NamedTuple
from weakref import WeakKeyDictionary

from qdrant_client import AsyncQdrantClient, QdrantClient, models
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from twofold.encoders.base import Sparse, Vectors
from twofold.engine.connection import Capabilities, Connection
from twofold.engine.layout import OWN, Layout, NewPoint, Schema, engine_id, read_schema
from twofold.engine.requests import EngineQuery, Filter, Parts, RequestBuilder, to_filter
from twofold.engine.state import read_replicas, read_state
from twofold.errors import ConfigError, EngineError, EngineUnavailable, TwofoldError
from twofold.flow import Call

# Came with qdrant-client 1.19, as with the server: before, words are counted in the whole collection.
_IDF_CORPUS: Any = getattr(models, "IdfCorpusParams", None)
# With 1.18, as with the server.
_ADDS_VECTORS = hasattr(models, "SparseVectorNameConfig")
SERVER = Capabilities(
    versioned=True, indexes=True, shared=True, corpus_idf=_IDF_CORPUS is not None, adds_vectors=_ADDS_VECTORS
)
LOCAL_MODE = replace(SERVER, versioned=False, indexes=False)
EMBEDDED_CLIENT = replace(SERVER, versioned=False, optimizes=True)

_UNREACHABLE = (ResponseHandlingException, json.JSONDecodeError)
_UNREACHABLE_GRPC = {"UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"}
_MAX_ANSWER_CHARS = 300

# One lock for each in-process client, shared by all indexes on it: local mode is not thread-safe.
_locks: WeakKeyDictionary[QdrantClient, Lock] = WeakKeyDictionary()
_locks_guard = Lock()


# --- A client that somebody brought ---


def _capabilities(client: QdrantClient | AsyncQdrantClient) -> Capabilities:
    if hasattr(client, "optimize"):  # the embedded store's own client; qdrant-client's have no such method
        return EMBEDDED_CLIENT
    options = client.init_options
    local = options.get("location") == ":memory:" or options.get("path") is not None
    return LOCAL_MODE if local else SERVER


class SyncConnection(Connection):
    """A `QdrantClient`; awaiting callers are served from a thread."""

    def __init__(self, client: QdrantClient) -> None:
        super().__init__("your QdrantClient", _capabilities(client), store=client)
        self._client = client
        self._lock: AbstractContextManager[Any] = nullcontext()
        if self.capabilities is LOCAL_MODE:
            with _locks_guard:
                self._lock = _locks.setdefault(client, Lock())

    def call(self, call: Call) -> Any:
        self.check_open()
        with translated(call.verb, self.location), self._lock:
            return send(self._client, call)


class AsyncConnection(Connection):
    """The user's `AsyncQdrantClient`: only the async methods of the index can use it."""

    blocks = False
    async_only: ClassVar[bool] = True

    def __init__(self, client: AsyncQdrantClient) -> None:
        super().__init__("your AsyncQdrantClient", _capabilities(client), store=client)
        self._client = client

    def call(self, call: Call) -> Any:
        raise ConfigError(
            f"this index was opened on an AsyncQdrantClient, so {call.verb} can only be awaited: use the async "
            "methods (asearch, aadd, …), or open the index with a QdrantClient, a path or a URL"
        )

    async def acall(self, call: Call) -> Any:
        self.check_open()
        with translated(call.verb, self.location):
            return await asend(self._client, call)


# --- The verbs ---


class Verb(NamedTuple):
    """How a client is asked for something."""

    method: str
    build: Callable[..., dict[str, Any]]
    """The arguments of the method, from those of the verb; only the collection is the same for all."""
    read: Callable[[Any], Any] = lambda _: None
    """The answer of the verb, from that of the method: what was written has none."""

    def arguments(self, collection: str | None = None, **given: Any) -> dict[str, Any]:
        """What to call the method with."""
        return {**({} if collection is None else {"collection_name": collection}), **self.build(**given)}


def send(client: QdrantClient, call: Call) -> Any:
    """Ask a client, and wait for the answer."""
    verb = verbs(call.layout or OWN)[call.verb]
    return verb.read(getattr(client, verb.method)(**verb.arguments(**call.arguments)))


async def asend(client: AsyncQdrantClient, call: Call) -> Any:
    """Ask a client, and let others work until it answers."""
    verb = verbs(call.layout or OWN)[call.verb]
    return verb.read(await getattr(client, verb.method)(**verb.arguments(**call.arguments)))


def _create(settings: Mapping[str, Any]) -> dict[str, Any]:
    given = models.CreateCollection(**settings)
    named = {name: getattr(given, name) for name in settings if name not in ("vectors", "sparse_vectors")}
    return {"vectors_config": given.vectors, "sparse_vectors_config": given.sparse_vectors, **named}


def _schema(info: models.CollectionInfo, layout: Layout) -> Schema:
    config = info.config.params.model_dump(mode="json", exclude_none=True)
    indexes = {
        key: index.data_type.value if index.params is None else index.params.model_dump(mode="json", exclude_none=True)
        for key, index in (info.payload_schema or {}).items()
    }
    settings = {**config, "metadata": info.config.metadata}
    return read_schema(settings, info.points_count or 0, indexes, layout, info.status.value)


def _create_index(key: str, schema: str | Mapping[str, Any], wait: bool) -> dict[str, Any]:
    if isinstance(schema, str):
        return {"field_name": key, "field_schema": models.PayloadSchemaType(schema), "wait": wait}
    params = getattr(models, f"{schema['type'].title()}IndexParams")
    return {"field_name": key, "field_schema": params(**schema), "wait": wait}


def _wanted(only: Sequence[str] | None, vectors: Sequence[str]) -> dict[str, Any]:
    return {"with_payload": True if only is None else list(only) or False, "with_vectors": list(vectors) or False}


def _set_alias(alias: str, to: str) -> dict[str, Any]:
    # Of one that is there as well: the server carries out both at once.
    names = {"collection_name": to, "alias_name": alias}
    return {"change_aliases_operations": [models.CreateAliasOperation(create_alias=models.CreateAlias(**names))]}


def _add_words(name: str, idf: bool) -> dict[str, Any]:
    given = models.SparseVectorConfig(modifier=models.Modifier.IDF if idf else None)
    params = models.SparseVectorNameConfig(sparse=given)
    return {"vector_name": name, "vector_name_config": params}


_IDF = models.SparseVectorParams(modifier=models.Modifier.IDF)
# Of collections as a whole, whatever their rows look like.
_OF_COLLECTIONS = {
    "version": Verb("info", dict, lambda answer: answer.version),
    "exists": Verb("collection_exists", dict, bool),
    "create": Verb("create_collection", _create),
    "inspect": Verb("get_collection", dict, read_state),
    "replicas": Verb("collection_cluster_info", dict, read_replicas),
    "set_idf": Verb("update_collection", lambda name: {"sparse_vectors_config": {name: _IDF}}),
    "set_metadata": Verb("update_collection", lambda metadata: {"metadata": dict(metadata)}),
    "collections": Verb("get_collections", dict, lambda answer: sorted(each.name for each in answer.collections)),
    "aliases": Verb(
        "get_aliases", dict, lambda answer: {each.alias_name: each.collection_name for each in answer.aliases}
    ),
    "set_alias": Verb("update_collection_aliases", _set_alias),
    "drop": Verb("delete_collection", dict),
    "add_words": Verb("create_vector_name", _add_words),
    "create_index": Verb("create_payload_index", _create_index),
    "optimize": Verb("optimize", lambda progress: {"progress": progress}, bool),
    "backup": Verb("backup", lambda path: {"path": path}, dict),  # of a folder that another process holds
}


@lru_cache(maxsize=64)
def verbs(layout: Layout) -> dict[str, Verb]:
    """How a client is asked for what is in rows of that layout."""
    parts = PARTS if layout is OWN else replace(PARTS, layout=layout, converted={})

    def where_is(where: Filter | None) -> Any:
        return to_filter(where, parts)

    def which(points: Sequence[str] | Filter) -> Any:
        return [*map(engine_id, points)] if isinstance(points, Sequence) else where_is(points)

    return {
        **_OF_COLLECTIONS,
        "describe": Verb("get_collection", dict, lambda info: _schema(info, layout)),
        "query": Verb(
            "query_batch_points",
            lambda queries: {"requests": to_requests(queries, parts)},
            lambda answers: [answer.points for answer in answers],
        ),
        "scroll": Verb(
            "scroll",
            lambda where, limit, offset, order_by, only, vectors: {
                "scroll_filter": where_is(where),
                "limit": limit,
                "offset": offset,
                "order_by": None if order_by is None else _newest_first(order_by),
                **_wanted(only, vectors),
            },
            tuple,
        ),
        "retrieve": Verb("retrieve", lambda ids, only, vectors: {"ids": which(ids), **_wanted(only, vectors)}, list),
        "count": Verb(
            "count", lambda where: {"count_filter": where_is(where), "exact": True}, lambda answer: answer.count
        ),
        "facet": Verb(
            "facet",
            lambda key, where, limit: {"key": key, "facet_filter": where_is(where), "limit": limit, "exact": True},
            lambda answer: {hit.value: hit.count for hit in answer.hits},
        ),
        "upsert": Verb("upsert", lambda points: {"points": [_point(point) for point in points], "wait": True}),
        "update_vectors": Verb(
            "update_vectors", lambda points: {"points": [_vectors(point) for point in points], "wait": True}
        ),
        "set_payload": Verb(
            "set_payload",
            lambda key, payload, points: {"payload": dict(payload), "key": key, "points": which(points), "wait": True},
        ),
        "delete": Verb("delete", lambda where: {"points_selector": where_is(where), "wait": True}),
    }


# --- What goes wrong in a client, in the library's own words ---


# What a server says over gRPC, as the status that it would answer with over HTTP.
_GRPC_STATUS = {
    "INVALID_ARGUMENT": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "INTERNAL": 500,
}
_ADVICE = {
    401: ": check api_key",
    403: ": check api_key, which may be one that can only read",
    404: ": has the collection been deleted? Open the index again to make it anew",
}


@contextmanager
def translated(verb: str, location: str) -> Iterator[None]:
    """Raise what a client raises as an `EngineError` that says what to look at; it stands whole in the message."""
    try:
        yield
    except TwofoldError:
        raise
    except UnexpectedResponse as error:
        content = getattr(error, "message", None) or error.content.decode("utf-8", "replace")[:_MAX_ANSWER_CHARS]
        said = f"{error.status_code} {error.reason_phrase}"
        raise _refused(verb, location, error.status_code, said, content) from None
    except Exception as error:
        code = grpc_code(error)
        if isinstance(error, _UNREACHABLE) or code in _UNREACHABLE_GRPC:
            message = f"{verb}: {location} does not answer ({error}). Is the server running, and is the address right?"
            raise EngineUnavailable(message, operation=verb, location=location) from None
        if code in _GRPC_STATUS:
            details = str(getattr(error, "details", str)())[:_MAX_ANSWER_CHARS]
            raise _refused(verb, location, _GRPC_STATUS[code], code, details) from None
        message = f"{verb} on {location} failed: {type(error).__name__}: {error}"
        raise EngineError(message, operation=verb, location=location) from error


def _refused(verb: str, location: str, status: int | None, said: str, content: str) -> EngineError:
    message = f"{verb} on {location} was refused with {said}{_ADVICE.get(status or 0, '')}. {content}"
    return EngineError(message, operation=verb, location=location, status=status)


def grpc_code(error: Exception) -> str:
    """The name of the status that a gRPC call ended with; empty for any other error."""
    code = getattr(error, "code", None)
    return str(getattr(code(), "name", "")) if callable(code) else ""


# --- Points and requests as models. They are made of values that were checked: to validate them takes longer than
# --- a search, so `model_construct` puts them together ---


def _point(point: NewPoint) -> models.PointStruct:
    vector = {name: _vector(value) for name, value in point.vector.items()}
    return models.PointStruct.model_construct(id=engine_id(point.id), vector=vector, payload=point.payload)


def _vectors(point: NewPoint) -> models.PointVectors:
    vector = {name: _vector(value) for name, value in point.vector.items()}
    return models.PointVectors.model_construct(id=engine_id(point.id), vector=vector)


def _vector(value: Vectors | Sparse) -> Any:
    if isinstance(value, Sparse):
        return models.SparseVector.model_construct(indices=list(value.indices), values=list(value.values))
    return value.tolist()


def to_requests(queries: Iterable[EngineQuery], parts: Parts | None = None) -> list[models.QueryRequest]:
    """Queries as the requests of one batch."""
    builder = RequestBuilder(parts or PARTS, lambda name, vector: {"query": _vector(vector), "using": name or None})
    return [builder.request(query) for query in queries]


def _newest_first(key: str) -> models.OrderBy:
    return models.OrderBy(key=key, direction=models.Direction.DESC)


def _field(key: str, **test: Any) -> models.FieldCondition:
    return models.FieldCondition.model_construct(key=key, **test)


def _decay(x: Any, target: Any, scale: float) -> models.DecayParamsExpression:
    return models.DecayParamsExpression.model_construct(x=x, target=target, scale=scale, midpoint=0.5)


PARTS = Parts(
    request=lambda prefetches=None, **rest: models.QueryRequest.model_construct(prefetch=prefetches, **rest),
    prefetch=lambda prefetches=None, **rest: models.Prefetch.model_construct(prefetch=prefetches, **rest),
    search_params=models.SearchParams.model_construct,
    idf_params=_IDF_CORPUS and (lambda corpus: _IDF_CORPUS.model_construct(corpus=corpus)),
    dbsf=lambda: models.FusionQuery(fusion=models.Fusion.DBSF),
    newest_first=lambda key: models.OrderByQuery(order_by=_newest_first(key)),
    formula=lambda made, defaults: models.FormulaQuery.model_construct(formula=made, defaults=defaults),
    constant=float,
    variable=str,
    condition=lambda condition: condition,
    date_key=lambda key: models.DatetimeKeyExpression(datetime_key=key),
    date=lambda date: models.DatetimeExpression(datetime=date),
    exp_decay=lambda *params: models.ExpDecayExpression.model_construct(exp_decay=_decay(*params)),
    lin_decay=lambda *params: models.LinDecayExpression.model_construct(lin_decay=_decay(*params)),
    quotient=lambda left, right: models.DivExpression.model_construct(
        div=models.DivParams.model_construct(left=left, right=right)
    ),
    absolute=lambda of: models.AbsExpression.model_construct(abs=of),
    sum=lambda terms: models.SumExpression.model_construct(sum=terms),
    product=lambda factors: models.MultExpression.model_construct(mult=factors),
    filter=models.Filter,
    group=models.Filter.model_construct,
    value=lambda key, value: _field(key, match=models.MatchValue.model_construct(value=value)),
    any_value=lambda key, values: _field(key, match=models.MatchAny(any=values)),
    numbers=lambda key, **bounds: _field(key, range=models.Range.model_construct(None, **bounds)),
    dates=lambda key, **bounds: _field(key, range=models.DatetimeRange(**bounds)),
    words=lambda key, text: _field(key, match=models.MatchText(text=text)),
    empty=lambda key: models.IsEmptyCondition(is_empty=models.PayloadField(key=key)),
    has_id=lambda ids: models.HasIdCondition.model_construct(has_id=ids),
    has_vector=lambda name: models.HasVectorCondition(has_vector=name),
    native=lambda native: native,
)

VERBS = verbs(OWN)
