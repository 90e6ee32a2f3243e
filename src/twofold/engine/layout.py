"""How a document lies in a collection, and back."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qdrant_client import models

from twofold.documents import Document, Record, point_id
from twofold.encoders.base import Sparse, Vectors
from twofold.engine.quick import trusted
from twofold.errors import FilterError

DENSE = "dense"
SPARSE = "bm25"
ID_KEY = "id"
TEXT_KEY = "text"
METADATA_KEY = "metadata"
RECORD_KEY = "twofold"

_point = trusted(models.PointStruct)
_sparse = trusted(models.SparseVector)
_PLAIN = re.compile(r"[A-Za-z0-9_-]+(\[\])?")


@dataclass(frozen=True, slots=True)
class Stored:
    """A point as the index reads it."""

    point: str
    id: str
    text: str
    metadata: Mapping[str, Any]

    def as_document(self) -> Document:
        """The document as it was added."""
        return Document(text=self.text, id=self.id, metadata=self.metadata)


def to_point(record: Record, dense: Vectors | None, sparse: Sparse | None) -> models.PointStruct:
    """A record and its vectors as a point; a leg without a vector can't find the point."""
    vector: dict[str, Any] = {}
    if dense is not None:
        vector[DENSE] = dense.tolist()
    if sparse is not None and sparse.indices:
        vector[SPARSE] = to_sparse(sparse)
    payload = {ID_KEY: record.id, TEXT_KEY: record.text, METADATA_KEY: record.metadata}
    return _point(id=point_id(record.id), vector=vector, payload=payload)


def to_sparse(sparse: Sparse) -> models.SparseVector:
    """A sparse vector in the engine's form."""
    return _sparse(indices=list(sparse.indices), values=list(sparse.values))


def from_point(point: models.ScoredPoint | models.Record) -> Stored:
    """What is stored in a point. One that something else wrote may lack parts: they read as empty."""
    payload = point.payload or {}
    metadata = payload.get(METADATA_KEY)
    text = payload.get(TEXT_KEY)
    return Stored(
        point=str(point.id),
        id=str(payload.get(ID_KEY, point.id)),
        text=text if isinstance(text, str) else "",
        metadata=metadata if isinstance(metadata, dict) else {},
    )


def metadata_key(field: str) -> str:
    """The path of a metadata field in the payload, quoted where the engine needs it."""
    segments: Sequence[str] = [METADATA_KEY, *field.split(".")]
    return ".".join(part if _PLAIN.fullmatch(part) else _quoted(part) for part in segments)


def _quoted(part: str) -> str:
    if any(ord(character) < 32 for character in part):
        raise FilterError(f"{part!r} is not the name of a field: it has control characters")
    return f'"{part}"'
