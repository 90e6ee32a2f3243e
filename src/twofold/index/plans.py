"""The two ways to a ranking: the engine fuses, or we do. Each builds requests and reads answers."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from qdrant_client import models

from twofold.engine.asking import Ask
from twofold.engine.layout import DENSE, Found, Stored, from_point
from twofold.ranking.fusion import Leg, LegName, settle
from twofold.ranking.signals import Factors, Match

_NO_FACTORS = Factors()


class Place(NamedTuple):
    """Where a leg found a document."""

    score: float
    rank: int


_NOWHERE: Mapping[LegName, Place] = MappingProxyType({})


class Row(NamedTuple):
    """A candidate: the document, its final score and, where known, how it came about."""

    stored: Stored
    score: float
    tie: float
    """What the order was decided by, before the document's id."""
    places: Mapping[LegName, Place] = _NOWHERE
    parts: Mapping[str, float] = MappingProxyType({})
    factors: Factors = _NO_FACTORS
    matches: tuple[Match, ...] = ()


@dataclass(frozen=True)
class ClientPlan:
    """Both legs in one batch, fused by our own functions."""

    ask: Ask

    def requests(self, depth: int, limit: int) -> list[models.QueryRequest]:
        """One request for each leg, with everything a hit needs. With nothing to fuse, no more than is shown."""
        alone = len(self.ask.probes) == 1 and self.ask.fusion.steady and self.ask.signals is None
        enough = limit if alone else None
        return [self.ask.leg(probe, depth, payload=True, limit=enough) for probe in self.ask.probes]

    def brought(self, answers: Sequence[Sequence[Found]]) -> dict[LegName, frozenset[str]]:
        """The candidates of each leg."""
        return _brought(self.ask, answers)

    def read(self, answers: Sequence[Sequence[Found]]) -> list[Row]:
        """The legs' candidates as one ranking."""
        found = [[(from_point(point), point.score) for point in points] for points in answers]
        stored = {each.point: each for points in found for each, _ in points}
        legs = _legs(self.ask, [[(each.point, score) for each, score in points] for points in found])
        rows = _fuse(self.ask, legs, stored)
        if len(legs) > 1:
            settled = settle([(row, row.score) for row in rows.values()], lambda row: row.stored.id)
            return [row._replace(score=score, tie=score) for row, score in settled]
        # A leg alone keeps its own order where scores are equal (all below the background).
        alone = [rows[i]._replace(tie=score) for i, score in settle(legs[0].hits, lambda i: stored[i].id)]
        if self.ask.signals is None:
            return alone
        return sorted((row._replace(tie=row.score) for row in alone), key=lambda row: -row.score)


@dataclass(frozen=True)
class NativePlan:
    """The engine fuses. To explain the result, both legs travel in the same batch, ids and scores only."""

    ask: Ask
    how: Any
    """The engine's query that fuses."""
    explain: bool
    again: bool = False
    """The engine is so near that it can be asked again."""

    def requests(self, depth: int, limit: int) -> list[models.QueryRequest]:
        """The fused request, and the bare legs if they are to be shown. For a floor, vectors say how near hits are."""
        bare = [self.ask.leg(probe, depth, payload=False) for probe in self.ask.probes] if self.explain else []
        return [self.ask.fused(self.how, depth, limit, vectors=self._judges), *bare]

    @property
    def _judges(self) -> bool:
        return self.ask.sure is not None and not self.explain and not self.again

    @property
    def judged_after(self) -> bool:
        """How near the hits are, where a floor wants to know, is still to be asked."""
        return self.ask.sure is not None and not self.explain and self.again

    def brought(self, answers: Sequence[Sequence[Found]]) -> dict[LegName, frozenset[str]]:
        """The candidates of each leg, where they have been asked for."""
        return _brought(self.ask, answers[1:]) if self.explain else {}

    def read(self, answers: Sequence[Sequence[Found]]) -> list[Row]:
        """The engine's ranking, with the same order of ties as ours."""
        found = [from_point(point) for point in answers[0]]
        scored = zip(found, [point.score for point in answers[0]], strict=True)
        settled = settle(scored, lambda stored: stored.id)
        if self._judges:
            near = self._cosines(answers[0])
            return [Row(stored, score, score, near.get(stored.point, _NOWHERE)) for stored, score in settled]
        if not self.explain:
            return [Row(stored, score, score) for stored, score in settled]
        # Ids as the engine gives them: most of the candidates are not shown, and nobody reads theirs as text.
        legs = _legs(self.ask, [[(point.id, point.score) for point in points] for points in answers[1:]])
        shown = {point.id: stored for point, stored in zip(answers[0], found, strict=True)}
        rows = {row.stored.point: row for row in _fuse(self.ask, legs, shown).values()}
        return [
            rows.get(stored.point, Row(stored, score, score))._replace(score=score, tie=score)
            for stored, score in settled
        ]

    def _cosines(self, points: Sequence[Found]) -> dict[str, Mapping[LegName, Place]]:
        """How near each hit is in meaning. Cheaper than to ask the dense leg once more."""
        asked = next(probe.vector for probe in self.ask.probes if isinstance(probe.vector, np.ndarray))
        low = [point for point in points if point.score < self.ask.enough]  # only these need another reason to stay
        vectors = [(str(point.id), (point.vector or {}).get(DENSE)) for point in low]
        known = [(i, vector) for i, vector in vectors if vector is not None]
        if not known:
            return {}
        matrix = np.array([vector for _, vector in known], dtype=np.float32)
        lengths = np.linalg.norm(matrix, axis=1) * np.linalg.norm(asked)
        cosines = np.einsum("ij,j->i", matrix, asked) / np.maximum(lengths, 1e-9)
        return {i: {"dense": Place(cosine, 0)} for (i, _), cosine in zip(known, cosines.tolist(), strict=True)}


