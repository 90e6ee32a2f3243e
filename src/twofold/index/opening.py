"""Opening a collection: create it, or check that what is there fits what was asked for.

What comes out is `Ready`: the encoders, the legs that can be used, and the payload indexes that serve filters.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import Any, TypeAlias
from uuid import uuid4
from weakref import WeakKeyDictionary

from pydantic import ValidationError

from twofold.config import CollectionSettings
from twofold.embedded import BadRequest, check_collection_name
from twofold.encoders.base import DenseEncoder, Sparse, SparseEncoder
from twofold.encoders.bm25 import BM25
from twofold.encoders.models import BUNDLED, dimension_of, resolve_dense, resolve_sparse
from twofold.engine import calls
from twofold.engine.connection import Capabilities, Connection
from twofold.engine.layout import (
    FORMAT,
    MOVED_KEY,
    OWN,
    RECORD_KEY,
    Layout,
    Schema,
    creation,
    from_point,
    initial_indexes,
)
from twofold.engine.layouts import noted, recognise, restored, shares_words
from twofold.errors import CollectionMismatch, CollectionNotFound, ConfigError, EngineError, FilterError
from twofold.filters import Node, needed_indexes
from twofold.flow import Flow, Turns, Work
from twofold.index.sampling import Sampler
from twofold.telling import Told

log = logging.getLogger("twofold")

# --- The payload indexes that serve filters ---

_MISLEADING = {("integer", "datetime"), ("float", "datetime"), ("datetime", "float")}
"""What there is, and what is asked for, where the engine would answer wrongly."""
# The engine answers any range from the one index that a field has: dates compared as numbers, numbers as dates. So an
# index for ranges is only made where somebody who knows the field declared it.
_MADE_BY_ITSELF = {"keyword", "bool", "text"}


class PayloadIndexes:
    """The payload indexes of one collection, as far as this index knows."""

    def __init__(self, collection: str, schema: Schema, *, enabled: bool) -> None:
        self._collection = collection
        self._enabled = enabled
        self._layout = schema.layout
        self._ours = schema.record is not None
        self._kinds = dict(schema.indexed)

    def serve(self, where: Node | None, *, create: bool) -> Flow[None]:
        """Make the indexes that a filter needs, and refuse one that the engine would answer wrongly."""
        if where is None or not self._enabled:
            return
        for field_name, kind in needed_indexes(where).items():
            key = self._layout.key(field_name)
            present = self._kinds.get(key)
            if (present, kind) in _MISLEADING:
                raise FilterError(
                    f"{key!r} has a payload index of kind {present}, with which the engine can't compare as "
                    f"{kind}: keep dates and numbers in different fields, or delete that index"
                )
            if present is None and create and self._ours and kind in _MADE_BY_ITSELF:
                yield from self.ensure(field_name, kind)

    def ensure(self, field_name: str, kind: str, *, wait: bool = False) -> Flow[None]:
        """An index of a kind that the caller vouches for. It only makes searches faster, so a failure is no error."""
        yield from self.create(_index_settings(field_name, kind), wait=wait, required=False)

    def create(self, settings: CollectionSettings, *, wait: bool = True, required: bool = True) -> Flow[None]:
        """The indexes that settings name and the collection lacks; one that isn't required is warned about instead."""
        yield from self.make(initial_indexes(check_settings(settings), self._layout), wait=wait, required=required)

    def make(self, schemas: Mapping[str, Any], *, wait: bool = True, required: bool = True) -> Flow[None]:
        """`create`, from payload keys and how their indexes are made."""
        for key, schema in schemas.items():
            if not self._enabled or key in self._kinds:
                continue
            self._kinds[key] = schema if isinstance(schema, str) else schema["type"]
            try:
                yield from calls.create_index(self._collection, key, schema, wait=wait)
            except EngineError as error:
                if required and error.status != 403:  # a key that may only read can still search
                    del self._kinds[key]
                    raise
                log.warning("no payload index for %r, so filtering on it is slower: %s", key, error)


def _index_settings(field_name: str, kind: str) -> CollectionSettings:
    try:
        return CollectionSettings(payload_indexes={field_name: kind})
    except (ValidationError, TypeError) as error:  # the latter where it is no name at all
        raise ConfigError(f"a field and a kind of index are texts, got {field_name!r} and {kind!r}") from error


