"""The factors that a memory's score is multiplied with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

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
