"""What the signals look at in a stored memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Literal, NamedTuple, TypeAlias

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
_DAY = 86_400.0
_HALF = 10.0


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
        return math.exp(-self.decay * abs((now - updated).total_seconds()) / _DAY)

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
    return 1 + weight * access_count / (access_count + _HALF)


def importance(weight: float, value: float) -> float:
    """1 - weight for importance 0, 1 for 0.5, 1 + weight for importance 1."""
    return 1 + weight * (2 * value - 1)


# --- All signals of one query together, as plain arithmetic. `engine/formulas.py` says the same to the engine ---

TAGS_FOR_BOOST = 3
_BOOST = 1.5


class Weighed(NamedTuple):
    """A score with its signals, and what it is made of."""

    score: float
    parts: Mapping[str, float]
    factors: Factors
    matches: tuple[Match, ...]


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
        return self.tag_weight * (_BOOST if len(self.named) >= TAGS_FOR_BOOST else 1.0) if self.named else 0.0

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
        factors = self.factors(metadata)
        score = math.fsum(weighed.values()) * factors.product + self.bonus(metadata, best)
        return Weighed(score, weighed, factors, self.matched(metadata))

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
