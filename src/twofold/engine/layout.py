"""How documents lie in a collection: their points, the payload keys that filters name, the collection's own settings.

Nothing here belongs to one engine. Points and answers are read by their attributes, and a collection's settings are
the body of Qdrant's REST request that creates it, as plain JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

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
FORMAT = 1

_PLAIN = re.compile(r"[A-Za-z0-9_-]+(\[\])?")
_INDEX_KINDS = ("keyword", "integer", "float", "geo", "text", "bool", "datetime", "uuid", "tenant")
_TENANT_INDEX = {"type": "keyword", "is_tenant": True}
_TEXT_INDEX = {"type": "text", "tokenizer": "word", "lowercase": True}


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

    A text that is something else reads as empty too, and is a `problem`.
    """

    __slots__ = ("_found",)

    def __init__(self, found: Point) -> None:
        self._found = found

    def __getattr__(self, name: str) -> Any:
        """Only called for what has no value yet."""
        if name == "point":
            self.point = str(self._found.id)
        elif name in Stored.__slots__:
            payload = self._found.payload or {}
            text, metadata, title = payload.get(TEXT_KEY), payload.get(METADATA_KEY), payload.get(TITLE_KEY)
            self.id = str(payload[ID_KEY]) if ID_KEY in payload else self.point
            self.text = text if isinstance(text, str) else ""
            if TEXT_KEY in payload and not isinstance(text, str):
                self.problem = f"its text is no text but {type(text).__name__}: something else wrote or changed it"
            else:
                self.problem = None
            self.metadata = metadata if isinstance(metadata, dict) else {}
            self.title = title if isinstance(title, str) and title else None
        return object.__getattribute__(self, name)


from_point: Callable[[Point], Stored] = _Unread


class NewPoint(NamedTuple):
    """A point to be stored, in no engine's form yet."""

    id: str | int
    vector: Mapping[str, Vectors | Sparse]
    payload: dict[str, Any]


def to_point(record: Record, dense: Vectors | None, sparse: Sparse | None, *, given: bool = False) -> NewPoint:
    """A record and its vectors as a point; a leg without a vector can't find the point."""
    vector: dict[str, Vectors | Sparse] = {}
    if dense is not None:
        vector[DENSE] = dense
    if sparse is not None and sparse.indices:
        vector[SPARSE] = sparse
    payload: dict[str, Any] = {ID_KEY: record.id, TEXT_KEY: record.text, METADATA_KEY: record.metadata}
    if record.title:
        payload[TITLE_KEY] = record.title
    if given:
        payload[GIVEN_KEY] = True
    return NewPoint(point_id(record.id), vector, payload)


@lru_cache(maxsize=1024)
def metadata_key(field: str) -> str:
    """The path of a metadata field in the payload, quoted where the engine needs it."""
    segments = field.split(".")
    for part in segments:
        if any(ord(character) < 32 for character in part):
            raise FilterError(f"{part!r} is not the name of a field: it has control characters")
    return ".".join([METADATA_KEY, *(part if _PLAIN.fullmatch(part) else f'"{part}"' for part in segments)])


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

    dense_dim: int | None
    """Size of the dense vector, None if there is none."""
    cosine: bool
    """The dense vector is compared by cosine."""
    sparse: bool
    idf: bool
    record: Mapping[str, Any] | None
    """What Twofold noted when it created the collection; None if something else did."""
    points: int
    indexed: Mapping[str, str]
    """Payload keys with an index, and its kind."""
    status: str = "green"
    """As a server has it: "green" is well, "yellow" and "grey" are not yet optimised, "red" failed."""

    @property
    def identity(self) -> tuple[Any, ...]:
        """What stays the same as long as the collection does."""
        record = self.record or {}
        return (self.dense_dim, *(record.get(name) for name in ("id", "dense", "sparse")))


def read_schema(config: Mapping[str, Any], points: int, indexed: Mapping[str, str], status: str = "green") -> Schema:
    """What a collection with these settings, in the form in which they were given at its creation, offers."""
    vectors = config.get("vectors") or {}
    dense, sparse = vectors.get(DENSE), (config.get("sparse_vectors") or {}).get(SPARSE)
    record = (config.get("metadata") or {}).get(RECORD_KEY)
    return Schema(
        dense_dim=None if dense is None else dense["size"],
        cosine=dense is not None and dense["distance"] == "Cosine",
        sparse=sparse is not None,
        idf=sparse is not None and sparse.get("modifier") == "idf",
        record=record if isinstance(record, Mapping) else None,
        points=points,
        indexed=dict(indexed),
        status=status,
    )


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


def initial_indexes(settings: CollectionSettings) -> dict[str, Any]:
    """Payload indexes of a new collection, by payload key: the name of a kind, or the parameters of an index."""
    indexes: dict[str, Any] = {TEXT_KEY: _TEXT_INDEX} if settings.text_index else {}
    for field, kind in settings.payload_indexes.items():
        if kind not in _INDEX_KINDS:
            raise ConfigError(f"payload index {field!r}: {kind!r} is not one of {', '.join(_INDEX_KINDS)}")
        indexes[metadata_key(field)] = _TENANT_INDEX if kind == "tenant" else kind
    return indexes
