"""What a random walk goes over: an engine and a plain dictionary."""

from __future__ import annotations

import random
from collections.abc import Callable
from json import JSONDecodeError
from typing import Any

from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from tests.kit import corpus
from tests.kit.conditions import Condition, draw
from tests.kit.corpus import Point, PointId
from tests.kit.engines import Engine

NUMBERS = 40


class State:
    """An engine and the dictionary that it is compared with, and what a step draws from."""

    def __init__(self, engine: Engine, seed: int) -> None:
        self.engine = engine
        self.rng = random.Random(seed)
        self.points: dict[PointId, Point] = {}
        self.ids: list[PointId] = [point.id for point in corpus.points(2 * NUMBERS)]
        self.name = engine.new_collection(**corpus.LAYOUT)
        self.untouched = True
        """No vector was replaced or deleted since the collection was made: then IDF is exact everywhere."""

    def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """A call until it is acknowledged; every write here may be sent twice."""
        self._upset()
        for _ in range(10):
            try:
                return getattr(self.engine, method)(self.name, *args, **kwargs)
            except (ResponseHandlingException, ResourceExhaustedResponse, JSONDecodeError):
                continue
            except UnexpectedResponse as error:
                if error.status_code != 503:
                    raise
        raise AssertionError(f"{method} was not acknowledged in ten attempts")

    def _upset(self) -> None:
        """Over HTTP, one call in ten meets a fault."""
        if self.engine.rest is None or self.rng.random() > 0.1:
            return
        faults = self.engine.rest.faults
        upsets: list[Callable[[], None]] = [
            lambda: faults.status(503, times=2),
            lambda: faults.status(429, times=1),
            lambda: faults.drop(times=1),
            lambda: faults.drop(after=True, times=1),
            lambda: faults.garbage(after=True, times=1),
        ]
        faults.clear()
        self.rng.choice(upsets)()

    def some_ids(self, most: int = 6) -> list[Any]:
        return self.rng.sample(self.ids, self.rng.randint(1, most))

    def present(self, most: int = 5) -> list[Any]:
        known = sorted(self.points, key=str)
        return self.rng.sample(known, min(len(known), self.rng.randint(1, most)))

    def vectors(self) -> dict[str, Any]:
        terms = corpus.sparse(self.rng, self.rng.randint(1, 6))
        whole = {"dense": corpus.dense(self.rng), "bm25": terms, "plain": terms}
        return {name: vector for name, vector in whole.items() if self.rng.random() < 0.85}

    def payload(self) -> dict[str, Any]:
        rng = self.rng
        metadata: dict[str, Any] = {
            "kind": rng.choice(corpus.KINDS),
            "n": rng.choice([rng.randint(0, 9), rng.randint(0, 36) / 4]),
            "tags": [f"t{rng.randint(0, 6)}" for _ in range(rng.randint(0, 3))],
            "done": rng.random() < 0.5,
        }
        if rng.random() < 0.7:
            metadata["note"] = rng.choice([None, [], "hello", ""])
        return {"metadata": metadata, rng.choice("abc"): rng.choice([1, None, "x", [1, None], {"y": {}}])}

    def condition(self) -> Condition:
        return draw(self.rng, self.ids)

    def maybe_condition(self) -> Condition | None:
        return self.condition() if self.rng.random() < 0.5 else None

    def chosen(self, condition: Condition | None) -> list[Point]:
        return [point for point in self.points.values() if condition is None or condition.holds(point)]

    def selection(self) -> tuple[Any, list[Point]]:
        """Points to change, by id or by filter, and the same in the dictionary."""
        if self.rng.random() < 0.4:
            condition = self.condition()
            return condition.filter, self.chosen(condition)
        ids = self.present()
        return ids, [self.points[key] for key in ids]
