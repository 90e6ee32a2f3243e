"""Which fusion answers the pairs best, and how sure that is.

Every candidate is judged on queries that had no part in choosing it: the pairs are dealt into folds, the best
candidate of all folds but one is tried on that one. Another setting than the default is only taken if that gains
something, beyond what chance would.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from twofold.fusion import Auto, Average, Dbsf, Leg, Rrf, Strategy, Weighted

Scores = npt.NDArray[np.float64]
_CUT = 10
_FOLDS = 5
_ALPHAS = tuple(round(0.05 * step, 2) for step in range(21))
_OTHERS = (Dbsf(), Weighted(), Rrf(k=10), Rrf())
_OTHER_ALPHAS = (0.2, 0.35, 0.5, 0.65, 0.8)
_SAMPLES = 2000
_SURE = 0.9
_FEW = 10
_FAMILIAR = 0.01


@dataclass(frozen=True)
class Asked:
    """What the legs found for one query, and which of it answers it."""

    legs: tuple[Leg, ...]
    relevant: frozenset[str]
    default: Strategy | None = None
    """The fusion that it would get by itself; None for the default of all."""


@dataclass(frozen=True)
class Tuning:
    """What tuning came to."""

    fusion: Strategy
    """The fusion to use: the best one found, or the default if none is surely better."""
    changed: bool
    """It is not the default."""
    before: float
    """nDCG@10 of the default."""
    after: float
    """nDCG@10 to expect from what was chosen, measured on queries that had no part in choosing."""
    sure: float
    """How likely it is, from 0 to 1, that what was chosen is no worse than the default; 1 where the default stays."""
    pairs: int
    """How many pairs it rests on; those with the same query and filter are one."""
    unknown: int = 0
    """How many of the expected ids are not in the collection: no setting finds them."""

    def __str__(self) -> str:
        measured = f"nDCG@10 {self.before:.3f}"
        if self.changed:
            measured += f" → {self.after:.3f}"
        found = f"{measured} on {self.pairs} pair{'' if self.pairs == 1 else 's'}{self._missing()}"
        if self.changed:
            k = f" and k {self.fusion.k}" if isinstance(self.fusion, Rrf) else ""
            return f"{self.fusion.name} with alpha {self.fusion.alpha:.2f}{k}: {found}, {self.sure:.0%} sure"
        return f"the default stays ({found}; {self._why()})"

    def _why(self) -> str:
        if self.pairs < _FEW:
            return f"too few pairs to judge by: give {_FEW} or more, better a hundred"
        return "nothing is surely better"

    def _missing(self) -> str:
        if not self.unknown:
            return ""
        return f", {self.unknown} expected id{' is' if self.unknown == 1 else 's are'} not in the collection"


def candidates(default: Strategy) -> list[Strategy]:
    """The default at every alpha, and the other fusions.

    The scale of `auto` is not tried: whatever ranking another scale gives, another alpha gives too. Nor is the depth:
    on four public sets of 2,000 to 10,000 texts, two or four times the default gained 0.001 at most.
    """
    kin = [_at(default, alpha) for alpha in _ALPHAS]
    others = [_at(fusion, alpha) for fusion in _OTHERS for alpha in _OTHER_ALPHAS]
    return [default, *kin, *others, Average()]


def _at(fusion: Strategy, alpha: float) -> Strategy:
    return fusion.with_alpha(alpha)


def choose(asked: Sequence[Asked], default: Strategy) -> Tuning:
    """The best fusion for these queries, if it is surely better than the default."""
    tried = candidates(default)
    table = np.array([[_ndcg(fusion, each) for each in asked] for fusion in tried])
    table[0] = [_ndcg(each.default or default, each) for each in asked]
    strange = np.array([0.0 if type(fusion) is type(default) else _FAMILIAR for fusion in tried])
    before = float(table[0].mean())
    if len(asked) < _FEW:
        return Tuning(default, False, before, before, 1.0, len(asked))
    gains = _held_out(table, strange) - table[0]
    sure = _chance_of_no_loss(gains)
    best = tried[_best(table, strange)]
    if sure < _SURE or float(gains.mean()) <= 0 or best == default:
        return Tuning(default, False, before, before, 1.0, len(asked))
    return Tuning(_drawn(best, default, len(asked)), True, before, before + float(gains.mean()), sure, len(asked))


def _drawn(best: Strategy, default: Strategy, pairs: int) -> Strategy:
    """Few pairs take alpha only a part of the way."""
    if type(best) is not type(default) or not isinstance(best, Auto):
        return best
    trust = pairs / (pairs + _FEW)
    return best.with_alpha(round(default.alpha + trust * (best.alpha - default.alpha), 3))


def _best(table: Scores, strange: Scores) -> int:
    """The row with the best mean. Another kind of fusion must be better by more than the noise."""
    return int(np.argmax(table.mean(axis=1) - strange))


def _held_out(table: Scores, strange: Scores) -> Scores:
    """For each query the score of what the other folds would have chosen."""
    folds = np.arange(table.shape[1]) % _FOLDS
    scores = np.empty(table.shape[1])
    for fold in range(_FOLDS):
        own = folds == fold
        scores[own] = table[_best(table[:, ~own], strange), own]
    return scores


def _chance_of_no_loss(gains: Scores) -> float:
    """The share of resampled sets of queries on which the gain is not negative."""
    picks = np.random.default_rng(0).integers(0, len(gains), (_SAMPLES, len(gains)))
    return float((gains[picks].mean(axis=1) >= 0).mean())


def _ndcg(fusion: Strategy, asked: Asked) -> float:
    """nDCG@10 with every relevant document worth the same."""
    ranked = fusion.fuse(asked.legs)[:_CUT]
    gained = sum(1 / math.log2(place + 2) for place, hit in enumerate(ranked) if hit.id in asked.relevant)
    best = sum(1 / math.log2(place + 2) for place in range(min(_CUT, len(asked.relevant))))
    return gained / best
