"""Hybrid recall over Qdrant: meaning and words in one query, explained hit by hit.

This is the only public door: every name is loaded when it is first used, so that
`import twofold` stays instant and pulls in no framework, no model runtime and no client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twofold.config import CollectionSettings as CollectionSettings, SearchConfig as SearchConfig  # noqa: I001
    from twofold.documents import Document as Document
    from twofold.embedded import (
        DiskFull as DiskFull,
        StoreError as StoreError,
        StoreLocked as StoreLocked,
        async_embedded_client as async_embedded_client,
        embedded_client as embedded_client,
        import_local_store as import_local_store,
    )
    from twofold.encoders.bm25 import BM25 as BM25
    from twofold.engine.layout import Layout as Layout
    from twofold.errors import (
        CollectionMismatch as CollectionMismatch,
        CollectionNotFound as CollectionNotFound,
        ConfigError as ConfigError,
        EncoderError as EncoderError,
        EngineError as EngineError,
        EngineUnavailable as EngineUnavailable,
        FilterError as FilterError,
        IndexClosed as IndexClosed,
        InvalidDocument as InvalidDocument,
        InvalidQuery as InvalidQuery,
        MemoryDamaged as MemoryDamaged,
        MemoryNotFound as MemoryNotFound,
        ModelUnavailable as ModelUnavailable,
        PartialAdd as PartialAdd,
        TransferError as TransferError,
        TwofoldError as TwofoldError,
    )
    from twofold.index import HybridIndex as HybridIndex
    from twofold.index.transfer import Imported as Imported, ScannedDocument as ScannedDocument
    from twofold.memory import (
        Learned as Learned,
        Memory as Memory,
        MemoryConfig as MemoryConfig,
        MemoryHit as MemoryHit,
        MemoryItem as MemoryItem,
        MemoryPage as MemoryPage,
        MemoryResult as MemoryResult,
        MemoryStats as MemoryStats,
        Remembered as Remembered,
        Similar as Similar,
        Turn as Turn,
        as_data as as_data,
    )
    from twofold.ranking.fusion import Fusion as Fusion
    from twofold.ranking.calibration import Calibration as Calibration
    from twofold.ranking.tuning import Pair as Pair, Tuning as Tuning
    from twofold.results import (
        Explanation as Explanation,
        Hit as Hit,
        IndexInfo as IndexInfo,
        Problem as Problem,
        SearchResult as SearchResult,
    )

_HOMES = {
    "config": "CollectionSettings SearchConfig",
    "documents": "Document",
    "embedded": "DiskFull StoreError StoreLocked async_embedded_client embedded_client import_local_store",
    "encoders.bm25": "BM25",
    "engine.layout": "Layout",
    "errors": "CollectionMismatch CollectionNotFound ConfigError EncoderError EngineError EngineUnavailable "
    "FilterError IndexClosed InvalidDocument InvalidQuery MemoryDamaged MemoryNotFound ModelUnavailable PartialAdd "
    "TransferError TwofoldError",
    "index": "HybridIndex",
    "index.transfer": "Imported ScannedDocument",
    "memory": "Learned Memory MemoryConfig MemoryHit MemoryItem MemoryPage MemoryResult MemoryStats Remembered Similar "
    "Turn as_data",
    "ranking.fusion": "Fusion",
    "ranking.calibration": "Calibration",
    "ranking.tuning": "Pair Tuning",
    "results": "Explanation Hit IndexInfo Problem SearchResult",
}
_HOME_OF = {name: f"twofold.{module}" for module, names in _HOMES.items() for name in names.split()}

if not TYPE_CHECKING:  # type checkers go by the imports above
    __all__ = sorted([*_HOME_OF, "__version__"])


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
    return sorted([*_HOME_OF, "__version__"])
