"""Hybrid recall over Qdrant: meaning and words in one query, explained hit by hit.

This is the only public door: every name is loaded when it is first used, so that
`import twofold` stays instant and pulls in no framework, no model runtime and no client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twofold.config import CollectionSettings as CollectionSettings
    from twofold.config import SearchConfig as SearchConfig
    from twofold.documents import Document as Document
    from twofold.embedded import StoreError as StoreError
    from twofold.embedded import StoreLocked as StoreLocked
    from twofold.embedded import async_embedded_client as async_embedded_client
    from twofold.embedded import embedded_client as embedded_client
    from twofold.embedded import import_local_store as import_local_store
    from twofold.encoders.bm25 import BM25 as BM25
    from twofold.errors import CollectionMismatch as CollectionMismatch
    from twofold.errors import CollectionNotFound as CollectionNotFound
    from twofold.errors import ConfigError as ConfigError
    from twofold.errors import EncoderError as EncoderError
    from twofold.errors import EngineError as EngineError
    from twofold.errors import EngineUnavailable as EngineUnavailable
    from twofold.errors import FilterError as FilterError
    from twofold.errors import IndexClosed as IndexClosed
    from twofold.errors import InvalidDocument as InvalidDocument
    from twofold.errors import InvalidQuery as InvalidQuery
    from twofold.errors import MemoryDamaged as MemoryDamaged
    from twofold.errors import MemoryNotFound as MemoryNotFound
    from twofold.errors import ModelUnavailable as ModelUnavailable
    from twofold.errors import PartialAdd as PartialAdd
    from twofold.errors import TwofoldError as TwofoldError
    from twofold.index import HybridIndex as HybridIndex
    from twofold.memory import Learned as Learned
    from twofold.memory import Memory as Memory
    from twofold.memory import MemoryConfig as MemoryConfig
    from twofold.memory import MemoryHit as MemoryHit
    from twofold.memory import MemoryItem as MemoryItem
    from twofold.memory import MemoryPage as MemoryPage
    from twofold.memory import MemoryResult as MemoryResult
    from twofold.memory import MemoryStats as MemoryStats
    from twofold.memory import Remembered as Remembered
    from twofold.memory import Similar as Similar
    from twofold.memory import Turn as Turn
    from twofold.memory import as_data as as_data
    from twofold.ranking.fusion import Fusion as Fusion
    from twofold.ranking.tuning import Calibration as Calibration
    from twofold.ranking.tuning import Pair as Pair
    from twofold.ranking.tuning import Tuning as Tuning
    from twofold.results import Explanation as Explanation
    from twofold.results import Hit as Hit
    from twofold.results import IndexInfo as IndexInfo
    from twofold.results import Problem as Problem
    from twofold.results import SearchResult as SearchResult

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
