"""What a memory is ranked by besides meaning and words: what the query names, age, use, importance, pins and types.

Each signal is an expression (see `ranking/expressions.py`), so that it is written once: the engine computes a formula
of them, the same expressions are evaluated where scores are computed here, and the explanation of a hit shows what they
come to. First how the signals are set, then their expressions, then the ranker that a recall plugs into a search.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

from twofold.filters import AnyOf, Either, Equals
from twofold.ranking.expressions import (
    Absolute,
    Clipped,
    EngineFusion,
    Expression,
    FieldValue,
    Freshness,
    Holds,
    Product,
    Quotient,
    Sum,
    evaluate,
    holds,
    product,
)
from twofold.ranking.fusion import Auto, Leg, LegName, Strategy, auto_formula
from twofold.ranking.ranker import Candidate, Ranker, in_leg_order, in_order, places_of
from twofold.results import Explanation

# --- How the signals of one query are set ---

RecencyMode: TypeAlias = Literal["soft", "full", "blend"]
_DAY_SECONDS = 86_400.0
_HALFWAY_ACCESS_COUNT = 10.0
_NAMES_FOR_BOOST = 3
_BOOST = 1.5
GATE_RELEVANCE = 0.31
"""What the best memory must have, so that any are given: more than unrelated questions get and less than a likely
answer has, because a memory too many does less harm than one withheld."""


@dataclass(frozen=True, slots=True)
class Named:
    """Something that the query names once, however memories spell it: rathole, Rathole; 2014, "2014"."""

    matches: tuple[Equals, ...]
    """The fields and spellings that it has in the memories: tags = rathole, metadata.year = 2014. One is enough."""
    weight: float = 1.0
    """How much it says that a memory has it, from 0 to 1."""


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

    @cached_property
    def tags(self) -> Expression:
        """The share, 0 to 1, that a memory has of what the query names, where what is rare counts more."""
        return Sum(tuple(Product((each.weight / len(self.named), _has_one_of(each.matches))) for each in self.named))

    @cached_property
    def factors(self) -> Factors:
        """What the sum of meaning, words and tags is multiplied with."""
        types = tuple(self.type_weights.items())
        return _factors(self.recency, self.now.isoformat(), self.popularity, self.importance, self.pinned, types)

    def weigh(
        self, parts: Mapping[str, float], metadata: Mapping[str, Any], alpha: float, best: float
    ) -> tuple[float, dict[str, float]]:
        """A fused score with its signals, and what the legs add to it.

        `alpha` is the query's, `best` the best score there can be.
        """
        own = leg_factors(alpha, tuple(self.type_alpha.items()))
        weighed = {leg: part * evaluate(own.get(leg, 1.0), metadata) for leg, part in parts.items()}
        score = math.fsum(weighed.values()) * evaluate(self.factors.product, metadata)
        return score + best * evaluate(self.factors.added, metadata), weighed


# --- What each signal does to a score ---

_PINNED = Holds(Equals("pinned", True))


class Factors(NamedTuple):
    """What multiplies the score; 1 is neutral."""

    shown: Mapping[str, Expression]
    """One factor for each signal, by its name in an `Explanation`."""
    product: Expression
    """All of them together. Conditions take an engine longer than all arithmetic, so being pinned is asked once."""
    added: Expression
    """What freshness adds by itself, where it is blended in: a share of the best score there can be."""


@lru_cache(maxsize=64)
def _factors(
    recency: Recency,
    now: str,
    popularity: float,
    importance: float,
    pinned: float,
    type_weights: tuple[tuple[str, float], ...],
) -> Factors:
    aged: Expression = 1.0
    popular: Expression = 1.0
    important: Expression = 1.0
    added: Expression = 0.0
    pinned_aged = 1.0
    if recency.decay > 0 and (recency.mode == "full" or recency.share > 0):
        fresh = Freshness("updated", now, half_life_seconds=math.log(2) / recency.decay * _DAY_SECONDS)
        kept = 0.0 if recency.mode == "full" else 1 - recency.share
        if recency.mode == "blend":
            aged, pinned_aged, added = kept, kept, Product((recency.share, _unless_pinned(fresh, 1.0)))
        else:
            aged = Sum((kept, Product((1 - kept, fresh))))
    # From 1 for what was never recalled to 1 + weight for what is recalled all the time; half way at ten times. With
    # one look at the count; a damaged one must not divide by 0.
    if popularity:
        count = Sum((Absolute(FieldValue("access_count", 0.0)), _HALFWAY_ACCESS_COUNT))
        popular = Sum((1 + popularity, Quotient(-_HALFWAY_ACCESS_COUNT * popularity, count)))
    # 1 - weight for importance 0, 1 for 0.5, 1 + weight for 1; a damaged one must not make the score infinite.
    if importance:
        important = Sum((1 - importance, Product((2 * importance, Clipped(FieldValue("importance", 0.5))))))
    typed = _by_type(1.0, dict(type_weights))
    shown = {
        "recency_factor": _unless_pinned(aged, pinned_aged),
        "popularity_factor": popular,
        "importance_factor": important,
        "pinned_factor": _unless_pinned(1.0, 1 + pinned),
        "type_factor": typed,
    }
    return Factors(shown, product(_unless_pinned(aged, pinned_aged * (1 + pinned)), popular, important, typed), added)


@lru_cache(maxsize=64)
def leg_factors(alpha: float, type_alpha: tuple[tuple[str, float], ...]) -> Mapping[str, Expression]:
    """What legs are multiplied with so that a type's alpha holds instead of the query's; a leg alone stays."""
    own = dict(type_alpha) if 0 < alpha < 1 else {}
    meaning = {kind: each / alpha for kind, each in own.items()}
    words = {kind: (1 - each) / (1 - alpha) for kind, each in own.items()}
    return {"dense": _by_type(1.0, meaning), "lexical": _by_type(1.0, words)}


def _has_one_of(matches: Sequence[Equals]) -> Holds:
    """1 for what has one of these, or several: a sum would count each of them."""
    values: dict[str, list[Any]] = {}
    for match in matches:
        values.setdefault(match.field, []).append(match.value)
    fields = tuple(AnyOf(field, tuple(of_field)) for field, of_field in values.items())
    return Holds(fields[0] if len(fields) == 1 else Either(fields))


def _unless_pinned(value: Expression, pinned: float) -> Expression:
    """A value, and another for what is pinned."""
    return value if value == pinned else Sum((value, Product((_PINNED, Sum((pinned, Product((-1.0, value))))))))


def _by_type(usual: float, own: Mapping[str, float]) -> Expression:
    """A number that is another for some types."""
    if not own:
        return usual
    return Sum((usual, *(Product((other - usual, Holds(Equals("type", kind)))) for kind, other in own.items())))


# --- The ranker of a memory ---


@dataclass(frozen=True)
class SignalRanker(Ranker):
    """Ranks by the fusion and the signals, with a floor of its own, and looks at rows before they are handed out."""

    signals: Signals = field(default_factory=lambda: Signals(datetime.now(timezone.utc)))
    gate: bool = False
    """Where no relevance was asked for: give nothing unless one of the best is an answer."""
    surplus: float = 0.0
    """A share of the tags' weight that says nothing about the query, so that the gate doesn't count it."""
    has_every_word: Callable[[Any], bool] = lambda row: False
    """A row has all that was asked for, which no score says as well where that is a word or two."""
    damage: Callable[[Any], str | None] = lambda row: None
    """Why a row can't be handed out, None if it can."""
    tag_weight: float = 0.0
    """What having everything that the query names adds. It follows from the fusion."""
    reads_payload: ClassVar[bool] = True
    looks_at: ClassVar[int] = 10

    @property
    def keeps_order(self) -> bool:
        signals = self.signals
        neutral = signals.factors.product == product(1.0) and not (signals.factors.added or signals.named)
        return neutral and not signals.type_alpha and super().keeps_order

    def fitted(self, fusion: Strategy) -> SignalRanker:
        """The same with another fusion: tags count by what words count in it."""
        weight = self.signals.tag_share * fusion.weight("lexical") * fusion.tag_unit
        return replace(self, fusion=fusion, tag_weight=weight)

    def native(self, legs: tuple[LegName, ...], terms: int) -> EngineFusion | None:
        """The signals as a formula, where the fusion is one too: what `Signals.weigh` makes of it."""
        fusion, signals = self.fusion, self.signals
        if not isinstance(fusion, Auto):
            return None
        own = leg_factors(fusion.alpha, tuple(signals.type_alpha.items()))
        meaning, words = (() if factor == 1.0 else (factor,) for factor in (own["dense"], own["lexical"]))
        plain = auto_formula(fusion, legs, terms, (meaning, words))
        score = plain.expression
        if signals.named:
            score = Sum((score, Product((self.tag_weight, signals.tags))))
        score = Product((score, signals.factors.product))
        if signals.factors.added:
            score = Sum((score, Product((self._best, signals.factors.added))))
        return replace(plain, expression=score)

    def rank(self, legs: Sequence[Leg], rows: Mapping[str, Any]) -> list[Candidate]:
        """Fuse the legs with one of tags, multiply with the factors, and order by (score, id)."""
        places = places_of(legs, rows)
        alpha, best = self.fusion.alpha, self._best
        candidates = {}
        for fused in self.fusion.fuse([*legs, *self._tag_leg(rows)], rows):
            row = rows[fused.id]
            score, parts = self.signals.weigh(fused.parts, row.metadata, alpha, best)
            candidates[fused.id] = Candidate(row, score, score, places.get(fused.id, {}), parts)
        if len(legs) > 1:
            return in_order(candidates, self.fusion)
        alone = [each._replace(tie=each.score) for each in in_leg_order(candidates, legs[0])]
        return sorted(alone, key=lambda candidate: -candidate.score)

    def _tag_leg(self, rows: Mapping[str, Any]) -> list[Leg]:
        """The documents that have something of what the query names, most of it first."""
        if not self.tag_weight:
            return []
        shares = [(identity, evaluate(self.signals.tags, row.metadata)) for identity, row in rows.items()]
        named = sorted(((i, share) for i, share in shares if share > 0), key=lambda hit: (-hit[1], rows[hit[0]].id))
        return [Leg("tags", named, weight=self.tag_weight)] if named else []

    @property
    def _best(self) -> float:
        """The best score there can be, as far as freshness is a share of it."""
        return self.fusion.ceiling() * sum(self.fusion.weights)

    def admit(self, candidates: Sequence[Candidate], legs: Sequence[LegName]) -> Sequence[Candidate]:
        """All of them or, unless one of the best is an answer, none; those relevant enough if that was asked for."""
        if self.min_score is not None or not self.gate or not isinstance(self.fusion, Auto) or not self.fusion.scale:
            return super().admit(candidates, legs)
        best, surplus = candidates[: self.looks_at], self.surplus * self.tag_weight
        found = any(self.fusion.relevance(self._fused_score(each) - surplus, legs) >= GATE_RELEVANCE for each in best)
        return candidates if found or any(self.has_every_word(each.row) for each in best) else []

    def _fused_score(self, candidate: Candidate) -> float:
        """A score without what age, use and importance made of it: they say nothing about the query."""
        factors, metadata = self.signals.factors, candidate.row.metadata
        return (candidate.score - self._freshness(metadata)) / max(evaluate(factors.product, metadata), 1e-6)

    def _freshness(self, metadata: Mapping[str, Any]) -> float:
        """What freshness adds by itself."""
        return self._best * evaluate(self.signals.factors.added, metadata)

    def screen(self, row: Any) -> str | None:
        """What is wrong with a row."""
        return self.damage(row)

    def explain(self, candidate: Candidate, matched_words: tuple[str, ...]) -> Explanation:
        """What the legs and the tags add, and the factor of each signal."""
        metadata = candidate.row.metadata
        named = (match for each in self.signals.named for match in each.matches)
        factors: Any = {name: evaluate(factor, metadata) for name, factor in self.signals.factors.shown.items()}
        return replace(
            super().explain(candidate, matched_words),
            tag_boost=candidate.parts.get("tags", 0.0),
            matched_tags=tuple(str(match.value) for match in named if holds(match, metadata)),
            freshness=self._freshness(metadata),
            **factors,
        )
