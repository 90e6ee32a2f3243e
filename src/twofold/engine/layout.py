"""How documents lie in a collection: their points, the payload keys that filters name, the collection's own settings.

Nothing here belongs to one engine. Points and answers are read by their attributes, and a collection's settings are
the body of Qdrant's REST request that creates it, as plain JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, Protocol
from uuid import UUID, uuid5

from pydantic import BaseModel, TypeAdapter, ValidationError
from qdrant_client import models

from twofold.config import CollectionSettings
from twofold.documents import Document, Record, point_id, titled
from twofold.encoders.base import Sparse, Vectors
from twofold.errors import ConfigError, FilterError
from twofold.filters import Native

DENSE = "dense"
SPARSE = "bm25"
ID_KEY = "id"
TEXT_KEY = "text"
TITLE_KEY = "title"
METADATA_KEY = "metadata"
GIVEN_KEY = "given_vector"
"""Set on a part whose dense vector came with it and can't be made again."""
RECORD_KEY = "twofold"
MOVED_KEY = "twofold_moved"
"""In the metadata of a collection that was written anew: where its documents are now."""
FORMAT = 1

_PLAIN = re.compile(r"[A-Za-z0-9_-]+(\[\])?")
_INDEX_KINDS = ("keyword", "integer", "float", "geo", "text", "bool", "datetime", "uuid", "tenant")
_TENANT_INDEX = {"type": "keyword", "is_tenant": True}
_TEXT_INDEX = {"type": "text", "tokenizer": "word", "lowercase": True}


# --- Where the rows of a collection have what ---


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the rows of a collection have their texts, metadata and vectors.

    `HybridIndex.open` finds that out by itself for collections of Twofold, LangChain, LlamaIndex, Haystack, mem0 and
    mcp-server-qdrant. For any other, say it: `open(location, "films", layout=Layout(text="plot", metadata=None))`.
    """

    text: str
    """The payload key of the text; "a.b" is b within a, also where a is a text of JSON."""
    metadata: str | None = METADATA_KEY
    """The payload key below which the metadata is; None if its fields are keys of the payload themselves."""
    dense: str | None = None
    """The name of the dense vector, "" for the unnamed one; None for the one that there is."""
    sparse: str | None = None
    """The name of the sparse vector; None for the one that there is, if any."""
    hidden: tuple[str, ...] = ()
    """Payload keys that are no metadata, where these are no key of their own."""
    namespace: str | None = None
    """The UUID from which the ids of points are derived, where it isn't Twofold's."""
    writer: str = ""
    """What wrote the collection, as far as that shows."""
    own: bool = False
    """The ids of its points are derived from those of the documents as Twofold does it."""

    def text_of(self, payload: Mapping[str, Any]) -> Any:
        """The text of a row; None if it has none."""
        if "." not in self.text:
            return payload.get(self.text)
        value: Any = payload
        for step in self.text.split("."):
            if isinstance(value, str):
                try:
                    value = json.loads(value)
                except ValueError:
                    return None
            value = value.get(step) if isinstance(value, Mapping) else None
        return value

    def metadata_of(self, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        """The metadata of a row."""
        if self.metadata is not None:
            found = payload.get(self.metadata)
            return found if isinstance(found, dict) else {}
        return {key: value for key, value in payload.items() if key not in (self.text_key, *self.hidden)}

    def id_of(self, payload: Mapping[str, Any], point: str) -> str:
        """The id of a row: its own where that leads to the point, as ours always does, otherwise the point's."""
        own = payload.get(ID_KEY)
        if own is None or (not self.own and self.point(str(own)) != point):
            return point
        return str(own)

    @property
    def text_key(self) -> str:
        """The key of the payload that has the text, or in which it is."""
        return self.text.partition(".")[0]

    @property
    def writable(self) -> bool:
        """A document of ours can be stored so that whatever wrote the collection can read it."""
        return self.metadata is not None and "." not in self.text

    def key(self, field: str) -> str:
        """The path of a metadata field in the payload, quoted where the engine needs it."""
        return _path(self.metadata, field)

    def point(self, identity: str) -> str:
        """The id of the point of a document."""
        if self.namespace is not None:
            return str(uuid5(UUID(self.namespace), identity))
        return identity if identity.isdecimal() and not self.own else point_id(identity)

    def dense_of(self, point: Point) -> Any:
        """The dense vector of a point that was read with it; None if it has none."""
        if isinstance(point.vector, Mapping):
            return None if self.dense is None else point.vector.get(self.dense)
        return point.vector if self.dense == "" else None

    @property
    def dense_names(self) -> tuple[str, ...]:
        """What to ask for to get the dense vector of a point along."""
        return () if self.dense is None else (self.dense,)


OWN = Layout(TEXT_KEY, METADATA_KEY, DENSE, SPARSE, own=True)
"""How Twofold lays out its own collections."""


# --- Points ---


