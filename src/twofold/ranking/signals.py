"""What a memory is ranked by besides meaning and words: what the query names, age, use, importance, pins and types.

First the facts in a stored memory that count, then what each of them does to a score, then all of them together: as
plain arithmetic (`Signals`), as a formula that the engine computes by itself (`signal_formula`), and as the ranker that
a recall plugs into a search (`SignalRanker`). The arithmetic and the formula say the same; tests compare them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias

from twofold.filters import AnyOf, Either, Equals
from twofold.ranking.expressions import (
    Absolute,
    EngineFusion,
    Expression,
    FieldValue,
    Formula,
    Freshness,
    Holds,
    Product,
    Quotient,
    Ramp,
    Sum,
)
from twofold.ranking.fusion import Auto, Leg, LegName, Strategy, auto_parts, missing_scores
from twofold.ranking.ranker import Candidate, Floor, PlainRanker, StoredDocument, in_leg_order, in_order, places_of
from twofold.results import Explanation, Mode

# --- What the signals look at in a stored memory ---

Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Match:
    """A field of a memory that the query named: tags = rathole, type = movie, metadata.year = 2014."""

    field: str
    value: Value

    def holds(self, metadata: Mapping[str, Any]) -> bool:
        """The memory has this value, or it is among those it has."""
        found: Any = metadata
        for part in self.field.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
        return _equal(found, self.value) or (isinstance(found, list) and any(_equal(f, self.value) for f in found))


@dataclass(frozen=True, slots=True)
class Named:
    """Something that the query names once, however memories spell it: rathole, Rathole; 2014, "2014"."""

    matches: tuple[Match, ...]
    """The fields and spellings that it has in the memories. One of them is enough."""
    weight: float = 1.0
    """How much it says that a memory has it, from 0 to 1."""

    def found(self, metadata: Mapping[str, Any]) -> tuple[Match, ...]:
        """What of it a memory has."""
        return tuple(match for match in self.matches if match.holds(metadata))


def _equal(stored: object, wanted: Value) -> bool:
    """As the engine compares: true is not 1."""
    return stored == wanted and isinstance(stored, bool) == isinstance(wanted, bool)


@dataclass(frozen=True, slots=True)
class Facts:
    """The fields that decide a memory's factors. What is missing or makes no sense counts as ordinary."""

    type: str = ""
    updated: datetime | None = None
    access_count: int = 0
    importance: float = 0.5
    pinned: bool = False

    @classmethod
    def of(cls, metadata: Mapping[str, Any]) -> Facts:
        """Read them from a document's metadata."""
        kind = metadata.get("type")
        return cls(
            type=kind if isinstance(kind, str) else "",
            updated=_moment(metadata.get("updated")),
            access_count=max(0, int(_number(metadata.get("access_count"), 0))),
            importance=min(max(_number(metadata.get("importance"), 0.5), 0.0), 1.0),
            pinned=metadata.get("pinned") is True,
        )


def _number(value: object, usual: float) -> float:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else usual


