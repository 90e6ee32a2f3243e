"""The embedded engine: the verbs, straight on qdrant-edge.

From top to bottom: a connection to a store that was opened for the index; the verbs, each one or two calls of the
engine; and how queries, formulas and filters look in the engine's own types. An index has checked every document and
made every id and payload by itself, so these are taken as they are, and answers are the engine's own points. Vectors
come from models, which may be anybody's: they are checked as everywhere.
"""

from __future__ import annotations

import errno
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import Any

import qdrant_edge as edge
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from twofold.embedded import BadRequest, EmbeddedError, Folder, Options, Settings, Store
from twofold.embedded.collection import match_value
from twofold.embedded.errors import read_told
from twofold.embedded.lock import FolderLock
from twofold.embedded.optimize import optimize
from twofold.embedded.points import to_edge_filter, to_edge_payload
from twofold.embedded.store import should_optimize
from twofold.encoders.base import Sparse, Vectors
from twofold.engine import client
from twofold.engine.connection import Capabilities, Connection
from twofold.engine.layout import OWN, Layout, NewPoint, Schema, engine_id, read_schema
from twofold.engine.requests import EngineQuery, Filter, Parts, RequestBuilder, to_filter
from twofold.engine.state import Replica, State, read_modifiers, read_vectors
from twofold.errors import CollectionNotFound, ConfigError, EngineError, TwofoldError
from twofold.flow import Call, Turns

_CAPABILITIES = Capabilities(versioned=False, indexes=True, optimizes=True, backs_up=True)
# With a qdrant-client that is too old, one that joined can't name the part in which to count words.
_SHARED = replace(
    _CAPABILITIES, shared=True, near=True, corpus_idf=client.SERVER.corpus_idf, adds_vectors=client.SERVER.adds_vectors
)
# A store of ours, or one of qdrant-client's local mode, which is refused with the way to import it.
_STORE_FILES = ("twofold.json", "meta.json")
# A batch holds up all other threads until its end: at 20,000 documents, eight queries take some 20 ms.
_QUERIES_AT_ONCE = 8
_NO_RIGHT = (errno.EACCES, errno.EPERM, errno.EROFS)


class EdgeConnection(Connection):
    """A folder that was opened for the index alone; awaiting callers are served from a thread.

    While another process holds the store, that one is asked, as a server would be. When this process becomes the
    holder, its next call finds the store here.
    """

    def __init__(self, location: str | Path, create: bool, timeout: float, options: Mapping[str, Any]) -> None:
        alone = location == ":memory:" or not options.get("share", True)
        super().__init__(str(location), _CAPABILITIES if alone else _SHARED)
        try:
            checked = Options(**options)
        except BadRequest as error:
            raise ConfigError(str(error)) from None
        folder = location if self.location == ":memory:" else _prepare_folder(Path(location).expanduser(), create)
        try:
            self._folder = Folder(folder, checked, timeout)
        except EmbeddedError as error:
            raise _error("open", self.location, error) from None
        except OSError as error:
            if error.errno in _NO_RIGHT:
                raise ConfigError(
                    f"{folder} can't be written ({error.strerror}), and even for reading an index keeps its lock and "
                    "its log there: copy the folder to where you may write, or give this user the right"
                ) from error
            raise _error("open", self.location, error) from error
        self._verbs: dict[Layout, EdgeEngine] = {}
        # For an index that nobody closed; a finaliser must not wait for anything.
        self._forget = weakref.finalize(self, self._folder.forget)
        self._forget.atexit = False

    def call(self, call: Call) -> Any:
        if self.closed:
            self.check_open()
        store = self._folder.store
        if store is None:
            return self._ask_holder(call)
        try:
            return getattr(self._engine(store, call.layout or OWN), call.verb)(**call.arguments)
        except TwofoldError:
            raise
        except EmbeddedError as error:
            raise _error(call.verb, self.location, error) from None
        except Exception as error:
            # The engine's, of a path that is none, for one; while optimising it is the caller's progress function.
            refused = isinstance(error, (ValueError, TypeError, OverflowError)) and call.verb != "optimize"
            raise _error(call.verb, self.location, BadRequest(str(error)) if refused else error) from error

    def _engine(self, store: Store, layout: Layout) -> EdgeEngine:
        """The verbs on a store for rows of that layout."""
        known = self._verbs.get(layout)
        if known is None or known.store is not store:
            known = self._verbs[layout] = EdgeEngine(store, layout)
        return known

    def new_lock(self, name: str) -> Turns:
        return FolderLock(Path(self._folder.path), name) if self.capabilities.shared else Lock()

    def _ask_holder(self, call: Call) -> Any:
        with client.translated(call.verb, self.location):
            try:
                # Not by way of the client, which copies each request to see whether there is a text to embed in it.
                asked: Any = self._folder.client
                return client.send(asked if call.verb in ("optimize", "backup") else asked._client, call)
            except ResponseHandlingException as error:
                if isinstance(error.source, TwofoldError):  # there is no holder, and none can be had
                    raise error.source from None
                raise
            except UnexpectedResponse as error:
                try:
                    said = read_told(error.content)  # in which the holder says a refusal to itself
                except TwofoldError as told:
                    raise told from None
                what = f"was refused with {error.status_code} {error.reason_phrase}. {said}"
                place: Any = {"operation": call.verb, "location": self.location, "status": error.status_code}
                raise EngineError(f"{call.verb} on {self.location} {what}", **place) from None

    def close(self) -> None:
        super().close()
        if self._forget.detach():
            self._folder.release()


