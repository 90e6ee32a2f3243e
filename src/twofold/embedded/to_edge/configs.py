"""Collection settings and payload indexes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import qdrant_edge as edge
from qdrant_client import models

from .enums import modifier, to_edge_enum
from .vectors import FITS_HALF, FITS_SINGLE, DenseField, VectorSchema

# The server's own defaults; the engine wants them spelt out.
_HNSW: dict[str, Any] = {
    "m": 16,
    "ef_construct": 100,
    "full_scan_threshold": 10_000,
    "max_indexing_threads": 0,
}

_NO_VECTOR = "twofold-none"


def dense_fields(vectors: models.VectorsConfig | None) -> dict[str, models.VectorParams]:
    """Dense vector parameters by name, the unnamed vector as ""."""
    if vectors is None:
        return {}
    return dict(vectors) if isinstance(vectors, Mapping) else {"": vectors}


def to_schema(config: models.CreateCollection) -> VectorSchema:
    dense = {
        name: DenseField(params.size, params.multivector_config is not None, _fits(params))
        for name, params in dense_fields(config.vectors).items()
    }
    return VectorSchema(dense, frozenset(config.sparse_vectors or {}))


def _fits(params: models.VectorParams) -> float:
    """Up to which number all can be stored. Cosine vectors have length 1 by the time they are."""
    half = params.datatype == models.Datatype.FLOAT16 and params.distance != models.Distance.COSINE
    return FITS_HALF if half else FITS_SINGLE


def to_edge_config(config: models.CreateCollection, wal: bool, threads: int = 1) -> edge.EdgeConfig:
    """A shard's settings; `threads` look through its segments."""
    dense = {name: _vector(params) for name, params in dense_fields(config.vectors).items()}
    sparse = {name: _sparse(params) for name, params in (config.sparse_vectors or {}).items()}
    if not dense and not sparse:
        # Qdrant has collections of payloads alone, the engine wants a vector: one that nobody sees or fills.
        sparse = {_NO_VECTOR: edge.EdgeSparseVectorParams()}
    return edge.EdgeConfig(
        vectors=dense,
        sparse_vectors=sparse,
        on_disk_payload=config.on_disk_payload,
        hnsw_config=_hnsw(config.hnsw_config),
        quantization_config=_quantization(config.quantization_config),
        optimizers=_optimizers(config.optimizers_config),
        payload_memory=_memory(config.payload),
        id_tracker_memory=_memory(config.id_tracker),
        wal_enabled=wal,
        max_search_threads=threads,
    )


def _vector(params: models.VectorParams) -> edge.EdgeVectorParams:
    return edge.EdgeVectorParams(
        size=params.size,
        distance=to_edge_enum(edge.Distance, params.distance),
        on_disk=params.on_disk,
        multivector_config=to_edge_multi(params.multivector_config),
        datatype=to_edge_enum(edge.VectorStorageDatatype, params.datatype),
        quantization_config=_quantization(params.quantization_config),
        hnsw_config=_hnsw(params.hnsw_config),
        memory=to_edge_enum(edge.Memory, params.memory),
    )


def to_edge_multi(value: models.MultiVectorConfig | None) -> edge.MultiVectorConfig | None:
    return None if value is None else edge.MultiVectorConfig(to_edge_enum(edge.MultiVectorComparator, value.comparator))


def _sparse(params: models.SparseVectorParams) -> edge.EdgeSparseVectorParams:
    index = params.index or models.SparseIndexParams()
    return edge.EdgeSparseVectorParams(
        full_scan_threshold=index.full_scan_threshold,
        on_disk=index.on_disk,
        modifier=modifier(params.modifier),
        datatype=to_edge_enum(edge.VectorStorageDatatype, index.datatype),
        memory=to_edge_enum(edge.Memory, index.memory),
    )


def _hnsw(diff: models.HnswConfigDiff | None) -> edge.HnswIndexConfig | None:
    if diff is None:
        return None
    given = diff.model_dump(exclude_none=True)
    given["memory"] = to_edge_enum(edge.Memory, diff.memory)
    return edge.HnswIndexConfig(**{**_HNSW, **given})


def full_hnsw(diff: models.HnswConfigDiff | None) -> models.HnswConfig:
    """The settings in force, for get_collection."""
    return models.HnswConfig(**{**_HNSW, **(diff.model_dump(exclude_none=True) if diff else {})})


def _optimizers(diff: models.OptimizersConfigDiff | None) -> edge.EdgeOptimizersConfig | None:
    if diff is None:
        return None
    names = (
        "deleted_threshold",
        "vacuum_min_vector_number",
        "default_segment_number",
        "max_segment_size",
        "indexing_threshold",
        "prevent_unoptimized",
    )
    return edge.EdgeOptimizersConfig(**{name: getattr(diff, name) for name in names})


def _quantization(value: models.QuantizationConfig | None) -> Any:
    if value is None:
        return None
    if isinstance(value, models.ScalarQuantization):
        given: Any = value.scalar
        kind = to_edge_enum(edge.ScalarType, given.type)
        return edge.ScalarQuantizationConfig(kind, given.quantile, given.always_ram, _memory(given))
    if isinstance(value, models.ProductQuantization):
        given = value.product
        ratio = to_edge_enum(edge.CompressionRatio, given.compression)
        return edge.ProductQuantizationConfig(ratio, given.always_ram, _memory(given))
    if isinstance(value, models.BinaryQuantization):
        given = value.binary
        stored = to_edge_enum(edge.BinaryQuantizationEncoding, given.encoding)
        asked = to_edge_enum(edge.BinaryQuantizationQueryEncoding, given.query_encoding)
        return edge.BinaryQuantizationConfig(given.always_ram, stored, asked, _memory(given))
    given = value.turbo
    bits = to_edge_enum(edge.TurboQuantBitSize, given.bits)
    return edge.TurboQuantQuantizationConfig(given.always_ram, bits, _memory(given))


def _memory(value: Any) -> Any:
    return None if value is None else to_edge_enum(edge.Memory, value.memory)
