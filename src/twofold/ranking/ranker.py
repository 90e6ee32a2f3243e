"""The seam for ranking: how the candidates of one query are scored, admitted, screened and explained.

A search asks its `Ranker` for all of that, and knows nothing else about it. As it stands, it is the ranker of an index;
`ranking.signals.SignalRanker` is the one of a memory, which recall plugs in.

Where to change what:
- the default rule of fusion: `ranking.fusion.Auto`. A rule that looks at both lists before it weighs them overrides
  `rank`, and gives None for `native`, or the formula that says the same.
- the scale of `Hit.relevance`, from 0 to 1: `ranking.fusion.Scale`, and how it is measured `ranking.calibration`.
- what is made of a reranker's answer, the stage after this one: `reranked`.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from twofold.ranking.expressions import EngineFusion as EngineFusion
from twofold.ranking.fusion import Leg, LegName, Strategy, settle
from twofold.results import Explanation


class Place(NamedTuple):
    """Where a leg found a document."""

    score: float
    rank: int


class SecondLook(NamedTuple):
    """What a reranker made of a candidate, as `Explanation` has it."""

    rerank_score: float | None
    rank_before: int
    score_before: float


class Candidate(NamedTuple):
    """A document that was found, its final score and, where known, how that came about."""

    row: Any
    """What is stored: its point, id, text and metadata. Reading one may convert it, so it isn't read without need."""
    score: float
    tie: float
    """What the order was decided by, before the document's id."""
    places: Mapping[LegName, Place] = MappingProxyType({})
    parts: Mapping[str, float] = MappingProxyType({})
    """What each leg adds to the score."""
    look: SecondLook | None = None
    """Where it stood before a reranker, if there was one: then the score is the relevance."""


@dataclass(frozen=True)
class Ranker:
    """How one query ranks what its legs find: by the fusion alone."""

    fusion: Strategy
    """How the legs become one score. What has no weight is not searched for."""
    min_score: float | None = None
    """Hits of less relevance, from 0 to 1, are left out."""
    reads_payload: ClassVar[bool] = False
    """The engine's fusion reads payloads, in which it may stumble over anything; ours reads them with care."""
    looks_at: ClassVar[int] = 0
    """How many of the best it looks at before it admits any, however few are shown."""

    @property
    def keeps_order(self) -> bool:
        """The first hits of a leg that is searched alone are the first hits of the ranking."""
        return self.fusion.steady

    def fitted(self, fusion: Strategy) -> Ranker:
        """The same with the fusion that suits the collection and the query."""
        return replace(self, fusion=fusion)

    def native(self, legs: tuple[LegName, ...], terms: int) -> EngineFusion | None:
        """What makes an engine score exactly as `rank` does, from legs that are asked in this order; or None."""
        return self.fusion.native(legs, terms)

    def rank(self, legs: Sequence[Leg], rows: Mapping[str, Any]) -> list[Candidate]:
        """Score those of the legs' hits that there is a row for, best first; of equal scores the nearer, then by id."""
        places = places_of(legs, rows)
        fused = self.fusion.fuse(legs, rows)
        candidates = {f.id: Candidate(rows[f.id], f.score, f.score, places[f.id], f.parts) for f in fused}
        return in_order(candidates, self.fusion) if len(legs) > 1 else in_leg_order(candidates, legs[0])

    def admit(self, candidates: Sequence[Candidate], legs: Sequence[LegName]) -> Sequence[Candidate]:
        """Those that are relevant enough, of a ranking that these legs made."""
        least = self.min_score
        return candidates if least is None else [c for c in candidates if self.fusion.relevance(c.score, legs) >= least]

    def screen(self, row: Any) -> str | None:
        """Why a document can't be handed out; None if it can."""
        problem: str | None = row.problem
        return problem

    def explain(self, candidate: Candidate, matched_words: tuple[str, ...]) -> Explanation:
        """Where a candidate's score comes from: scores and ranks of both legs, and what each of them adds."""
        dense, lexical = candidate.places.get("dense"), candidate.places.get("lexical")
        return Explanation(
            fusion=self.fusion.name,
            semantic_score=dense.score if dense else None,
            semantic_rank=dense.rank if dense else None,
            semantic_part=candidate.parts.get("dense", 0.0),
            lexical_score=lexical.score if lexical else None,
            lexical_rank=lexical.rank if lexical else None,
            lexical_part=candidate.parts.get("lexical", 0.0),
            matched_words=matched_words,
            final_score=candidate.score,
            alpha=self.fusion.alpha,
        )


def reranked(
    candidates: Sequence[Candidate], relevances: Sequence[float], order: Sequence[tuple[int, float | None]]
) -> list[Candidate]:
    """Candidates, given with their relevances, in the order of a reranker: their places and what it scored each.

    Scores from 0 to 1 are the relevance as they are; others count as the logits that cross-encoders give. An order
    without scores says nothing about relevance: the first gets the greatest there was, and so on. Those that the
    reranker left out or didn't see follow as they stood, none with more relevance than what comes before.
    """
    scores = [score for _, score in order if score is not None]
    if len(scores) < len(order) or any(before < after for before, after in pairwise(scores)):
        shares = sorted(relevances, reverse=True)
    else:
        shares = scores if all(0 <= score <= 1 for score in scores) else [_logistic(score) for score in scores]
    scored = dict(order)
    rest = (place for place in range(len(candidates)) if place not in scored)
    found: list[Candidate] = []
    least = math.inf
    for number, place in enumerate((*scored, *rest)):
        candidate = candidates[place]
        least = min(least, shares[number] if number < len(order) else relevances[place])
        look = SecondLook(scored.get(place), place + 1, candidate.score)
        found.append(candidate._replace(score=least, tie=least, look=look))
    return found


def _logistic(score: float) -> float:
    return 1 / (1 + math.exp(-score)) if score > 0 else 1 - 1 / (1 + math.exp(score))


def places_of(legs: Sequence[Leg], only: Container[str]) -> dict[str, dict[LegName, Place]]:
    """Where each leg found these documents."""
    places: dict[str, dict[LegName, Place]] = {}
    for leg in legs:
        for rank, (identity, score) in enumerate(leg.hits, 1):
            if identity in only:
                places.setdefault(identity, {})[leg.name] = Place(score, rank)
    return places


def in_order(candidates: Mapping[str, Candidate], fusion: Strategy) -> list[Candidate]:
    """Best first, ties by nearness if the fusion says so, and then by the document's id."""

    def tie(each: Candidate) -> tuple[float, str]:
        near = each.places.get("dense") if fusion.ties_by_nearness else None
        return -near.score if near else 1.0, str(each.row.id)

    settled = settle([(each, each.score) for each in candidates.values()], tie)
    return [candidate._replace(score=score, tie=score) for candidate, score in settled]


def in_leg_order(candidates: Mapping[str, Candidate], leg: Leg) -> list[Candidate]:
    """The order of a leg that was searched alone: it tells apart more than the scores that are made of it."""
    settled = settle(leg.hits, lambda identity: str(candidates[identity].row.id))
    return [candidates[identity]._replace(tie=score) for identity, score in settled]
