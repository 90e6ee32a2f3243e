"""All signals of one query together, as plain arithmetic. `engine/formulas.py` says the same to the engine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from twofold.signals.factors import Factors, Recency, importance, popularity
from twofold.signals.facts import Facts, Match, Named

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