Plan = ClientPlan | NativePlan


def _brought(ask: Ask, answers: Sequence[Sequence[Found]]) -> dict[LegName, frozenset[str]]:
    legs: dict[LegName, frozenset[str]] = {}
    for probe, points in zip(ask.probes, answers, strict=True):
        legs[probe.leg] = legs.get(probe.leg, frozenset()).union(str(point.id) for point in points)
    return legs


def _legs(ask: Ask, found: Sequence[list[tuple[str, float]]]) -> list[Leg]:
    """What each leg found. A leg that was also asked for what the query names is one leg still: the better counts."""
    legs: dict[LegName, Leg] = {}
    for probe, hits in zip(ask.probes, found, strict=True):
        if probe.leg in legs:
            known = dict(legs[probe.leg].hits)
            better = {i: max(score, known.get(i, score)) for i, score in hits}
            hits = sorted({**known, **better}.items(), key=lambda hit: -hit[1])
        terms = legs[probe.leg].terms if probe.leg in legs else probe.terms
        legs[probe.leg] = Leg(probe.leg, hits, terms)
    return list(legs.values())


def _fuse(ask: Ask, legs: Sequence[Leg], stored: Mapping[str, Stored]) -> dict[str, Row]:
    """The stored documents with their scores, and with their signals if there are any."""
    places = _places(legs, stored)
    fused = ask.fusion.fuse([*legs, *_tag_leg(ask, stored)], stored)
    if ask.signals is None:
        return {f.id: Row(stored[f.id], f.score, f.score, places[f.id], f.parts) for f in fused}
    alpha, best = ask.fusion.alpha, ask.fusion.ceiling() * sum(ask.fusion.weights)
    rows = {}
    for each in fused:
        weighed = ask.signals.weigh(each.parts, stored[each.id].metadata, alpha, best)
        rows[each.id] = Row(
            stored[each.id],
            weighed.score,
            weighed.score,
            places.get(each.id, {}),
            weighed.parts,
            weighed.factors,
            weighed.matches,
        )
    return rows


def _tag_leg(ask: Ask, stored: Mapping[str, Stored]) -> list[Leg]:
    """The documents that have something of what the query names, most of it first."""
    if ask.signals is None or not ask.tag_weight:
        return []
    shares = [(i, ask.signals.tag_score(each.metadata)) for i, each in stored.items()]
    named = sorted(((i, share) for i, share in shares if share > 0), key=lambda hit: (-hit[1], stored[hit[0]].id))
    return [Leg("tags", named, weight=ask.tag_weight)] if named else []


def _places(legs: Sequence[Leg], only: Container[str]) -> dict[str, dict[LegName, Place]]:
    places: dict[str, dict[LegName, Place]] = {}
    for leg in legs:
        for rank, (identity, score) in enumerate(leg.hits, 1):
            if identity in only:
                places.setdefault(identity, {})[leg.name] = Place(score, rank)
    return places
