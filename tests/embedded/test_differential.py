"""Random operations with restarts, against a plain dictionary and against qdrant-client's local mode.

TWOFOLD_DIFFERENTIAL_OPERATIONS sets how many (20,000 for a thorough run); TWOFOLD_SEED repeats one.
"""

from __future__ import annotations

import math
import os
import random
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import QdrantClient
from qdrant_client import models as m

from twofold.embedded import embedded_client

from .conftest import vectors_of

OPERATIONS = int(os.environ.get("TWOFOLD_DIFFERENTIAL_OPERATIONS", "800"))
SEED = int(os.environ.get("TWOFOLD_SEED", "11"))
DENSE = {"dense": m.VectorParams(size=4, distance=m.Distance.COSINE)}
SPARSE = {"words": m.SparseVectorParams(), "idf": m.SparseVectorParams(modifier=m.Modifier.IDF)}
IDS = range(1, 80)
COLORS = ["red", "green", "blue"]


def to_filter(color: str) -> m.Filter:
    return m.Filter(must=[m.FieldCondition(key="color", match=m.MatchValue(value=color))])


def normalised(vector: list[float]) -> list[float]:
    length = math.sqrt(sum(x * x for x in vector))
    return [x / length for x in vector]


class Model:
    """What a collection is: vectors and payloads by id, and nothing clever."""

    def __init__(self) -> None:
        self.points: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}

    def matching(self, color: str) -> list[int]:
        return [i for i, (_, payload) in self.points.items() if payload.get("color") == color]

    def merge(self, i: int, change: dict[str, Any]) -> None:
        """Setting a field to null removes it, in Qdrant."""
        payload = self.points[i][1]
        payload.update(change)
        for key in [key for key, value in change.items() if value is None]:
            del payload[key]

    def dense_scores(self, query: list[float]) -> dict[int, float]:
        query = normalised(query)
        return {
            i: sum(a * b for a, b in zip(query, normalised(vectors["dense"]), strict=True))
            for i, (vectors, _) in self.points.items()
            if "dense" in vectors
        }

    def sparse_scores(self, query: dict[int, float]) -> dict[int, float]:
        scores = {}
        for i, (vectors, _) in self.points.items():
            shared = query.keys() & vectors.get("words", {}).keys()
            if shared:
                scores[i] = sum(query[w] * vectors["words"][w] for w in shared)
        return scores


