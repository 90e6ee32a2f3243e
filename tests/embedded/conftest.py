"""Clients and data for the tests of the embedded engine."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import pytest
from qdrant_client import QdrantClient, models

from twofold.embedded import EmbeddedClient, embedded_client

DENSE = {"dense": models.VectorParams(size=4, distance=models.Distance.COSINE)}
SPARSE = {"words": models.SparseVectorParams(modifier=models.Modifier.IDF)}

Client = TypeVar("Client", bound=QdrantClient)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[EmbeddedClient]:
    opened = embedded_client(tmp_path / "store")
    yield opened
    opened.close()


@pytest.fixture
def notes(client: EmbeddedClient) -> EmbeddedClient:
    """A client with the collection `notes`: 60 points of `sample_points`, indexed."""
    return fill(client)


def fill(client: Client) -> Client:
    client.create_collection("notes", DENSE, SPARSE)
    client.upsert("notes", sample_points())
    for field, kind in {"kind": "keyword", "n": "integer", "price": "float", "when": "datetime"}.items():
        client.create_payload_index("notes", field, models.PayloadSchemaType(kind))
    return client


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EmbeddedClient, QdrantClient]]:
    """The same collection in the embedded engine and in qdrant-client's local mode."""
    ours, local = embedded_client(tmp_path_factory.mktemp("pair")), QdrantClient(":memory:")
    yield fill(ours), fill(local)
    ours.close()
    local.close()


def eventually(true: Callable[[], bool], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while not true() and time.monotonic() < deadline:
        time.sleep(0.05)
    return true()


def payload_of(point: models.Record | models.ScoredPoint) -> dict[str, Any]:
    assert point.payload is not None
    return point.payload


def vectors_of(point: models.Record | models.ScoredPoint) -> dict[str, Any]:
    assert isinstance(point.vector, dict)
    return point.vector


def sample_points(count: int = 60) -> list[models.PointStruct]:
    rng = random.Random(7)
    start = datetime(2024, 1, 1, tzinfo=timezone.utc)
    points = []
    for n in range(count):
        payload: dict[str, Any] = {
            "n": n,
            "kind": ["note", "film", "link"][n % 3],
            "tags": [f"t{n % 5}", f"t{n % 7}"],
            "price": n / 4,
            "when": (start + timedelta(days=n)).isoformat(),
            "text": f"the quick fox number {n} jumps",
            "done": n % 2 == 0,
            "place": {"lon": 10 + n / 10, "lat": 50 + n / 20},
            "parts": [{"name": "a", "size": n}, {"name": "b", "size": 60 - n}],
        }
        if n % 4 == 0:
            payload["note"] = None if n % 8 == 0 else "hello"
        indices = sorted(rng.sample(range(30), 5))
        vector: dict[str, Any] = {
            "dense": [rng.uniform(-1, 1) for _ in range(4)],
            "words": models.SparseVector(indices=indices, values=[rng.uniform(0.1, 2) for _ in indices]),
        }
        if n % 10 == 9:
            del vector["words"]
        point_id: int | str = n if n % 2 else str(UUID(int=n + 1))
        points.append(models.PointStruct(id=point_id, vector=vector, payload=payload))
    return points
