"""Opening a collection: create it, or check that what is there fits what was asked for.

What comes out is `Ready`: the encoders, the legs that can be used, and the payload indexes that serve filters.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import Any, TypeAlias
from uuid import uuid4
from weakref import WeakKeyDictionary

from pydantic import ValidationError

from twofold.config import CollectionSettings
from twofold.embedded import BadRequest, check_collection_name
from twofold.encoders.base import DenseEncoder, SparseEncoder
from twofold.encoders.bm25 import BM25
from twofold.encoders.models import BUNDLED, dimension_of, resolve_dense, resolve_sparse
from twofold.engine import calls
from twofold.engine.connection import Capabilities
from twofold.engine.layout import DENSE, FORMAT, RECORD_KEY, SPARSE, Schema, creation, initial_indexes, metadata_key
from twofold.errors import CollectionMismatch, CollectionNotFound, ConfigError, EngineError, FilterError
from twofold.filters import Node, needed_indexes
from twofold.flow import Flow, Work
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

    def __init__(self, collection: str, existing: Mapping[str, str], *, enabled: bool) -> None:
        self._collection = collection
        self._enabled = enabled
        self._kinds = dict(existing)

    def serve(self, where: Node | None, *, create: bool) -> Flow[None]:
        """Make the indexes that a filter needs, and refuse one that the engine would answer wrongly."""
        if where is None or not self._enabled:
            return
        for field_name, kind in needed_indexes(where).items():
            key = metadata_key(field_name)
            present = self._kinds.get(key)
            if (present, kind) in _MISLEADING:
                raise FilterError(
                    f"{key!r} has a payload index of kind {present}, with which the engine can't compare as "
                    f"{kind}: keep dates and numbers in different fields, or delete that index"
                )
            if present is None and create and kind in _MADE_BY_ITSELF:
                yield from self.ensure(field_name, kind)

    def ensure(self, field_name: str, kind: str, *, wait: bool = False) -> Flow[None]:
        """An index of a kind that the caller vouches for. It only makes searches faster, so a failure is no error."""
        yield from self.create(_index_settings(field_name, kind), wait=wait, required=False)

    def create(self, settings: CollectionSettings, *, wait: bool = True, required: bool = True) -> Flow[None]:
        """The indexes that settings name and the collection lacks; one that isn't required is warned about instead."""
        for key, schema in initial_indexes(check_settings(settings)).items():
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
_Encoders: TypeAlias = tuple[DenseEncoder, int, SparseEncoder]
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
    read_only: str | None = None
    """Why documents can't be added, None if they can."""
    told: Told = field(default_factory=Told)
    """What the log has been told of its faults."""
    parts_lock: Lock = field(default_factory=Lock)
    """Held while parts and their neighbours change: the same for all indexes on one store and collection."""


_parts_locks: WeakKeyDictionary[object, dict[str, Lock]] = WeakKeyDictionary()
_parts_locks_guard = Lock()


def prepare(wish: Wish, engine: Capabilities, store: object) -> Flow[Ready]:
    """Everything between a location and the first search; `store` is what all indexes at one place have in common."""
    version = (yield from _check_version()) if engine.versioned else None
    if not (yield from calls.exists(wish.collection)):
        if not wish.create:
            raise CollectionNotFound(
                f"there is no collection {wish.collection!r} here: check the name, or open it without create=False"
            )
        yield from _create(wish, engine)
    schema = yield from calls.describe(wish.collection)
    encoders: _Encoders = yield Work(lambda: _encoders(wish, schema.record))
    with _parts_locks_guard:
        lock = _parts_locks.setdefault(store, {}).setdefault(wish.collection, Lock())
    ready = replace(_check(wish.collection, schema, engine, *encoders), parts_lock=lock)
    if version is not None and version < _CORPUS_IDF:
        ready = replace(ready, corpus_idf=False)
    if schema.record is not None:
        return ready
    if wish.adopt or not schema.points:
        yield from keep_record(ready, _record(*encoders))
        return ready
    # Somebody else's points: they can be searched, but nothing says which model wrote them.
    name, model = wish.collection, ready.dense.name
    warning = "collection %r was not written by Twofold: results are only right if its vectors come from %s"
    log.warning(warning, name, model)
    reason = (
        f"collection {name!r} was written by something else, so nothing says which model its vectors come from: if it "
        f"is {model}, open it once with adopt=True"
    )
    return replace(ready, read_only=reason)


