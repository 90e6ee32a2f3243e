"""The engine behind a qdrant-client: local mode, and any client that somebody brought.

`VERBS` says for each verb which method of the client is called, how its arguments are built and how its answer is
read; `send` and `asend` make the call, blocking and awaited. `remote` sends the same way to a server by its URL. Below
stand the translations: of errors into ours, and of queries, formulas and filters into qdrant-client's models, all of
which qdrant-client has had since 1.16.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from threading import Lock
from typing import Any, ClassVar, NamedTuple
from weakref import WeakKeyDictionary

from qdrant_client import AsyncQdrantClient, QdrantClient, models
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from twofold.encoders.base import Sparse
from twofold.engine.calls import Page
from twofold.engine.connection import Capabilities, Connection
from twofold.engine.layout import DENSE, SPARSE, Conditions, NewPoint, Schema, metadata_key, read_schema, to_condition
from twofold.engine.requests import (
    DbsfFusion,
    EngineQuery,
    Filter,
    FusedQuery,
    NativeFusion,
    NewestFirst,
    Payload,
    PayloadWithout,
    RrfFusion,
    VectorQuery,
)
from twofold.errors import ConfigError, EngineError, EngineUnavailable, TwofoldError
from twofold.flow import Call
from twofold.ranking import expressions as ex

# Came with qdrant-client 1.19, as with the server: before, words are counted in the whole collection.
_IDF_CORPUS: Any = getattr(models, "IdfCorpusParams", None)
SERVER = Capabilities(versioned=True, indexes=True, threads=True, shared=True, corpus_idf=_IDF_CORPUS is not None)
LOCAL_MODE = replace(SERVER, versioned=False, indexes=False, threads=False, shared=True)
EMBEDDED_CLIENT = replace(SERVER, versioned=False, optimizes=True)

_UNREACHABLE_GRPC = {"UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"}
_MAX_ANSWER_CHARS = 300
_HALF = 0.5

# One lock for each in-process client, shared by all indexes on it: local mode is not thread-safe.
_locks: WeakKeyDictionary[QdrantClient, Lock] = WeakKeyDictionary()
_locks_guard = Lock()


# --- A client that somebody brought ---


def connection_for(client: QdrantClient | AsyncQdrantClient) -> Connection:
    """A connection to the engine behind a client."""
    if isinstance(client, AsyncQdrantClient):
        return AsyncConnection(client)
    return SyncConnection(client)


def capabilities_of(client: QdrantClient | AsyncQdrantClient) -> Capabilities:
    """What the engine behind a client can do."""
    if hasattr(client, "optimize"):  # the embedded store's own client; qdrant-client's have no such method
        return EMBEDDED_CLIENT
    options = client.init_options
    local = options.get("location") == ":memory:" or options.get("path") is not None
    return LOCAL_MODE if local else SERVER


class SyncConnection(Connection):
    """A `QdrantClient`; awaiting callers are served from a thread."""

    def __init__(self, client: QdrantClient) -> None:
        super().__init__("your QdrantClient", capabilities_of(client))
        self._client = client
        self._lock = None if self.capabilities.threads else _lock_for(client)

    @property
    def store(self) -> object:
        """The client itself."""
        return self._client

    def call(self, call: Call) -> Any:
        """Send a request and wait; in local mode, until others have had their turn."""
        self.check_open()
        with translated(call.verb, self.location):
            if self._lock is None:
                return send(self._client, call)
            with self._lock:
                return send(self._client, call)

    async def acall(self, call: Call) -> Any:
        """Send a request from a thread."""
        return await asyncio.to_thread(self.call, call)


class AsyncConnection(Connection):
    """The user's `AsyncQdrantClient`: only the async methods of the index can use it."""

    async_only: ClassVar[bool] = True

    def __init__(self, client: AsyncQdrantClient) -> None:
        super().__init__("your AsyncQdrantClient", capabilities_of(client))
        self._client = client

    @property
    def store(self) -> object:
        """The client itself."""
        return self._client

    def call(self, call: Call) -> Any:
        """Refuse: there is nothing to block on."""
        raise ConfigError(
            f"this index was opened on an AsyncQdrantClient, so {call.verb} can only be awaited: use the async "
            "methods (asearch, aadd, …), or open the index with a QdrantClient, a path or a URL"
        )

    async def acall(self, call: Call) -> Any:
        """Send a request and let others work meanwhile."""
        self.check_open()
        with translated(call.verb, self.location):
            return await asend(self._client, call)


def _lock_for(client: QdrantClient) -> Lock:
    with _locks_guard:
        return _locks.setdefault(client, Lock())


# --- The verbs ---


class Verb(NamedTuple):
    """How a client is asked for something."""

    method: str
    build: Callable[..., dict[str, Any]]
    """The arguments of the method, from those of the verb."""
    read: Callable[[Any], Any]
    """The answer of the verb, from that of the method."""


