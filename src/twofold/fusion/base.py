"""The one rule behind every strategy: score = Σ over legs of weight x normalised score.

A strategy only says how the scores of a leg are normalised. A document that a leg did not
find gets nothing from it. Everything here is plain values: no client, no clock, no mutation.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import itemgetter
from typing import ClassVar, Literal, TypeAlias, TypeVar

from twofold.errors import InvalidQuery

T = TypeVar("T")
_NOISE = 1.5e-6  # wider than the last of eight digits, so that noise that rounding enlarges is still noise

LegName: TypeAlias = Literal["dense", "lexical", "tags"]


@dataclass(frozen=True, slots=True)
class Leg:
    """What one retriever found: (id, raw score), best first, each id once."""

    name: LegName
    hits: Sequence[tuple[str, float]]
    terms: int = 1
    """How many different terms the query has, for the lexical leg."""
    weight: float | None = None
    """What it weighs; None for the legs that the strategy has a weight for."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a default depends on."""

    strange: float = 0.0
    """The share of the collection in languages that the dense model doesn't know, 0 to 1."""
    background: float | None = None
    """The cosine of texts that have nothing to do with each other; None if nobody measured it."""
    code: float = 0.0
    """The share of the collection that is code, 0 to 1."""
    asked_in_code: bool = False
    """The query itself has code in it."""


@dataclass(frozen=True, slots=True)
class Fused:
    """A document after fusion: its score, and what each leg added to it."""

    id: str
    score: float
    parts: Mapping[str, float] = field(default_factory=dict)


def settle(scored: Iterable[tuple[T, float]], identity: Callable[[T], str]) -> list[tuple[T, float]]:
    """Best first, ties by id.

    Engines compute in 32 bits, in an order that varies: the same score may differ in its last
    digits from run to run. So scores that lie closer together than such noise are one score, and
    scores keep eight digits. They are rounded first, so that settling again changes nothing.
    """
    rounded = [(value, float(f"{score:.8g}")) for value, score in scored]
    rounded.sort(key=itemgetter(1), reverse=True)
    starts = [
        place
        for place, ((_, before), (_, score)) in enumerate(pairwise(rounded), 1)
        if before - score > _NOISE * abs(score)
    ]
    if len(starts) + 1 >= len(rounded):  # no two are alike, which is quickly said
        return rounded
    settled: list[tuple[T, float]] = []
    for start, end in pairwise([0, *starts, len(rounded)]):
        settled += _by_id(rounded[start:end], identity)
    return settled


def _by_id(alike: list[tuple[T, float]], identity: Callable[[T], str]) -> list[tuple[T, float]]:
    """What has one score, the best of theirs, in the order of the ids."""
    if len(alike) < 2:
        return alike
    best = alike[0][1]
    return [(value, best) for value, _ in sorted(alike, key=lambda item: identity(item[0]))]


def shares(alpha: float) -> tuple[float, float]:
    """The weights (dense, lexical) that `alpha` stands for."""
    if not is_number(alpha) or not 0 <= alpha <= 1:
        raise InvalidQuery(f"alpha must be between 0 (words only) and 1 (meaning only), got {alpha!r}")
    return alpha, 1 - alpha


def is_number(value: object) -> bool:
    """A number that can be computed with; True is none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@dataclass(frozen=True)
class Strategy(ABC):
    """A way to make one ranking out of two. The weights are those of (dense, lexical)."""

    weights: tuple[float, float] = (1.0, 1.0)
    name: ClassVar[str]

    def __post_init__(self) -> None:
        if not isinstance(self.weights, Sequence) or [*map(is_number, self.weights)] != [True, True]:
            raise InvalidQuery(f"{self.name}: give two weights, (dense, lexical), got {self.weights!r}")
        object.__setattr__(self, "weights", (float(self.weights[0]), float(self.weights[1])))  # a list can't be hashed
        if min(self.weights) < 0 or not 0 < sum(self.weights) < math.inf:
            raise InvalidQuery(
                f"{self.name}: weights must be finite, not negative and not all zero, got {self.weights!r}"
            )

    @abstractmethod
    def normalise(self, leg: Leg) -> Sequence[float]:
        """The normalised score of each hit of a leg, in order."""

    @abstractmethod
    def ceiling(self) -> float:
        """The best normalised score that a leg can give, for the 0 to 1 scale."""

    @property
    def steady(self) -> bool:
        """A hit's score does not change with the hits that come after it in its leg."""
        return False

    def weight(self, leg: LegName) -> float:
        """The weight of a leg; a leg that weighs nothing is not even queried."""
        return self.weights[0 if leg == "dense" else 1]

    def with_alpha(self, alpha: float) -> Strategy:
        """The same strategy, leaning on meaning by `alpha` and on words by 1 - alpha.

        The weights keep their sum, so that alpha = 0.5 leaves equal weights as they are.
        """
        total = sum(self.weights)
        meaning, words = shares(alpha)
        return replace(self, weights=(total * meaning, total * words))

    def fitted(self, to: Circumstances) -> Strategy:
        """The strategy for a collection and a query like these."""
        return self

    @property
    def alpha(self) -> float:
        """The share of the dense leg in the weights."""
        return self.weights[0] / sum(self.weights)

    def fuse(self, legs: Sequence[Leg], only: Container[str] | None = None) -> list[Fused]:
        """One ranking of everything that any leg found, or of those asked for, ordered by (score, id)."""
        parts: dict[str, dict[str, float]] = {}
        for leg in legs:
            weight = self.weight(leg.name) if leg.weight is None else leg.weight
            for (identity, _), value in zip(leg.hits, self.normalise(leg), strict=True):
                if only is None or identity in only:
                    parts.setdefault(identity, {})[leg.name] = weight * value
        scores = ((identity, math.fsum(by_leg.values())) for identity, by_leg in parts.items())
        return [Fused(identity, score, parts[identity]) for identity, score in settle(scores, str)]

    def best(self, legs: Sequence[LegName]) -> float:
        """The best score that these legs can give together."""
        return self.ceiling() * sum(self.weight(leg) for leg in legs)

    def relevance(self, score: float, legs: Sequence[LegName]) -> float:
        """A final score as a share, 0 to 1, of the best that these legs could give."""
        return share(score, self.best(legs))


def share(score: float, best: float) -> float:
    """A score as a share, 0 to 1, of the best that there could be."""
    return min(max(score / best, 0.0), 1.0) if best > 0 else 0.0