def keep_record(ready: Ready, record: Mapping[str, Any]) -> Flow[None]:
    """Write the record of a collection, and wait until it can be read: a cluster shows the old one for a moment."""
    yield from calls.set_metadata(ready.collection, {RECORD_KEY: dict(record)})
    for _ in range(_MAX_LOOKS if ready.engine.shared else 0):
        if (yield from calls.describe(ready.collection)).record == json.loads(json.dumps(record)):
            return
        yield Work(partial(time.sleep, _LOOK_AGAIN_SECONDS), partial(asyncio.sleep, _LOOK_AGAIN_SECONDS))


def check_unchanged(ready: Ready) -> Flow[None]:
    """Before something is written: where others work too, the collection may have been deleted and made anew."""
    if not ready.engine.shared:
        return
    now = yield from calls.describe(ready.collection)
    # One that was adopted got its record after it was looked at.
    if ready.schema.record is not None and now.identity != ready.schema.identity:
        raise CollectionMismatch(
            f"collection {ready.collection!r} was deleted and made anew since this index was opened, and nothing was "
            "written to it: open the index again",
            expected=ready.schema.record,
            found=now.record,
        )


def _check_version() -> Flow[tuple[int, int] | None]:
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
    encoders: _Encoders = yield Work(lambda: _encoders(asked, None))
    _, dim, sparse = encoders
    indexes = initial_indexes(wish.settings) if engine.indexes else {}
    record = {**_record(*encoders), "id": uuid4().hex}
    arguments = creation(wish.settings, dim=dim, idf=sparse.needs_idf, record=record)
    try:
        yield from calls.create(wish.collection, arguments)
    except EngineError:
        if not (yield from calls.exists(wish.collection)):  # somebody else may have created it meanwhile
            raise
    for key, schema in indexes.items():
        yield from calls.create_index(wish.collection, key, schema, wait=True)


def _record(dense: DenseEncoder, dim: int, sparse: SparseEncoder) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "dense": {"model": dense.name, "dim": dim, "by_name": dense.by_name},
        "sparse": sparse.settings,
    }


def _encoders(wish: Wish, record: Mapping[str, Any] | None) -> _Encoders:
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
        settings = dict(recorded)
        model = settings.pop("model")
        if model == "bm25":
            return BM25(**{**_BEFORE, **settings})
        try:
            return resolve_sparse(model, None)
        except ConfigError as error:
            raise ConfigError(
                f"collection {wish.collection!r} was written with sparse model {model!r}: pass it as sparse="
            ) from error
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


def _check(
    collection: str, schema: Schema, engine: Capabilities, dense: DenseEncoder, dim: int, sparse: SparseEncoder
) -> Ready:
    if schema.dense_dim is None and not schema.sparse:
        raise CollectionMismatch(
            f"collection {collection!r} has neither a dense vector named {DENSE!r} nor a sparse one named "
            f"{SPARSE!r}: Twofold did not write it. Choose another collection name"
        )
    if schema.dense_dim is not None and schema.dense_dim != dim:
        raise CollectionMismatch(
            f"collection {collection!r} holds vectors of {schema.dense_dim} dimensions and {dense.name} makes {dim}: "
            "open it with the model it was written with, or choose another collection name",
            expected=schema.dense_dim,
            found=dim,
        )
    if schema.dense_dim is not None and not schema.cosine:
        raise CollectionMismatch(
            f"collection {collection!r} does not compare its vector {DENSE!r} by cosine, as fusion needs it: choose "
            "another collection name, and add the documents there"
        )
    without_idf = (
        f"the sparse vector {SPARSE!r} has no IDF modifier, so rare words count no more than common ones: "
        "update_collection(sparse_vectors_config=…) with Modifier.IDF mends it"
    )
    return Ready(
        collection=collection,
        dense=dense,
        dim=dim,
        sparse=sparse,
        schema=schema,
        engine=engine,
        indexes=PayloadIndexes(collection, schema.indexed, enabled=engine.indexes),
        sampler=Sampler(),
        corpus_idf=schema.idf and engine.corpus_idf,
        no_dense=None if schema.dense_dim else f"the collection has no dense vector named {DENSE!r}",
        no_lexical=None if schema.sparse else f"the collection has no sparse vector named {SPARSE!r}",
        notes=(without_idf,) if schema.sparse and sparse.needs_idf and not schema.idf else (),
    )
