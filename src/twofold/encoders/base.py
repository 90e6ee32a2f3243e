"""What an encoder is, whoever made it, and what stands between an encoder and its callers.

First the vectors, then the two kinds of encoders; then the check that every dense vector passes, the cache of query
vectors, and the breaker that leaves a failing model alone for a while.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from twofold.errors import ConfigError, EncoderError

T = TypeVar("T")

Vectors: TypeAlias = npt.NDArray[np.float32]
"""Dense vectors, one in each row."""

_MAX_FAILURES = 3
_PAUSE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Sparse:
    """A sparse vector: token ids, ascending, and their weights."""

    indices: Sequence[int]
    values: Sequence[float]
    words: int | None = field(default=None, compare=False)
    """How many of the ids are words (the others are pairs of words); None if all are."""

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
    word_weight: float = 1.0
    """What words count beside it in languages that it knows: less than 1 beside a model that is better than most."""


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


class LRU(Generic[T]):
    """A thread-safe cache of the last `size` query vectors: agents search for the same thing again and again."""

    def __init__(self, size: int) -> None:
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise ConfigError(f"cache_size must be a whole number from 0, got {size!r}")
        self._size = size
        self._values: OrderedDict[str, T] = OrderedDict()
        self._lock = Lock()

    def get(self, key: str) -> T | None:
        """The value of `key`, or None."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: str, value: T) -> None:
        """Keep `value`, and drop the oldest if there are too many."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self._size:
                self._values.popitem(last=False)

    def __len__(self) -> int:
        return len(self._values)


class Breaker:
    """Leaves a model alone for a while after a few failures in a row: one that is down must not slow every search."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures = 0
        self._until = 0.0

    def check(self) -> None:
        """Raise while the model is being left alone."""
        left = self._until - self._clock()
        if self._failures >= _MAX_FAILURES and left > 0:
            raise EncoderError(f"it failed {self._failures} times in a row and is tried again in {left:.0f} s")

    def failed(self) -> None:
        """The model has failed."""
        self._failures += 1
        self._until = self._clock() + _PAUSE_SECONDS

    def worked(self) -> None:
        """The model has answered."""
        self._failures = 0