def check_settings(settings: Any) -> CollectionSettings:
    """Settings that somebody gave."""
    if not isinstance(settings, CollectionSettings):
        raise ConfigError(f"settings must be CollectionSettings(…), got {type(settings).__name__}")
    return settings


# --- Opening a collection: create it, or check that what is there fits what was asked for ---


OLDEST_SERVER = (1, 16)
_CORPUS_IDF = (1, 19)
_ADDS_VECTORS = (1, 18)
_SAMPLED_ROWS = 16
_MOST_NAMES = 20
Encoders: TypeAlias = tuple[DenseEncoder, int, SparseEncoder]
"""The dense one, its dimension, and the sparse one."""
_MAX_LOOKS, _LOOK_AGAIN_SECONDS = 40, 0.05
# What BM25 vectors had before these settings were there to record.
_BEFORE = {"delta": 0.0, "pairs": 0.0}


def check_name(collection: Any) -> str:
    """A name that a collection may have."""
    if not isinstance(collection, str) or not collection:
        raise ConfigError(f"collection must be a name, got {collection!r}")
    try:
        check_collection_name(collection)
    except BadRequest as error:
        raise ConfigError(str(error)) from error
    return collection


@dataclass(frozen=True)
class Wish:
    """What `open` was asked for, before anything is known about the collection."""

    collection: str
    dense: Any = None
    sparse: Any = None
    language: str | None = None
    settings: CollectionSettings = field(default_factory=CollectionSettings)
    adopt: bool = False
    create: bool = True
    layout: Layout | None = None

    def __post_init__(self) -> None:
        check_name(self.collection)
        check_settings(self.settings)
        for name, value in (("adopt", self.adopt), ("create", self.create)):
            if not isinstance(value, bool):
                raise ConfigError(f"{name} must be True or False, got {type(value).__name__}")


@dataclass(frozen=True)
class Ready:
    """An open collection: its encoders, and which legs it can serve."""

    collection: str
    """Its own name, which another name of it may have led to."""
    dense: DenseEncoder
    dim: int
    sparse: SparseEncoder
    schema: Schema
    engine: Capabilities
    indexes: PayloadIndexes
    sampler: Sampler
    no_dense: str | None
    """Why the dense leg can't be used, None if it can."""
    no_lexical: str | None
    notes: tuple[str, ...] = ()
    """What every result of this collection should say."""
    corpus_idf: bool = True
    """Words count by how rare they are, and the engine can take that from a part of the collection."""
    adds_vectors: bool = True
    """The engine can add a vector to the collection as it stands."""
    read_only: str | None = None
    """Why documents can't be added, None if they can."""
    told: Told = field(default_factory=Told)
    """What the log has been told of its faults."""
    parts_lock: Turns = field(default_factory=Lock)
    """Held while parts and their neighbours change: the same for all indexes on one store and collection."""

    @property
    def layout(self) -> Layout:
        """Where the rows have what."""
        return self.schema.layout


_parts_locks: WeakKeyDictionary[object, dict[str, Turns]] = WeakKeyDictionary()
_parts_locks_guard = Lock()


def prepare(wish: Wish, connection: Connection) -> Flow[Ready]:
    """Everything between a location and the first search."""
    engine = connection.capabilities
    version = (yield from check_version()) if engine.versioned else None
    if not (yield from calls.exists(wish.collection)):
        yield from _make(wish, engine)
    name, schema = yield from find_current(wish.collection)
    encoders: Encoders = yield Work(lambda: _encoders(wish, schema.record))
    unreadable = None
    if schema.record is not None:
        schema = replace(schema, layout=_agreed(wish, restored(schema.record)))
    elif schema.points or wish.layout is not None or not (schema.dense_dim or schema.sparse):
        layout, unreadable = yield from _look_into(wish, name, schema, encoders[2])
        schema = replace(schema, layout=layout)
    with _parts_locks_guard:
        locks = _parts_locks.setdefault(connection.store, {})
        lock = locks.setdefault(name, connection.new_lock(f"parts of {name}"))
    ready = replace(_check(name, schema, engine, *encoders), parts_lock=lock)
    if version is not None:
        ready = replace(
            ready,
            corpus_idf=ready.corpus_idf and version >= _CORPUS_IDF,
            adds_vectors=ready.adds_vectors and version >= _ADDS_VECTORS,
        )
    if unreadable is not None:
        ready = replace(ready, no_lexical=unreadable)
    return (yield from _vouched(wish, ready, encoders))