class Point(Protocol):
    """A point as an engine answers with it. Reading a field may convert it: read each once."""

    id: Any
    payload: Any
    vector: Any


class ScoredPoint(Point, Protocol):
    """A point that a query found."""

    score: float


@dataclass(slots=True, eq=False)
class Stored:
    """A point as the index reads it."""

    point: str
    id: str
    text: str
    metadata: Mapping[str, Any]
    title: str | None = None
    problem: str | None = None
    """Why it can't be handed out; None if it can."""

    def as_document(self) -> Document:
        """The document as it was added."""
        return Document(text=self.text, id=self.id, metadata=self.metadata, title=self.title)

    @property
    def searched_text(self) -> str:
        """What a search compares with."""
        return titled(self.title, self.text)


class _Unread(Stored):
    """A point that is read when it is first looked at, since few are shown; what it lacks reads as empty.

    A text that isn't there, or is something else, reads as empty too, and is a `problem`.
    """

    __slots__ = ("_found", "_layout")

    def __init__(self, found: Point, layout: Layout) -> None:
        self._found = found
        self._layout = layout

    def __getattr__(self, name: str) -> Any:
        """Only called for what has no value yet."""
        if name == "point":
            self.point = str(self._found.id)
        elif name in Stored.__slots__:
            payload, layout = self._found.payload or {}, self._layout
            text = layout.text_of(payload)
            self.id = layout.id_of(payload, self.point)
            self.text = text if isinstance(text, str) else ""
            self.problem = None
            if not isinstance(text, str):
                found = "nothing" if text is None else type(text).__name__
                self.problem = f"its text at {layout.text!r} is no text but {found}: something else wrote or changed it"
            self.metadata = layout.metadata_of(payload)
            title = payload.get(TITLE_KEY) if layout.metadata is not None else None
            self.title = title if isinstance(title, str) and title else None
        return object.__getattribute__(self, name)


def from_point(point: Point, layout: Layout | None = None) -> Stored:
    """A row as documents of that layout are read; by default as Twofold's own."""
    return _Unread(point, layout or OWN)


class NewPoint(NamedTuple):
    """A point to be stored, in no engine's form yet."""

    id: str
    vector: Mapping[str, Vectors | Sparse]
    payload: dict[str, Any]


def to_point(
    record: Record, dense: Vectors | None, sparse: Sparse | None, *, given: bool = False, layout: Layout | None = None
) -> NewPoint:
    """A record and its vectors as a point; a leg without a vector can't find the point."""
    layout = layout or OWN
    vector: dict[str, Vectors | Sparse] = {}
    if dense is not None and layout.dense is not None:
        vector[layout.dense] = dense
    if sparse is not None and sparse.indices and layout.sparse is not None:
        vector[layout.sparse] = sparse
    payload: dict[str, Any] = {ID_KEY: record.id, layout.text: record.text, str(layout.metadata): record.metadata}
    if record.title:
        payload[TITLE_KEY] = record.title
    if given:
        payload[GIVEN_KEY] = True
    return NewPoint(layout.point(record.id), vector, payload)


def metadata_key(field: str) -> str:
    """The path of a metadata field in the payload of Twofold's own rows, quoted where the engine needs it."""
    return OWN.key(field)


@lru_cache(maxsize=1024)
def _path(prefix: str | None, field: str) -> str:
    segments = field.split(".")
    for part in segments:
        if any(ord(character) < 32 for character in part):
            raise FilterError(f"{part!r} is not the name of a field: it has control characters")
    quoted = [part if _PLAIN.fullmatch(part) else f'"{part}"' for part in segments]
    return ".".join(quoted if prefix is None else [prefix, *quoted])


def engine_id(point: str) -> int | str:
    """The id of a point as engines have it: others number theirs."""
    return int(point) if point.isdecimal() else point


def native_part_of(where: models.Filter) -> Native | None:
    """The part of a collection that a native filter names, as `filters.part_of` does for ours."""
    named: list[models.Condition] = []
    pending: list[Any] = [where]
    while pending:
        condition = pending.pop(0)
        if isinstance(condition, models.Filter):
            pending[:0] = condition.must if isinstance(condition.must, list) else [condition.must]
        elif isinstance(condition, models.FieldCondition) and isinstance(condition.match, models.MatchValue):
            named += [condition] if isinstance(condition.match.value, str) else []
    return Native(models.Filter(must=named)) if named else None


# --- Collections: how a new one is laid out, and what an existing one offers ---


