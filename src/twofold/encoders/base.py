"""What an encoder is, whoever made it, and the checks that every vector passes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from twofold.errors import EncoderError

Vectors: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Sparse:
    """A sparse vector: token ids, ascending, and their weights."""

    indices: Sequence[int]
    values: Sequence[float]
    words: int | None = field(default=None, compare=False)
    """How many of the ids are words; None if all are."""

    @property
    def terms(self) -> int:
        """The number of different words."""
        return len(self.indices) if self.words is None else self.words


def blend(parts: Sequence[tuple[Sparse, float]]) -> Sparse:
    """The weighted sum of sparse vectors."""
    total: dict[int, float] = {}
    for sparse, weight in parts:
        for index, value in zip(sparse.indices, sparse.values, strict=True):
            total[index] = total.get(index, 0.0) + weight * value
    ordered = sorted(index for index, value in total.items() if value)
    terms = min(len(ordered), sum(sparse.terms for sparse, _ in parts))
    return Sparse(ordered, [total[index] for index in ordered], terms)


@dataclass(frozen=True)
class DenseEncoder:
    """A dense model as the index sees it. The async functions are None where the model has none."""

    name: str
    embed_documents: Callable[[Sequence[str]], Any]
    embed_query: Callable[[str], Any]
    dim: int | None = None
    aembed_documents: Callable[[Sequence[str]], Awaitable[Any]] | None = None
    aembed_query: Callable[[str], Awaitable[Any]] | None = None
    by_name: bool = False
    """The model can be loaded again by its name alone."""
    languages: frozenset[str] | None = None
    """The languages that the model knows; None where nobody said, which counts as all."""
    background: float | None = None
    """The cosine that texts have which have nothing to do with each other; None where nobody measured it."""


class SparseEncoder(Protocol):
    """A sparse model as the index sees it."""

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that decides the vectors; recorded in the collection and checked at open."""

    @property
    def needs_idf(self) -> bool:
        """The engine must weigh words by how rare they are (BM25); learned models do it themselves."""

    def embed_documents(self, texts: Sequence[str]) -> list[Sparse]:
        """Vectors to store."""

    def embed_query(self, text: str) -> Sparse:
        """A vector to search with; empty if the text has no word that counts."""

    def matched_words(self, query: str, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """For each text, the words of `query` that it has too, as they are written in the query."""


def check_dense(raw: Any, count: int, dim: int | None, model: str) -> Vectors:
    """The vectors of a model as one array, or what is wrong with them."""
    try:
        vectors = np.asarray(raw, dtype=np.float32)
    except (ValueError, TypeError) as error:
        raise EncoderError(f"{model} returned something that is not a list of vectors: {error}") from error
    if vectors.ndim != 2 or len(vectors) != count or 0 in vectors.shape[1:]:
        raise EncoderError(f"{model} returned shape {vectors.shape} for {count} texts: expected one vector each")
    if dim is not None and vectors.shape[1] != dim:
        raise EncoderError(
            f"{model} returned {vectors.shape[1]} dimensions where {dim} were expected: "
            "open the collection with the model it was written with"
        )
    if not np.isfinite(vectors).all():
        bad = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
        raise EncoderError(f"{model} returned NaN or infinity for text {bad} of {count}: such a vector finds nothing")
    return vectors
