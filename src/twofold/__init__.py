"""Hybrid recall over Qdrant: meaning and words in one query, explained hit by hit.

This is the only public door: every name is loaded when it is first used, so that
`import twofold` stays instant and pulls in no framework, no model runtime and no client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twofold.config import CollectionSettings, SearchConfig
    from twofold.documents import Document
    from twofold.embedded import StoreError, StoreLocked, async_embedded_client, embedded_client, import_local_store
    from twofold.encoders.bm25 import BM25
    from twofold.errors import (
        CollectionMismatch,
        CollectionNotFound,
        ConfigError,
        EncoderError,
        EngineError,
        EngineUnavailable,
        FilterError,
        IndexClosed,
        InvalidDocument,
        InvalidQuery,
        MemoryDamaged,
        MemoryNotFound,
        ModelUnavailable,
        PartialAdd,
        TwofoldError,
    )
    from twofold.index import HybridIndex
    from twofold.memory import (
        Learned,
        Memory,
        MemoryConfig,
        MemoryHit,
        MemoryItem,
        MemoryPage,
        MemoryResult,
        MemoryStats,
        Remembered,
        Similar,
        Turn,
        as_data,
    )
    from twofold.ranking.fusion import Fusion
    from twofold.ranking.tuning import Calibration, Pair, Tuning
    from twofold.results import Explanation, Hit, IndexInfo, Problem, SearchResult

_HOMES = {
    "config": "CollectionSettings SearchConfig",
    "documents": "Document",
    "embedded": "StoreError StoreLocked async_embedded_client embedded_client import_local_store",
    "encoders.bm25": "BM25",
    "errors": "CollectionMismatch CollectionNotFound ConfigError EncoderError EngineError EngineUnavailable "
    "FilterError IndexClosed InvalidDocument InvalidQuery MemoryDamaged MemoryNotFound ModelUnavailable PartialAdd "
    "TwofoldError",
    "index": "HybridIndex",
    "memory": "Learned Memory MemoryConfig MemoryHit MemoryItem MemoryPage MemoryResult MemoryStats Remembered Similar "
    "Turn as_data",
    "ranking.fusion": "Fusion",
    "ranking.tuning": "Calibration Pair Tuning",
    "results": "Explanation Hit IndexInfo Problem SearchResult",
}
_HOME_OF = {name: f"twofold.{module}" for module, names in _HOMES.items() for name in names.split()}

__all__ = [
    "BM25",
    "Calibration",
    "CollectionMismatch",
    "CollectionNotFound",
    "CollectionSettings",
    "ConfigError",
    "Document",
    "EncoderError",
    "EngineError",
    "EngineUnavailable",
    "Explanation",
    "FilterError",
    "Fusion",
    "Hit",
    "HybridIndex",
    "IndexClosed",
    "IndexInfo",
    "InvalidDocument",
    "InvalidQuery",
    "Learned",
    "Memory",
    "MemoryConfig",
    "MemoryDamaged",
    "MemoryHit",
    "MemoryItem",
    "MemoryNotFound",
    "MemoryPage",
    "MemoryResult",
    "MemoryStats",
    "ModelUnavailable",
    "Pair",
    "PartialAdd",
    "Problem",
    "Remembered",
    "SearchConfig",
    "SearchResult",
    "Similar",
    "StoreError",
    "StoreLocked",
    "Tuning",
    "Turn",
    "TwofoldError",
    "__version__",
    "as_data",
    "async_embedded_client",
    "embedded_client",
    "import_local_store",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("twofold")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'twofold' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
