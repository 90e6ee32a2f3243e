"""The two ways to a ranking: the engine fuses, or we do. Each builds requests and reads answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from qdrant_client import models

from twofold.engine.layout import Stored, from_point
from twofold.engine.requests import Ask, Probe
from twofold.fusion import Leg, LegName, settle


@dataclass(frozen=True, slots=True)
class Place:
    """Where a leg found a document."""

    score: float
    rank: int


@dataclass(frozen=True, slots=True)
class Row:
    """A candidate: the document, its final score and, where known, how it came about."""

    stored: Stored
    score: float
    tie: float
    """What the order was decided by, before the document's id."""
    places: Mapping[LegName, Place] = field(default_factory=dict)
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ClientPlan:
    """Both legs in one batch, fused by our own functions."""

    ask: Ask

    def requests(self, depth: int, limit: int) -> list[models.QueryRequest]:
        """One request for each leg, with everything a hit needs. With nothing to fuse, no more than is shown."""
        enough = limit if len(self.ask.probes) == 1 and self.ask.fusion.steady else None
        return [self.ask.leg(probe, depth, payload=True, limit=enough) for probe in self.ask.probes]

    def read(self, answers: Sequence[Sequence[models.ScoredPoint]]) -> list[Row]:
        """The legs' candidates as one ranking."""
        stored = {str(p.id): from_point(p) for points in answers for p in points}
        legs = [_leg(probe, points) for probe, points in zip(self.ask.probes, answers, strict=True)]
        places = _places(legs)
        fused = {f.id: f for f in self.ask.fusion.fuse(legs)}
        # A leg alone keeps its own order, also where the fusion's scores are equal (all below the background).
        deciding = legs[0].hits if len(legs) == 1 else [(f.id, f.score) for f in fused.values()]
        return [
            Row(stored[i], fused[i].score, tie, places[i], fused[i].parts)
            for i, tie in settle(deciding, lambda i: stored[i].id)
        ]


@dataclass(frozen=True)
class NativePlan:
    """The engine fuses. To explain the result, both legs travel in the same batch, ids and scores only."""

    ask: Ask
    explain: bool

    def requests(self, depth: int, limit: int) -> list[models.QueryRequest]:
        """The fused request, and the bare legs if they are to be shown."""
        bare = self.ask.probes if self.explain else ()
        return [self.ask.fused(depth, limit), *(self.ask.leg(probe, depth, payload=False) for probe in bare)]

    def read(self, answers: Sequence[Sequence[models.ScoredPoint]]) -> list[Row]:
        """The engine's ranking, with the same order of ties as ours."""
        settled = settle(((point, point.score) for point in answers[0]), lambda point: from_point(point).id)
        if not self.explain:
            return [Row(from_point(point), score, score) for point, score in settled]
        legs = [_leg(probe, points) for probe, points in zip(self.ask.probes, answers[1:], strict=True)]
        places = _places(legs)
        parts = {fused.id: fused.parts for fused in self.ask.fusion.fuse(legs)}
        return [
            Row(from_point(point), score, score, places.get(str(point.id), {}), parts.get(str(point.id), {}))
            for point, score in settled
        ]


Plan = ClientPlan | NativePlan


def _leg(probe: Probe, points: Sequence[models.ScoredPoint]) -> Leg:
    return Leg(probe.leg, [(str(point.id), point.score) for point in points], probe.terms)


def _places(legs: Sequence[Leg]) -> dict[str, dict[LegName, Place]]:
    places: dict[str, dict[LegName, Place]] = {}
    for leg in legs:
        for rank, (identity, score) in enumerate(leg.hits, 1):
            places.setdefault(identity, {})[leg.name] = Place(score, rank)
    return places
