"""The one rule behind every strategy: score = Σ over legs of weight x normalised score.

A strategy only says how the scores of a leg are normalised. A document that a leg did not
find gets nothing from it. Everything here is plain values: no client, no clock, no mutation.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, TypeAlias

from twofold.errors import InvalidQuery

LegName: TypeAlias = Literal["dense", "lexical"]


@dataclass(frozen=True, slots=True)
class Leg:
    """What one retriever found: (id, raw score), best first, each id once."""

    name: LegName
    hits: Sequence[tuple[str, float]]
    mass: float = 1.0
    """Σ of the query vector's weights: the number of query terms, for BM25."""


@dataclass(frozen=True, slots=True)
class Fused:
    """A document after fusion: its score, and what each leg added to it."""

    id: str
    score: float
    parts: Mapping[str, float] = field(default_factory=dict)


def publish(score: float) -> float:
    """Six significant digits, which 32-bit engines and our 64-bit code agree on.

    Scores are compared after this step, so that equal scores are equal on every engine.
    """
    return float(f"{score:.6g}")


@dataclass(frozen=True)
class Strategy(ABC):
    """A way to make one ranking out of two. The weights are those of (dense, lexical)."""

    weights: tuple[float, float] = (1.0, 1.0)
    name: ClassVar[str]

    def __post_init__(self) -> None:
        if len(self.weights) != 2:
            raise InvalidQuery(f"{self.name}: give two weights, (dense, lexical), got {self.weights!r}")
        if not all(math.isfinite(w) and w >= 0 for w in self.weights) or sum(self.weights) == 0:
            raise InvalidQuery(
                f"{self.name}: weights must be finite, not negative and not all zero, got {self.weights!r}"
            )

    @abstractmethod
    def normalise(self, leg: Leg) -> Sequence[float]:
        """The normalised score of each hit of a leg, in order."""

    @abstractmethod
    def ceiling(self) -> float:
        """The best normalised score that a leg can give, for the 0 to 1 scale."""

    def weight(self, leg: LegName) -> float:
        """The weight of a leg; a leg that weighs nothing is not even queried."""
        return self.weights[0 if leg == "dense" else 1]

    def with_alpha(self, alpha: float) -> Strategy:
        """The same strategy, leaning on meaning by `alpha` and on words by 1 - alpha.

        The weights keep their sum, so that alpha = 0.5 leaves equal weights as they are.
        """
        if isinstance(alpha, bool) or not isinstance(alpha, (int, float)) or not 0 <= alpha <= 1:
            raise InvalidQuery(f"alpha must be between 0 (words only) and 1 (meaning only), got {alpha!r}")
        total = sum(self.weights)
        return replace(self, weights=(total * alpha, total * (1 - alpha)))

    @property
    def alpha(self) -> float:
        """The share of the dense leg in the weights."""
        return self.weights[0] / sum(self.weights)

    def fuse(self, legs: Sequence[Leg]) -> list[Fused]:
        """One ranking of everything that any leg found, ordered by (score, id)."""
        parts: dict[str, dict[str, float]] = {}
        for leg in legs:
            weight = self.weight(leg.name)
            for (identity, _), value in zip(leg.hits, self.normalise(leg), strict=True):
                parts.setdefault(identity, {})[leg.name] = weight * value
        fused = (Fused(i, publish(math.fsum(by_leg.values())), by_leg) for i, by_leg in parts.items())
        return sorted(fused, key=lambda f: (-f.score, f.id))

    def relevance(self, score: float, legs: Sequence[LegName]) -> float:
        """A final score as a share, 0 to 1, of the best that these legs could give."""
        best = self.ceiling() * sum(self.weight(leg) for leg in legs)
        return min(max(score / best, 0.0), 1.0) if best > 0 else 0.0
