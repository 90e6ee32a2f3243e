"""What an engine is asked for, as plain values: one leg, or several legs that the engine fuses.

No engine's own types: `engine/client.py` and `engine/edge.py` each translate these into theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from qdrant_client import models

from twofold.encoders.base import Sparse, Vectors
from twofold.filters import Node
from twofold.ranking.expressions import DbsfFusion as DbsfFusion
from twofold.ranking.expressions import Formula as Formula
from twofold.ranking.expressions import RrfFusion as RrfFusion

Filter: TypeAlias = Node | models.Filter
"""A condition of ours, or a native filter that the user gave, which passes through as it is."""


@dataclass(frozen=True, slots=True)
class PayloadWithout:
    """Everything of the payload but some metadata fields."""

    fields: tuple[str, ...]


Payload: TypeAlias = bool | PayloadWithout


@dataclass(frozen=True, slots=True)
class VectorQuery:
    """The points nearest to a vector: dense by cosine, sparse by BM25. Also a leg of a fused query."""

    vector: Vectors | Sparse
    limit: int
    filter: Filter | None = None
    score_threshold: float | None = None
    hnsw_ef: int | None = None
    exact: bool = False
    idf_corpus: Filter | None = None
    """The points whose words decide how rare a word is; None for the whole collection."""
    with_payload: Payload = False
    with_dense: bool = False
    """Bring the dense vectors along."""


@dataclass(frozen=True, slots=True)
class NewestFirst:
    """Not a score: what the legs brought, those with the latest date in a metadata field first."""

    field: str


NativeFusion: TypeAlias = RrfFusion | DbsfFusion | Formula | NewestFirst


@dataclass(frozen=True, slots=True)
class FusedQuery:
    """Several legs, fused by the engine at the root, the only place where fusion spans all shards."""

    legs: tuple[VectorQuery, ...]
    fusion: NativeFusion
    limit: int
    with_payload: Payload = True
    with_dense: bool = False


EngineQuery: TypeAlias = VectorQuery | FusedQuery
