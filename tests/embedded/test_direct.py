"""What an index sends straight to the engine is what it would send through a client."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qdrant_client import models as m
from qdrant_client.conversions.conversion import RestToGrpc

from twofold import Document, EngineError, HybridIndex, embedded_client
from twofold.embedded import EmbeddedClient
from twofold.embedded.to_edge.formulas import (
    FixedFormula,
    FixedProduct,
    FixedSum,
    fixed_formula,
    to_edge_expression,
)
from twofold.encoders.base import Sparse
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


def test_a_formula_of_ones_own_may_change(client: EmbeddedClient) -> None:
    """Only the formulas of an index, which never change, are converted once."""
    client.create_collection("f", m.VectorParams(size=2, distance=m.Distance.DOT))
    client.upsert("f", [m.PointStruct(id=1, vector=[1.0, 0.0])])
    query = m.FormulaQuery(formula=m.MultExpression(mult=["$score", 2.0]))
    leg = m.Prefetch(query=[1.0, 0.0])
    assert client.query_points("f", query=query, prefetch=leg).points[0].score == 2
    query.formula = m.MultExpression(mult=["$score", 5.0])
    assert client.query_points("f", query=query, prefetch=leg).points[0].score == 5


def test_the_fixed_parts_of_a_formula_are_converted_once() -> None:
    for one, other in (
        [FixedSum(sum=["n"]), FixedSum(sum=["n"])],
        [FixedProduct(mult=["n"]), FixedProduct(mult=["n"])],
    ):
        assert to_edge_expression(one) is to_edge_expression(one)
        assert to_edge_expression(one) is not to_edge_expression(other)
    formula = FixedFormula(formula=FixedProduct(mult=["$score", 2.0]))
    assert fixed_formula(formula) is fixed_formula(formula)


def test_fixed_parts_mean_the_same_everywhere(client: EmbeddedClient) -> None:
    """A client sends them as it sends others, and an engine computes the same with them."""
    fixed = FixedFormula(formula=FixedSum(sum=[FixedProduct(mult=["$score", 2.0]), 1.0]))
    plain = m.FormulaQuery(formula=m.SumExpression(sum=[m.MultExpression(mult=["$score", 2.0]), 1.0]))
    assert fixed.model_dump_json() == plain.model_dump_json()
    assert RestToGrpc.convert_query(fixed) == RestToGrpc.convert_query(plain)
    client.create_collection("f", m.VectorParams(size=2, distance=m.Distance.DOT))
    client.upsert("f", [m.PointStruct(id=1, vector=[1.0, 0.0])])
    for query in (fixed, plain, fixed):
        assert client.query_points("f", query=query, prefetch=m.Prefetch(query=[1.0, 0.0])).points[0].score == 3
