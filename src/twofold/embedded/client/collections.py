"""Collections as QdrantClient sees them: make, describe, change, delete; payload indexes, named vectors, aliases.

The store keeps a collection's configuration as JSON; qdrant_client's models are made of it, changed, and turned back.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

from pydantic import BaseModel
from qdrant_client import models

from twofold.embedded.collection import Collection
from twofold.embedded.errors import BadRequest, NotFound
from twofold.embedded.points import to_edge_payload
from twofold.embedded.settings import HNSW_DEFAULTS, Config, Settings
from twofold.embedded.store import Store

from .writes import Ready

_LOG = logging.getLogger("twofold.embedded")
_WAL_CAPACITY_MB = 32  # the engine's own default, and a server's
# What get_collection() says of settings that weren't given, and which of those that were are among `params`.
_PARAMS = {"on_disk_payload": True, "shard_number": 1, "replication_factor": 1, "write_consistency_factor": 1}
_KEPT_PARAMS = ("vectors", "sparse_vectors", "on_disk_payload", "payload", "id_tracker")
_OPTIMIZERS = {"default_segment_number": 0, "flush_interval_sec": 0, "indexing_threshold": 10_000}
# How many levels of these are changed key by key.
_DEPTHS = {"hnsw_config": 1, "optimizers_config": 1, "quantization_config": 0, "vectors": 2, "sparse_vectors": 3}


def create_collection(store: Store, collection_name: str, vectors_config: Any = None, **settings: Any) -> bool:
    """Settings of a cluster (`shard_number`, `replication_factor` …) are kept, but there is one shard."""
    _check_settings(settings)
    sparse = settings.pop("sparse_vectors_config", None)
    config = models.CreateCollection(vectors=vectors_config or {}, sparse_vectors=sparse, **settings)
    store.create(Settings(collection_name, _to_json(config), wal=not store.in_memory))
    return True


def recreate_collection(store: Store, collection_name: str, **config: Any) -> bool:
    warnings.warn(
        "`recreate_collection` method is deprecated and will be removed in the future."
        " Use `collection_exists` to check collection existence and `create_collection` instead.",
        DeprecationWarning,
        stacklevel=4,
    )
    store.delete(collection_name)
    return create_collection(store, collection_name, **config)


def delete_collection(store: Store, collection_name: str) -> bool:
    return store.delete(collection_name)


def collection_exists(store: Store, collection_name: str) -> bool:
    return store.has(collection_name)


def get_collections(store: Store) -> models.CollectionsResponse:
    return models.CollectionsResponse(collections=[models.CollectionDescription(name=name) for name in store.names()])


def get_collection(collection: Collection) -> models.CollectionInfo:
    info, settings = collection.read("info"), collection.settings
    config = settings.config
    return models.CollectionInfo.model_validate(
        {
            "status": models.CollectionStatus.GREEN,
            "optimizer_status": models.OptimizersStatusOneOf.OK,
            "indexed_vectors_count": info.indexed_vectors_count,
            "points_count": info.points_count,
            "segments_count": info.segments_count,
            "config": {
                "params": {**_PARAMS, **{name: config[name] for name in _KEPT_PARAMS if config.get(name) is not None}},
                "hnsw_config": {**HNSW_DEFAULTS, **(config.get("hnsw_config") or {})},
                "optimizer_config": {**_OPTIMIZERS, **(config.get("optimizers_config") or {})},
                "wal_config": {"wal_capacity_mb": _WAL_CAPACITY_MB, "wal_segments_ahead": 0},  # for client.migrate()
                "quantization_config": config.get("quantization_config"),
                "metadata": config.get("metadata"),
            },
            "payload_schema": {
                name: {
                    "data_type": schema if isinstance(schema, str) else schema["type"],
                    "points": index.points,
                    "params": None if isinstance(schema, str) else schema,
                }
                for name, index in info.payload_schema.items()
                if (schema := settings.indexes.get(name))
            },
            "created_at": settings.created_at,
        }
    )


def _to_json(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(mode="json", exclude_none=True)


# --- Changes of a collection ---


def update_collection(collection: Collection, **settings: Any) -> bool:
    _check_settings(settings)
    metadata = settings.pop("metadata", None)
    if metadata is not None:
        collection.merge_metadata(metadata)
    if settings:
        collection.reconfigure(lambda present: _changed(present, settings))
    return bool(settings) or metadata is not None


def _changed(held: Settings, arguments: dict[str, Any]) -> Config:
    """The configuration with what the arguments of `update_collection` change in it."""
    names = {"vectors_config": "vectors", "sparse_vectors_config": "sparse_vectors", "collection_params": "params"}
    changes = _to_json(models.UpdateCollection(**{names.get(name, name): value for name, value in arguments.items()}))
    params = changes.pop("params", {})
    present = {**held.config, "vectors": held.dense_vectors()}
    for kind in ("vectors", "sparse_vectors"):
        for name in changes.get(kind, {}):
            if name not in present.get(kind, {}):
                raise BadRequest(f"Not existing vector name error: {name!r}. Use create_vector_name(…) to add it.")
    changed = _merged(present, {name: _merged(present.get(name), new, _DEPTHS[name]) for name, new in changes.items()})
    if changed["vectors"].keys() == {""}:
        changed["vectors"] = changed["vectors"][""]
    return {**changed, **{name: new for name, new in params.items() if name in models.CreateCollection.model_fields}}


def _merged(old: Any, new: Any, depth: int = 1) -> Any:
    """Settings with changes at so many levels; below, they are replaced."""
    if depth == 0 or not isinstance(new, dict):
        return new
    old = old or {}
    merged = {**old, **{name: _merged(old.get(name), value, depth - 1) for name, value in new.items()}}
    return {name: value for name, value in merged.items() if value != models.Disabled.DISABLED}


def create_payload_index(collection: Collection, field_name: str, field_schema: Any, field_type: Any) -> Ready:
    schema = field_schema if field_schema is not None else field_type
    if schema is None:
        raise BadRequest("create_payload_index needs field_schema=…, for example PayloadSchemaType.KEYWORD.")
    if isinstance(schema, str):
        return partial(collection.create_index, field_name, models.PayloadSchemaType(schema).value)
    if not isinstance(schema, BaseModel) or not hasattr(schema, "type"):
        raise BadRequest(f"{schema!r} is not a payload index: use PayloadSchemaType or one of the …IndexParams.")
    return partial(collection.create_index, field_name, _to_json(schema))


def delete_payload_index(collection: Collection, field_name: str) -> Ready:
    return partial(collection.delete_index, field_name)


def create_vector_name(collection: Collection, vector_name: str, vector_name_config: Any) -> Ready:
    if isinstance(vector_name_config, models.DenseVectorNameConfig):
        return partial(collection.add_vector, vector_name, _to_json(vector_name_config.dense), sparse=False)
    if not isinstance(vector_name_config, models.SparseVectorNameConfig):
        raise BadRequest("vector_name_config must be a DenseVectorNameConfig or a SparseVectorNameConfig.")
    params = _to_json(vector_name_config.sparse)
    if "datatype" in params:  # part of the index in the settings of a collection
        params["index"] = {"datatype": params.pop("datatype")}
    return partial(collection.add_vector, vector_name, params, sparse=True)


def delete_vector_name(collection: Collection, vector_name: str) -> Ready:
    return partial(collection.remove_vector, vector_name)


def _check_settings(settings: dict[str, Any]) -> None:
    """Refuse those of a cluster that would be missed, and make plain JSON of the metadata."""
    if settings.pop("strict_mode_config", None) is not None:  # which client.migrate() brings from a server
        _LOG.warning("strict mode limits what a server's clients may ask for: the embedded engine leaves it out")
    if settings.pop("sharding_method", None) == models.ShardingMethod.CUSTOM:
        raise NotImplementedError(
            "The embedded engine has one shard: keep tenants apart with a payload field and a keyword index "
            "with is_tenant=True, or use a Qdrant cluster."
        )
    if settings.get("metadata") is not None:
        settings["metadata"] = to_edge_payload(settings["metadata"])


# --- Aliases ---


def get_aliases(store: Store) -> models.CollectionsAliasesResponse:
    pairs = store.aliases.items()
    aliases = [models.AliasDescription(alias_name=name, collection_name=target) for name, target in pairs]
    return models.CollectionsAliasesResponse(aliases=aliases)


def get_collection_aliases(store: Store, collection_name: str) -> models.CollectionsAliasesResponse:
    aliases = [each for each in get_aliases(store).aliases if each.collection_name == collection_name]
    return models.CollectionsAliasesResponse(aliases=aliases)


def update_collection_aliases(store: Store, change_aliases_operations: Sequence[Any]) -> bool:
    with store.changing_aliases() as aliases:
        for operation in change_aliases_operations:
            if isinstance(operation, models.CreateAliasOperation):
                created = operation.create_alias
                aliases[created.alias_name] = store.get(created.collection_name).settings.name
            elif isinstance(operation, models.RenameAliasOperation):
                old, new = operation.rename_alias.old_alias_name, operation.rename_alias.new_alias_name
                if old not in aliases:
                    raise NotFound(f"Alias {old} does not exist.")
                aliases[new] = aliases.pop(old)
            elif isinstance(operation, models.DeleteAliasOperation):
                aliases.pop(operation.delete_alias.alias_name, None)
            else:
                raise BadRequest(f"Unknown alias operation: {operation!r}.")
            for taken in aliases.keys() & set(store.names()):
                raise BadRequest(f"Collection {taken} already exists: an alias can't have its name.")
    return True