def _moment(value: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return moment.replace(tzinfo=timezone.utc) if moment and moment.tzinfo is None else moment


# --- The factors that a memory's score is multiplied with ---

RecencyMode: TypeAlias = Literal["soft", "full", "blend"]
_DAY_SECONDS = 86_400.0
_HALFWAY_ACCESS_COUNT = 10.0


@dataclass(frozen=True, slots=True)
class Recency:
    """How age counts, from `fresh = exp(-decay · days since the last update)`.

    - "soft", the default: score · (1 - share + share · fresh). An old memory loses `share` of its score at most.
    - "full": score · fresh. After a year at the default decay 2.6 % are left.
    - "blend": (1 - share) · score + share · fresh. Freshness counts by itself, also for what is hardly relevant.

    A pinned memory is always fresh. decay = 0 switches age off.
    """

    mode: RecencyMode = "soft"
    decay: float = 0.01
    share: float = 0.1

    def fresh(self, updated: datetime | None, now: datetime, *, pinned: bool) -> float:
        """1 for what was updated just now, towards 0 with age."""
        if pinned or updated is None:
            return 1.0
        return math.exp(-self.decay * abs((now - updated).total_seconds()) / _DAY_SECONDS)

    @property
    def active(self) -> bool:
        """Age changes anything at all."""
        return self.decay > 0 and (self.mode == "full" or self.share > 0)

    @property
    def kept(self) -> float:
        """The part of the score that doesn't depend on age."""
        return {"soft": 1 - self.share, "full": 0.0, "blend": 1 - self.share}[self.mode]


@dataclass(frozen=True, slots=True)
class Factors:
    """What multiplies the score, one factor for each signal; 1 is neutral."""

    recency: float = 1.0
    popularity: float = 1.0
    importance: float = 1.0
    pinned: float = 1.0
    type: float = 1.0

    @property
    def product(self) -> float:
        """All of them together."""
        return self.recency * self.popularity * self.importance * self.pinned * self.type


def popularity(weight: float, access_count: float) -> float:
    """From 1 for what was never recalled to 1 + weight for what is recalled all the time; half way at ten times."""
    return 1 + weight * access_count / (access_count + _HALFWAY_ACCESS_COUNT)


def importance(weight: float, value: float) -> float:
    """1 - weight for importance 0, 1 for 0.5, 1 + weight for importance 1."""
    return 1 + weight * (2 * value - 1)


# --- All signals of one query together, as plain arithmetic ---

_NAMES_FOR_BOOST = 3
_BOOST = 1.5


class Weighed(NamedTuple):
    """A score with its signals, and what the legs add to it."""

    score: float
    parts: Mapping[str, float]


@dataclass(frozen=True)
class Signals:
    """The signals that a query is ranked with, and how much each of them counts.

    score = (meaning + words + tags) · recency · popularity · importance · pinned · type
    """

    now: datetime
    named: tuple[Named, ...] = ()
    """The tags and field values that the query names."""
    tag_weight: float = 1.0
    """Of the weight of words: what a memory gains that has everything the query names."""
    recency: Recency = field(default_factory=Recency)
    popularity: float = 0.05
    importance: float = 0.1
    pinned: float = 0.1
    type_weights: Mapping[str, float] = field(default_factory=dict)
    """A factor for each type of memory."""
    type_alpha: Mapping[str, float] = field(default_factory=dict)
    """How much meaning counts, for memories of a type."""

    @property
    def tag_share(self) -> float:
        """What tags add at most, as a share of the words' weight: half as much again where the query names many."""
        return self.tag_weight * (_BOOST if len(self.named) >= _NAMES_FOR_BOOST else 1.0) if self.named else 0.0

    def matched(self, metadata: Mapping[str, Any]) -> tuple[Match, ...]:
        """What a memory has of what the query names."""
        return tuple(match for named in self.named for match in named.found(metadata))

    def tag_score(self, metadata: Mapping[str, Any]) -> float:
        """The share, 0 to 1, that a memory has of what the query names, where what is rare counts more."""
        if not self.named:
            return 0.0
        return math.fsum(named.weight for named in self.named if named.found(metadata)) / len(self.named)

    def leg_factors(self, metadata: Mapping[str, Any], alpha: float) -> tuple[float, float]:
        """What (meaning, words) are multiplied with so that the type's alpha holds instead of the query's."""
        own = self.type_alpha.get(Facts.of(metadata).type)
        if own is None or not 0 < alpha < 1:
            return 1.0, 1.0
        return own / alpha, (1 - own) / (1 - alpha)

    def factors(self, metadata: Mapping[str, Any]) -> Factors:
        """What the sum is multiplied with."""
        facts = Facts.of(metadata)
        return Factors(
            recency=self._recency(facts),
            popularity=popularity(self.popularity, facts.access_count),
            importance=importance(self.importance, facts.importance),
            pinned=1 + self.pinned if facts.pinned else 1.0,
            type=self.type_weights.get(facts.type, 1.0),
        )

    def weigh(self, parts: Mapping[str, float], metadata: Mapping[str, Any], alpha: float, best: float) -> Weighed:
        """A fused score with its signals. `alpha` is the query's, `best` the best score there can be."""
        meaning, words = self.leg_factors(metadata, alpha)
        own = {"dense": meaning, "lexical": words}
        weighed = {leg: part * own.get(leg, 1.0) for leg, part in parts.items()}
        score = math.fsum(weighed.values()) * self.factors(metadata).product + self.bonus(metadata, best)
        return Weighed(score, weighed)

    def _recency(self, facts: Facts) -> float:
        if not self.recency.active:
            return 1.0
        if self.recency.mode == "blend":
            return self.recency.kept
        fresh = self.recency.fresh(facts.updated, self.now, pinned=facts.pinned)
        return self.recency.kept + (1 - self.recency.kept) * fresh

    def bonus(self, metadata: Mapping[str, Any], best: float) -> float:
        """What freshness adds by itself, where it is blended in; `best` is the best score there can be."""
        if self.recency.mode != "blend" or not self.recency.active:
            return 0.0
        facts = Facts.of(metadata)
        return best * self.recency.share * self.recency.fresh(facts.updated, self.now, pinned=facts.pinned)


# --- The same as a formula. Conditions take an engine longer than all arithmetic: each is asked once ---

_PINNED = Holds(Equals("pinned", True))


def signal_formula(fusion: Auto, legs: tuple[LegName, ...], terms: int, signals: Signals, tag_weight: float) -> Formula:
    """What `Signals.weigh` makes of the fusion `auto`, whose background is known."""
    now, recency = signals.now.isoformat(), signals.recency
    score: Expression = _weighted_legs(fusion, legs, terms, tuple(signals.type_alpha.items()))
    if signals.named:
        score = Sum((score, Product((tag_weight / len(signals.named), _tag_share(signals.named)))))
    weights = tuple(signals.type_weights.items())
    score = Product((score, _factors(recency, now, signals.popularity, signals.importance, signals.pinned, weights)))
    if recency.active and recency.mode == "blend":
        fresh = _unless_pinned(_freshness(recency, now), 1.0)
        score = Sum((score, Product((recency.share * sum(fusion.weights), fresh))))
    return Formula(score, missing_scores(fusion, legs))


@lru_cache(maxsize=256)
def _weighted_legs(
    fusion: Auto, legs: tuple[LegName, ...], terms: int, type_alpha: tuple[tuple[str, float], ...]
) -> Expression:
    """Both legs with their weights, which may depend on the memory's type."""
    dense, lexical = auto_parts(fusion, legs, terms)
    both, alphas = sum(fusion.weights), dict(type_alpha) if 0 < fusion.alpha < 1 else {}
    meaning = _by_type(fusion.weight("dense"), {kind: both * alpha for kind, alpha in alphas.items()})
    words = _by_type(fusion.weight("lexical"), {kind: both * (1 - alpha) for kind, alpha in alphas.items()})
    return Sum((Product((meaning, dense)), Product((words, lexical))))


def _tag_share(named: Sequence[Named]) -> Expression:
    """The weights of what a memory has of what the query names, added up."""
    return Sum(tuple(Product((each.weight, _has_one_of(each.matches))) for each in named))


def _has_one_of(matches: Sequence[Match]) -> Holds:
    """1 for what has one of these, or several: a sum would count each of them."""
    values: dict[str, list[Value]] = {}
    for match in matches:
        values.setdefault(match.field, []).append(match.value)
    fields = tuple(AnyOf(field, tuple(of_field)) for field, of_field in values.items())
    return Holds(fields[0] if len(fields) == 1 else Either(fields))


@lru_cache(maxsize=64)
def _factors(
    recency: Recency,
    now: str,
    popularity: float,
    importance: float,
    pinned: float,
    type_weights: tuple[tuple[str, float], ...],
) -> Product:
    """The product of all factors but those that are 1 for every memory."""
    factors: list[Expression] = []
    if recency.active and recency.mode != "blend":  # age and being pinned in one: what is pinned doesn't age
        aged = Sum((recency.kept, Product((1 - recency.kept, _freshness(recency, now)))))
        factors.append(_unless_pinned(aged, 1 + pinned))
    else:
        factors += [recency.kept] if recency.active else []
        factors += [_unless_pinned(1.0, 1 + pinned)] if pinned else []
    if popularity:  # with one look at the count; a damaged one must not divide by 0
        count = Sum((Absolute(FieldValue("access_count", 0.0)), _HALFWAY_ACCESS_COUNT))
        factors.append(Sum((1 + popularity, Quotient(-_HALFWAY_ACCESS_COUNT * popularity, count))))
    if importance:  # from 0 to 1 as it is; a damaged one must not make the score infinite
        factors.append(Sum((1 - importance, Product((2 * importance, Ramp(FieldValue("importance", 0.5), zero=0.0))))))
    if type_weights:
        factors.append(_by_type(1.0, dict(type_weights)))
    return Product(tuple(factors or [1.0]))


def _freshness(recency: Recency, now: str) -> Freshness:
    return Freshness("updated", now, half_life_seconds=math.log(2) / recency.decay * _DAY_SECONDS)


def _unless_pinned(value: Expression, pinned: float) -> Expression:
    """A value, and another for what is pinned."""
    return Sum((value, Product((_PINNED, Sum((pinned, Product((-1.0, value))))))))


def _by_type(usual: float, own: Mapping[str, float]) -> Expression:
    """A number that is another for some types."""
    if not own:
        return usual
    return Sum((usual, *(Product((other - usual, Holds(Equals("type", kind)))) for kind, other in own.items())))


# --- The ranker of a memory ---


@dataclass(frozen=True)
class SignalRanker(PlainRanker):
    """Ranks by the fusion and the signals, with a floor of its own, and looks at rows before they are handed out."""

    signals: Signals = field(default_factory=lambda: Signals(datetime.now(timezone.utc)))
    default_floor: Floor | None = None
    """The floor where both legs took part and no score was asked for."""
    damage: Callable[[Any], str | None] = lambda row: None
    """Why a row can't be handed out, None if it can."""
    tag_weight: float = 0.0
    """What having everything that the query names adds. It follows from the fusion."""

    @property
    def reads_payload(self) -> bool:
        return True

    @property
    def keeps_order(self) -> bool:
        return False

    def fitted(self, fusion: Strategy) -> SignalRanker:
        """The same with another fusion: tags count by what words count in it."""
        return replace(self, fusion=fusion, tag_weight=self.signals.tag_share * fusion.weight("lexical"))

    def native(self, legs: tuple[LegName, ...], terms: int) -> EngineFusion | None:
        """The signals as a formula, where the fusion is one too."""
        if not isinstance(self.fusion, Auto) or self.fusion.background is None:
            return None
        return signal_formula(self.fusion, legs, terms, self.signals, self.tag_weight)

    def rank(self, legs: Sequence[Leg], rows: Mapping[str, Any]) -> list[Candidate]:
        """Fuse the legs with one of tags, multiply with the factors, and order by (score, id)."""
        places = places_of(legs, rows)
        alpha, best = self.fusion.alpha, self.fusion.ceiling() * sum(self.fusion.weights)
        candidates = {}
        for fused in self.fusion.fuse([*legs, *self._tag_leg(rows)], rows):
            row = rows[fused.id]
            score, parts = self.signals.weigh(fused.parts, row.metadata, alpha, best)
            candidates[fused.id] = Candidate(row, score, score, places.get(fused.id, {}), parts)
        if len(legs) > 1:
            return in_order(candidates)
        alone = [each._replace(tie=each.score) for each in in_leg_order(candidates, legs[0])]
        return sorted(alone, key=lambda candidate: -candidate.score)

    def _tag_leg(self, rows: Mapping[str, Any]) -> list[Leg]:
        """The documents that have something of what the query names, most of it first."""
        if not self.tag_weight:
            return []
        shares = [(identity, self.signals.tag_score(row.metadata)) for identity, row in rows.items()]
        named = sorted(((i, share) for i, share in shares if share > 0), key=lambda hit: (-hit[1], rows[hit[0]].id))
        return [Leg("tags", named, weight=self.tag_weight)] if named else []

    def floor(self, mode: Mode) -> Floor | None:
        """The score that was asked for, or the floor that was measured for both legs together."""
        if self.min_score is not None:
            return Floor(self.min_score)
        return self.default_floor if mode == "hybrid" else None

    def screen(self, row: StoredDocument) -> str | None:
        """What is wrong with a row."""
        return self.damage(row)

    def explain(self, candidate: Candidate, matched_words: tuple[str, ...]) -> Explanation:
        """What the legs and the tags add, and the factor of each signal."""
        metadata = candidate.row.metadata
        factors = self.signals.factors(metadata)
        return replace(
            super().explain(candidate, matched_words),
            tag_boost=candidate.parts.get("tags", 0.0),
            matched_tags=tuple(str(match.value) for match in self.signals.matched(metadata)),
            recency_factor=factors.recency,
            popularity_factor=factors.popularity,
            importance_factor=factors.importance,
            pinned_factor=factors.pinned,
            type_factor=factors.type,
        )