@dataclass(frozen=True, slots=True)
class Schema:
    """What a collection offers, as far as a hybrid search cares."""

    config: Mapping[str, Any]
    """The settings of the collection, in the form in which they were given at its creation."""
    points: int
    indexed: Mapping[str, str]
    """Payload keys with an index, and its kind."""
    index_settings: Mapping[str, Any]
    """Payload keys with an index, and how to make it anew."""
    status: str = "green"
    """As a server has it: "green" is well, "yellow" and "grey" are not yet optimised, "red" failed."""
    layout: Layout = OWN

    @property
    def vectors(self) -> Mapping[str, Any]:
        """The settings of the dense vectors by name, those of the unnamed one as ""."""
        vectors: Mapping[str, Any] = self.config.get("vectors") or {}
        return {"": vectors} if isinstance(vectors.get("size"), int) else vectors

    @property
    def sparse_vectors(self) -> Mapping[str, Any]:
        """The settings of the sparse vectors by name."""
        return self.config.get("sparse_vectors") or {}

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The collection's own metadata."""
        return self.config.get("metadata") or {}

    @property
    def dense_dim(self) -> int | None:
        """Size of the dense vector, None if there is none."""
        found = self._vector(self.vectors, self.layout.dense)
        return None if found is None else int(found["size"])

    @property
    def cosine(self) -> bool:
        """The dense vector is compared by cosine."""
        found = self._vector(self.vectors, self.layout.dense)
        return found is not None and found["distance"] == "Cosine"

    @property
    def sparse(self) -> bool:
        """There is a sparse vector."""
        return self._vector(self.sparse_vectors, self.layout.sparse) is not None

    @property
    def idf(self) -> bool:
        """How rare a word is counts."""
        found = self._vector(self.sparse_vectors, self.layout.sparse)
        return found is not None and found.get("modifier") == "idf"

    @property
    def record(self) -> Mapping[str, Any] | None:
        """What Twofold noted when it created the collection; None if something else did."""
        found = self.metadata.get(RECORD_KEY)
        return found if isinstance(found, Mapping) else None

    @property
    def identity(self) -> tuple[Any, ...]:
        """What stays the same as long as the collection does."""
        record = self.record or {}
        return (self.dense_dim, self.metadata.get(MOVED_KEY), *(record.get(name) for name in ("id", "dense", "sparse")))

    def with_record(self, record: Mapping[str, Any]) -> Schema:
        """The same with another record."""
        return replace(self, config={**self.config, "metadata": {**self.metadata, RECORD_KEY: record}})

    @staticmethod
    def _vector(named: Mapping[str, Any], name: str | None) -> Mapping[str, Any] | None:
        found: Mapping[str, Any] | None = None if name is None else named.get(name)
        return found


def read_schema(
    config: Mapping[str, Any], points: int, index_settings: Mapping[str, Any], layout: Layout, status: str = "green"
) -> Schema:
    """What a collection with these settings, in the form in which they were given at its creation, offers."""
    indexed = {key: each if isinstance(each, str) else str(each["type"]) for key, each in index_settings.items()}
    return Schema(config, points, indexed, dict(index_settings), status, layout)


def creation(settings: CollectionSettings, *, dim: int, idf: bool, record: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a new collection is created with."""
    dense = {
        "size": dim,
        "distance": "Cosine",
        "on_disk": settings.on_disk or None,
        "hnsw_config": _given(
            m=settings.hnsw_m, ef_construct=settings.hnsw_ef_construct, on_disk=settings.on_disk or None
        ),
        "quantization_config": _quantisation(settings.quantization),
    }
    sparse = _given(modifier="idf" if idf else None, index={"on_disk": True} if settings.on_disk else None)
    return _given(
        vectors={DENSE: _given(**dense)},
        sparse_vectors={SPARSE: sparse},
        shard_number=settings.shard_number,
        replication_factor=settings.replication_factor,
        write_consistency_factor=settings.write_consistency_factor,
        on_disk_payload=settings.on_disk or None,
        metadata={RECORD_KEY: dict(record)},
    )


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _quantisation(wanted: Any) -> Any:
    if wanted == "scalar":
        return {"scalar": {"type": "int8", "always_ram": True}}
    if wanted == "binary":
        return {"binary": {"always_ram": True}}
    if wanted is None:
        return None
    try:
        checked: BaseModel = TypeAdapter(models.QuantizationConfig).validate_python(wanted)
    except ValidationError as error:
        raise ConfigError(
            f"quantization must be 'scalar', 'binary' or a quantisation config of qdrant_client.models, got {wanted!r}"
        ) from error
    return checked.model_dump(mode="json", exclude_none=True)


def initial_indexes(settings: CollectionSettings, layout: Layout = OWN) -> dict[str, Any]:
    """Payload indexes of a new collection, by payload key: the name of a kind, or the parameters of an index."""
    indexes: dict[str, Any] = {layout.text_key: _TEXT_INDEX} if settings.text_index else {}
    for field, kind in settings.payload_indexes.items():
        if kind not in _INDEX_KINDS:
            raise ConfigError(f"payload index {field!r}: {kind!r} is not one of {', '.join(_INDEX_KINDS)}")
        indexes[layout.key(field)] = _TENANT_INDEX if kind == "tenant" else kind
    return indexes