def send(client: QdrantClient, call: Call) -> Any:
    """Ask a client, and wait for the answer."""
    verb = VERBS[call.verb]
    return verb.read(getattr(client, verb.method)(**verb.build(**call.arguments)))


async def asend(client: AsyncQdrantClient, call: Call) -> Any:
    """Ask a client, and let others work until it answers."""
    verb = VERBS[call.verb]
    return verb.read(await getattr(client, verb.method)(**verb.build(**call.arguments)))


def _create(collection: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    given = models.CreateCollection(**settings)
    named = {name: getattr(given, name) for name in settings if name not in ("vectors", "sparse_vectors")}
    return {
        "collection_name": collection,
        "vectors_config": given.vectors,
        "sparse_vectors_config": given.sparse_vectors,
        **named,
    }


def _schema(info: models.CollectionInfo) -> Schema:
    config = info.config.params.model_dump(mode="json", exclude_none=True)
    indexed = {key: index.data_type.value for key, index in (info.payload_schema or {}).items()}
    return read_schema({**config, "metadata": info.config.metadata}, info.points_count or 0, indexed)


def _create_index(collection: str, key: str, schema: str | Mapping[str, Any], wait: bool) -> dict[str, Any]:
    return {"collection_name": collection, "field_name": key, "field_schema": to_index_schema(schema), "wait": wait}


def to_index_schema(schema: str | Mapping[str, Any]) -> models.PayloadSchemaType | models.PayloadSchemaParams:
    """A payload index, by the name of its kind or by its parameters."""
    if isinstance(schema, str):
        return models.PayloadSchemaType(schema)
    return models.TextIndexParams(**schema) if schema["type"] == "text" else models.KeywordIndexParams(**schema)


def _scroll(
    collection: str,
    where: Filter | None,
    limit: int,
    offset: Any,
    order_by: str | None,
    only: Sequence[str] | None,
    vectors: Sequence[str],
) -> dict[str, Any]:
    newest = None if order_by is None else models.OrderBy(key=order_by, direction=models.Direction.DESC)
    return {
        "collection_name": collection,
        "scroll_filter": to_filter(where),
        "limit": limit,
        "offset": offset,
        "order_by": newest,
        "with_payload": True if only is None else list(only),
        "with_vectors": list(vectors) or False,
    }


def _retrieve(
    collection: str, ids: Sequence[str], only: Sequence[str] | None, vectors: Sequence[str]
) -> dict[str, Any]:
    return {
        "collection_name": collection,
        "ids": list(ids),
        "with_payload": True if only is None else list(only),
        "with_vectors": list(vectors) or False,
    }


def _facet(collection: str, key: str, where: Filter | None, limit: int) -> dict[str, Any]:
    return {
        "collection_name": collection,
        "key": key,
        "facet_filter": to_filter(where),
        "limit": limit,
        "exact": True,
    }


def _set_payload(
    collection: str, key: str, payload: Mapping[str, Any], points: Sequence[str] | Filter
) -> dict[str, Any]:
    return {
        "collection_name": collection,
        "payload": dict(payload),
        "key": key,
        "points": list(points) if isinstance(points, Sequence) else to_filter(points),
        "wait": True,
    }


def _nothing(_: Any) -> None:
    """What was written has no answer."""


VERBS: dict[str, Verb] = {
    "version": Verb("info", dict, lambda answer: answer.version),
    "exists": Verb("collection_exists", lambda collection: {"collection_name": collection}, bool),
    "create": Verb("create_collection", _create, _nothing),
    "describe": Verb("get_collection", lambda collection: {"collection_name": collection}, _schema),
    "set_metadata": Verb(
        "update_collection",
        lambda collection, metadata: {"collection_name": collection, "metadata": dict(metadata)},
        _nothing,
    ),
    "create_index": Verb("create_payload_index", _create_index, _nothing),
    "optimize": Verb(
        "optimize", lambda collection, progress: {"collection_name": collection, "progress": progress}, bool
    ),
    "query": Verb(
        "query_batch_points",
        lambda collection, queries: {"collection_name": collection, "requests": [to_request(q) for q in queries]},
        lambda answers: [answer.points for answer in answers],
    ),
    "scroll": Verb("scroll", _scroll, lambda answer: Page(*answer)),
    "retrieve": Verb("retrieve", _retrieve, list),
    "count": Verb(
        "count",
        lambda collection, where: {"collection_name": collection, "count_filter": to_filter(where), "exact": True},
        lambda answer: answer.count,
    ),
    "facet": Verb("facet", _facet, lambda answer: {hit.value: hit.count for hit in answer.hits}),
    "upsert": Verb(
        "upsert",
        lambda collection, points: {
            "collection_name": collection,
            "points": [_point(point) for point in points],
            "wait": True,
        },
        _nothing,
    ),
    "set_payload": Verb("set_payload", _set_payload, _nothing),
    "delete": Verb(
        "delete",
        lambda collection, where: {"collection_name": collection, "points_selector": to_filter(where), "wait": True},
        _nothing,
    ),
}


# --- What goes wrong in a client, in the library's own words ---


@contextmanager
def translated(verb: str, location: str) -> Iterator[None]:
    """Raise what a client raises as an `EngineError` that says what to look at.

    What was refused or not answered stands in its message as a whole, so the chain of errors of three libraries that
    led to it is left out.
    """
    try:
        yield
    except TwofoldError:
        raise
    except UnexpectedResponse as error:
        raise _refused(error, verb, location) from None
    except (ResponseHandlingException, json.JSONDecodeError) as error:
        raise _unreachable(error, verb, location) from None
    except Exception as error:
        if grpc_code(error) in _UNREACHABLE_GRPC:
            raise _unreachable(error, verb, location) from None
        message = f"{verb} on {location} failed: {type(error).__name__}: {error}"
        raise EngineError(message, operation=verb, location=location) from error


def _refused(error: UnexpectedResponse, verb: str, location: str) -> EngineError:
    advice = ": check api_key" if error.status_code in (401, 403) else ""
    content = getattr(error, "message", None) or error.content.decode("utf-8", "replace")[:_MAX_ANSWER_CHARS]
    return EngineError(
        f"{verb} on {location} was refused with {error.status_code} {error.reason_phrase}{advice}. {content}",
        operation=verb,
        location=location,
    )


def _unreachable(error: Exception, verb: str, location: str) -> EngineUnavailable:
    return EngineUnavailable(
        f"{verb}: {location} does not answer ({error}). Is the server running, and is the address right?",
        operation=verb,
        location=location,
    )


def grpc_code(error: Exception) -> str:
    """The name of the status that a gRPC call ended with; empty for any other error."""
    code = getattr(error, "code", None)
    return str(getattr(code(), "name", "")) if callable(code) else ""


# --- Points and queries as models. They are made of values that were checked: to validate them takes longer than
# --- a search, so `model_construct` puts them together ---


def _point(point: NewPoint) -> models.PointStruct:
    vector = {name: _vector(value) for name, value in point.vector.items()}
    return models.PointStruct.model_construct(id=point.id, vector=vector, payload=point.payload)


def _vector(value: Any) -> Any:
    if isinstance(value, Sparse):
        return models.SparseVector.model_construct(indices=list(value.indices), values=list(value.values))
    return value.tolist()


def to_request(query: EngineQuery) -> models.QueryRequest:
    """A query as one request of a batch."""
    wanted = {"with_payload": to_payload(query.with_payload), "with_vector": [DENSE] if query.with_dense else False}
    if isinstance(query, FusedQuery):
        legs = [models.Prefetch.model_construct(**_leg(leg)) for leg in query.legs]
        how = _fusion(query.fusion)
        return models.QueryRequest.model_construct(prefetch=legs, query=how, limit=query.limit, **wanted)
    return models.QueryRequest.model_construct(**_leg(query), **wanted)


def _leg(leg: VectorQuery) -> dict[str, Any]:
    return {
        "query": _vector(leg.vector),
        "using": SPARSE if isinstance(leg.vector, Sparse) else DENSE,
        "filter": to_filter(leg.filter),
        "limit": leg.limit,
        "score_threshold": leg.score_threshold,
        "params": _params(leg),
    }


def _params(leg: VectorQuery) -> models.SearchParams | None:
    if leg.idf_corpus is not None and _IDF_CORPUS is not None:
        corpus = _IDF_CORPUS.model_construct(corpus=to_filter(leg.idf_corpus))
        return models.SearchParams.model_construct(idf=corpus)
    if leg.hnsw_ef is None and not leg.exact:
        return None
    return models.SearchParams.model_construct(hnsw_ef=leg.hnsw_ef, exact=leg.exact)


def to_payload(wanted: Payload) -> Any:
    """What of the payload to bring along."""
    if isinstance(wanted, PayloadWithout):
        return models.PayloadSelectorExclude(exclude=[metadata_key(field) for field in wanted.fields])
    return wanted


def _fusion(how: NativeFusion) -> Any:
    if isinstance(how, RrfFusion):
        # The engine computes 1 / (rank + k - 1); its weighted form is another function than Σ w / (k + rank).
        return models.RrfQuery(rrf=models.Rrf(k=how.k + 1))
    if isinstance(how, DbsfFusion):
        return models.FusionQuery(fusion=models.Fusion.DBSF)
    if isinstance(how, NewestFirst):
        order = models.OrderBy(key=metadata_key(how.field), direction=models.Direction.DESC)
        return models.OrderByQuery(order_by=order)
    defaults: dict[str, Any] = {f"$score[{leg}]": score for leg, score in enumerate(how.missing)}
    return models.FormulaQuery.model_construct(formula=_expression(how.expression, defaults), defaults=defaults)


# --- Formulas as models ---


def _expression(value: ex.Expression, defaults: dict[str, Any]) -> Any:
    """One node of a formula; what it looks up in the payload leaves its default behind."""
    if isinstance(value, (int, float)):
        return value
    return _EXPRESSIONS[type(value)](value, defaults)


def _field(value: ex.FieldValue, defaults: dict[str, Any]) -> str:
    key = metadata_key(value.field)
    defaults[key] = value.default
    return key


def _freshness(value: ex.Freshness, defaults: dict[str, Any]) -> models.ExpDecayExpression:
    key = metadata_key(value.field)
    defaults[key] = value.now
    return models.ExpDecayExpression(
        exp_decay=models.DecayParamsExpression(
            x=models.DatetimeKeyExpression(datetime_key=key),
            target=models.DatetimeExpression(datetime=value.now),
            scale=value.half_life_seconds,
            midpoint=_HALF,
        )
    )


def _ramp(value: ex.Ramp, defaults: dict[str, Any]) -> models.LinDecayExpression:
    # Older servers have no max, and x + |x| reads x twice. It falls again beyond 1, where x doesn't come.
    params = models.DecayParamsExpression.model_construct(
        x=_expression(value.of, defaults), target=1.0, scale=(1 - value.zero) / 2, midpoint=_HALF
    )
    return models.LinDecayExpression.model_construct(lin_decay=params)


def _quotient(value: ex.Quotient, defaults: dict[str, Any]) -> models.DivExpression:
    params = models.DivParams.model_construct(
        left=_expression(value.left, defaults), right=_expression(value.right, defaults)
    )
    return models.DivExpression.model_construct(div=params)


_EXPRESSIONS: dict[type, Callable[[Any, dict[str, Any]], Any]] = {
    ex.LegScore: lambda value, _: f"$score[{value.leg}]",
    ex.FieldValue: _field,
    ex.Holds: lambda value, _: to_condition(value.condition, _CONDITIONS),
    ex.Freshness: _freshness,
    ex.Ramp: _ramp,
    ex.Quotient: _quotient,
    ex.Absolute: lambda value, d: models.AbsExpression.model_construct(abs=_expression(value.of, d)),
    ex.Sum: lambda value, d: models.SumExpression.model_construct(sum=[_expression(each, d) for each in value.terms]),
    ex.Product: lambda value, d: models.MultExpression.model_construct(
        mult=[_expression(each, d) for each in value.factors]
    ),
}


# --- Filters as models ---


def to_filter(where: Filter | None) -> models.Filter | None:
    """A condition of ours as a `models.Filter`; a native one is that already."""
    if where is None or isinstance(where, models.Filter):
        return where
    condition = to_condition(where, _CONDITIONS)
    return condition if isinstance(condition, models.Filter) else models.Filter.model_construct(must=[condition])


class _ModelConditions:
    """The conditions of qdrant-client."""

    def all_of(self, parts: list[Any]) -> models.Filter:
        return models.Filter.model_construct(must=parts)

    def any_of(self, parts: list[Any]) -> models.Filter:
        return models.Filter.model_construct(should=parts)

    def none_of(self, parts: list[Any]) -> models.Filter:
        return models.Filter.model_construct(must_not=parts)

    def value(self, key: str, value: str | bool | int) -> models.FieldCondition:
        return models.FieldCondition.model_construct(key=key, match=models.MatchValue.model_construct(value=value))

    def any_value(self, key: str, values: list[str]) -> models.FieldCondition:
        return models.FieldCondition.model_construct(key=key, match=models.MatchAny(any=values))

    def numbers(self, key: str, **bounds: float | None) -> models.FieldCondition:
        return models.FieldCondition.model_construct(key=key, range=models.Range.model_construct(None, **bounds))

    def dates(self, key: str, **bounds: datetime | None) -> models.FieldCondition:
        return models.FieldCondition(key=key, range=models.DatetimeRange(**bounds))

    def words(self, key: str, text: str) -> models.FieldCondition:
        return models.FieldCondition(key=key, match=models.MatchText(text=text))

    def empty(self, key: str) -> models.IsEmptyCondition:
        return models.IsEmptyCondition(is_empty=models.PayloadField(key=key))

    def has_id(self, ids: list[int | str]) -> models.HasIdCondition:
        return models.HasIdCondition.model_construct(has_id=ids)

    def has_vector(self, name: str) -> models.HasVectorCondition:
        return models.HasVectorCondition(has_vector=name)

    def native(self, native: models.Filter) -> models.Filter:
        return native


_CONDITIONS: Conditions = _ModelConditions()
