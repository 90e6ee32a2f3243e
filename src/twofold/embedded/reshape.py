"""`update_collection`: other index settings, other sparse modifiers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import qdrant_edge as edge
from pydantic import BaseModel
from qdrant_client import models

from .collection import Collection, call
from .errors import BadRequest
from .settings import Settings, new_shard_name
from .to_edge.configs import dense_fields, to_edge_config
from .to_edge.indexes import to_edge_index

_PAGE = 256
_DIFFS: dict[str, Any] = {
    "hnsw_config": models.HnswConfigDiff,
    "optimizers_config": models.OptimizersConfigDiff,
}


def reshape(collection: Collection, changes: Mapping[str, Any]) -> bool:
    """Apply the changes that are given; True if there were any.

    New index settings take effect for points written from now on, and for all of them at the next optimize().
    """
    if not changes:
        return False
    with collection.rebuilding, collection.writing:
        settings = collection.settings
        for name, value in changes.items():
            settings = _change(settings, name, value)
        if _modifiers(settings) != _modifiers(collection.settings):
            _rewrite(collection, settings)
        else:
            collection.reload(settings)
    return True


def _change(settings: Settings, name: str, value: Any) -> Settings:
    config = settings.config
    if name in _DIFFS:
        return settings.with_config(**{name: _merge(getattr(config, name), _DIFFS[name].model_validate(value))})
    if name == "quantization_config":
        return settings.with_config(quantization_config=_enabled(value))
    if name == "vectors_config":
        return settings.with_config(vectors=_dense(config, value))
    if name == "sparse_vectors_config":
        return settings.with_config(sparse_vectors=_sparse(config, value))
    if name == "collection_params":
        given = {key: item for key, item in value if item is not None and key in models.CreateCollection.model_fields}
        return settings.with_config(**given)
    raise BadRequest(f"update_collection doesn't know {name!r}.")


def _merge(old: BaseModel | None, new: Any) -> Any:
    return new if old is None else old.model_copy(update=new.model_dump(exclude_none=True))


def _enabled(value: Any) -> Any:
    return None if isinstance(value, models.Disabled) else value


def _dense(config: models.CreateCollection, diffs: Mapping[str, models.VectorParamsDiff]) -> Any:
    vectors = dense_fields(config.vectors)
    for name, diff in diffs.items():
        if name not in vectors:
            raise BadRequest(f"Not existing vector name error: {name!r}.")
        update = {key: item for key, item in diff if item is not None}
        if "quantization_config" in update:
            update["quantization_config"] = _enabled(diff.quantization_config)
        vectors[name] = vectors[name].model_copy(update=update)
    return vectors[""] if set(vectors) == {""} else vectors


def _sparse(config: models.CreateCollection, diffs: Mapping[str, models.SparseVectorParams]) -> Any:
    vectors = dict(config.sparse_vectors or {})
    for name, diff in diffs.items():
        if name not in vectors:
            raise BadRequest(f"Vector {name!r} does not exist in the collection: use create_vector_name(…) to add it.")
        index = _merge(vectors[name].index, diff.index) if diff.index else vectors[name].index
        changed = diff.modifier if diff.modifier is not None else vectors[name].modifier
        vectors[name] = models.SparseVectorParams(index=index, modifier=changed)
    return vectors


def _modifiers(settings: Settings) -> dict[str, Any]:
    fields = settings.config.sparse_vectors or {}
    return {name: params.modifier == models.Modifier.IDF for name, params in fields.items()}


def _rewrite(collection: Collection, settings: Settings) -> None:
    """The engine fixes a sparse vector's modifier for good, so write every point into a new shard.

    Writers wait, readers don't.
    """
    target = collection.directory / new_shard_name()
    shard = call(edge.EdgeShard.create, str(target), to_edge_config(settings.config, settings.wal))
    try:
        _copy_points(collection, shard)
        for field, schema in settings.indexes.items():
            call(shard.update, edge.UpdateOperation.create_field_index(field, to_edge_index(schema)))
        call(shard.flush)
        collection.swap(shard, replace(settings, optimized_points=0), target.name)
    except BaseException:
        collection.discard(shard, target)
        raise


def _copy_points(collection: Collection, shard: edge.EdgeShard) -> None:
    offset: Any = None
    while True:
        records, offset = collection.read("scroll", edge.ScrollRequest(offset, _PAGE, None, True, True))
        if records:
            points = [edge.Point(record.id, record.vector or {}, record.payload) for record in records]
            call(shard.update, edge.UpdateOperation.upsert_points(points))
        if offset is None:
            return
