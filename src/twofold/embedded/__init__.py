"""The embedded engine: Qdrant's own Rust core in this process, behind QdrantClient's interface.

client = embedded_client("./store")                       # a QdrantClient; also ":memory:"
client.create_collection("notes", models.VectorParams(size=384, distance=models.Distance.COSINE))
"""

from __future__ import annotations

from .client import AsyncEmbeddedClient, EmbeddedClient, async_embedded_client, check_options, embedded_client
from .errors import (
    BadRequest,
    Conflict,
    EmbeddedError,
    EngineFailure,
    LocalStoreFound,
    NotFound,
    StoreClosed,
    StoreError,
    StoreFormatError,
    StoreLocked,
)
from .import_local import ImportProgress, import_local_store
from .names import check_collection_name
from .optimize import OptimizeProgress

__all__ = [
    "AsyncEmbeddedClient",
    "BadRequest",
    "Conflict",
    "EmbeddedClient",
    "EmbeddedError",
    "EngineFailure",
    "ImportProgress",
    "LocalStoreFound",
    "NotFound",
    "OptimizeProgress",
    "StoreClosed",
    "StoreError",
    "StoreFormatError",
    "StoreLocked",
    "async_embedded_client",
    "check_collection_name",
    "check_options",
    "embedded_client",
    "import_local_store",
]
