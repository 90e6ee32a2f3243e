"""One ranking out of what several legs found: score = Σ over legs of weight x normalised score.

A strategy only says how the scores of a leg are normalised, and whether an engine can compute the same by itself. A
document that a leg did not find gets nothing from it. Everything here is plain values: no client, no clock.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from operator import itemgetter
from typing import ClassVar, Literal, TypeAlias, TypeVar

from twofold.errors import InvalidQuery
from twofold.ranking import expressions as ex

# --- What the legs found, and the order of what has one score ---

T = TypeVar("T")
_SCORE_NOISE = 1.5e-6  # wider than the last of eight digits, so that noise that rounding enlarges is still noise

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


def join_legs(found: Sequence[Leg]) -> list[Leg]:
    """One leg for each name. A leg that was asked twice for one query is one leg still: the better score counts."""
    legs: dict[LegName, Leg] = {}
    for leg in found:
        first = legs.get(leg.name)
        if first is not None:
            known = dict(first.hits)
            better = {i: max(score, known.get(i, score)) for i, score in leg.hits}
            leg = replace(first, hits=sorted({**known, **better}.items(), key=lambda hit: -hit[1]))
        legs[leg.name] = leg
    return list(legs.values())


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a default depends on."""

    unknown_language: float = 0.0
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
    parts: Mapping[str, float]


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
        if before - score > _SCORE_NOISE * abs(score)
    ]
    if len(starts) + 1 >= len(rounded):  # no two are alike, which is quickly said
        return rounded
    settled: list[tuple[T, float]] = []
    for start, end in pairwise([0, *starts, len(rounded)]):
        alike = rounded[start:end]
        if len(alike) > 1:
            best = alike[0][1]
            alike = [(value, best) for value, _ in sorted(alike, key=lambda item: identity(item[0]))]
        settled += alike
    return settled


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

    def ceiling(self) -> float:
        """The best normalised score that a leg can give, for the 0 to 1 scale."""
        return 1.0

    @property
    def steady(self) -> bool:
        """A hit's score does not change with the hits that come after it in its leg."""
        return False

    def native(self, legs: tuple[LegName, ...], terms: int) -> ex.EngineFusion | None:
        """What makes an engine compute exactly this from both legs, in the order in which they are asked; or None."""
        return None

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

    def fitted(self, circumstances: Circumstances) -> Strategy:
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


# --- The strategies, each with its formula ---


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

    def native(self, legs: tuple[LegName, ...], terms: int) -> ex.EngineFusion | None:
        return ex.RrfFusion(self.k) if self.weights == (1.0, 1.0) else None


@dataclass(frozen=True)
class Dbsf(Strategy):
    """Distribution-based: Σ w · (s - (μ - 3σ)) / 6σ, with μ and σ of each leg's candidates.

    σ is the sample deviation; one candidate, or equal scores, count as 0.5. Not clipped.
    """

    name: ClassVar[str] = "dbsf"

    def normalise(self, leg: Leg) -> Sequence[float]:
        scores = [score for _, score in leg.hits]
        mean = math.fsum(scores) / max(len(scores), 1)
        deviation = math.sqrt(math.fsum((s - mean) ** 2 for s in scores) / max(len(scores) - 1, 1))
        if deviation <= 1e-7 * max(1.0, abs(mean)):  # equal, but for 32-bit rounding
            return [0.5] * len(scores)
        return [(s - mean) / (6 * deviation) + 0.5 for s in scores]

    def native(self, legs: tuple[LegName, ...], terms: int) -> ex.EngineFusion | None:
        return ex.DbsfFusion() if self.weights == (1.0, 1.0) else None


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


# --- The default strategy ---

# So many candidates say half of what there is to say about how low a low score is.
_CANDIDATES_FOR_HALF_TRUST = 20
# A longer query scores more, but not in proportion: seldom does one text have all of its words.
TERMS_EXPONENT = 0.5
PROSE_ALPHA = 0.25
_UNKNOWN_LANGUAGE_ALPHA = 0.1
_CODE_ALPHA, _CODE_QUERY_ALPHA = 0.75, 0.55


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

    weights: tuple[float, float] = (PROSE_ALPHA, 1 - PROSE_ALPHA)
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
            nothing = self.background
            if nothing is None:  # the lowest score, as far as so many scores can tell what "low" is
                nothing = min(scores, default=0.0) * len(scores) / (len(scores) + _CANDIDATES_FOR_HALF_TRUST)
            return [max(0.0, score - nothing) / max(1 - nothing, 1e-6) for score in scores]
        if leg.name == "tags":  # shares from 0 to 1 as they are
            return scores
        full = self.full(leg.terms)
        return [max(0.0, score) / full for score in scores]

    def full(self, terms: int) -> float:
        """The BM25 score that counts as 1, for a query with this many terms. There are better ones."""
        return float(self.scale * max(terms, 1) ** TERMS_EXPONENT)

    def with_alpha(self, alpha: float) -> Strategy:
        return replace(super().with_alpha(alpha), chosen=True)  # type: ignore[call-arg]

    def fitted(self, circumstances: Circumstances) -> Strategy:
        return _fitted(self, circumstances)

    def native(self, legs: tuple[LegName, ...], terms: int) -> ex.EngineFusion | None:
        return None if self.background is None else auto_formula(self, legs, terms)


# Programs ask in few ways, again and again: what they need is put together once.
@lru_cache(maxsize=256)
def _fitted(fusion: Auto, circumstances: Circumstances) -> Auto:
    alpha = default_alpha(circumstances)
    weights = fusion.weights if fusion.chosen else (alpha, 1 - alpha)
    background = circumstances.background if fusion.background is None else fusion.background
    return replace(fusion, weights=weights, background=background)


def default_alpha(circumstances: Circumstances) -> float:
    """How much meaning counts where nobody said."""
    code = _CODE_QUERY_ALPHA if circumstances.asked_in_code else _CODE_ALPHA
    known = PROSE_ALPHA + (code - PROSE_ALPHA) * circumstances.code
    return round(known + (_UNKNOWN_LANGUAGE_ALPHA - known) * circumstances.unknown_language, 4)


@lru_cache(maxsize=256)
def auto_formula(
    fusion: Auto, legs: tuple[LegName, ...], terms: int, factors: tuple[ex.Expression, ex.Expression] = (1.0, 1.0)
) -> ex.Formula:
    """What `Auto` computes from these legs, where its background is known; meaning and words times their factors."""
    background = fusion.background or 0.0
    dense = ex.Ramp(_greatest(legs, "dense"), zero=background)
    lexical = ex.product(1 / fusion.full(terms), _greatest(legs, "lexical"))
    meaning = ex.product(fusion.weight("dense"), factors[0], dense)
    words = ex.product(fusion.weight("lexical"), factors[1], lexical)
    return ex.Formula(ex.Sum((meaning, words)), missing=tuple(background if name == "dense" else 0.0 for name in legs))


def _greatest(legs: tuple[LegName, ...], name: LegName) -> ex.Expression:
    """The raw score of a leg; the greater one if it is asked twice. Older servers have no max."""
    scores = [ex.LegScore(place) for place, each in enumerate(legs) if each == name]
    if len(scores) == 1:
        return scores[0]
    one, other = scores
    return ex.product(0.5, ex.Sum((one, other, ex.Absolute(ex.Sum((one, ex.product(-1.0, other)))))))


# --- The strategies by name ---


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
