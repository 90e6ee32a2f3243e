"""What `tune` computes: a fusion that suits a collection.

A fusion as plain values, then pairs of a query and its answers, and at the end the choice among fusions with how sure
it is.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from twofold.errors import InvalidQuery
from twofold.ranking.fusion import Auto, Average, Dbsf, Leg, Rrf, Strategy, Weighted, resolve

# --- A fusion as plain values, to be kept with a collection ---


def describe(fusion: Strategy) -> dict[str, Any]:
    """The values that make a fusion."""
    kept: dict[str, Any] = {"name": fusion.name, "weights": list(fusion.weights)}
    return {**kept, "k": fusion.k} if isinstance(fusion, Rrf) else kept


def restore(kept: Mapping[str, Any]) -> Strategy:
    """The fusion that these values make."""
    fusion = replace(resolve(kept["name"]), **{name: kept[name] for name in ("weights", "k") if name in kept})
    return replace(fusion, chosen=True) if isinstance(fusion, Auto) else fusion


# --- What tuning learns from: queries, and the documents that answer them ---


@dataclass(frozen=True)
class Pair:
    """A query, the ids of the documents that answer it, and where to look for them."""

    query: str
    relevant: frozenset[str]
    filter: Mapping[str, Any] | None = field(default=None, compare=False)


PairLike: TypeAlias = Pair | tuple[str, str | Iterable[str]] | Mapping[str, Any]
_ANSWER_KEYS = ("relevant", "expected", "ids", "id")


def as_pairs(given: Iterable[PairLike]) -> list[Pair]:
    """Pairs from whatever stands for them, one for each query and filter; one that can't be used says so.

    A query that came twice would be learned from and tried on at once, and would count as two.
    """
    if not isinstance(given, Iterable) or isinstance(given, (str, bytes, type)):
        raise InvalidQuery(f"pairs must be a list such as [('how do I log in', 'doc-17')], got {type(given).__name__}")
    found: dict[str, Pair] = {}
    for place, each in enumerate(given):
        pair = _pair(each, place)
        key = json.dumps([pair.query, pair.filter], sort_keys=True, default=repr)
        known = found.get(key, pair)
        found[key] = replace(known, relevant=known.relevant | pair.relevant)
    if not found:
        raise InvalidQuery("there is nothing to learn from: give pairs such as ('how do I log in', 'doc-17')")
    return list(found.values())


def _pair(given: PairLike, place: int) -> Pair:
    if isinstance(given, Pair):
        return given
    where = None
    if isinstance(given, Mapping):
        answers = next((given[key] for key in _ANSWER_KEYS if key in given), None)
        query, where = given.get("query"), given.get("filter")
    elif isinstance(given, Sequence) and not isinstance(given, str) and len(given) == 2:
        query, answers = given
    else:
        raise InvalidQuery(f"pair {place}: expected (query, id or ids) or a mapping, got {given!r}")
    ids: list[Any] = [answers] if not isinstance(answers, Iterable) or isinstance(answers, str) else list(answers)
    if not isinstance(query, str) or not query.strip() or not ids or not all(isinstance(i, str) for i in ids):
        raise InvalidQuery(f"pair {place}: a query and at least one id, as a string, are needed, got {given!r}")
    return Pair(query, frozenset(ids), where)


# --- Which fusion answers the pairs best, and how sure that is ---

Scores = npt.NDArray[np.float64]
NDCG_DEPTH = 10
_FOLDS = 5
_ALPHAS = tuple(round(0.05 * step, 2) for step in range(21))
_OTHERS = (Dbsf(), Weighted(), Rrf(k=10), Rrf())
_OTHER_ALPHAS = (0.2, 0.35, 0.5, 0.65, 0.8)
_BOOTSTRAP_SAMPLES = 2000
_LEAST_CONFIDENCE = 0.9
_PAIRS_NEEDED = 10
_OTHER_KIND_HANDICAP = 0.01


@dataclass(frozen=True)
class JudgedQuery:
    """What the legs found for one query, and which of it answers it."""

    legs: tuple[Leg, ...]
    relevant: frozenset[str]
    fitted: Strategy = field(default_factory=Auto)
    """The default fusion as it is for this query: on its scales."""


@dataclass(frozen=True)
class RerankTrial:
    """What a reranker brings on the pairs."""

    before: float
    """nDCG@10 without it."""
    after: float
    """nDCG@10 with it."""
    sure: float
    """How likely it is, from 0 to 1, that it is no worse than without."""
    pairs: int
    failed: int = 0
    """In how many searches it failed, so that the ranking before it counted."""

    @property
    def pays(self) -> bool:
        """It is surely better: not by the chance of these pairs."""
        return self.pairs >= _PAIRS_NEEDED and self.after > self.before and self.sure >= _LEAST_CONFIDENCE

    def __str__(self) -> str:
        few = f"too few pairs to judge by: give {_PAIRS_NEEDED} or more"
        verdict = few if self.pairs < _PAIRS_NEEDED else "it pays" if self.pays else "not surely better"
        failed = f", failed on {self.failed}" if self.failed else ""
        return f"the reranker: nDCG@10 {self.before:.3f} → {self.after:.3f}, {self.sure:.0%} sure{failed}; {verdict}"


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

    rerank: RerankTrial | None = None
    """What a reranker brings with the fusion that was chosen; None if there is none."""

    def __str__(self) -> str:
        return f"{self._fusion()}{f'. And {self.rerank}' if self.rerank else ''}"

    def _fusion(self) -> str:
        found = f"nDCG@10 {self.before:.3f}{f' → {self.after:.3f}' if self.changed else ''} on {self.pairs} pair"
        found += "" if self.pairs == 1 else "s"
        if self.unknown:
            found += f", {self.unknown} expected id{' is' if self.unknown == 1 else 's are'} not in the collection"
        if self.changed:
            k = f" and k {self.fusion.k}" if isinstance(self.fusion, Rrf) else ""
            return f"{self.fusion.name} with alpha {self.fusion.alpha:.2f}{k}: {found}, {self.sure:.0%} sure"
        few = f"too few pairs to judge by: give {_PAIRS_NEEDED} or more, better a hundred"
        return f"the default stays ({found}; {few if self.pairs < _PAIRS_NEEDED else 'nothing is surely better'})"


def candidates(default: Strategy) -> list[Strategy]:
    """The default at every alpha, and the other fusions.

    The scale of `auto` is not tried: whatever ranking another scale gives, another alpha gives too. Nor is the depth:
    on four public sets of 2,000 to 10,000 texts, two or four times the default gained 0.001 at most.
    """
    kin = [default.with_alpha(alpha) for alpha in _ALPHAS]
    others = [fusion.with_alpha(alpha) for fusion in _OTHERS for alpha in _OTHER_ALPHAS]
    return [default, *kin, *others, Average()]


def choose(queries: Sequence[JudgedQuery], default: Strategy) -> Tuning:
    """The best fusion for these queries, if it is surely better than the default."""
    tried = candidates(default)
    table = np.array([[_ndcg(fusion, each) for each in queries] for fusion in tried])
    handicaps = np.array([0.0 if type(fusion) is type(default) else _OTHER_KIND_HANDICAP for fusion in tried])
    before = float(table[0].mean())
    stays = Tuning(default, False, before, before, 1.0, len(queries))
    if len(queries) < _PAIRS_NEEDED:
        return stays
    gains = _held_out(table, handicaps) - table[0]
    sure = _sure(gains)
    best = tried[_best(table, handicaps)]
    if sure < _LEAST_CONFIDENCE or float(gains.mean()) <= 0 or best == default:
        return stays
    if isinstance(best, Auto) and isinstance(default, Auto):  # few pairs take alpha only a part of the way
        trust = len(queries) / (len(queries) + _PAIRS_NEEDED)
        best = best.with_alpha(round(default.alpha + trust * (best.alpha - default.alpha), 3))
    return Tuning(best, True, before, before + float(gains.mean()), sure, len(queries))


def _sure(gains: Scores) -> float:
    """Of resampled sets of queries, the share without a loss."""
    picks = np.random.default_rng(0).integers(0, len(gains), (_BOOTSTRAP_SAMPLES, len(gains)))
    return float((gains[picks].mean(axis=1) >= 0).mean())


def _best(table: Scores, handicaps: Scores) -> int:
    """The row with the best mean. Another kind of fusion must be better by more than the noise."""
    return int(np.argmax(table.mean(axis=1) - handicaps))


def _held_out(table: Scores, handicaps: Scores) -> Scores:
    """For each query the score of what the other folds would have chosen."""
    folds = np.arange(table.shape[1]) % _FOLDS
    scores = np.empty(table.shape[1])
    for fold in range(_FOLDS):
        own = folds == fold
        scores[own] = table[_best(table[:, ~own], handicaps), own]
    return scores


def _ndcg(fusion: Strategy, query: JudgedQuery) -> float:
    """nDCG@10 with every relevant document worth the same."""
    if isinstance(fusion, Auto):
        fusion = replace(query.fitted, weights=fusion.weights)
    return _ndcg_of([hit.id for hit in fusion.fuse(query.legs)], query.relevant)


def _ndcg_of(ids: Sequence[str], relevant: frozenset[str]) -> float:
    gained = sum(1 / math.log2(place + 2) for place, each in enumerate(ids[:NDCG_DEPTH]) if each in relevant)
    best = sum(1 / math.log2(place + 2) for place in range(min(NDCG_DEPTH, len(relevant))))
    return gained / best


# --- Whether a reranker pays ---


def try_reranker(rankings: Sequence[tuple[Pair, Sequence[str], Sequence[str]]], failed: int) -> RerankTrial:
    """What the ids found for pairs, without and with a reranker, say about it."""
    before = np.array([_ndcg_of(ids, pair.relevant) for pair, ids, _ in rankings])
    after = np.array([_ndcg_of(ids, pair.relevant) for pair, _, ids in rankings])
    return RerankTrial(float(before.mean()), float(after.mean()), _sure(after - before), len(rankings), failed)
