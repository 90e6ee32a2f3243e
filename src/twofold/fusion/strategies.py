"""The strategies, each with its formula."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from twofold.errors import InvalidQuery
from twofold.fusion.base import Leg, Strategy


@dataclass(frozen=True)
class Rrf(Strategy):
    """Reciprocal rank fusion: Σ w / (k + rank), rank from 1.

    Looks at ranks alone, so it needs no common scale, and can't tell a good match from the
    best of a bad lot.
    """

    k: int = 60
    name: ClassVar[str] = "rrf"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.k, bool) or not isinstance(self.k, int) or self.k < 0:
            raise InvalidQuery(f"rrf: k must be a whole number from 0, got {self.k!r}")

    @property
    def steady(self) -> bool:
        return True

    def normalise(self, leg: Leg) -> Sequence[float]:
        return [1 / (self.k + rank) for rank in range(1, len(leg.hits) + 1)]

    def ceiling(self) -> float:
        return 1 / (self.k + 1)


@dataclass(frozen=True)
class Dbsf(Strategy):
    """Distribution-based: Σ w · (s - (μ - 3σ)) / 6σ, with μ and σ of each leg's candidates.

    σ is the sample deviation; one candidate, or equal scores, count as 0.5. Not clipped.
    """

    name: ClassVar[str] = "dbsf"

    def normalise(self, leg: Leg) -> Sequence[float]:
        scores = [score for _, score in leg.hits]
        if len(scores) < 2:
            return [0.5] * len(scores)
        mean = math.fsum(scores) / len(scores)
        variance = math.fsum((s - mean) ** 2 for s in scores) / (len(scores) - 1)
        deviation = math.sqrt(variance)
        if deviation <= 1e-7 * max(1.0, abs(mean)):  # equal, but for 32-bit rounding
            return [0.5] * len(scores)
        return [(s - mean) / (6 * deviation) + 0.5 for s in scores]

    def ceiling(self) -> float:
        return 1.0


@dataclass(frozen=True)
class Weighted(Strategy):
    """Convex: α · max(0, cosine) + (1 - α) · bm25 / (best bm25 of this query)."""

    weights: tuple[float, float] = (0.7, 0.3)
    name: ClassVar[str] = "weighted"

    def normalise(self, leg: Leg) -> Sequence[float]:
        if leg.name == "dense":
            return [max(0.0, score) for _, score in leg.hits]
        best = max((score for _, score in leg.hits), default=0.0)
        return [score / best if best > 0 else 0.0 for _, score in leg.hits]

    def ceiling(self) -> float:
        return 1.0


@dataclass(frozen=True)
class Average(Strategy):
    """Mean of both legs after min-max: (s - min) / (max - min).

    Where all scores of a leg are equal (or there is one hit), each counts as 1: it is as good
    as the best.
    """

    weights: tuple[float, float] = (0.5, 0.5)
    name: ClassVar[str] = "average"

    def normalise(self, leg: Leg) -> Sequence[float]:
        scores = [score for _, score in leg.hits]
        low, high = min(scores, default=0.0), max(scores, default=0.0)
        if high - low <= 1e-7 * max(1.0, abs(high)):  # equal, but for 32-bit rounding
            return [1.0] * len(scores)
        return [(s - low) / (high - low) for s in scores]

    def ceiling(self) -> float:
        return 1.0