def _vouched(wish: Wish, ready: Ready, encoders: Encoders) -> Flow[Ready]:
    """Whose model it is that wrote the collection, and what follows from that for adding to it."""
    name, layout = ready.collection, ready.layout
    if ready.schema.record is None and (wish.adopt or (not ready.schema.points and wish.layout is None)):
        record = record_of(*encoders) | noted(layout)
        yield from keep_record(ready, record)
        schema = ready.schema.with_record(record)
        ready = replace(ready, schema=schema, indexes=PayloadIndexes(name, schema, enabled=ready.engine.indexes))
    elif ready.schema.record is None:
        # Somebody else's points: they can be searched, but nothing says which model wrote them.
        warning = "collection %r was not written by Twofold%s: results are only right if its vectors come from %s"
        log.warning(warning, name, f" but by {layout.writer}" if layout.writer else "", ready.dense.name)
        reason = (
            f"collection {name!r} was written by something else, so nothing says which model its vectors come from: if "
            f"it is {ready.dense.name}, open it once with adopt=True"
        )
        return replace(ready, read_only=reason)
    if layout.writable:
        return ready
    reason = (
        f"a document can't be added to {name!r} so that {layout.writer or 'what wrote the collection'} could read it: "
        "add it with that, then call index.adopt() again, which gives it its words"
    )
    return replace(ready, read_only=reason)


def _make(wish: Wish, engine: Capabilities) -> Flow[None]:
    """The collection isn't there: make it, unless it is to be there already or was only moved away."""
    others = yield from calls.collections()
    for other in others:
        if other.startswith(f"{wish.collection}~"):  # killed between the last two steps of giving up the old one
            record = (yield from calls.describe(other)).record or {}
            if record.get("replaces") == wish.collection and "rewriting" not in record:
                yield from calls.set_alias(wish.collection, other)
                return
    named = ", ".join(others[:_MOST_NAMES]) + (" …" if len(others) > _MOST_NAMES else "")
    if not wish.create:
        there = f"there are {named}" if others else "there is none at all"
        raise CollectionNotFound(
            f"there is no collection {wish.collection!r} here ({there}): check the name, or open it "
            "without create=False",
            others=others,
        )
    if wish.layout is not None:
        raise ConfigError(f"layout= is for a collection that is there, and {wish.collection!r} is not: leave it out")
    if others:
        log.info("a new collection %r, beside %s", wish.collection, named)
    yield from _create(wish, engine)


def find_current(name: str) -> Flow[tuple[str, Schema]]:
    """The collection of that name, or the one that was written to take its place."""
    try:
        name = (yield from calls.aliases()).get(name, name)
    except EngineError as error:
        if error.status != 403:  # a key for this collection alone
            raise
    schema = yield from calls.describe(name)
    moved = schema.metadata.get(MOVED_KEY)
    if moved and (yield from calls.exists(moved)):
        return (yield from find_current(moved))
    return name, schema


def _agreed(wish: Wish, recorded: Layout) -> Layout:
    if wish.layout is None or (wish.layout.text, wish.layout.metadata) == (recorded.text, recorded.metadata):
        return recorded
    raise CollectionMismatch(
        f"collection {wish.collection!r} is noted to have its texts at {recorded.text!r}, not {wish.layout.text!r}: "
        "leave layout= out",
        expected=recorded,
        found=wish.layout,
    )


