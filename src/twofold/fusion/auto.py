"""The default strategy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from twofold.fusion.base import Leg, Strategy


@dataclass(frozen=True)
class Auto(Strategy):
    """Convex over absolute scores: α · max(0, cosine) + (1 - α) · bm25 / (bm25 + c · terms).

    Neither part depends on what else was found, so a score means the same from query to query
    (a floor on it can say "nothing relevant"), and the engine can compute it by itself.
    """

    weights: tuple[float, float] = (0.5, 0.5)
    saturation: float = 2.0
    """c: the BM25 score per query term that counts as half of a perfect match."""
    name: ClassVar[str] = "auto"

    def normalise(self, leg: Leg) -> Sequence[float]:
        if leg.name == "dense":
            return [max(0.0, score) for _, score in leg.hits]
        half = self.half(leg.mass)
        return [max(0.0, score) / (max(0.0, score) + half) for _, score in leg.hits]

    def half(self, mass: float) -> float:
        """The BM25 score that counts as 0.5, for a query with this many terms."""
        return self.saturation * max(mass, 1e-6)

    def ceiling(self) -> float:
        return 1.0
