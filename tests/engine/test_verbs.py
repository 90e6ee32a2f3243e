"""Every engine serves every verb, with the same arguments and the same answers."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qdrant_client import AsyncQdrantClient, QdrantClient, models

from tests.kit.rest import RestServer
from twofold import EngineError, embedded_client
from twofold.config import CollectionSettings
from twofold.documents import point_id
from twofold.encoders.base import Sparse
from twofold.engine import calls
from twofold.engine.client import VERBS
from twofold.engine.connection import Connection, connect
from twofold.engine.edge import EdgeEngine
from twofold.engine.layout import DENSE, SPARSE, NewPoint, creation, initial_indexes
from twofold.engine.requests import FusedQuery, NewestFirst, VectorQuery
from twofold.filters import (
    All,
    AnyOf,
    Between,
    Either,
    Equals,
    HasPoint,
    HasVector,
    Native,
    Node,
    Not,
    Present,
    TextContains,
    parse,
)
from twofold.flow import Flow, arun, run
from twofold.ranking.expressions import DbsfFusion, Formula, LegScore, Product, Sum

SETTINGS = CollectionSettings(payload_indexes={"n": "integer", "when": "datetime", "who": "tenant"}, text_index=True)
IDS = [point_id(str(n)) for n in range(6)]


def points() -> list[NewPoint]:
    made = []
    for n, identity in enumerate(IDS):
        vectors: dict[str, Any] = {DENSE: np.array([1.0, n / 4], dtype=np.float32)}
        if n % 2:
            vectors[SPARSE] = Sparse([1, 7 + n], [1.0, 2.0])
        metadata = {"n": n, "who": "ada" if n < 4 else "bob", "when": f"2024-01-0{n + 1}T00:00:00Z", "even": n % 2 == 0}
        made.append(NewPoint(identity, vectors, {"id": str(n), "text": f"text number {n}", "metadata": metadata}))
    return made


Verbs = Callable[[Flow[Any]], Any]


@pytest.fixture(params=["embedded", "local", "local-async", "brought-embedded", "http", "http-async"])
def do(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Verbs]:
    """Runs a flow on an engine that has the points in a collection "c"."""
    engine, _, style = request.param.partition("-")
    server: RestServer | None = None
    location: Any = tmp_path
    if engine == "local":
        location = AsyncQdrantClient(":memory:") if style else QdrantClient(":memory:")
    elif engine == "brought":
        location = embedded_client(tmp_path)
    elif engine == "http":
        server = RestServer(lambda: embedded_client(tmp_path)).start()
        location = server.url
    connection = connect(location, create=True, api_key=None, timeout=60)
    loop = asyncio.new_event_loop() if style == "async" else None

    def perform(flow: Flow[Any]) -> Any:
        return loop.run_until_complete(arun(flow, connection)) if loop else run(flow, connection)

    perform(calls.create("c", creation(SETTINGS, dim=2, idf=True, record={"format": 1})))
    if connection.capabilities.indexes:
        for key, schema in initial_indexes(SETTINGS).items():
            perform(calls.create_index("c", key, schema, wait=True))
    perform(calls.upsert("c", points()))
    yield perform
    if loop:
        loop.run_until_complete(connection.aclose())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
    connection.close()
    if server is not None:
        server.close()


def ids(found: Any) -> list[int]:
    return [IDS.index(str(point.id)) for point in found]


def test_both_engines_have_the_same_verbs_with_the_same_arguments() -> None:
    own = {name: method for name, method in inspect.getmembers(EdgeEngine, inspect.isfunction) if name[0] != "_"}
    assert own.keys() == VERBS.keys()
    for name, method in own.items():
        built = [] if VERBS[name].build is dict else list(inspect.signature(VERBS[name].build).parameters)
        collection = [] if name in ("version", "collections", "aliases", "set_alias", "backup") else ["collection"]
        assert list(inspect.signature(method).parameters)[1:] == collection + built, name


def test_a_collection_is_described(do: Verbs) -> None:
    assert do(calls.exists("c"))
    assert not do(calls.exists("other"))
    schema = do(calls.describe("c"))
    assert (schema.dense_dim, schema.cosine, schema.sparse, schema.idf, schema.points) == (2, True, True, True, 6)
    assert schema.record == {"format": 1}
    do(calls.set_metadata("c", {"twofold": {"format": 1, "tuned": {"alpha": 0.5}}}))
    assert do(calls.describe("c")).record == {"format": 1, "tuned": {"alpha": 0.5}}


def test_indexes_are_known_by_their_kind(tmp_path: Path) -> None:
    connection = connect(tmp_path, create=True, api_key=None, timeout=1)
    run(calls.create("c", creation(SETTINGS, dim=2, idf=True, record={})), connection)
    for key, schema in initial_indexes(SETTINGS).items():
        run(calls.create_index("c", key, schema, wait=True), connection)
    indexed = run(calls.describe("c"), connection).indexed
    assert indexed == {
        "text": "text",
        "metadata.n": "integer",
        "metadata.when": "datetime",
        "metadata.who": "keyword",
    }
    connection.close()


FILTERS: list[tuple[Node | models.Filter | None, list[int]]] = [
    (None, [0, 1, 2, 3, 4, 5]),
    (Equals("n", 2), [2]),
    (Equals("n", 2.0), [2]),
    (Equals("even", True), [0, 2, 4]),
    (Equals("who", "bob"), [4, 5]),
    (AnyOf("n", (1, 5)), [1, 5]),
    (AnyOf("who", ("bob", "eve")), [4, 5]),
    (AnyOf("who", ()), []),
    (Between("n", gt=1, lte=3), [2, 3]),
    (parse({"when": {"gte": "2024-01-05"}}), [4, 5]),
    (Present("n"), [0, 1, 2, 3, 4, 5]),
    (Not(Present("missing")), [0, 1, 2, 3, 4, 5]),
    (All((Equals("who", "ada"), Not(Equals("even", True)))), [1, 3]),
    (Either((Equals("n", 0), Equals("who", "bob"))), [0, 4, 5]),
    (Either(()), []),
    (HasPoint((IDS[3], IDS[0])), [0, 3]),
    (HasPoint(()), []),
    (HasVector(SPARSE), [1, 3, 5]),
    (TextContains("number 4"), [4]),
    (models.Filter(must=[models.HasIdCondition(has_id=[IDS[1]])]), [1]),
    (All((Equals("who", "ada"), Native(models.Filter(must_not=[models.HasIdCondition(has_id=[IDS[1]])])))), [0, 2, 3]),
]


def test_filters_mean_the_same_in_every_verb(do: Verbs) -> None:
    for where, wanted in FILTERS:
        assert do(calls.count("c", where)) == len(wanted), where
        found, _ = do(calls.scroll("c", where, limit=10))
        assert sorted(ids(found)) == wanted, where
        [near] = do(calls.query("c", [VectorQuery(np.array([1, 0], dtype=np.float32), 10, where)]))
        assert sorted(ids(near)) == wanted, where


def test_scroll_brings_what_is_wanted_page_by_page(do: Verbs) -> None:
    first, offset = do(calls.scroll("c", None, limit=4, only=["metadata.n"]))
    rest, end = do(calls.scroll("c", None, limit=4, offset=offset, only=[], vectors=[DENSE, SPARSE]))
    assert sorted(ids(first) + ids(rest)) == list(range(6))
    assert end is None
    assert all(list(point.payload) == ["metadata"] for point in first)
    assert not any(point.payload for point in rest)
    for point in rest:
        n = ids([point])[0]
        assert point.vector[DENSE] == pytest.approx(np.array([1, n / 4]) / np.hypot(1, n / 4))
        assert list(point.vector[SPARSE].indices if n % 2 else []) == ([1, 7 + n] if n % 2 else [])


def test_the_newest_come_first(do: Verbs) -> None:
    found, _ = do(calls.scroll("c", Equals("who", "ada"), limit=3, order_by="metadata.when"))
    assert ids(found) == [3, 2, 1]
    leg = VectorQuery(Sparse([1], [1.0]), 10)
    [found] = do(calls.query("c", [FusedQuery((leg,), NewestFirst("when"), 2)]))
    assert ids(found) == [5, 3]


def test_points_by_id(do: Verbs) -> None:
    found = do(calls.retrieve("c", [IDS[2], point_id("none"), IDS[4]], only=["text"]))
    assert sorted(point.payload["text"] for point in found) == ["text number 2", "text number 4"]
    vectors = do(calls.dense_vectors("c", [IDS[0], point_id("none")]))
    assert {identity: list(vector) for identity, vector in vectors.items()} == {IDS[0]: [1.0, 0.0]}


def test_a_batch_of_queries(do: Verbs) -> None:
    near = VectorQuery(np.array([1, 1], dtype=np.float32), 3, with_payload=True)
    words = VectorQuery(Sparse([1, 8], [1.0, 1.0]), 10, score_threshold=0.1)
    corpus = VectorQuery(Sparse([1], [1.0]), 10, idf_corpus=Equals("who", "bob"))
    formula = Formula(Sum((LegScore(0), Product((0.5, LegScore(1))))), missing=(0.25, 0.0))
    fused, dbsf = (FusedQuery((near, words), how, 10) for how in (formula, DbsfFusion()))
    answers = do(calls.query("c", [near, words, corpus, fused, dbsf]))
    assert ids(answers[0]) == [4, 5, 3]
    assert answers[0][0].payload["metadata"].keys() == {"n", "even", "when", "who"}
    assert ids(answers[1])[0] == 1
    assert sorted(ids(answers[2])) == [1, 3, 5]
    cosines, worded, together = (
        {n: point.score for n, point in zip(ids(each), each, strict=True)}
        for each in (answers[0], answers[1], answers[3])
    )
    assert together == pytest.approx(
        {n: cosines.get(n, 0.25) + 0.5 * worded.get(n, 0.0) for n in {**cosines, **worded}}
    )
    assert len(answers[4]) == len(answers[3])
    assert do(calls.query("c", [near]))[0][0].score == pytest.approx(1.0)


def test_facets_count_values(do: Verbs) -> None:
    assert do(calls.facet("c", "metadata.who", None, 10)) == {"ada": 4, "bob": 2}
    assert do(calls.facet("c", "metadata.who", Between("n", gte=5), 10)) == {"bob": 1}


def test_writes_by_id_and_by_filter(do: Verbs) -> None:
    do(calls.set_payload("c", "metadata", {"seen": 1}, [IDS[0], IDS[0]]))
    do(calls.set_payload("c", "metadata", {"seen": 2}, Equals("who", "bob")))
    assert do(calls.facet("c", "metadata.who", Present("seen"), 10)) == {"ada": 1, "bob": 2}
    [row] = do(calls.retrieve("c", [IDS[0]]))
    assert row.payload["metadata"]["who"] == "ada"
    do(calls.delete("c", Equals("who", "bob")))
    do(calls.delete("c", HasPoint((IDS[0], point_id("none")))))
    assert do(calls.count("c", None)) == 3
    do(calls.upsert("c", points()[:1]))
    assert do(calls.count("c", None)) == 4


def test_an_engine_error_names_verb_and_place(do: Verbs) -> None:
    with pytest.raises(EngineError, match="count") as caught:
        do(calls.count("missing", None))
    assert caught.value.operation == "count"


@pytest.mark.parametrize("vector", [[1.0, float("nan")], [1.0], [1.0, float("inf")]])
def test_vectors_are_checked(tmp_path: Path, vector: list[float]) -> None:
    connection: Connection = connect(tmp_path, create=True, api_key=None, timeout=1)
    run(calls.create("c", creation(SETTINGS, dim=2, idf=True, record={})), connection)
    array = np.array(vector, dtype=np.float32)
    with pytest.raises(EngineError, match="refused with 400"):
        run(calls.upsert("c", [NewPoint(IDS[0], {DENSE: array}, {})]), connection)
    with pytest.raises(EngineError, match="refused with 400"):
        run(calls.query("c", [VectorQuery(array, 1)]), connection)
    connection.close()
