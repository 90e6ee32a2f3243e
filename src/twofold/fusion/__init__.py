"""Making one ranking out of two. Pure functions; `Fusion` is the public name for all of them."""

from __future__ import annotations

from typing import TypeAlias

from twofold.errors import InvalidQuery
from twofold.fusion.auto import Auto
from twofold.fusion.base import Circumstances, Fused, Leg, LegName, Strategy, settle, shares
from twofold.fusion.strategies import Average, Dbsf, Rrf, Weighted

__all__ = [
    "Auto",
    "Average",
    "Circumstances",
    "Dbsf",
    "Fused",
    "Fusion",
    "FusionLike",
    "Leg",
    "LegName",
    "Rrf",
    "Strategy",
    "Weighted",
    "resolve",
    "settle",
]


class Fusion:
    """The fusion strategies by name. Their formulas are on the classes they return."""

    @staticmethod
    def auto(alpha: float | None = None, *, background: float | None = None) -> Auto:
        """Convex over scores that mean something by themselves; the default."""
        if alpha is None:
            return Auto(background=background)
        return Auto(weights=shares(alpha), chosen=True, background=background)

    @staticmethod
    def rrf(k: int = 60, weights: tuple[float, float] = (1.0, 1.0)) -> Rrf:
        """Reciprocal rank fusion with textbook weights: Σ w / (k + rank)."""
        return Rrf(k=k, weights=weights)

    @staticmethod
    def dbsf(weights: tuple[float, float] = (1.0, 1.0)) -> Dbsf:
        """Distribution-based score fusion: mean ± 3σ of each leg becomes 0 to 1."""
        return Dbsf(weights=weights)

    @staticmethod
    def weighted(alpha: float = 0.7) -> Weighted:
        """Cosine and max-normalised BM25, weighted alpha and 1 - alpha."""
        return Weighted(weights=shares(alpha))

    @staticmethod
    def average() -> Average:
        """Mean of the min-max normalised scores."""
        return Average()


FusionLike: TypeAlias = Strategy | str
_BY_NAME: dict[str, type[Strategy]] = {s.name: s for s in (Auto, Rrf, Dbsf, Weighted, Average)}


def resolve(fusion: FusionLike) -> Strategy:
    """The strategy that a name stands for; a strategy stands for itself."""
    if isinstance(fusion, Strategy):
        return fusion
    if isinstance(fusion, str) and fusion in _BY_NAME:
        return _BY_NAME[fusion]()
    raise InvalidQuery(f"unknown fusion {fusion!r}: use one of {', '.join(_BY_NAME)}, or a Fusion.…() value")