class Run:
    """One random walk over three implementations."""

    def __init__(self, path: Path, seed: int) -> None:
        self.rng, self.path, self.model = random.Random(seed), path, Model()
        self.ours, self.local = embedded_client(path), QdrantClient(":memory:")
        for client in (self.ours, self.local):
            client.create_collection("c", DENSE, SPARSE)

    def both(self, method: str, *args: Any, **kwargs: Any) -> None:
        for client in (self.ours, self.local):
            getattr(client, method)("c", *args, **kwargs)

    def vectors(self) -> dict[str, Any]:
        rng = self.rng
        vectors: dict[str, Any] = {}
        if rng.random() < 0.9:
            vectors["dense"] = [rng.uniform(-1, 1) for _ in range(4)]
        if rng.random() < 0.8:
            vectors["words"] = vectors["idf"] = {
                w: round(rng.uniform(0.1, 2), 3) for w in rng.sample(range(20), rng.randint(1, 5))
            }
        return vectors

    @staticmethod
    def to_qdrant(vectors: dict[str, Any]) -> dict[str, Any]:
        return {
            name: m.SparseVector(indices=list(v), values=list(v.values())) if isinstance(v, dict) else v
            for name, v in vectors.items()
        }

    def payload(self) -> dict[str, Any]:
        rng = self.rng
        return {
            "color": rng.choice(COLORS),
            "n": rng.randint(0, 50),
            rng.choice("ab"): rng.choice([None, 1.5, ["x"]]),
        }

    def existing(self) -> list[int]:
        return self.rng.sample(sorted(self.model.points), min(len(self.model.points), self.rng.randint(1, 4)))

    # -- operations --------------------------------------------------------------------------------

    def upsert(self) -> None:
        chosen = {i: (self.vectors(), self.payload()) for i in self.rng.sample(IDS, self.rng.randint(1, 12))}
        self.both(
            "upsert",
            [m.PointStruct(id=i, vector=self.to_qdrant(v), payload=p) for i, (v, p) in chosen.items()],
        )
        self.model.points.update(chosen)

    def delete(self) -> None:
        ids = self.rng.sample(IDS, 3)
        self.both("delete", ids)
        for i in ids:
            self.model.points.pop(i, None)

    def delete_by_filter(self) -> None:
        color = self.rng.choice(COLORS)
        if self.rng.random() < 0.2:
            self.both("delete", to_filter(color))
            for i in self.model.matching(color):
                del self.model.points[i]

    def set_payload(self) -> None:
        change, ids = self.payload(), self.existing()
        if ids:
            self.both("set_payload", change, ids)
            for i in ids:
                self.model.merge(i, change)

    def set_payload_by_filter(self) -> None:
        color, change = self.rng.choice(COLORS), {"n": self.rng.randint(0, 50)}
        self.both("set_payload", change, to_filter(color))
        for i in self.model.matching(color):
            self.model.merge(i, change)

    def overwrite_payload(self) -> None:
        change, ids = self.payload(), self.existing()
        if ids:
            self.both("overwrite_payload", change, ids)
            for i in ids:
                self.model.points[i] = (self.model.points[i][0], dict(change))

    def delete_payload(self) -> None:
        ids = self.existing()
        if ids:
            self.both("delete_payload", ["a", "color"], ids)
            for i in ids:
                for key in ("a", "color"):
                    self.model.points[i][1].pop(key, None)

    def update_vectors(self) -> None:
        ids, vectors = self.existing(), self.vectors()
        if ids and vectors:
            self.both("update_vectors", [m.PointVectors(id=i, vector=self.to_qdrant(vectors)) for i in ids])
            for i in ids:
                self.model.points[i][0].update(vectors)

    def delete_vectors(self) -> None:
        ids = self.existing()
        if ids:
            self.both("delete_vectors", ["words", "idf"], ids)
            for i in ids:
                for name in ("words", "idf"):
                    self.model.points[i][0].pop(name, None)

    def reopen(self) -> None:
        if self.rng.random() < 0.3:
            self.ours.close()
            self.ours = embedded_client(self.path)

    def optimize(self) -> None:
        if self.rng.random() < 0.05 and self.ours.optimize("c"):
            self.check_idf()

    def index(self) -> None:
        if self.rng.random() < 0.1:
            self.ours.create_payload_index("c", "color", m.PayloadSchemaType.KEYWORD)
        elif self.rng.random() < 0.1:
            self.ours.delete_payload_index("c", "color")

    # -- checks ------------------------------------------------------------------------------------

    def check_points(self) -> None:
        records = self.ours.scroll("c", limit=1000, with_vectors=True)[0]
        assert {r.id: r.payload for r in records} == {i: p for i, (_, p) in self.model.points.items()}
        assert {r.id: sorted(vectors_of(r)) for r in records} == {
            i: sorted(v) for i, (v, _) in self.model.points.items()
        }
        assert self.ours.count("c").count == len(self.model.points)

    def check_filter(self) -> None:
        color = self.rng.choice(COLORS)
        records = self.ours.scroll("c", to_filter(color), limit=1000)[0]
        assert sorted(r.id for r in records) == sorted(self.model.matching(color))

    def check_dense(self) -> None:
        query = [self.rng.uniform(-1, 1) for _ in range(4)]
        found = self.ours.query_points("c", query, using="dense", limit=1000).points
        assert {p.id: p.score for p in found} == pytest.approx(self.model.dense_scores(query), abs=1e-5)

    def check_sparse(self) -> None:
        query = dict.fromkeys(self.rng.sample(range(20), 3), 1.0)
        asked = m.SparseVector(indices=list(query), values=list(query.values()))
        found = self.ours.query_points("c", asked, using="words", limit=1000).points
        assert {p.id: p.score for p in found} == pytest.approx(self.model.sparse_scores(query), abs=1e-4)

    def check_hybrid(self) -> None:
        words = m.SparseVector(indices=self.rng.sample(range(20), 3), values=[1.0, 1.0, 1.0])
        legs = [
            m.Prefetch(query=[self.rng.uniform(-1, 1) for _ in range(4)], using="dense", limit=1000),
            m.Prefetch(query=words, using="words", limit=1000),
        ]
        asked: dict[str, Any] = {
            "prefetch": legs,
            "query": m.FusionQuery(fusion=m.Fusion.DBSF),
            "limit": 1000,
        }
        ours, local = (client.query_points("c", **asked).points for client in (self.ours, self.local))
        assert {p.id: p.score for p in ours} == pytest.approx({p.id: p.score for p in local}, abs=1e-3)

    def check_idf(self) -> None:
        """Like a server's, the engine's IDF counts deleted vectors until they are optimised away."""
        words = m.SparseVector(indices=self.rng.sample(range(20), 3), values=[1.0, 1.0, 1.0])
        ours, local = (
            client.query_points("c", words, using="idf", limit=1000).points for client in (self.ours, self.local)
        )
        assert {p.id: p.score for p in ours} == pytest.approx({p.id: p.score for p in local}, abs=1e-3)

    def walk(self, steps: int) -> None:
        changes = [
            self.upsert,
            self.upsert,
            self.delete,
            self.delete_by_filter,
            self.set_payload,
            self.set_payload_by_filter,
            self.overwrite_payload,
            self.delete_payload,
            self.update_vectors,
            self.delete_vectors,
            self.reopen,
            self.optimize,
            self.index,
        ]
        checks = [
            self.check_points,
            self.check_filter,
            self.check_dense,
            self.check_sparse,
            self.check_hybrid,
        ]
        for _ in range(steps):
            self.rng.choice(changes)()
            self.rng.choice(checks)()


def test_no_difference(tmp_path: Path) -> None:
    run = Run(tmp_path, SEED)
    try:
        run.walk(OPERATIONS)
    finally:
        run.ours.close()
