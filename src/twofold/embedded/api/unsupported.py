"""What only a server or a cluster can do: each says what to use instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .base import StoreApi

_CLUSTER = "A cluster has it: connect to one by URL."
_SNAPSHOT = (
    "Close the client and copy its directory, or call client.flush() and copy it while nothing writes; "
    "between stores use client.migrate(other)."
)
_INSTEAD = {
    "search_matrix_offsets": "Query each point's neighbours with query_batch_points.",
    "search_matrix_pairs": "Query each point's neighbours with query_batch_points.",
    "create_snapshot": _SNAPSHOT,
    "delete_snapshot": _SNAPSHOT,
    "create_full_snapshot": _SNAPSHOT,
    "delete_full_snapshot": _SNAPSHOT,
    "recover_snapshot": _SNAPSHOT,
    "create_shard_snapshot": _SNAPSHOT,
    "delete_shard_snapshot": _SNAPSHOT,
    "recover_shard_snapshot": _SNAPSHOT,
    "list_snapshots": _SNAPSHOT,
    "list_full_snapshots": _SNAPSHOT,
    "list_shard_snapshots": _SNAPSHOT,
    "create_shard_key": "Use a payload field with a keyword index (is_tenant=True) and a filter.",
    "delete_shard_key": "Delete by a filter on the tenant's payload field.",
    "list_shard_keys": "Use facet on the tenant's payload field.",
    "cluster_collection_update": _CLUSTER,
    "collection_cluster_info": _CLUSTER,
    "cluster_status": _CLUSTER,
    "cluster_telemetry": _CLUSTER,
    "recover_current_peer": _CLUSTER,
    "remove_peer": _CLUSTER,
    "get_optimizations": "Use client.optimize(collection, progress=…).",
}


class UnsupportedApi(StoreApi):
    """Every method of QdrantBase that the embedded engine can't serve."""


def _refusal(name: str, instead: str) -> Callable[..., Any]:
    def refuse(self: UnsupportedApi, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{name} isn't available in the embedded engine. {instead}")

    refuse.__name__ = name
    refuse.__doc__ = f"Not available. {instead}"
    return refuse


for _name, _text in _INSTEAD.items():
    setattr(UnsupportedApi, _name, _refusal(_name, _text))
