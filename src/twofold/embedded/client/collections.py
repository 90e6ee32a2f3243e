"""Collections as QdrantClient sees them: make, describe, change, delete; payload indexes, named vectors, aliases.

The store keeps a collection's configuration as JSON; qdrant_client's models are made of it, changed, and turned back.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pydantic import BaseModel, TypeAdapter
from qdrant_client import models

from twofold.embedded.collection import Collection
from twofold.embedded.errors import BadRequest, NotFound
from twofold.embedded.points import to_edge_payload
from twofold.embedded.settings import HNSW_DEFAULTS, Config, Settings
from twofold.embedded.store import Store

from .writes import Ready

_WAL_CAPACITY_MB = 32  # the engine's own default, and a server's
_INDEX: TypeAdapter[Any] = TypeAdapter(models.PayloadFieldSchema)
_DIFFS: dict[str, Any] = {"hnsw_config": models.HnswConfigDiff, "optimizers_config": models.OptimizersConfigDiff}


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
    return models.CollectionInfo(
        status=models.CollectionStatus.GREEN,
        optimizer_status=models.OptimizersStatusOneOf.OK,
        indexed_vectors_count=info.indexed_vectors_count,
        points_count=info.points_count,
        segments_count=info.segments_count,
        config=_describe_config(models.CreateCollection(**settings.config)),
        payload_schema={
            name: _describe_index(_INDEX.validate_python(settings.indexes[name]), index.points)
            for name, index in info.payload_schema.items()
            if name in settings.indexes
        },
        created_at=settings.created_at,  # type: ignore[arg-type]  # parsed by the model
    )


def _describe_index(schema: Any, points: int) -> models.PayloadIndexInfo:
    params = None if isinstance(schema, models.PayloadSchemaType) else schema
    kind = schema if params is None else models.PayloadSchemaType(schema.type.value)
    return models.PayloadIndexInfo(data_type=kind, params=params, points=points)


def _describe_config(config: models.CreateCollection) -> models.CollectionConfig:
    hnsw, optimizers = (_to_json(diff) if diff else {} for diff in (config.hnsw_config, config.optimizers_config))
    defaults = {"default_segment_number": 0, "flush_interval_sec": 0, "indexing_threshold": 10_000}
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
        hnsw_config=models.HnswConfig(**{**HNSW_DEFAULTS, **hnsw}),
        optimizer_config=models.OptimizersConfig(**{**defaults, **optimizers}),
        # client.migrate() wants one
        wal_config=models.WalConfig(wal_capacity_mb=_WAL_CAPACITY_MB, wal_segments_ahead=0),
        quantization_config=config.quantization_config,
        metadata=config.metadata,
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

        def change(config: Config) -> Config:
            model = models.CreateCollection(**config)
            for name, value in settings.items():
                model = model.model_copy(update=_changed(model, name, value))
            return _to_json(model)

        collection.reconfigure(change)
    return bool(settings) or metadata is not None


def _changed(config: models.CreateCollection, name: str, value: Any) -> dict[str, Any]:
    """What one argument of `update_collection` changes."""
    if name in _DIFFS:
        return {name: _merge(getattr(config, name), _DIFFS[name].model_validate(value))}
    if name == "quantization_config":
        return {name: _enabled(value)}
    if name == "vectors_config":
        return {"vectors": _changed_dense(config, value)}
    if name == "sparse_vectors_config":
        return {"sparse_vectors": _changed_sparse(config, value)}
    if name == "collection_params":
        return {key: item for key, item in value if item is not None and key in models.CreateCollection.model_fields}
    raise BadRequest(f"update_collection doesn't know {name!r}.")


def _merge(old: BaseModel | None, new: Any) -> Any:
    return new if old is None else old.model_copy(update=new.model_dump(exclude_none=True))


def _enabled(value: Any) -> Any:
    return None if isinstance(value, models.Disabled) else value


def _changed_dense(config: models.CreateCollection, diffs: Mapping[str, models.VectorParamsDiff]) -> Any:
    present = config.vectors or {}
    vectors = dict(present) if isinstance(present, Mapping) else {"": present}
    for name, diff in diffs.items():
        if name not in vectors:
            raise BadRequest(f"Not existing vector name error: {name!r}.")
        update = {key: _enabled(item) for key, item in diff if item is not None}
        vectors[name] = vectors[name].model_copy(update=update)
    return vectors[""] if set(vectors) == {""} else vectors


def _changed_sparse(config: models.CreateCollection, diffs: Mapping[str, models.SparseVectorParams]) -> Any:
    vectors = dict(config.sparse_vectors or {})
    for name, diff in diffs.items():
        if name not in vectors:
            raise BadRequest(f"Vector {name!r} does not exist in the collection: use create_vector_name(…) to add it.")
        index = _merge(vectors[name].index, diff.index) if diff.index else vectors[name].index
        modifier = diff.modifier if diff.modifier is not None else vectors[name].modifier
        vectors[name] = models.SparseVectorParams(index=index, modifier=modifier)
    return vectors


def create_payload_index(collection: Collection, field_name: str, field_schema: Any, field_type: Any) -> Ready:
    schema = field_schema if field_schema is not None else field_type
    if schema is None:
        raise BadRequest("create_payload_index needs field_schema=…, for example PayloadSchemaType.KEYWORD.")
    if isinstance(schema, str):
        schema = models.PayloadSchemaType(schema)
    elif not isinstance(schema, BaseModel) or not hasattr(schema, "type"):
        raise BadRequest(f"{schema!r} is not a payload index: use PayloadSchemaType or one of the …IndexParams.")
    return partial(collection.create_index, field_name, _INDEX.dump_python(schema, mode="json"))


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
    if settings.get("strict_mode_config") is not None:
        raise NotImplementedError("Strict mode limits a server's clients; the embedded engine has none: leave it out.")
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
    def change(aliases: dict[str, str]) -> None:
        for operation in change_aliases_operations:
            _change_alias(store, aliases, operation)

    store.change_aliases(change)
    return True


def _change_alias(store: Store, aliases: dict[str, str], operation: Any) -> None:
    if isinstance(operation, models.CreateAliasOperation):
        name, target = operation.create_alias.alias_name, operation.create_alias.collection_name
        aliases[_free_alias(store, name)] = store.get(target).settings.name
    elif isinstance(operation, models.RenameAliasOperation):
        old, new = operation.rename_alias.old_alias_name, operation.rename_alias.new_alias_name
        if old not in aliases:
            raise NotFound(f"Alias {old} does not exist.")
        aliases[_free_alias(store, new)] = aliases.pop(old)
    elif isinstance(operation, models.DeleteAliasOperation):
        aliases.pop(operation.delete_alias.alias_name, None)
    else:
        raise BadRequest(f"Unknown alias operation: {operation!r}.")


def _free_alias(store: Store, alias: str) -> str:
    if alias in store.names():
        raise BadRequest(f"Collection {alias} already exists: an alias can't have its name.")
    return alias
