"""The state that a collection is in: what only somebody asks who looks after it, not a search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qdrant_client import models

_ANSWERING = {"Active", "ActiveRead"}


@dataclass(frozen=True, slots=True)
class State:
    """How a collection is laid out, and how far the engine has come with it."""

    vectors: Mapping[str, tuple[int, str]]
    """Of each dense vector, by name, its size and its distance; the unnamed one is ""."""
    sparse: Mapping[str, str | None]
    """Of each sparse vector the modifier."""
    segments: int
    indexed_vectors: int
    status: str = "green"
    optimizer_error: str | None = None
    graph_off: bool = False
    """Somebody told the server to build no search graph."""
    worth_optimizing: bool = False
    """So much was written since the graph was built that building it anew pays; a server sees to that by itself."""
    strict: bool = False
    """A filter on a field without an index is refused."""
    replicas: int = 1
    """How many copies of each shard were asked for."""


@dataclass(frozen=True, slots=True)
class Replica:
    """One copy of a shard, on one node."""

    shard: int
    node: int
    state: str

    @property
    def answers(self) -> bool:
        """Searches can use it."""
        return self.state in _ANSWERING


def read_vectors(config: Mapping[str, Any]) -> dict[str, tuple[int, str]]:
    """The dense vectors in the settings of a collection."""
    vectors = config.get("vectors") or {}
    named = {"": vectors} if isinstance(vectors.get("size"), int) else vectors
    return {name: (params["size"], str(params["distance"])) for name, params in named.items()}


def read_modifiers(config: Mapping[str, Any]) -> dict[str, str | None]:
    """The sparse vectors in the settings of a collection."""
    return {name: (params or {}).get("modifier") for name, params in (config.get("sparse_vectors") or {}).items()}


def read_state(info: models.CollectionInfo) -> State:
    """What a server says of a collection."""
    config = info.config.params.model_dump(mode="json", exclude_none=True)
    strict, optimizers, hnsw = info.config.strict_mode_config, info.config.optimizer_config, info.config.hnsw_config
    # m = 0 with payload_m set is how a collection of many tenants is laid out: a graph for each of them.
    no_graph = hnsw.m == 0 and not hnsw.payload_m
    return State(
        vectors=read_vectors(config),
        sparse=read_modifiers(config),
        segments=info.segments_count,
        indexed_vectors=info.indexed_vectors_count or 0,
        status=info.status.value,
        optimizer_error=getattr(info.optimizer_status, "error", None),
        graph_off=optimizers.indexing_threshold == 0 or no_graph,
        strict=bool(strict and strict.enabled and strict.unindexed_filtering_retrieve is False),
        replicas=info.config.params.replication_factor or 1,
    )


def read_replicas(info: models.CollectionClusterInfo) -> list[Replica]:
    """What a cluster says of the shards of a collection."""
    here = [Replica(each.shard_id, info.peer_id, each.state.value) for each in info.local_shards]
    return here + [Replica(each.shard_id, each.peer_id, each.state.value) for each in info.remote_shards]