def _prepare_folder(path: Path, create: bool) -> Path:
    """A folder in which there is an index, or may be one."""
    try:
        is_file = path.exists() and not path.is_dir()
    except OSError as error:
        raise ConfigError(f"{str(path)[:100]!r}… can't be a folder: {error.strerror}: choose another one") from error
    if is_file:
        raise ConfigError(f"{path} is a file: an index needs a folder of its own")
    if not create and not any((path / name).exists() for name in _STORE_FILES):
        raise CollectionNotFound(f"there is no index at {path}: check the path, or open it without create=False")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{path} can't be made into an index: {error.strerror}: choose another folder") from error
    return path


def _error(verb: str, location: str, error: Exception) -> EngineError:
    what, status = f"failed: {type(error).__name__}: {error}", None
    if isinstance(error, EmbeddedError):
        status = error.status_code
        what = f"was refused with {status} {error.reason_phrase}. {error}"
    return EngineError(f"{verb} on {location} {what}", operation=verb, location=location, status=status)


class EdgeEngine:
    """The verbs, on the collections of a store whose rows have that layout."""

    def __init__(self, store: Store, layout: Layout = OWN) -> None:
        self.store = store
        self._layout = layout
        self._parts = PARTS if layout is OWN else replace(PARTS, layout=layout, converted={})

    def version(self) -> str:
        return version("qdrant-edge-py")

    def backup(self, path: str) -> dict[str, int]:
        return self.store.back_up(Path(path).expanduser())

    def exists(self, collection: str) -> bool:
        return self.store.has(collection)

    def collections(self) -> list[str]:
        return sorted([*self.store.names(), *self.store.unreadable])

    def create(self, collection: str, settings: Mapping[str, Any]) -> None:
        metadata = to_edge_payload(settings.get("metadata"))  # plain JSON, whatever an encoder says of itself
        self.store.create(Settings(collection, {**settings, "metadata": metadata}, wal=not self.store.in_memory))

    def aliases(self) -> dict[str, str]:
        return self.store.aliases

    def set_alias(self, alias: str, to: str) -> None:
        with self.store.changing_aliases() as aliases:
            aliases[alias] = self.store.get(to).settings.name

    def drop(self, collection: str) -> None:
        self.store.delete(collection)

    def add_words(self, collection: str, name: str, idf: bool) -> None:
        self.store.get(collection).add_vector(name, {"modifier": "idf"} if idf else {}, sparse=True)

    def describe(self, collection: str) -> Schema:
        held = self.store.get(collection)
        info, indexes = held.read("info"), held.settings.indexes
        present = {key: indexes[key] for key in info.payload_schema if key in indexes}
        return read_schema(held.settings.config, info.points_count or 0, present, self._layout)

    def inspect(self, collection: str) -> State:
        held = self.store.get(collection)
        info, config = held.read("info"), held.settings.config
        return State(
            vectors=read_vectors(config),
            sparse=read_modifiers(config),
            segments=info.segments_count,
            indexed_vectors=info.indexed_vectors_count or 0,
            worth_optimizing=should_optimize(held),
        )

    def replicas(self, collection: str) -> list[Replica]:
        return []

    def set_idf(self, collection: str, name: str) -> None:
        def with_idf(settings: Settings) -> Mapping[str, Any]:
            sparse = settings.sparse_vectors()
            return {**settings.config, "sparse_vectors": {**sparse, name: {**sparse[name], "modifier": "idf"}}}

        self.store.get(collection).reconfigure(with_idf)

    def set_metadata(self, collection: str, metadata: Mapping[str, Any]) -> None:
        self.store.get(collection).merge_metadata(to_edge_payload(metadata))

    def create_index(self, collection: str, key: str, schema: str | Mapping[str, Any], wait: bool) -> None:
        self.store.get(collection).create_index(key, schema)  # at once, whether that is waited for or not

    def optimize(self, collection: str, progress: Any) -> bool:
        return optimize(self.store.get(collection), progress)

    def query(self, collection: str, queries: Sequence[EngineQuery]) -> list[list[edge.ScoredPoint]]:
        held = self.store.get(collection)

        def nearest(name: str, vector: Vectors | Sparse) -> dict[str, Any]:
            return {"query": edge.Query.Nearest(held.schema.vector(name, vector, query=True), name)}

        builder = RequestBuilder(self._parts, nearest)
        requests = [builder.request(query) for query in queries]
        answers: list[list[edge.ScoredPoint]] = []
        for start in range(0, len(requests), _QUERIES_AT_ONCE):
            some = requests[start : start + _QUERIES_AT_ONCE]
            with held.turn:
                if len(some) == 1:  # what most searches are, and quicker than a batch of one
                    answers.append(held.read("query", some[0]))
                else:
                    answers += held.read("query_batch", edge.QueryBatchRequest(some))
        return answers

    def scroll(
        self,
        collection: str,
        where: Filter | None,
        limit: int,
        offset: Any,
        order_by: str | None,
        only: Sequence[str] | None,
        vectors: Sequence[str],
    ) -> tuple[list[edge.Record], Any]:
        held = self.store.get(collection)
        request = edge.ScrollRequest(
            offset=offset,
            limit=limit,
            filter=to_filter(where, self._parts),
            with_payload=True if only is None else list(only) or False,
            with_vector=[held.schema.check_name(name) for name in vectors] or False,
            order_by=None if order_by is None else self._parts.newest_first(order_by),
        )
        page: tuple[list[edge.Record], Any] = held.read("scroll", request)
        return page

    def retrieve(
        self, collection: str, ids: Sequence[str], only: Sequence[str] | None, vectors: Sequence[str]
    ) -> list[edge.Record]:
        held = self.store.get(collection)
        wanted, payload = list(dict.fromkeys(map(engine_id, ids))), True if only is None else list(only) or False
        names = [held.schema.check_name(name) for name in vectors] or False
        records: list[edge.Record] = held.read("retrieve", wanted, payload, names)
        return records

    def count(self, collection: str, where: Filter | None) -> int:
        held = self.store.get(collection)
        if where is None:  # exact too, and takes no time however many there are
            return held.read("info").points_count or 0
        return int(held.read("count", edge.CountRequest(True, to_filter(where, self._parts))))

    def facet(self, collection: str, key: str, where: Filter | None, limit: int) -> dict[Any, int]:
        request = edge.FacetRequest(key, limit, True, to_filter(where, self._parts))
        hits = self.store.get(collection).read("facet", request).hits
        return {hit.value: hit.count for hit in hits if hit.count}  # 0 is for what only deleted points had

    def upsert(self, collection: str, points: Sequence[NewPoint]) -> None:
        held = self.store.get(collection)
        schema = held.schema
        vectors = schema.structs([point.vector for point in points])
        made = [
            edge.Point(engine_id(point.id), named, point.payload) for point, named in zip(points, vectors, strict=True)
        ]
        held.apply_pieces(made, edge.UpdateOperation.upsert_points, schema)

    def update_vectors(self, collection: str, points: Sequence[NewPoint]) -> None:
        held = self.store.get(collection)
        schema = held.schema
        ids = [engine_id(point.id) for point in points]
        vectors = schema.structs([point.vector for point in points])
        made = [edge.PointVectors(point, named) for point, named in zip(ids, vectors, strict=True)]
        with held.writing:
            held.require(ids)
            held.apply_pieces(made, edge.UpdateOperation.update_vectors, schema)

    def set_payload(
        self, collection: str, key: str | None, payload: Mapping[str, Any], points: Sequence[str] | Filter
    ) -> None:
        fields = dict(payload)
        self._write(collection, points, lambda ids: edge.UpdateOperation.set_payload(ids, fields, key))

    def delete(self, collection: str, where: Filter) -> None:
        self._write(collection, where, edge.UpdateOperation.delete_points)

    def _write(
        self, collection: str, points: Sequence[str] | Filter, make: Callable[[list[Any]], edge.UpdateOperation]
    ) -> None:
        """A write to points by their ids; a filter is resolved to ids at this moment."""
        held = self.store.get(collection)
        make([])  # the engine reads paths and payloads here, so a bad one fails before anything is written
        with held.writing:
            if isinstance(points, Sequence):
                ids: list[Any] = list(dict.fromkeys(map(engine_id, points)))
                held.require(ids)
            else:
                ids = held.matching_ids(to_filter(points, self._parts) or edge.Filter())
            held.apply_pieces(ids, make)


