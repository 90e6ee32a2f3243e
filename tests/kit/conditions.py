"""Random filters, each with what it means."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from qdrant_client import models

from tests.kit.corpus import KINDS, Point, PointId

Holds = Callable[[Point], bool]


@dataclass(frozen=True)
class Condition:
    filter: models.Filter
    holds: Holds


def draw(rng: random.Random, ids: Sequence[PointId], depth: int = 2) -> Condition:
    """A filter of a few conditions, nested up to `depth` levels."""
    if depth == 0 or rng.random() < 0.4:
        condition, holds = rng.choice(LEAVES)(rng, ids)
        return Condition(models.Filter(must=[condition]), holds)
    parts = [draw(rng, ids, depth - 1) for _ in range(rng.randint(1, 3))]
    inner: Any = [part.filter for part in parts]
    word = rng.choice(["must", "should", "must_not"])
    if word == "must":
        return Condition(models.Filter(must=inner), lambda point: all(part.holds(point) for part in parts))
    if word == "should":
        return Condition(models.Filter(should=inner), lambda point: any(part.holds(point) for part in parts))
    return Condition(models.Filter(must_not=inner), lambda point: not any(part.holds(point) for part in parts))


def value_of(point: Point, key: str) -> Any:
    return point.payload.get("metadata", {}).get(key)


def _kind(rng: random.Random, _: Sequence[PointId]) -> tuple[Any, Holds]:
    wanted = rng.choice(KINDS)
    match = models.MatchValue(value=wanted)
    return models.FieldCondition(key="metadata.kind", match=match), lambda point: value_of(point, "kind") == wanted


def _flag(rng: random.Random, _: Sequence[PointId]) -> tuple[Any, Holds]:
    wanted = rng.random() < 0.5
    match = models.MatchValue(value=wanted)
    return models.FieldCondition(key="metadata.done", match=match), lambda point: value_of(point, "done") is wanted


def _tags(rng: random.Random, _: Sequence[PointId]) -> tuple[Any, Holds]:
    wanted = [f"t{rng.randint(0, 7)}" for _ in range(rng.randint(1, 3))]
    match = models.MatchAny(any=wanted)
    return (
        models.FieldCondition(key="metadata.tags", match=match),
        lambda point: bool(set(wanted) & set(value_of(point, "tags") or ())),
    )


def _range(rng: random.Random, _: Sequence[PointId]) -> tuple[Any, Holds]:
    low, high = sorted((rng.randint(0, 9), rng.randint(0, 36) / 4))

    def holds(point: Point) -> bool:
        n = value_of(point, "n")
        return n is not None and low <= n < high

    return models.FieldCondition(key="metadata.n", range=models.Range(gte=low, lt=high)), holds


def _empty(_: random.Random, __: Sequence[PointId]) -> tuple[Any, Holds]:
    field = models.PayloadField(key="metadata.note")
    return models.IsEmptyCondition(is_empty=field), lambda point: value_of(point, "note") in (None, [])


def _ids(rng: random.Random, ids: Sequence[PointId]) -> tuple[Any, Holds]:
    wanted: list[Any] = rng.sample(list(ids), rng.randint(0, 12))
    return models.HasIdCondition(has_id=wanted), lambda point: point.id in wanted


LEAVES = (_kind, _flag, _tags, _range, _empty, _ids)
