"""What is compared. A system gets the set with its vectors and gives something that can be asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks.quality import peers, sets
from benchmarks.quality.vectors import Material
from twofold import Document, HybridIndex


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


def _in_context(material: Material) -> AbstractContextManager[HybridIndex]:
    """Documents of a set that has neighbours lend each other context."""
    return index(material, material.language, sets.as_parts(material.data))


@contextmanager
def index(
    material: Material, language: str | None, documents: Sequence[Document] | None = None
) -> Iterator[HybridIndex]:
    """An index with the model's vectors already computed."""
    with HybridIndex.open(":memory:", dense=material.encoder(), language=language) as opened:
        opened.add(material.data.documents if documents is None else documents)
        yield opened


AUTO = "auto"
LEGS = ("dense", "words")
PEERS = ("langchain", "langchain+idf", "llama-index")
SYSTEMS = (
    System("dense", _twofold, {"alpha": 1.0}),
    System("words", _twofold, {"alpha": 0.0}),
    System("qdrant-bm25", peers.qdrant_bm25),
    System("langchain", peers.langchain),
    System("langchain+idf", peers.langchain_with_idf),
    System("llama-index", peers.llama_index),
    System("rrf", _twofold, {"fusion": "rrf"}),
    System("dbsf", _twofold, {"fusion": "dbsf"}),
    System("untold", _untold),
    System("dense+neighbours", _in_context, {"alpha": 1.0}),
    System("words+neighbours", _in_context, {"alpha": 0.0}),
    System("auto+neighbours", _in_context),
    System(AUTO, _twofold),
)
USUAL = ("dense", "words", "qdrant-bm25", *PEERS, AUTO)
"""What is measured if nobody says what; the others only by name."""