def _look_into(wish: Wish, name: str, schema: Schema, sparse: SparseEncoder) -> Flow[tuple[Layout, str | None]]:
    """The layout of somebody else's collection, and why its words can't be asked for, if they can't."""
    rows, _ = yield from calls.scroll(name, None, limit=_SAMPLED_ROWS, vectors=tuple(schema.sparse_vectors))
    layout = recognise(name, schema, [row.payload or {} for row in rows], wish.layout)
    if layout.own and not all(layout.point(str((row.payload or {}).get("id"))) == str(row.id) for row in rows):
        layout = replace(layout, own=False)  # others may have the same keys
    named = layout.sparse
    if wish.sparse is not None or named is None or layout is OWN:
        return layout, None
    texts = [from_point(row, layout).text for row in rows]
    made: Sequence[Sparse] = yield Work(lambda: sparse.embed_documents(texts))
    shared = [
        found for row, words in zip(rows, made, strict=True) if (found := shares_words(row, named, words)) is not None
    ]
    if shared and 2 * sum(shared) >= len(shared):
        return layout, None
    what = (
        f"the words in {named!r} are not those of BM25"
        if shared
        else f"no row that was looked at has words in {named!r}"
    )
    reason = (
        f"{what}, so meaning alone is searched: index.adopt() adds words, or open it with the model that wrote them as "
        "sparse="
    )
    return replace(layout, sparse=None), reason


def keep_record(ready: Ready, record: Mapping[str, Any]) -> Flow[None]:
    """Write the record of a collection, and wait until it can be read: a cluster shows the old one for a moment."""
    yield from calls.set_metadata(ready.collection, {RECORD_KEY: dict(record)})
    for _ in range(_MAX_LOOKS if ready.engine.shared else 0):
        if (yield from calls.describe(ready.collection)).record == json.loads(json.dumps(record)):
            return
        yield Work(partial(time.sleep, _LOOK_AGAIN_SECONDS), partial(asyncio.sleep, _LOOK_AGAIN_SECONDS))


def check_unchanged(ready: Ready) -> Flow[None]:
    """Before something is written: the collection may have been deleted and made anew, or replaced, meanwhile."""
    now = yield from calls.describe(ready.collection)
    # One that was adopted got its record after it was looked at.
    if ready.schema.record is not None and now.identity != ready.schema.identity:
        raise CollectionMismatch(
            f"collection {ready.collection!r} was replaced, or deleted and made anew since this index was opened, and "
            "nothing was written to it: open the index again",
            expected=ready.schema.record,
            found=now.record,
        )


def check_version() -> Flow[tuple[int, int] | None]:
    """The version of a server, which must be new enough to keep what models wrote a collection."""
    version = yield from calls.version()
    numbers = re.match(r"(\d+)\.(\d+)", version)
    found = (int(numbers[1]), int(numbers[2])) if numbers else None
    if found and found < OLDEST_SERVER:
        raise EngineError(
            f"this Qdrant server is {version}, and Twofold needs {OLDEST_SERVER[0]}.{OLDEST_SERVER[1]} or newer: "
            "upgrade the server",
            operation="version",
            location=version,
        )
    return found


def _create(wish: Wish, engine: Capabilities) -> Flow[None]:
    asked = wish if wish.dense is not None else replace(wish, dense=wish.settings.dense)
    encoders: Encoders = yield Work(lambda: _encoders(asked, None))
    _, dim, sparse = encoders
    indexes = initial_indexes(wish.settings) if engine.indexes else {}
    record = {**record_of(*encoders), "id": uuid4().hex}
    arguments = creation(wish.settings, dim=dim, idf=sparse.needs_idf, record=record)
    try:
        yield from calls.create(wish.collection, arguments)
    except EngineError:
        if not (yield from calls.exists(wish.collection)):  # somebody else may have created it meanwhile
            raise
    for key, schema in indexes.items():
        yield from calls.create_index(wish.collection, key, schema, wait=True)


def record_of(dense: DenseEncoder, dim: int, sparse: SparseEncoder) -> dict[str, Any]:
    """What is noted of a collection: which models its vectors come from."""
    return {
        "format": FORMAT,
        "dense": {"model": dense.name, "dim": dim, "by_name": dense.by_name},
        "sparse": sparse.settings,
    }


