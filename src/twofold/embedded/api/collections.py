"""Collections: make, change, describe, delete; payload indexes and named vectors; aliases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import qdrant_edge as edge
from qdrant_client import models

from twofold.embedded.collection import Collection
from twofold.embedded.describe import describe
from twofold.embedded.errors import BadRequest, NotFound
from twofold.embedded.reshape import reshape
from twofold.embedded.settings import Settings
from twofold.embedded.to_edge.configs import dense_fields, to_edge_multi
from twofold.embedded.to_edge.enums import modifier, to_edge_enum
from twofold.embedded.to_edge.indexes import to_edge_index
from twofold.embedded.to_edge.payloads import to_edge_payload

from .base import StoreApi, completed, request

_MAX_SIZE = 65_536
_MAX_NAME_BYTES = 200


class CollectionsApi(StoreApi):
    @request
    def create_collection(
        self,
        collection_name: str,
        vectors_config: Any = None,
        sparse_vectors_config: Any = None,
        strict_mode_config: Any = None,
        sharding_method: Any = None,
        metadata: Any = None,
        **kwargs: Any,
    ) -> bool:
        """Settings of a cluster (`shard_number`, `replication_factor` …) are kept, but there is one shard."""
        _refuse_cluster_settings(strict_mode_config, sharding_method)
        known = {name: value for name, value in kwargs.items() if name in models.CreateCollection.model_fields}
        config = models.CreateCollection(
            vectors=vectors_config or {},
            sparse_vectors=sparse_vectors_config,
            metadata=None if metadata is None else to_edge_payload(metadata),
            **known,
        )
        _check_vectors(config)
        self.store.create(Settings(collection_name, config, wal=not self.store.in_memory))
        return True

    @request
    def recreate_collection(self, collection_name: str, *args: Any, **kwargs: Any) -> bool:
        self.store.delete(collection_name)
        return self.create_collection(collection_name, *args, **kwargs)

    @request
    def delete_collection(self, collection_name: str, **kwargs: Any) -> bool:
        return self.store.delete(collection_name)

    @request
    def collection_exists(self, collection_name: str, **kwargs: Any) -> bool:
        return self.store.has(collection_name)

    @request
    def get_collections(self, **kwargs: Any) -> models.CollectionsResponse:
        names = [models.CollectionDescription(name=name) for name in self.store.names()]
        return models.CollectionsResponse(collections=names)

    @request
    def get_collection(self, collection_name: str, **kwargs: Any) -> models.CollectionInfo:
        return describe(self.store.get(collection_name))

    @request
    def update_collection(
        self, collection_name: str, metadata: Any = None, strict_mode_config: Any = None, **kwargs: Any
    ) -> bool:
        _refuse_cluster_settings(strict_mode_config, None)
        collection = self.store.get(collection_name)
        if metadata is not None:
            _merge_metadata(collection, to_edge_payload(metadata))
        changes = {name: value for name, value in kwargs.items() if value is not None and name != "timeout"}
        return reshape(collection, changes) or metadata is not None

    @request
    def create_payload_index(
        self,
        collection_name: str,
        field_name: str,
        field_schema: Any = None,
        field_type: Any = None,
        **kwargs: Any,
    ) -> models.UpdateResult:
        collection = self.store.get(collection_name)
        schema = field_schema if field_schema is not None else field_type
        if schema is None:
            raise BadRequest("create_payload_index needs field_schema=…, for example PayloadSchemaType.KEYWORD.")
        if isinstance(schema, str):
            schema = models.PayloadSchemaType(schema)
        operation = edge.UpdateOperation.create_field_index(field_name, to_edge_index(schema))
        with collection.writing:
            done = collection.apply(operation)
            indexes = {**collection.settings.indexes, field_name: schema}
            collection.change(replace(collection.settings, indexes=indexes))
        return completed(done)

    @request
    def delete_payload_index(self, collection_name: str, field_name: str, **kwargs: Any) -> models.UpdateResult:
        collection = self.store.get(collection_name)
        operation = edge.UpdateOperation.delete_field_index(field_name)
        with collection.writing:
            indexes = {k: v for k, v in collection.settings.indexes.items() if k != field_name}
            collection.change(replace(collection.settings, indexes=indexes))
            return completed(collection.apply(operation))

    @request
    def create_vector_name(
        self, collection_name: str, vector_name: str, vector_name_config: Any, **kwargs: Any
    ) -> models.UpdateResult:
        collection = self.store.get(collection_name)
        _check_vector_name(vector_name)
        with collection.writing:
            if vector_name in collection.schema.names():
                raise BadRequest(f"Vector {vector_name!r} already exists in the collection {collection_name}.")
            operation, settings = _new_vector(collection, vector_name, vector_name_config)
            done = collection.apply(operation)
            collection.change(settings)
        return completed(done)

    @request
    def delete_vector_name(self, collection_name: str, vector_name: str, **kwargs: Any) -> models.UpdateResult:
        collection = self.store.get(collection_name)
        with collection.writing:
            collection.schema.check_name(vector_name)
            config = collection.settings.config
            dense = {k: v for k, v in dense_fields(config.vectors).items() if k != vector_name}
            sparse = {k: v for k, v in (config.sparse_vectors or {}).items() if k != vector_name}
            done = collection.apply(edge.UpdateOperation.delete_vector_name(vector_name))
            collection.change(collection.settings.with_config(vectors=dense, sparse_vectors=sparse))
        return completed(done)

    @request
    def get_aliases(self, **kwargs: Any) -> models.CollectionsAliasesResponse:
        return _aliases(self.store.aliases)

    @request
    def get_collection_aliases(self, collection_name: str, **kwargs: Any) -> models.CollectionsAliasesResponse:
        return _aliases({k: v for k, v in self.store.aliases.items() if v == collection_name})

    @request
    def update_collection_aliases(self, change_aliases_operations: Sequence[Any], **kwargs: Any) -> bool:
        def change(aliases: dict[str, str]) -> None:
            for operation in change_aliases_operations:
                self._change_alias(aliases, operation)

        self.store.change_aliases(change)
        return True

    def _change_alias(self, aliases: dict[str, str], operation: Any) -> None:
        if isinstance(operation, models.CreateAliasOperation):
            name, target = operation.create_alias.alias_name, operation.create_alias.collection_name
            aliases[self._free(name)] = self.store.get(target).settings.name
        elif isinstance(operation, models.RenameAliasOperation):
            old, new = operation.rename_alias.old_alias_name, operation.rename_alias.new_alias_name
            if old not in aliases:
                raise NotFound(f"Alias {old} does not exist.")
            aliases[self._free(new)] = aliases.pop(old)
        elif isinstance(operation, models.DeleteAliasOperation):
            aliases.pop(operation.delete_alias.alias_name, None)
        else:
            raise BadRequest(f"Unknown alias operation: {operation!r}.")

    def _free(self, alias: str) -> str:
        if alias in self.store.names():
            raise BadRequest(f"Collection {alias} already exists: an alias can't have its name.")
        return alias


def _merge_metadata(collection: Collection, added: dict[str, Any]) -> None:
    """As the server merges: null removes a key."""
    with collection.writing:
        merged = {**(collection.settings.config.metadata or {}), **added}
        kept = {key: value for key, value in merged.items() if value is not None}
        collection.change(collection.settings.with_config(metadata=kept))


def _aliases(aliases: Mapping[str, str]) -> models.CollectionsAliasesResponse:
    items = [models.AliasDescription(alias_name=name, collection_name=to) for name, to in aliases.items()]
    return models.CollectionsAliasesResponse(aliases=items)


def _refuse_cluster_settings(strict_mode: Any, sharding: Any) -> None:
    if strict_mode is not None:
        raise NotImplementedError("Strict mode limits a server's clients; the embedded engine has none: leave it out.")
    if sharding == models.ShardingMethod.CUSTOM:
        raise NotImplementedError(
            "The embedded engine has one shard: keep tenants apart with a payload field and a keyword index "
            "with is_tenant=True, or use a Qdrant cluster."
        )


def _check_vectors(config: models.CreateCollection) -> None:
    dense, sparse = dense_fields(config.vectors), config.sparse_vectors or {}
    for name, params in dense.items():
        if name:
            _check_vector_name(name)
        _check_size(params.size)
    for name in sparse:
        _check_vector_name(name)
        if name in dense:
            raise BadRequest(f"Vector {name!r} can't be both dense and sparse.")


def _check_size(size: int) -> None:
    if not 1 <= size <= _MAX_SIZE:
        raise BadRequest(f"Vector size {size} is invalid. Must be from 1 to {_MAX_SIZE}.")


def _check_vector_name(name: str) -> None:
    if not name or len(name.encode()) > _MAX_NAME_BYTES or any(c in '<>:"/\\|?*' or c < " " for c in name):
        raise BadRequest(f'Invalid vector name {name!r}: 1 to {_MAX_NAME_BYTES} bytes, none of < > : " / \\ | ? *.')


def _new_vector(
    collection: Collection, name: str, config: models.VectorNameConfig
) -> tuple[edge.UpdateOperation, Settings]:
    present = collection.settings.config
    if isinstance(config, models.DenseVectorNameConfig):
        dense = config.dense
        _check_size(dense.size)
        operation = edge.UpdateOperation.create_dense_vector(
            name,
            dense.size,
            to_edge_enum(edge.Distance, dense.distance),
            to_edge_multi(dense.multivector_config),
            to_edge_enum(edge.VectorStorageDatatype, dense.datatype),
        )
        params = models.VectorParams(**dense.model_dump(exclude_none=True))
        vectors = {**dense_fields(present.vectors), name: params}
        return operation, collection.settings.with_config(vectors=vectors)
    if not isinstance(config, models.SparseVectorNameConfig):
        raise BadRequest("vector_name_config must be a DenseVectorNameConfig or a SparseVectorNameConfig.")
    datatype = to_edge_enum(edge.VectorStorageDatatype, config.sparse.datatype)
    operation = edge.UpdateOperation.create_sparse_vector(name, modifier(config.sparse.modifier), datatype)
    index = None
    if config.sparse.datatype is not None:
        index = models.SparseIndexParams(datatype=models.Datatype(config.sparse.datatype.value))
    added = models.SparseVectorParams(modifier=config.sparse.modifier, index=index)
    return operation, collection.settings.with_config(sparse_vectors={**(present.sparse_vectors or {}), name: added})
