"""The default strategy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from twofold.fusion.base import Leg, Strategy


@dataclass(frozen=True)
class Auto(Strategy):
    """Convex over absolute scores: α · max(0, cosine) + (1 - α) · bm25 / (bm25 + c · √terms).

    Both legs score the candidates of both. Neither part depends on what else was found, so a score
    means the same from query to query (a floor on it can say "nothing relevant"), and the engine can
    compute it by itself.

    α is 0.4, and 0.15 where the dense model doesn't know the collection's language.
    """

    weights: tuple[float, float] = (0.4, 0.6)
    chosen: bool = False
    """The weights were asked for; otherwise they follow the collection."""
    saturation: float = 9.0
    """c: the BM25 score that counts as half of a perfect match, for a query of one term."""
    name: ClassVar[str] = "auto"
    pooled: ClassVar[bool] = True

    def normalise(self, leg: Leg) -> Sequence[float]:
        positive = [max(0.0, score) for _, score in leg.hits]
        if leg.name == "dense":
            return positive
        half = self.half(leg.terms)
        return [score / (score + half) for score in positive]

    def half(self, terms: int) -> float:
        """The BM25 score that counts as 0.5, for a query with this many terms."""
        return self.saturation * math.sqrt(max(terms, 1))

    def ceiling(self) -> float:
        return 1.0

    def with_alpha(self, alpha: float) -> Strategy:
        return replace(super().with_alpha(alpha), chosen=True)  # type: ignore[call-arg]

    def fitted(self, *, language_known: bool) -> Strategy:
        return self if self.chosen or language_known else replace(self, weights=(0.15, 0.85))
