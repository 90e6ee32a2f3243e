"""One ranking out of what several legs found: score = Σ over legs of weight x normalised score.

A strategy only says how the scores of a leg are normalised, and whether an engine can compute the same by itself.
Everything here is plain values: no client, no clock.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import itemgetter
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

from twofold.errors import InvalidQuery
from twofold.ranking import expressions as ex

# --- What the legs found, and the order of what has one score ---

T = TypeVar("T")
_SCORE_NOISE = 1.5e-6  # wider than the last of eight digits, so that noise that rounding enlarges is still noise
_SMALL_SCORE = 0.01  # sums of greater numbers: their noise doesn't get smaller with them

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
class Fused:
    """A document after fusion: its score, and what each leg added to it."""

    id: str
    score: float
    parts: Mapping[str, float]


def settle(scored: Iterable[tuple[T, float]], identity: Callable[[T], Any]) -> list[tuple[T, float]]:
    """Best first, ties by id, or whatever else tells them apart.

    Engines compute in 32 bits, in an order that varies: the same score may differ in its last
    digits from run to run. So scores that lie closer together than such noise are one score, and
    scores keep eight digits. They are rounded first, so that settling again changes nothing.
    """
    rounded = [(value, float(f"{score:.8g}")) for value, score in scored]
    rounded.sort(key=itemgetter(1), reverse=True)
    starts = [
        place
        for place, ((_, before), (_, score)) in enumerate(pairwise(rounded), 1)
        if before - score > _SCORE_NOISE * max(abs(score), _SMALL_SCORE)
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
    ties_by_nearness: ClassVar[bool] = True
    """Of equal scores the nearer comes first. An engine that fuses tells no cosines, so ours doesn't look at them."""

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

    @property
    def tag_unit(self) -> float:
        """What having everything that a query names counts, where words count by their weight."""
        return 1.0

    def relevance(self, score: float, legs: Sequence[LegName]) -> float:
        """A final score on a scale from 0 to 1: here as a share of the best that these legs can give together."""
        best = self.ceiling() * sum(self.weight(leg) for leg in legs)
        return min(max(score / best, 0.0), 1.0) if best > 0 else 0.0

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

    Looks at ranks alone, so it needs no common scale, and can't tell a good match from the best of a bad lot. It is
    computed here: engines rank what has one score by where it happens to be stored, so that the same texts, written
    again, would rank otherwise.
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
    ties_by_nearness: ClassVar[bool] = False

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

WORD_WEIGHT = 0.45
"""What BM25 counts beside meaning where each is on its own scale, in texts of a hundred words."""
TYPICAL_SPREAD = 0.1
"""How much cosines vary where that can't be measured."""


@dataclass(frozen=True, slots=True)
class Scale:
    """What a score says in one collection."""

    nothing: float
    """What the best hit of an unrelated question scores, on average."""
    floor: float
    """Where an answer begins to be likelier than chance."""

    def relevance(self, score: float, best: float) -> float:
        """0 for what unrelated questions get, 0.5 at the floor, 0.975 at `best`, never above 1."""
        if score < self.floor:
            return max(0.0, 0.5 * (score - self.nothing) / (self.floor - self.nothing))
        return 1 - 0.5 * math.exp(-3 * (score - self.floor) / max(best - self.floor, self.floor - self.nothing))


@dataclass(frozen=True)
class Auto(Strategy):
    """Meaning and words, each on the scale that it has in this collection.

        α · (cosine - mean) / unit  +  (1 - α) · spread / unit · words · bm25 / √terms

    `mean` and `spread` are those of the cosines that this very question has with texts of the collection, and `unit`
    is the usual spread there: so 0 is a text that has nothing to do with the question, and the rule has no constant of
    the model. `words` grows with the length of the texts. All are measured when a search is made (see
    `ranking/calibration.py`); the engine computes the rest in one request.
    """

    weights: tuple[float, float] = (0.5, 0.5)
    chosen: bool = False
    """The weights were asked for; what was tuned or learned doesn't replace them."""
    mean: float = 0.0
    spread: float = TYPICAL_SPREAD
    unit: float = TYPICAL_SPREAD
    words: float = WORD_WEIGHT
    scale: Scale | None = None
    """What scores say here; None if nobody measured it."""
    name: ClassVar[str] = "auto"
    ties_by_nearness: ClassVar[bool] = False

    @property
    def steady(self) -> bool:
        return True

    def normalise(self, leg: Leg) -> Sequence[float]:
        scores = [score for _, score in leg.hits]
        if leg.name == "dense":
            return [(score - self.mean) / self.unit for score in scores]
        factor = 1.0 if leg.name == "tags" else self.word_factor(leg.terms)  # tags are shares from 0 to 1
        return [score * factor for score in scores]

    @property
    def tag_unit(self) -> float:
        return _TAG_SPREADS

    def word_factor(self, terms: int) -> float:
        """What BM25 scores are multiplied with.

        A longer query scores more, but not in proportion: seldom does one text have all of its words.
        """
        return self.words * self.spread / self.unit / math.sqrt(max(terms, 1))

    def ceiling(self) -> float:
        """What the text itself gets by its meaning alone."""
        return max(1 - self.mean, self.unit) / self.unit

    def with_alpha(self, alpha: float) -> Strategy:
        return replace(super().with_alpha(alpha), chosen=True)  # type: ignore[call-arg]

    def native(self, legs: tuple[LegName, ...], terms: int) -> ex.EngineFusion | None:
        return auto_formula(self, legs, terms)

    def relevance(self, score: float, legs: Sequence[LegName]) -> float:
        if self.scale is None:
            return super().relevance(score, legs)
        meaning = self.weight("dense") * self.ceiling() if "dense" in legs else 0.0
        return self.scale.relevance(score, max(meaning, 2 * self.scale.floor - self.scale.nothing))


_TAG_SPREADS = 24.0
"""What having everything that a query names counts, in spreads: more than most texts gain by meaning or words."""


Factors: TypeAlias = tuple[ex.Expression, ...]


def auto_formula(
    fusion: Auto, legs: tuple[LegName, ...], terms: int, factors: tuple[Factors, Factors] = ((), ())
) -> ex.Formula:
    """What `Auto` computes from these legs; meaning and words times their factors."""
    share, (of_meaning, of_words) = fusion.weight("dense") / fusion.unit, factors
    weight = fusion.weight("lexical") * fusion.word_factor(terms)
    cosine = ex.Product((share, *of_meaning, _greatest(legs, "dense")))
    offset = ex.Product((-share * fusion.mean, *of_meaning))
    words = ex.Product((weight, *of_words, _greatest(legs, "lexical")))
    # A document without a vector is as near as any.
    missing = tuple(fusion.mean if name == "dense" else 0.0 for name in legs)
    return ex.Formula(ex.Sum((cosine, offset, words)), missing)


def _greatest(legs: tuple[LegName, ...], name: LegName) -> ex.Expression:
    """The raw score of a leg; the greater one if it is asked twice. Older servers have no max."""
    scores = [ex.LegScore(place) for place, each in enumerate(legs) if each == name]
    if len(scores) == 1:
        return scores[0]
    one, other = scores
    return ex.Product((0.5, ex.Sum((one, other, ex.Absolute(ex.Sum((one, ex.Product((-1.0, other)))))))))


# --- The strategies by name ---


class Fusion:
    """The fusion strategies by name. Their formulas are on the classes they return."""

    @staticmethod
    def auto(alpha: float | None = None) -> Auto:
        """Meaning and words, each on the scale that it has in the collection; the default."""
        return Auto() if alpha is None else Auto(weights=shares(alpha), chosen=True)

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
