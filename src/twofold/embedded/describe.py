"""What `get_collection` answers."""

from __future__ import annotations

from typing import Any

import qdrant_edge as edge
from qdrant_client import models

from .collection import Collection
from .to_edge.configs import full_hnsw

_LOG_MB = 32  # the engine's own default, and a server's


def describe(collection: Collection) -> models.CollectionInfo:
    info: edge.ShardInfo = collection.read("info")
    settings = collection.settings
    return models.CollectionInfo(
        status=models.CollectionStatus.GREEN,
        optimizer_status=models.OptimizersStatusOneOf.OK,
        indexed_vectors_count=info.indexed_vectors_count,
        points_count=info.points_count,
        segments_count=info.segments_count,
        config=_config(settings.config),
        payload_schema={
            name: _index(settings.indexes[name], held.points)
            for name, held in info.payload_schema.items()
            if name in settings.indexes
        },
        created_at=settings.created_at,  # type: ignore[arg-type]  # parsed by the model
    )


def _index(schema: Any, points: int) -> models.PayloadIndexInfo:
    if isinstance(schema, models.PayloadSchemaType):
        return models.PayloadIndexInfo(data_type=schema, points=points)
    kind = models.PayloadSchemaType(schema.type.value)
    return models.PayloadIndexInfo(data_type=kind, params=schema, points=points)


def _config(config: models.CreateCollection) -> models.CollectionConfig:
    given = config.optimizers_config.model_dump(exclude_none=True) if config.optimizers_config else {}
    optimizers = {"default_segment_number": 0, "flush_interval_sec": 0, "indexing_threshold": 10_000, **given}
    return models.CollectionConfig(
        params=models.CollectionParams(
            vectors=config.vectors,
            sparse_vectors=config.sparse_vectors,
            on_disk_payload=True if config.on_disk_payload is None else config.on_disk_payload,
            shard_number=1,
            replication_factor=1,
            write_consistency_factor=1,
            payload=config.payload,
            id_tracker=config.id_tracker,
        ),
        hnsw_config=full_hnsw(config.hnsw_config),
        optimizer_config=models.OptimizersConfig(**optimizers),
        wal_config=models.WalConfig(wal_capacity_mb=_LOG_MB, wal_segments_ahead=0),  # client.migrate() wants one
        quantization_config=config.quantization_config,
        metadata=config.metadata,
    )
