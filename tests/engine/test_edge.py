"""The embedded engine: what an index sends straight to it is what it would send through a client."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import qdrant_edge as edge
from qdrant_client import models as m

from twofold import Document, EngineError, HybridIndex, IndexClosed, embedded_client
from twofold.config import CollectionSettings
from twofold.documents import point_id
from twofold.embedded import EmbeddedClient
from twofold.embedded.store import _open_stores
from twofold.encoders.base import Sparse
from twofold.engine import calls
from twofold.engine.connection import Connection, connect
from twofold.engine.edge import PARTS
from twofold.engine.layout import DENSE, NewPoint, creation
from twofold.engine.requests import FusedQuery, RequestBuilder, VectorQuery
from twofold.filters import Equals
from twofold.flow import run
from twofold.ranking.expressions import (
    Absolute,
    Clipped,
    FieldValue,
    Formula,
    Holds,
    LegScore,
    Product,
    Quotient,
    Sum,
)
from twofold.testing import HashEmbedding


class Colour(str, Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


METADATA: dict[str, Any] = {
    "colour": Colour.RED,
    "level": Level.HIGH,
    "share": np.float64(0.25),
    "count": np.int64(7),
    "nested": {"ok": True, "none": None, "list": [1, 2.5, "ü", Colour.RED]},
}
DOCUMENTS = [
    *(Document(f"tunnel {n} on port {2000 + n % 7}", id=f"d{n}", metadata={"n": n}) for n in range(60)),
    Document("", id="empty"),
    Document("the metadata of strangers", id="odd", metadata=METADATA),
]


def stored(client: EmbeddedClient, collection: str = "twofold") -> dict[Any, Any]:
    records, _ = client.scroll(collection, limit=1000, with_vectors=True)
    return {record.id: (record.payload, record.vector) for record in records}


def test_the_same_points(tmp_path: Path) -> None:
    client = embedded_client(tmp_path)
    with HybridIndex.open(tmp_path, "straight", dense=HashEmbedding()) as straight:
        straight.add(DOCUMENTS)
    HybridIndex.open(client, "through", dense=HashEmbedding()).add(DOCUMENTS)
    points = stored(client, "straight")
    assert points == stored(client, "through")
    assert len(points) == len(DOCUMENTS)
    odd = next(payload for payload, _ in points.values() if payload["id"] == "odd")
    assert odd["metadata"] == {
        "colour": "red",
        "level": 3,
        "share": 0.25,
        "count": 7,
        "nested": {"ok": True, "none": None, "list": [1, 2.5, "ü", "red"]},
    }
    client.close()


@pytest.mark.parametrize("fusion", ["auto", "rrf", "dbsf", "weighted"])
def test_the_same_answers(tmp_path: Path, fusion: str) -> None:
    client = embedded_client(tmp_path)
    through = HybridIndex.open(client, dense=HashEmbedding())
    through.add(DOCUMENTS)
    with HybridIndex.open(tmp_path, dense=HashEmbedding()) as straight:
        for query in ("tunnel on port 2003", "strangers", "port", "nothing of it"):
            for options in ({}, {"explain": True}, {"alpha": 1.0}, {"alpha": 0.0}, {"filter": {"n": {"lt": 30}}}):
                ours = straight.search(query, 7, fusion=fusion, **options)
                assert ours == through.search(query, 7, fusion=fusion, **options)
    client.close()


class Wrong:
    """A sparse model that isn't ours, and makes a mistake."""

    needs_idf = True
    settings = {"model": "wrong"}  # noqa: RUF012

    def __init__(self, vector: Sparse) -> None:
        self._vector = vector

    def embed_documents(self, texts: Sequence[str]) -> list[Sparse]:
        return [self._vector for _ in texts]

    def embed_query(self, text: str) -> Sparse:
        return self._vector

    def matched_words(self, query: str, texts: Sequence[str]) -> list[tuple[str, ...]]:
        return [() for _ in texts]


@pytest.mark.parametrize(
    ("vector", "says"),
    [
        (Sparse([1, 1], [1.0, 2.0]), "twice"),
        (Sparse([1, 2], [1.0, float("nan")]), "NaN"),
        (Sparse([1, 2], [1.0, float("inf")]), "infinity"),
        (Sparse([1, 2], [1.0]), "2 indices but 1 values"),
        (Sparse([-1], [1.0]), "from 0"),
        (Sparse([2**32], [1.0]), "from 0"),
    ],
)
def test_what_a_model_makes_is_checked(tmp_path: Path, vector: Sparse, says: str) -> None:
    index = HybridIndex.open(tmp_path, dense=HashEmbedding(), sparse=Wrong(vector))
    with pytest.raises(EngineError, match=says):
        index.add(["a text"])
    assert index.count() == 0
    index.close()