def _encoders(wish: Wish, record: Mapping[str, Any] | None) -> Encoders:
    """What was asked for; where nothing was, what the collection was written with."""
    if record is None:
        dense, sparse = resolve_dense(wish.dense), resolve_sparse(wish.sparse, wish.language)
        return dense, dimension_of(dense), sparse
    if record.get("format") != FORMAT:
        raise CollectionMismatch(
            f"collection {wish.collection!r} has format {record.get('format')!r}, this version of Twofold reads "
            f"{FORMAT}: install the version that wrote it",
            expected=FORMAT,
            found=record.get("format"),
        )
    # The recorded dimension: a collection can be opened, and searched by words, with its model down.
    return _dense_for(wish, record["dense"]), int(record["dense"]["dim"]), _sparse_for(wish, record["sparse"])


def _dense_for(wish: Wish, recorded: Mapping[str, Any]) -> DenseEncoder:
    if wish.dense is None and not recorded.get("by_name") and recorded["model"] not in BUNDLED:
        raise ConfigError(
            f"collection {wish.collection!r} was written with {recorded['model']!r}: pass that embedding as dense="
        )
    dense = resolve_dense(recorded["model"] if wish.dense is None else wish.dense)
    if dense.name != recorded["model"]:
        raise CollectionMismatch(
            f"collection {wish.collection!r} was written with dense model {recorded['model']!r}, not {dense.name!r}: "
            "vectors of two models can't be compared. Open it with its own model, or add the documents to a new "
            "collection",
            expected=recorded["model"],
            found=dense.name,
        )
    return dense


def _sparse_for(wish: Wish, recorded: Mapping[str, Any]) -> SparseEncoder:
    if wish.sparse is None and wish.language in (None, recorded.get("language")):
        return recorded_sparse(wish.collection, recorded)
    sparse = resolve_sparse(wish.sparse, wish.language)
    if sparse.settings != dict(recorded):
        both = {key: (recorded.get(key), sparse.settings.get(key)) for key in {*recorded, *sparse.settings}}
        listed = ", ".join(f"{key} {old!r}, not {new!r}" for key, (old, new) in sorted(both.items()) if old != new)
        raise CollectionMismatch(
            f"collection {wish.collection!r} was written with {listed}: leave language= and sparse= out to use what "
            "it was written with, or add the documents to a new collection",
            expected=dict(recorded),
            found=sparse.settings,
        )
    return sparse


def recorded_sparse(collection: str, recorded: Mapping[str, Any]) -> SparseEncoder:
    """The encoder for words that a collection was written with."""
    settings = dict(recorded)
    model = settings.pop("model")
    if model == "bm25":
        return BM25(**{**_BEFORE, **settings})
    try:
        return resolve_sparse(model, None)
    except ConfigError as error:
        raise ConfigError(
            f"collection {collection!r} was written with sparse model {model!r}: pass it as sparse="
        ) from error


def _check(
    collection: str, schema: Schema, engine: Capabilities, dense: DenseEncoder, dim: int, sparse: SparseEncoder
) -> Ready:
    layout = schema.layout
    if schema.dense_dim is not None and schema.dense_dim != dim:
        raise CollectionMismatch(
            f"collection {collection!r} holds vectors of {schema.dense_dim} dimensions and {dense.name} makes {dim}: "
            "open it with the model it was written with, or choose another collection name",
            expected=schema.dense_dim,
            found=dim,
        )
    if schema.dense_dim is not None and not schema.cosine:
        raise CollectionMismatch(
            f"collection {collection!r} does not compare its vector {layout.dense!r} by cosine, as fusion needs it: "
            "choose another collection name, and add the documents there"
        )
    without_idf = (
        f"the sparse vector {layout.sparse!r} has no IDF modifier, so rare words count no more than common ones: "
        "update_collection(sparse_vectors_config=…) with Modifier.IDF mends it"
    )
    return Ready(
        collection=collection,
        dense=dense,
        dim=dim,
        sparse=sparse,
        schema=schema,
        engine=engine,
        indexes=PayloadIndexes(collection, schema, enabled=engine.indexes),
        sampler=Sampler(),
        corpus_idf=schema.idf and engine.corpus_idf,
        adds_vectors=engine.adds_vectors,
        no_dense=None if schema.dense_dim else "the collection has no dense vector",
        no_lexical=None if schema.sparse else "the collection has no words: index.adopt() adds them",
        notes=(without_idf,) if schema.sparse and sparse.needs_idf and not schema.idf else (),
    )
