"""The embedded engine: Qdrant's own Rust core in this process, over a directory.

Two layers. The store (`store`, `collection`, `settings`, `optimize`, `lock`, `errors`) needs qdrant_edge alone:

    store = open_store("./folder", Options())       # one process holds it; shared by all who open it there
    store.create(Settings("notes", {"vectors": {"dense": {"size": 384, "distance": "Cosine"}}}))
    collection = store.get("notes")
    collection.apply_pieces(points, edge.UpdateOperation.upsert_points, collection.schema)
    collection.read("query", edge.QueryRequest(…))

Other processes join the one that holds it: `serving` lets them in, and a `Folder` (`sharing`) is the store or the way
to its holder, whichever this process has.

On top of it, `client` makes it a QdrantClient for other packages; it is imported when one of its names is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .collection import Collection
from .errors import (
    BadRequest,
    Conflict,
    DiskFull,
    EmbeddedError,
    EngineFailure,
    LocalStoreFound,
    NotFound,
    StoreClosed,
    StoreError,
    StoreFormatError,
    StoreLocked,
)
from .optimize import OptimizeProgress
from .settings import Settings
from .sharing import Folder
from .store import Options, Store, check_collection_name, open_store

if TYPE_CHECKING:
    from .client import (
        AsyncEmbeddedClient,
        EmbeddedClient,
        ImportProgress,
        async_embedded_client,
        embedded_client,
        import_local_store,
    )


def __getattr__(name: str) -> Any:
    if name not in __all__:  # all else in it is imported above
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(".client", __name__), name)


__all__ = [
    "AsyncEmbeddedClient",
    "BadRequest",
    "Collection",
    "Conflict",
    "DiskFull",
    "EmbeddedClient",
    "EmbeddedError",
    "EngineFailure",
    "Folder",
    "ImportProgress",
    "LocalStoreFound",
    "NotFound",
    "OptimizeProgress",
    "Options",
    "Settings",
    "Store",
    "StoreClosed",
    "StoreError",
    "StoreFormatError",
    "StoreLocked",
    "async_embedded_client",
    "check_collection_name",
    "embedded_client",
    "import_local_store",
    "open_store",
]
