"""Points for the cases: a dense vector, two sparse ones, and a payload as the index lays it out; some lack a part."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, TypeAlias
from uuid import UUID

from qdrant_client import models

PointId: TypeAlias = int | str
Sparse: TypeAlias = dict[int, float]

SIZE = 8
TERMS = 30
START = datetime(2024, 1, 1, tzinfo=timezone.utc)
KINDS = ("note", "film", "link")
WORDS = ("river", "stone", "Lantern", "winter", "Søren", "paper")

LAYOUT: dict[str, Any] = {
    "shard_number": 1,  # IDF is counted for each shard, and scores are compared with a count over everything
    "vectors_config": {"dense": models.VectorParams(size=SIZE, distance=models.Distance.COSINE)},
    "sparse_vectors_config": {
        "bm25": models.SparseVectorParams(modifier=models.Modifier.IDF),
        "plain": models.SparseVectorParams(),
    },
    "metadata": {"twofold": {"format": 1, "model": None, "names": ["dense", "bm25"]}},
}
INDEXES = {
    "text": models.TextIndexParams(type=models.TextIndexType.TEXT, tokenizer=models.TokenizerType.WORD, lowercase=True),
    "metadata.kind": models.PayloadSchemaType.KEYWORD,
    "metadata.n": models.PayloadSchemaType.FLOAT,
    "metadata.rank": models.PayloadSchemaType.INTEGER,
    "metadata.when": models.PayloadSchemaType.DATETIME,
    "metadata.done": models.PayloadSchemaType.BOOL,
}


@dataclass
class Point:
    """What one point holds, in plain values."""

    id: PointId
    vectors: dict[str, Any] = field(default_factory=dict)
    payload: dict[str, Any] = field(default_factory=dict)

    @property
    def metadata(self) -> dict[str, Any]:
        found: dict[str, Any] = self.payload["metadata"]
        return found

    def struct(self) -> models.PointStruct:
        return models.PointStruct(id=self.id, vector=to_vectors(self.vectors), payload=self.payload)


def to_vectors(vectors: dict[str, Any]) -> dict[str, Any]:
    return {name: to_sparse(value) if isinstance(value, dict) else value for name, value in vectors.items()}


def to_sparse(weights: Sparse) -> models.SparseVector:
    return models.SparseVector(indices=list(weights), values=list(weights.values()))


def dense(rng: random.Random) -> list[float]:
    return [rng.uniform(-1, 1) for _ in range(SIZE)]


def sparse(rng: random.Random, terms: int = 5) -> Sparse:
    return {term: round(rng.uniform(0.1, 2), 4) for term in sorted(rng.sample(range(TERMS), terms))}


def points(count: int, seed: int = 7) -> list[Point]:
    rng = random.Random(seed)
    return [Point(_id(n), _vectors(rng, n), _payload(n)) for n in range(count)]


def _id(n: int) -> PointId:
    return n if n % 2 else str(UUID(int=n * 7919 + 1))


def _vectors(rng: random.Random, n: int) -> dict[str, Any]:
    terms = sparse(rng)
    vectors: dict[str, Any] = {"dense": dense(rng), "bm25": terms, "plain": dict(terms)}
    if n % 10 == 9:  # found by its meaning only
        del vectors["bm25"], vectors["plain"]
    if n % 10 == 4:  # found by its words only
        del vectors["dense"]
    return vectors


def _payload(n: int) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "kind": KINDS[n % 3],
        "n": n / 4 if n % 2 else n // 4,
        "rank": n,
        "done": n % 4 == 0,
        "when": (START + timedelta(days=n, hours=n % 24)).isoformat(),
        "tags": [f"t{n % 5}", f"t{n % 7}"],
        "lang": {"code": "no" if n % 2 else "en"},
        "odd key!": n % 6,
    }
    if n % 4:
        metadata["note"] = (None, [], "hello", "see page 3")[n % 4]
    text = f"{WORDS[n % 6]} and {WORDS[(n // 6) % 6]}, number {n}"
    return {"id": f"doc-{n}", "text": text, "metadata": metadata}
