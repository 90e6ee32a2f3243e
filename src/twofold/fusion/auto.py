"""The default strategy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from twofold.errors import InvalidQuery
from twofold.fusion.base import Leg, Strategy, is_number

_FEW = 20


@dataclass(frozen=True)
class Auto(Strategy):
    """Convex over scores that mean something by themselves.

        α · max(0, cosine - background) / (1 - background)  +  (1 - α) · bm25 / (bm25 + c · √terms)

    The background is the cosine that unrelated texts have, so that it counts as nothing. For the
    bundled model it is known, and then neither part depends on what else was found: a score means
    the same from query to query (a floor on it can say "nothing relevant"), and the engine can
    compute it by itself. For other models it is the lowest cosine among the candidates, drawn
    towards 0 where there are few of them.

    α is 0.35, and 0.15 where the dense model doesn't know the collection's language.
    """

    weights: tuple[float, float] = (0.35, 0.65)
    chosen: bool = False
    """The weights were asked for; otherwise they follow the collection."""
    background: float | None = None
    """The cosine of unrelated texts; None takes it from the candidates."""
    saturation: float = 9.0
    """c: the BM25 score that counts as half of a perfect match, for a query of one term."""
    name: ClassVar[str] = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.background is not None and not (is_number(self.background) and -1 <= self.background < 1):
            raise InvalidQuery(f"auto: background must be a cosine below 1, got {self.background!r}")

    @property
    def steady(self) -> bool:
        return self.background is not None

    def normalise(self, leg: Leg) -> Sequence[float]:
        scores = [score for _, score in leg.hits]
        if leg.name == "dense":
            nothing = _lowest(scores) if self.background is None else self.background
            return [max(0.0, score - nothing) / max(1 - nothing, 1e-6) for score in scores]
        if leg.name == "tags":  # shares from 0 to 1 as they are
            return scores
        half = self.half(leg.terms)
        return [max(0.0, score) / (max(0.0, score) + half) for score in scores]

    def half(self, terms: int) -> float:
        """The BM25 score that counts as 0.5, for a query with this many terms."""
        return self.saturation * math.sqrt(max(terms, 1))

    def ceiling(self) -> float:
        return 1.0

    def with_alpha(self, alpha: float) -> Strategy:
        return replace(super().with_alpha(alpha), chosen=True)  # type: ignore[call-arg]

    def fitted(self, *, language_known: bool, background: float | None) -> Strategy:
        weights = self.weights if self.chosen or language_known else (0.15, 0.85)
        return replace(self, weights=weights, background=background if self.background is None else self.background)


def _lowest(scores: Sequence[float]) -> float:
    """The lowest score, as far as so many scores can tell what "low" is."""
    return min(scores, default=0.0) * len(scores) / (len(scores) + _FEW)
