"""What is compared. A system gets the set with its vectors and gives something that can be asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks.quality import peers
from benchmarks.quality.vectors import Material
from twofold import HybridIndex


@dataclass(frozen=True)
class System:
    name: str
    open: Callable[[Material], AbstractContextManager[Any]]
    parameters: dict[str, Any] = field(default_factory=dict)


def _twofold(material: Material) -> AbstractContextManager[HybridIndex]:
    """As `HybridIndex.open(…, language=…)` makes it."""
    return index(material, material.language)


def _untold(material: Material) -> AbstractContextManager[HybridIndex]:
    """Nobody says in which language the texts are."""
    return index(material, None)


@contextmanager
def index(material: Material, language: str | None, *, unknown: bool = False) -> Iterator[HybridIndex]:
    """An index with the bundled model's vectors already computed; `unknown` hides whose vectors they are."""
    dense: Any = material if unknown else material.encoder()
    with HybridIndex.open(":memory:", dense=dense, language=language) as opened:
        opened.add(material.data.documents)
        yield opened


SYSTEMS = (
    System("auto", _twofold),
    System("dense", _twofold, {"alpha": 1.0}),
    System("bm25", _twofold, {"alpha": 0.0}),
    System("untold", _untold),
    System("rrf", _twofold, {"fusion": "rrf"}),
    System("dbsf", _twofold, {"fusion": "dbsf"}),
    System("qdrant-bm25", peers.qdrant_bm25),
    System("langchain", peers.langchain),
    System("langchain+idf", peers.langchain_with_idf),
    System("llama-index", peers.llama_index),
)
"""The first is the one that the others are compared with."""