# --- What requests are built from ---


def _dates(key: str, **bounds: datetime | None) -> edge.FieldCondition:
    written = {name: bound.isoformat() for name, bound in bounds.items() if bound is not None}
    return edge.FieldCondition(key, range=edge.RangeDateTime(**written))


PARTS = Parts(
    request=edge.QueryRequest,
    prefetch=edge.Prefetch,
    search_params=edge.SearchParams,
    idf_params=edge.IdfParams,
    dbsf=edge.Fusion.Dbsf,
    newest_first=lambda key: edge.OrderBy(key, edge.Direction.Desc),
    formula=edge.Formula,
    constant=edge.Expression.Constant,
    variable=edge.Expression.Variable,
    condition=edge.Expression.Condition,
    date_key=edge.Expression.DatetimeKey,
    date=edge.Expression.Datetime,
    exp_decay=lambda x, target, scale: edge.Expression.Decay(edge.DecayKind.Exp, x, target, 0.5, scale),
    lin_decay=lambda x, target, scale: edge.Expression.Decay(edge.DecayKind.Lin, x, target, 0.5, scale),
    quotient=lambda left, right: edge.Expression.Div(left, right, None),
    absolute=edge.Expression.Abs,
    sum=edge.Expression.Sum,
    product=edge.Expression.Mult,
    filter=edge.Filter,
    group=edge.Filter,
    value=lambda key, value: edge.FieldCondition(key, match=match_value(value)),
    any_value=lambda key, values: edge.FieldCondition(key, match=edge.MatchAny(values)),
    numbers=lambda key, **bounds: edge.FieldCondition(key, range=edge.RangeFloat(**bounds)),
    dates=_dates,
    words=lambda key, text: edge.FieldCondition(key, match=edge.MatchText(text)),
    empty=edge.IsEmptyCondition,
    has_id=lambda ids: edge.HasIdCondition(set(ids)),
    has_vector=edge.HasVectorCondition,
    native=to_edge_filter,
)
