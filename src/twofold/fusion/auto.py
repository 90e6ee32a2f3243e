"""The default strategy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from twofold.errors import InvalidQuery
from twofold.fusion.base import Circumstances, Leg, Strategy, is_number

_FEW = 20
# A longer query scores more, but not in proportion: seldom does one text have all of its words.
LONGER = 0.5
PROSE = 0.25
_UNKNOWN_LANGUAGE = 0.1
_CODE, _CODE_ASKED_IN_CODE = 0.75, 0.55


@dataclass(frozen=True)
class Auto(Strategy):
    """Convex over scores that mean something by themselves.

        α · max(0, cosine - background) / (1 - background)  +  (1 - α) · bm25 / (c · √terms)

    The background is the cosine that unrelated texts have, so that it counts as nothing. For the
    bundled model it is known, and then neither part depends on what else was found: a score means
    the same from query to query (a floor on it can say "nothing relevant"), and the engine can
    compute it by itself. For other models it is the mean cosine of the texts in the
    collection or, with too few to tell, the lowest among the candidates, drawn towards 0.

    α is 0.25 for prose. The more of the collection is in a language that the dense model doesn't know,
    the more it tends to 0.1; the more of it is code, to 0.75, since a question about code seldom has
    the words of the code. Where it has (`parse_args(`), to 0.55.
    """

    weights: tuple[float, float] = (PROSE, 1 - PROSE)
    chosen: bool = False
    """The weights were asked for; otherwise they follow the collection."""
    background: float | None = None
    """The cosine of unrelated texts; None takes it from the candidates."""
    scale: float = 33.0
    """c: the BM25 score that counts as much as the same text does in meaning, for a query of one term."""
    name: ClassVar[str] = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.background is not None and not (is_number(self.background) and -1 <= self.background < 1):
            raise InvalidQuery(f"auto: background must be a cosine below 1, got {self.background!r}")
        if not is_number(self.scale) or not 0 < self.scale < math.inf:
            raise InvalidQuery(f"auto: scale must be a number above 0, got {self.scale!r}")

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
        full = self.full(leg.terms)
        return [max(0.0, score) / full for score in scores]

    def full(self, terms: int) -> float:
        """The BM25 score that counts as 1, for a query with this many terms. There are better ones."""
        return float(self.scale * max(terms, 1) ** LONGER)

    def ceiling(self) -> float:
        return 1.0

    def with_alpha(self, alpha: float) -> Strategy:
        return replace(super().with_alpha(alpha), chosen=True)  # type: ignore[call-arg]

    def fitted(self, to: Circumstances) -> Strategy:
        alpha = usual_alpha(to)
        weights = self.weights if self.chosen else (alpha, 1 - alpha)
        return replace(self, weights=weights, background=to.background if self.background is None else self.background)


def usual_alpha(to: Circumstances) -> float:
    """How much meaning counts where nobody said."""
    code = _CODE_ASKED_IN_CODE if to.asked_in_code else _CODE
    known = PROSE + (code - PROSE) * to.code
    return round(known + (_UNKNOWN_LANGUAGE - known) * to.strange, 4)


def _lowest(scores: Sequence[float]) -> float:
    """The lowest score, as far as so many scores can tell what "low" is."""
    return min(scores, default=0.0) * len(scores) / (len(scores) + _FEW)
