"""Qdrant's REST as calls of a client: how the holder of a store answers the processes that joined it.

`OverStore` is the client of the store that it holds. Three routes are not Qdrant's: `…/optimize` and `/flush`,
which it does by itself, and `/backup`, which takes a folder.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pydantic import BaseModel, TypeAdapter, ValidationError
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from twofold.embedded.errors import StoreClosed, kind_to_tell
from twofold.embedded.serving import PROTOCOL
from twofold.embedded.store import Store

from . import EmbeddedClient, as_responses

Names = dict[str, str]


class OverStore(EmbeddedClient):
    """A client of a store that somebody else opened, and closes."""

    def __init__(self, store: Store) -> None:
        self._begin(store)

    def close(self, grpc_grace: float | None = None, **kwargs: Any) -> None:
        pass

    def __del__(self) -> None:
        pass

    def backup(self, path: str) -> dict[str, int]:
        """Copy the folder, for a process that joined."""
        with as_responses():
            return self.store.back_up(Path(path))

    def answer(self, method: str, path: str, raw: bytes) -> tuple[int, bytes]:
        """The status and the body of an answer. `StoreClosed` goes through: whoever opens the store next answers."""
        started = time.perf_counter()
        try:
            route, names = find(method, path.partition("?")[0])
            result = route.answer(self, names, raw)
        except Refusal as error:
            if isinstance(error.__cause__, StoreClosed):
                raise error.__cause__ from None
            return error.status, error_body(error.message, started, error.kind)
        return 200, result.encode() if path == "/" else result_body(result, started)


def result_body(result: str, started: float) -> bytes:
    """The body of an answer."""
    return f'{{"result":{result},"status":"ok","time":{time.perf_counter() - started:.6f}}}'.encode()


def error_body(message: str, started: float, kind: str | None = None) -> bytes:
    """The body of a refusal."""
    status = {"error": message} if kind is None else {"error": message, "kind": kind}
    return json.dumps({"status": status, "time": time.perf_counter() - started}).encode()


class Refusal(Exception):
    """An answer that is not 200; `kind` is the type of an error that isn't the request's fault."""

    def __init__(self, status: int, message: str, kind: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Route:
    """One path: the type of its body, and the call that answers it."""

    method: str
    path: re.Pattern[str]
    body: TypeAdapter[Any] | None
    call: Callable[[QdrantClient, Names, Any], Any]

    def answer(self, client: QdrantClient, names: Names, raw: bytes) -> str:
        """The result in JSON; `Refusal` if there is none."""
        try:
            body = None if self.body is None else self.body.validate_json(raw)
        except ValidationError as error:
            raise Refusal(400, f"Format error in JSON body: {_first(error)}") from error
        try:
            return to_json(self.call(client, names, body))
        except Refusal:
            raise
        except Exception as error:
            raise _refused(error) from error


def find(method: str, path: str) -> tuple[Route, Names]:
    """The route of a request, with the names in its path."""
    found = [(route, match) for route in ROUTES if (match := route.path.fullmatch(path))]
    for route, match in found:
        if route.method == method:
            return route, {name: unquote(value) for name, value in match.groupdict().items()}
    raise Refusal(405 if found else 404, f"{method} {path} is not a path of this endpoint")


def to_json(result: Any) -> str:
    """As a server writes it: without the fields that are not set, but with every null inside a payload."""
    if isinstance(result, BaseModel):
        return result.model_dump_json(exclude_none=True, by_alias=True, warnings="none")
    if isinstance(result, list):
        return f"[{','.join(to_json(each) for each in result)}]"
    return TypeAdapter(type(result)).dump_json(result).decode()


def _first(error: ValidationError) -> str:
    details = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"{details['msg']} at {'.'.join(map(str, details['loc']))}"


def _refused(error: Exception) -> Refusal:
    if isinstance(error, UnexpectedResponse):  # the embedded client knows its status, and has a server's words
        return Refusal(error.status_code or 500, str(error))
    if kind := kind_to_tell(error):
        return Refusal(500, str(error), kind)
    if isinstance(error, (ValueError, TypeError, NotImplementedError, AssertionError, KeyError, IndexError)):
        status = _status_of(str(error))
        return Refusal(status, _worded(status, str(error)))
    return Refusal(500, f"Service internal error: {type(error).__name__}: {error}")


def _status_of(message: str) -> int:
    """Local mode raises ValueError for everything: the words have to do."""
    if re.search(r"[Cc]ollection .* (not found|doesn't exist)", message):
        return HTTPStatus.NOT_FOUND
    return HTTPStatus.CONFLICT if "already exists" in message else HTTPStatus.BAD_REQUEST


def _worded(status: int, message: str) -> str:
    return f"{'Not found' if status == HTTPStatus.NOT_FOUND else 'Wrong input'}: {message}"


def _create(client: QdrantClient, names: Names, body: models.CreateCollection) -> bool:
    if client.collection_exists(names["c"]):
        raise Refusal(409, f"Wrong input: Collection `{names['c']}` already exists!")
    known = _given(body, vectors="vectors_config", sparse_vectors="sparse_vectors_config")
    return client.create_collection(names["c"], **known)


def _update(client: QdrantClient, names: Names, body: models.UpdateCollection) -> bool:
    renamed = {"vectors": "vectors_config", "sparse_vectors": "sparse_vectors_config", "params": "collection_params"}
    return client.update_collection(names["c"], **_given(body, **renamed))


def _given(body: BaseModel, **renamed: str) -> dict[str, Any]:
    """The fields that the request holds, by the names that the client has for them."""
    return {renamed.get(name, name): getattr(body, name) for name in body.model_fields_set}


def _exists(client: QdrantClient, names: Names, _: Any) -> models.CollectionExistence:
    return models.CollectionExistence(exists=client.collection_exists(names["c"]))


def _shards(client: QdrantClient, names: Names, _: Any) -> models.CollectionClusterInfo:
    """One node, one shard, one copy of it."""
    points = client.get_collection(names["c"]).points_count or 0
    shard = models.LocalShardInfo(shard_id=0, points_count=points, state=models.ReplicaState.ACTIVE)
    return models.CollectionClusterInfo(
        peer_id=1, shard_count=1, local_shards=[shard], remote_shards=[], shard_transfers=[]
    )


def _upsert(client: QdrantClient, names: Names, body: models.PointsBatch | models.PointsList) -> Any:
    points = body.batch if isinstance(body, models.PointsBatch) else body.points
    options: dict[str, Any] = {
        "update_filter": body.update_filter,
        "update_mode": body.update_mode,
        "shard_key_selector": body.shard_key,
    }
    return client.upsert(names["c"], points, **{name: value for name, value in options.items() if value is not None})


def _query(client: QdrantClient, names: Names, body: models.QueryRequest) -> Any:
    # The same reading of absent fields as in a batch: no payload, no vectors, ten points.
    return client.query_batch_points(names["c"], [body])[0]


def _groups(client: QdrantClient, names: Names, body: models.QueryGroupsRequest) -> Any:
    renamed = {"filter": "query_filter", "params": "search_params", "with_vector": "with_vectors"}
    return client.query_points_groups(names["c"], **_given(body, **renamed))


def _scroll(client: QdrantClient, names: Names, body: models.ScrollRequest) -> models.ScrollResult:
    renamed = {"filter": "scroll_filter", "with_vector": "with_vectors", "shard_key": "shard_key_selector"}
    records, following = client.scroll(names["c"], **_given(body, **renamed))
    return models.ScrollResult(points=records, next_page_offset=following)


def _retrieve(client: QdrantClient, names: Names, body: models.PointRequest) -> Any:
    return client.retrieve(names["c"], **_given(body, with_vector="with_vectors", shard_key="shard_key_selector"))


def _one_point(client: QdrantClient, names: Names, _: Any) -> Any:
    point: int | str = int(names["id"]) if names["id"].isdecimal() else names["id"]
    found = client.retrieve(names["c"], [point], with_payload=True, with_vectors=True)
    if not found:
        raise Refusal(404, f"Not found: Point with id {point} does not exists!")
    return found[0]


def _count(client: QdrantClient, names: Names, body: models.CountRequest) -> Any:
    return client.count(names["c"], body.filter, exact=body.exact is not False)


def _facet(client: QdrantClient, names: Names, body: models.FacetRequest) -> Any:
    return client.facet(names["c"], body.key, body.filter, limit=body.limit or 10, exact=bool(body.exact))


def _matrix(body: models.SearchMatrixRequest) -> dict[str, Any]:
    given = _given(body, filter="query_filter", shard_key="shard_key_selector")
    return {name: value for name, value in given.items() if value is not None}


def _delete(client: QdrantClient, names: Names, body: Any) -> Any:
    return client.delete(names["c"], body)


def _clear_payload(client: QdrantClient, names: Names, body: Any) -> Any:
    return client.clear_payload(names["c"], body)


def _selected(body: Any) -> Any:
    if body.points is None and body.filter is None:
        raise Refusal(400, "Wrong input: Either list of point ids or `filter` must be provided")
    return body.filter if body.points is None else body.points


def _set_payload(client: QdrantClient, names: Names, body: models.SetPayload) -> Any:
    return client.set_payload(names["c"], body.payload, _selected(body), key=body.key)


def _overwrite_payload(client: QdrantClient, names: Names, body: models.SetPayload) -> Any:
    return client.overwrite_payload(names["c"], body.payload, _selected(body))


def _delete_payload(client: QdrantClient, names: Names, body: models.DeletePayload) -> Any:
    return client.delete_payload(names["c"], body.keys, _selected(body))


def _update_vectors(client: QdrantClient, names: Names, body: models.UpdateVectors) -> Any:
    return client.update_vectors(names["c"], **_given(body, shard_key="shard_key_selector"))


def _delete_vectors(client: QdrantClient, names: Names, body: models.DeleteVectors) -> Any:
    return client.delete_vectors(names["c"], body.vector, _selected(body))


def _create_index(client: QdrantClient, names: Names, body: models.CreateFieldIndex) -> Any:
    if not client.collection_exists(names["c"]):  # local mode ignores indexes, even those of nothing
        raise Refusal(404, f"Not found: Collection `{names['c']}` doesn't exist!")
    return client.create_payload_index(names["c"], body.field_name, body.field_schema)


def _about(client: QdrantClient) -> dict[str, Any]:
    about = client.info()
    return {
        "title": about.title,
        "version": about.version,
        "twofold": {"protocol": PROTOCOL, "version": version("twofold")},
    }


ROUTES: list[Route] = []


def _route(line: str, body: Any, call: Callable[[QdrantClient, Names, Any], Any]) -> None:
    method, path = line.split()
    pattern = re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", path)
    ROUTES.append(Route(method, re.compile(pattern), None if body is None else TypeAdapter(body), call))


_C = "/collections/{c}"
for _line, _body, _call in (
    ("GET /", None, lambda client, _, __: _about(client)),
    ("GET /collections", None, lambda client, _, __: client.get_collections()),
    ("GET /aliases", None, lambda client, _, __: client.get_aliases()),
    (
        "POST /collections/aliases",
        models.ChangeAliasesOperation,
        lambda client, _, body: client.update_collection_aliases(body.actions),
    ),
    (f"GET {_C}", None, lambda client, names, _: client.get_collection(names["c"])),
    (f"PUT {_C}", models.CreateCollection, _create),
    (f"PATCH {_C}", models.UpdateCollection, _update),
    (f"DELETE {_C}", None, lambda client, names, _: client.delete_collection(names["c"])),
    (f"GET {_C}/exists", None, _exists),
    (f"GET {_C}/cluster", None, _shards),
    (f"GET {_C}/aliases", None, lambda client, names, _: client.get_collection_aliases(names["c"])),
    (f"PUT {_C}/index", models.CreateFieldIndex, _create_index),
    (f"DELETE {_C}/index/{{field}}", None, lambda client, n, _: client.delete_payload_index(n["c"], n["field"])),
    (
        f"PUT {_C}/vectors/{{name}}",
        models.VectorNameConfig,
        lambda client, names, body: client.create_vector_name(names["c"], names["name"], body),
    ),
    (f"DELETE {_C}/vectors/{{name}}", None, lambda client, n, _: client.delete_vector_name(n["c"], n["name"])),
    (f"PUT {_C}/points", models.PointInsertOperations, _upsert),
    (f"POST {_C}/points", models.PointRequest, _retrieve),
    (
        f"POST {_C}/points/batch",
        models.UpdateOperations,
        lambda client, names, body: client.batch_update_points(names["c"], body.operations),
    ),
    (f"POST {_C}/points/count", models.CountRequest, _count),
    (f"POST {_C}/points/delete", models.PointsSelector, _delete),
    (f"POST {_C}/points/payload", models.SetPayload, _set_payload),
    (f"PUT {_C}/points/payload", models.SetPayload, _overwrite_payload),
    (f"POST {_C}/points/payload/clear", models.PointsSelector, _clear_payload),
    (f"POST {_C}/points/payload/delete", models.DeletePayload, _delete_payload),
    (f"POST {_C}/points/query", models.QueryRequest, _query),
    (
        f"POST {_C}/points/query/batch",
        models.QueryRequestBatch,
        lambda client, names, body: client.query_batch_points(names["c"], body.searches),
    ),
    (f"POST {_C}/points/query/groups", models.QueryGroupsRequest, _groups),
    (
        f"POST {_C}/points/search/matrix/pairs",
        models.SearchMatrixRequest,
        lambda client, names, body: client.search_matrix_pairs(names["c"], **_matrix(body)),
    ),
    (
        f"POST {_C}/points/search/matrix/offsets",
        models.SearchMatrixRequest,
        lambda client, names, body: client.search_matrix_offsets(names["c"], **_matrix(body)),
    ),
    (f"POST {_C}/points/scroll", models.ScrollRequest, _scroll),
    (f"PUT {_C}/points/vectors", models.UpdateVectors, _update_vectors),
    (f"POST {_C}/points/vectors/delete", models.DeleteVectors, _delete_vectors),
    (f"GET {_C}/points/{{id}}", None, _one_point),
    (f"POST {_C}/facet", models.FacetRequest, _facet),
    (f"POST {_C}/optimize", None, lambda client, names, _: client.optimize(names["c"])),
    ("POST /flush", None, lambda client, _, __: client.flush() is None),
    ("POST /backup", dict[str, str], lambda client, _, told: client.backup(told["path"])),
):
    _route(_line, _body, _call)
