"""How a document lies in a collection, and back."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from qdrant_client import models

from twofold.config import CollectionSettings
from twofold.documents import Document, Record, point_id
from twofold.encoders.base import Sparse, Vectors
from twofold.engine.quick import trusted
from twofold.errors import ConfigError, FilterError

# --- How a document lies in a collection, and back ---

DENSE = "dense"
SPARSE = "bm25"
ID_KEY = "id"
TEXT_KEY = "text"
METADATA_KEY = "metadata"
RECORD_KEY = "twofold"

_point = trusted(models.PointStruct)
_sparse = trusted(models.SparseVector)
_PLAIN = re.compile(r"[A-Za-z0-9_-]+(\[\])?")


class Point(Protocol):
    """A point as an engine answers with it. Reading a field may convert it: read each once."""

    @property
    def id(self) -> Any: ...
    @property
    def payload(self) -> Any: ...


class Found(Point, Protocol):
    """A point that a query found."""

    @property
    def score(self) -> float: ...
    @property
    def vector(self) -> Any: ...


class Stored:
    """A point as the index reads it."""

    __slots__ = ("id", "metadata", "point", "text")
    metadata: Mapping[str, Any]

    def __init__(self, point: str, identity: str, text: str, metadata: Mapping[str, Any]) -> None:
        self.point = point
        self.id = identity
        self.text = text
        self.metadata = metadata

    def as_document(self) -> Document:
        """The document as it was added."""
        return Document(text=self.text, id=self.id, metadata=self.metadata)


class _Unread(Stored):
    """A point that is read when it is first looked at: a search has more candidates than it shows."""

    __slots__ = ("_found",)

    def __init__(self, found: Point) -> None:
        self._found = found

    def __getattr__(self, name: str) -> Any:
        """Only called for what has no value yet."""
        if name == "point":
            self.point = str(self._found.id)
        elif name in Stored.__slots__:
            payload = self._found.payload or {}
            text, metadata = payload.get(TEXT_KEY), payload.get(METADATA_KEY)
            self.id = str(payload[ID_KEY]) if ID_KEY in payload else self.point
            self.text = text if isinstance(text, str) else ""
            self.metadata = metadata if isinstance(metadata, dict) else {}
        return object.__getattribute__(self, name)


class NewPoint(NamedTuple):
    """A point to be stored, in no engine's form yet."""

    id: str
    vector: Mapping[str, Vectors | Sparse]
    payload: dict[str, Any]


def to_point(record: Record, dense: Vectors | None, sparse: Sparse | None) -> NewPoint:
    """A record and its vectors as a point; a leg without a vector can't find the point."""
    vector: dict[str, Vectors | Sparse] = {}
    if dense is not None:
        vector[DENSE] = dense
    if sparse is not None and sparse.indices:
        vector[SPARSE] = sparse
    payload = {ID_KEY: record.id, TEXT_KEY: record.text, METADATA_KEY: record.metadata}
    return NewPoint(point_id(record.id), vector, payload)


def to_struct(point: NewPoint) -> models.PointStruct:
    """The same in the form that clients take."""
    vector = {
        name: to_sparse(value) if isinstance(value, Sparse) else value.tolist() for name, value in point.vector.items()
    }
    return _point(id=point.id, vector=vector, payload=point.payload)


def to_sparse(sparse: Sparse) -> models.SparseVector:
    """A sparse vector in the engine's form."""
    return _sparse(indices=list(sparse.indices), values=list(sparse.values))


def from_point(point: Point) -> Stored:
    """What is stored in a point. One that something else wrote may lack parts: they read as empty."""
    return _Unread(point)


@lru_cache(maxsize=1024)
def metadata_key(field: str) -> str:
    """The path of a metadata field in the payload, quoted where the engine needs it."""
    segments: Sequence[str] = [METADATA_KEY, *field.split(".")]
    return ".".join(part if _PLAIN.fullmatch(part) else _quoted(part) for part in segments)


def _quoted(part: str) -> str:
    if any(ord(character) < 32 for character in part):
        raise FilterError(f"{part!r} is not the name of a field: it has control characters")
    return f'"{part}"'


# --- Collections: how a new one is laid out, and what an existing one offers ---

FORMAT = 1
_TENANT = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)


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


def describe(info: models.CollectionInfo) -> Schema:
    """Read the collection's description."""
    params = info.config.params
    vectors = params.vectors if isinstance(params.vectors, Mapping) else {}
    dense = vectors.get(DENSE)
    sparse = (params.sparse_vectors or {}).get(SPARSE)
    record = (info.config.metadata or {}).get(RECORD_KEY)
    return Schema(
        dense_dim=None if dense is None else dense.size,
        cosine=dense is not None and dense.distance == models.Distance.COSINE,
        sparse=sparse is not None,
        idf=sparse is not None and sparse.modifier == models.Modifier.IDF,
        record=record if isinstance(record, Mapping) else None,
        points=info.points_count or 0,
        indexed={key: index.data_type.value for key, index in (info.payload_schema or {}).items()},
    )


def creation(settings: CollectionSettings, *, dim: int, idf: bool, record: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that create a collection."""
    return {
        "vectors_config": {
            DENSE: models.VectorParams(
                size=dim,
                distance=models.Distance.COSINE,
                on_disk=settings.on_disk or None,
                hnsw_config=models.HnswConfigDiff(
                    m=settings.hnsw_m,
                    ef_construct=settings.hnsw_ef_construct,
                    on_disk=settings.on_disk or None,
                ),
                quantization_config=_quantisation(settings.quantization),
            )
        },
        "sparse_vectors_config": {
            SPARSE: models.SparseVectorParams(
                modifier=models.Modifier.IDF if idf else None,
                index=models.SparseIndexParams(on_disk=True) if settings.on_disk else None,
            )
        },
        "shard_number": settings.shard_number,
        "replication_factor": settings.replication_factor,
        "write_consistency_factor": settings.write_consistency_factor,
        "on_disk_payload": settings.on_disk or None,
        "metadata": {RECORD_KEY: dict(record)},
    }


def initial_indexes(settings: CollectionSettings) -> dict[str, Any]:
    """Payload indexes of a new collection: what was declared."""
    indexes: dict[str, Any] = {}
    if settings.text_index:
        indexes[TEXT_KEY] = models.TextIndexParams(
            type=models.TextIndexType.TEXT, tokenizer=models.TokenizerType.WORD, lowercase=True
        )
    for field, kind in settings.payload_indexes.items():
        try:
            indexes[metadata_key(field)] = _TENANT if kind == "tenant" else models.PayloadSchemaType(kind)
        except ValueError:
            known = ", ".join([*(kind.value for kind in models.PayloadSchemaType), "tenant"])
            raise ConfigError(f"payload index {field!r}: {kind!r} is not one of {known}") from None
    return indexes


def _quantisation(wanted: Any) -> Any:
    if wanted == "scalar":
        return models.ScalarQuantization(
            scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)
        )
    if wanted == "binary":
        return models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True))
    return wanted
