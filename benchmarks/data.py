"""The same data for every engine: 384-d vectors, and BM25 vectors whose words follow Zipf's law."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

DIM = 384
_VOCABULARY = 50_000
_STOP_WORDS = 30  # the most frequent words never reach an index
_TOPICS = 200


@dataclass(frozen=True)
class Sparse:
    indices: list[int]
    values: list[float]


class Data:
    """Points and queries by number; the same for the same size, whoever asks."""

    def __init__(self, points: int, queries: int = 200) -> None:
        self.points = points
        self.queries = queries

    @cached_property
    def dense(self) -> npt.NDArray[np.float32]:
        return self._vectors(self.points, seed=1)

    @cached_property
    def dense_queries(self) -> npt.NDArray[np.float32]:
        return self._vectors(self.queries, seed=2)

    @cached_property
    def sparse(self) -> list[Sparse]:
        return self._words(self.points, mean_length=60, seed=3)

    @cached_property
    def sparse_queries(self) -> list[Sparse]:
        return [Sparse(s.indices, [1.0] * len(s.indices)) for s in self._words(self.queries, mean_length=6, seed=4)]

    def payload(self, number: int) -> dict[str, Any]:
        """About the size of a stored memory."""
        return {
            "id": f"d{number}",
            "text": f"memory {number} " + "lorem ipsum dolor " * 12,
            "metadata": {"kind": number % 10, "user": f"user{number % 100}"},
        }

    def _vectors(self, count: int, seed: int) -> npt.NDArray[np.float32]:
        """Around topics, as texts are: in pure noise, everything is equally far from everything."""
        topics = np.random.default_rng(0).standard_normal((_TOPICS, DIM)).astype(np.float32)
        rng = np.random.default_rng(seed)
        vectors = topics[rng.integers(0, _TOPICS, count)] + rng.standard_normal((count, DIM)).astype(np.float32)
        normed: npt.NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return normed

    def _words(self, count: int, mean_length: int, seed: int) -> list[Sparse]:
        rng = np.random.default_rng(seed)
        ranks = np.arange(1 + _STOP_WORDS, 1 + _VOCABULARY + _STOP_WORDS)
        odds = (1 / ranks) / (1 / ranks).sum()
        lengths = np.maximum(1, rng.poisson(mean_length, count))
        words = rng.choice(_VOCABULARY, size=int(lengths.sum()), p=odds)
        found = []
        for part in np.split(words, np.cumsum(lengths)[:-1]):
            ids, counts = np.unique(part, return_counts=True)
            weights = counts * 2 / (counts + np.sqrt(len(part) / 100))
            found.append(Sparse(ids.tolist(), weights.tolist()))
        return found
