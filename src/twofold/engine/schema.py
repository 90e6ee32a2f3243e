"""Collections: how a new one is laid out, and what an existing one offers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qdrant_client import models

from twofold.config import CollectionSettings
from twofold.engine.layout import DENSE, RECORD_KEY, SPARSE, TEXT_KEY, metadata_key
from twofold.errors import ConfigError

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