def test_unsorted_sparse_vectors_are_sorted(tmp_path: Path) -> None:
    with HybridIndex.open(tmp_path, dense=HashEmbedding(), sparse=Wrong(Sparse((9, 2), (1.0, 2.0)))) as index:
        index.add(["a text"])
    client = embedded_client(tmp_path)
    [(_, vector)] = stored(client).values()
    assert vector["bm25"] == m.SparseVector(indices=[2, 9], values=[2.0, 1.0])
    client.close()


@pytest.fixture
def verbs(tmp_path: Path) -> Iterator[Connection]:
    """An open store with a few points."""
    connection = connect(tmp_path, create=True, api_key=None, timeout=1)
    run(calls.create("c", creation(CollectionSettings(), dim=2, idf=True, record={"format": 1})), connection)
    points = [
        NewPoint(point_id(str(n)), {DENSE: np.array([1, n], dtype=np.float32)}, {"id": str(n), "metadata": {"n": n}})
        for n in range(5)
    ]
    run(calls.upsert("c", points), connection)
    yield connection
    connection.close()


def fused(verbs: Connection, formula: Formula) -> dict[Any, float]:
    leg = VectorQuery(np.array([1, 0], dtype=np.float32), 10)
    [found] = run(calls.query("c", [FusedQuery((leg,), formula, 10)]), verbs)
    return {point.payload["metadata"]["n"]: point.score for point in found}


def test_what_formulas_and_legs_share_is_converted_once() -> None:
    products: list[Any] = []
    vectors: list[Any] = []

    def product(factors: Any) -> Any:
        products.append(factors)
        return PARTS.product(factors)

    def nearest(name: str, vector: Any) -> dict[str, Any]:
        vectors.append(vector)
        return {"query": edge.Query.Nearest(vector.tolist(), name)}

    parts = replace(PARTS, product=product, converted={})
    shared = Product((FieldValue("n", 0.0), 3.0))
    found = VectorQuery(np.array([1, 1], dtype=np.float32), 3)
    for _ in range(2):
        formula = Formula(Sum((LegScore(0), shared)), (0.0,))
        leg = replace(found, limit=6, among=(found,))
        RequestBuilder(parts, nearest).request(FusedQuery((leg, leg), formula, 10))
    assert len(products) == 1, "what stands in one formula after the other"
    assert len(vectors) == 2, "the vector of all legs of a request"


def test_a_formula_computes_what_it_says(verbs: Connection) -> None:
    thrice = Formula(Sum((Product((FieldValue("n", 7.0), 3.0)), Holds(Equals("n", 2)))), (0.0,))
    assert fused(verbs, thrice) == {0: 0, 1: 3, 2: 7, 3: 9, 4: 12}
    parts = Formula(Quotient(Absolute(Sum((FieldValue("n", 0.0), -3.0))), 2.0), (0.0,))
    assert fused(verbs, parts) == {0: 1.5, 1: 1, 2: 0.5, 3: 0, 4: 0.5}
    clipped = Formula(Clipped(Quotient(Sum((FieldValue("n", 0.0), -2.0)), 2.0)), (0.0,))
    assert fused(verbs, clipped) == pytest.approx({0: 0, 1: 0, 2: 0, 3: 0.5, 4: 1})


def test_true_is_not_one_in_a_formula(verbs: Connection) -> None:
    one = Formula(Holds(Equals("n", 1)), (0.0,))
    true = Formula(Holds(Equals("n", True)), (0.0,))
    assert one == true
    assert fused(verbs, one)[1] == 1
    assert fused(verbs, true)[1] == 0


def test_an_index_that_nobody_closed_frees_its_folder(tmp_path: Path) -> None:
    connection = connect(tmp_path, create=True, api_key=None, timeout=1)
    del connection
    gc.collect()
    deadline = time.monotonic() + 60
    while str(tmp_path.resolve()) in _open_stores and time.monotonic() < deadline:
        time.sleep(0.01)  # a thread of the store's own closes it
    assert str(tmp_path.resolve()) not in _open_stores


def test_two_connections_share_a_store_and_close_one_by_one(tmp_path: Path) -> None:
    one, other = (connect(tmp_path, create=True, api_key=None, timeout=1) for _ in range(2))
    settings = creation(CollectionSettings(), dim=2, idf=True, record={})
    run(calls.create("c", settings), one)
    one.close()
    one.close()
    with pytest.raises(IndexClosed):
        run(calls.exists("c"), one)
    assert run(calls.exists("c"), other)
    other.close()
