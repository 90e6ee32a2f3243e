"""Writes, and what they refuse."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from qdrant_client import QdrantClient
from qdrant_client import models as m

from twofold.embedded import BadRequest, EmbeddedClient, NotFound, embedded_client

from .conftest import vectors_of

FILMS = m.Filter(must=[m.FieldCondition(key="kind", match=m.MatchValue(value="film"))])
COSINE = m.VectorParams(size=3, distance=m.Distance.COSINE)


@pytest.fixture
def plain(client: EmbeddedClient) -> EmbeddedClient:
    client.create_collection("p", m.VectorParams(size=3, distance=m.Distance.DOT))
    return client


def payload(client: EmbeddedClient, point_id: Any, name: str = "notes") -> Any:
    return client.retrieve(name, [point_id])[0].payload


def test_upsert_batch_and_replace(plain: EmbeddedClient) -> None:
    batch = m.Batch(ids=[1, 2], vectors=[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], payloads=[{"a": 1}, {"a": 2}])
    assert plain.upsert("p", batch).status == m.UpdateStatus.COMPLETED
    plain.upsert("p", [m.PointStruct(id=1, vector=[7.0, 8.0, 9.0])])
    assert payload(plain, 1, "p") == {}
    assert plain.retrieve("p", [1], with_vectors=True)[0].vector == [7, 8, 9]
    with pytest.raises(BadRequest, match="must match"):
        plain.upsert("p", m.Batch(ids=[1], vectors=[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))


def test_named_batch(notes: EmbeddedClient) -> None:
    dense: list[m.Vector] = [[1.0, 0.0, 0.0, 0.0]] * 2
    words: list[m.Vector] = [m.SparseVector(indices=[n], values=[float(n)]) for n in (1, 2)]
    notes.upsert("notes", m.Batch(ids=[101, 102], vectors={"dense": dense, "words": words}))
    assert vectors_of(notes.retrieve("notes", [102], with_vectors=True)[0])["words"] == words[1]


def test_update_modes_and_conditions(plain: EmbeddedClient) -> None:
    def put(point_id: int, value: int, **how: Any) -> None:
        plain.upsert("p", [m.PointStruct(id=point_id, vector=[1.0, 1.0, 1.0], payload={"v": value})], **how)

    put(1, 1)
    put(1, 2, update_mode=m.UpdateMode.INSERT_ONLY)
    put(2, 2, update_mode=m.UpdateMode.UPDATE_ONLY)
    assert payload(plain, 1, "p") == {"v": 1}
    assert plain.count("p").count == 1
    old = m.Filter(must=[m.FieldCondition(key="v", range=m.Range(lt=5))])
    put(1, 7, update_filter=old)
    put(1, 8, update_filter=old)
    assert payload(plain, 1, "p") == {"v": 7}


def test_the_last_of_equal_ids_wins(plain: EmbeddedClient) -> None:
    plain.upsert("p", [m.PointStruct(id=1, vector=[1.0, 1.0, 1.0], payload={"v": n}) for n in range(2000)])
    assert payload(plain, 1, "p") == {"v": 1999}


def test_uploads(plain: EmbeddedClient) -> None:
    plain.upload_points(
        "p", (m.PointStruct(id=n, vector=[float(n), 0.0, 0.0]) for n in range(2500)), batch_size=10, parallel=2
    )
    vectors = np.ones((10, 3), dtype=np.float32)
    plain.upload_collection("p", vectors, payload=[{"n": n} for n in range(10)], ids=range(3000, 3010))
    plain.upload_collection("p", iter([[1.0, 2.0, 3.0]]))
    assert plain.count("p").count == 2511
    assert payload(plain, 3009, "p") == {"n": 9}
    plain.upload_points("p", [])


def test_upload_named_arrays(notes: EmbeddedClient) -> None:
    arrays: dict[str, Any] = {"dense": np.eye(4)}
    notes.upload_collection("notes", arrays, ids=[201, 202, 203, 204])
    assert notes.retrieve("notes", [202], with_vectors=True)[0].vector == {"dense": [0, 1, 0, 0]}


def test_payload_operations(notes: EmbeddedClient) -> None:
    notes.set_payload("notes", {"a": {"b": 1}}, [1, 3])
    notes.set_payload("notes", {"c": 2}, [1], key="a")
    assert payload(notes, 1)["a"] == {"b": 1, "c": 2}
    notes.set_payload("notes", {"seen": True}, FILMS)
    assert (
        notes.count("notes", m.Filter(must=[m.FieldCondition(key="seen", match=m.MatchValue(value=True))])).count == 20
    )
    notes.overwrite_payload("notes", {"only": 1}, m.PointIdsList(points=[1]))
    assert payload(notes, 1) == {"only": 1}
    notes.delete_payload("notes", ["seen", "text"], m.FilterSelector(filter=FILMS))
    assert "text" not in payload(notes, 7)
    notes.clear_payload("notes", [3])
    assert payload(notes, 3) == {}


def test_a_write_by_filter_sees_the_filter_once(notes: EmbeddedClient) -> None:
    """Changing the very field that is filtered on reaches every point that matched at first."""
    notes.set_payload("notes", {"kind": "seen"}, FILMS)
    assert notes.count("notes", FILMS).count == 0
    notes.delete("notes", m.Filter(must=[m.FieldCondition(key="kind", match=m.MatchValue(value="seen"))]))
    assert notes.count("notes").count == 40


def test_vector_operations(notes: EmbeddedClient) -> None:
    notes.update_vectors("notes", [m.PointVectors(id=1, vector={"dense": [0.0, 0.0, 1.0, 0.0]})])
    vector = vectors_of(notes.retrieve("notes", [1], with_vectors=True)[0])
    assert vector["dense"] == [0, 0, 1, 0]
    assert "words" in vector
    notes.delete_vectors("notes", ["words"], [1])
    notes.delete_vectors("notes", ["words"], FILMS)
    assert set(vectors_of(notes.retrieve("notes", [7], with_vectors=True)[0])) == {"dense"}


@pytest.mark.parametrize("again", ["upsert", "update_vectors"])
def test_a_deleted_sparse_vector_stays_out_of_the_index(client: EmbeddedClient, again: str) -> None:
    """The engine alone would score the old words again as soon as the point gets new ones."""
    client.create_collection("c", {}, {"s": m.SparseVectorParams()})
    old, new = (m.SparseVector(indices=indices, values=[1.0] * len(indices)) for indices in ([1, 2], [3]))
    client.upsert("c", [m.PointStruct(id=1, vector={"s": old})])
    client.delete_vectors("c", ["s"], [1])
    assert client.retrieve("c", [1], with_vectors=True)[0].vector == {}
    if again == "upsert":
        client.upsert("c", [m.PointStruct(id=1, vector={"s": new})])
    else:
        client.update_vectors("c", [m.PointVectors(id=1, vector={"s": new})])
    query = m.SparseVector(indices=[1, 2, 3], values=[1.0, 1.0, 1.0])
    assert [p.score for p in client.query_points("c", query, using="s").points] == [1.0]


def test_delete(notes: EmbeddedClient) -> None:
    notes.delete("notes", [1, 3, 12345])
    notes.delete("notes", m.PointIdsList(points=[5]))
    notes.delete("notes", FILMS)
    assert notes.count("notes").count == 60 - 3 - 20 + 1  # 1 is a film too


def test_batch_update(notes: EmbeddedClient) -> None:
    point = m.PointStruct(id=500, vector={"dense": [1.0, 0.0, 0.0, 0.0]}, payload={"x": 1})
    results = notes.batch_update_points(
        "notes",
        [
            m.UpsertOperation(upsert=m.PointsList(points=[point])),
            m.SetPayloadOperation(set_payload=m.SetPayload(payload={"y": 2}, points=[500])),
            m.DeletePayloadOperation(delete_payload=m.DeletePayload(keys=["x"], points=[500])),
            m.UpdateVectorsOperation(
                update_vectors=m.UpdateVectors(points=[m.PointVectors(id=500, vector={"dense": [0.0, 1.0, 0.0, 0.0]})])
            ),
            m.OverwritePayloadOperation(overwrite_payload=m.SetPayload(payload={"z": 3}, filter=FILMS)),
            m.DeleteVectorsOperation(delete_vectors=m.DeleteVectors(points=[3], vector=["words"])),
            m.ClearPayloadOperation(clear_payload=m.PointIdsList(points=[5])),
            m.DeleteOperation(delete=m.PointIdsList(points=[9])),
        ],
    )
    assert len(results) == 8
    record = notes.retrieve("notes", [500], with_vectors=True)[0]
    assert (record.payload, record.vector) == ({"y": 2}, {"dense": [0, 1, 0, 0]})
    assert notes.count("notes").count == 60


def test_batch_update_is_checked_before_the_first_write(notes: EmbeddedClient) -> None:
    good = m.DeleteOperation(delete=m.PointIdsList(points=[1]))
    bad = m.SetPayloadOperation(set_payload=m.SetPayload(payload={"x": math.nan}, points=[3]))
    with pytest.raises(BadRequest, match="nan"):
        notes.batch_update_points("notes", [good, bad])
    assert notes.count("notes").count == 60


class Color(Enum):
    RED = "red"


def test_payload_values_become_json(plain: EmbeddedClient) -> None:
    zone = timezone(timedelta(hours=2))
    given = {
        "naive": datetime(2024, 5, 1, 12, 30),
        "utc": datetime(2024, 5, 1, 12, 30, tzinfo=timezone.utc),
        "zone": datetime(2024, 5, 1, 12, 30, tzinfo=zone),
        "day": date(2024, 5, 1),
        "time": time(12, 30),
        "span": timedelta(days=1, seconds=2),
        "bytes": b"abc",
        "uuid": UUID(int=5),
        "decimal": Decimal("1.5"),
        "enum": Color.RED,
        "int": np.int64(7),
        "float": np.float32(0.5),
        "double": np.float64(0.25),
        "bool": np.bool_(True),
        "array": np.array([[1, 2], [3, 4]]),
        "tuple": (1, "two"),
        "set": {3},
        "nested": {"deep": [None, {"x": Decimal(2)}]},
        "model": m.GeoPoint(lon=1, lat=2),
        "text": "naïve 🦀 \x00 end",
        "big": 2**64 - 1,
    }
    plain.upsert("p", [m.PointStruct.model_construct(id=1, vector=[1, 2, 3], payload=given)])
    assert payload(plain, 1, "p") == {
        "naive": "2024-05-01T12:30:00",
        "utc": "2024-05-01T12:30:00Z",
        "zone": "2024-05-01T12:30:00+02:00",
        "day": "2024-05-01",
        "time": "12:30:00",
        "span": "P1DT2S",
        "bytes": "abc",
        "uuid": "00000000-0000-0000-0000-000000000005",
        "decimal": 1.5,
        "enum": "red",
        "int": 7,
        "float": 0.5,
        "double": 0.25,
        "bool": True,
        "array": [[1, 2], [3, 4]],
        "tuple": [1, "two"],
        "set": [3],
        "nested": {"deep": [None, {"x": 2.0}]},
        "model": {"lon": 1.0, "lat": 2.0},
        "text": "naïve 🦀 \x00 end",
        "big": 2**64 - 1,
    }
    after = m.Filter(must=[m.FieldCondition(key="zone", range=m.DatetimeRange(lt=datetime(2024, 5, 1, 11)))])
    assert plain.count("p", after).count == 1
    with closing(QdrantClient(":memory:")) as local:  # it writes dates, times and bytes as a server's client does
        local.create_collection("p", m.VectorParams(size=3, distance=m.Distance.COSINE))
        dates = {name: given[name] for name in ("naive", "utc", "zone", "day", "time", "span", "bytes")}
        local.upsert("p", [m.PointStruct(id=1, vector=[1.0, 2.0, 3.0], payload=dates)])
        assert local.retrieve("p", [1])[0].payload == {name: payload(plain, 1, "p")[name] for name in dates}


@pytest.mark.parametrize("value", [b"\xff", object(), {1: "one"}], ids=["bytes", "object", "key"])
def test_what_cannot_be_stored_names_its_field(plain: EmbeddedClient, value: Any) -> None:
    with pytest.raises(BadRequest, match="culprit"):
        plain.upsert("p", [m.PointStruct(id=1, vector=[1.0, 2.0, 3.0], payload={"culprit": value})])


def deep() -> Any:
    value: Any = 1
    for _ in range(500):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("vector", "extra", "complaint"),
    [
        ([1, 2], {}, "expected dim: 3, got 2"),
        ([1, 2, 3, 4], {}, "expected dim: 3, got 4"),
        ([1, math.nan, 3], {}, "NaN"),
        ([1, math.inf, -math.inf], {}, "NaN"),
        ([1, 1e39, 3], {}, "too large"),
        (["a", 2, 3], {}, "numbers only"),
        ({"x": [1, 2, 3]}, {}, "'x'"),
        ({"": m.SparseVector(indices=[1], values=[1.0])}, {}, "list of numbers"),
        ([1, 2, 3], {"v": math.nan}, "'v' is nan"),
        ([1, 2, 3], {"v": {"w": [math.inf]}}, "'v' is inf"),
        ([1, 2, 3], {"v": "\ud800"}, "surrogate"),
        ([1, 2, 3], {"\udfff": 1}, "surrogate"),
        ([1, 2, 3], {1: 1}, "keys must be strings"),
        ([1, 2, 3], {"v": 2**64}, "64 bits"),
        ([1, 2, 3], {"v": object()}, "object"),
        ([1, 2, 3], {"v": b"\xff"}, "bytes"),
        ([1, 2, 3], {"v": deep()}, "levels deep"),
        ([1, 2, 3], ["list"], "dictionary"),
    ],
)
def test_nothing_is_written_when_one_point_is_bad(
    plain: EmbeddedClient, vector: Any, extra: Any, complaint: str
) -> None:
    good = m.PointStruct(id=1, vector=[1.0, 2.0, 3.0])
    bad = m.PointStruct.model_construct(id=2, vector=vector, payload=extra)
    with pytest.raises(BadRequest, match=complaint):
        plain.upsert("p", [good, bad])
    assert plain.count("p").count == 0


def nested(levels: int) -> Any:
    return {"a": nested(levels - 1)} if levels else 1


@pytest.mark.parametrize("key", [".".join("a" * 300), ".".join("a" * 60), "a" + "[0]" * 60])
def test_a_payload_under_a_key_is_as_deep_as_both_together(plain: EmbeddedClient, key: str) -> None:
    """The engine would take it, and be unable to read its own log afterwards."""
    plain.upsert("p", [m.PointStruct(id=1, vector=[1.0, 2.0, 3.0])])
    change = m.SetPayload(payload=nested(60), points=[1], key=key)
    for write in (
        lambda: plain.set_payload("p", nested(60), [1], key=key),
        lambda: plain.batch_update_points("p", [m.SetPayloadOperation(set_payload=change)]),
        lambda: plain.batch_update_points("p", [m.OverwritePayloadOperation(overwrite_payload=change)]),
    ):
        with pytest.raises(BadRequest, match="levels deep"):
            write()
    plain.set_payload("p", nested(60), [1], key="a.b")
    path = plain.init_options["path"]
    plain.close()
    again = embedded_client(path)
    assert again.retrieve("p", [1])[0].payload == {"a": {"b": nested(60)}}
    again.close()


def test_a_condition_of_a_write_is_not_too_deep_for_the_log(plain: EmbeddedClient) -> None:
    condition = FILMS
    for _ in range(100):
        condition = m.Filter(must=[condition])
    point = m.PointStruct(id=1, vector=[1.0, 2.0, 3.0])
    with pytest.raises(BadRequest, match="levels deep"):
        plain.upsert("p", [point], update_filter=condition)
    with pytest.raises(BadRequest, match="levels deep"):
        plain.update_vectors("p", [m.PointVectors(id=1, vector=[1.0, 2, 3])], update_filter=condition)


@pytest.mark.parametrize("number", [1e6, -1e6])
def test_a_number_too_large_for_half_precision_is_refused(client: EmbeddedClient, number: float) -> None:
    half = m.VectorParams(size=2, distance=m.Distance.DOT, datatype=m.Datatype.FLOAT16)
    client.create_collection("h", half)
    client.upsert("h", [m.PointStruct(id=1, vector=[65_000.0, 1.0])])
    for vector in ([number, 1.0], np.array([number, 1.0], np.float32)):
        with pytest.raises(BadRequest, match="16-bit"):
            client.upsert("h", [m.PointStruct.model_construct(id=2, vector=vector, payload=None)])


@pytest.mark.parametrize("point_id", [-1, 2**64, "foo", True, 1.5, None])
def test_bad_ids(plain: EmbeddedClient, point_id: Any) -> None:
    bad = m.PointStruct.model_construct(id=point_id, vector=[1, 2, 3], payload=None)
    with pytest.raises(BadRequest, match="point id"):
        plain.upsert("p", [bad])


def test_good_ids(plain: EmbeddedClient) -> None:
    uuid = UUID("550E8400-E29B-41D4-A716-446655440000")
    ids = [0, 2**64 - 1, np.int32(5), uuid, str(uuid).upper(), uuid.hex]
    plain.upsert("p", [m.PointStruct.model_construct(id=i, vector=[1, 2, 3], payload=None) for i in ids])
    assert {r.id for r in plain.scroll("p")[0]} == {0, 5, 2**64 - 1, str(uuid)}


@pytest.mark.parametrize(
    ("indices", "values", "complaint"),
    [
        ([1, 1], [1.0, 2.0], "twice"),
        ([1], [1.0, 2.0], "1 indices but 2 values"),
        ([-1], [1.0], "0 to 2"),
        ([2**32], [1.0], "0 to 2"),
        ([1], [math.nan], "NaN"),
    ],
)
def test_bad_sparse_vectors(notes: EmbeddedClient, indices: Any, values: Any, complaint: str) -> None:
    sparse = m.SparseVector.model_construct(indices=indices, values=values)
    point = m.PointStruct.model_construct(id=1, vector={"words": sparse}, payload=None)
    with pytest.raises(BadRequest, match=complaint):
        notes.upsert("notes", [point])
    with pytest.raises(BadRequest, match=complaint):
        notes.query_points("notes", sparse, using="words")


def test_sparse_indices_are_sorted(notes: EmbeddedClient) -> None:
    sparse = m.SparseVector(indices=[9, 2, 5], values=[0.9, 0.2, 0.5])
    notes.upsert("notes", [m.PointStruct(id=1, vector={"words": sparse})])
    stored = vectors_of(notes.retrieve("notes", [1], with_vectors=True)[0])["words"]
    assert stored.indices == [2, 5, 9]
    assert stored.values == pytest.approx([0.2, 0.5, 0.9])


def test_multivectors(client: EmbeddedClient) -> None:
    multi = m.MultiVectorConfig(comparator=m.MultiVectorComparator.MAX_SIM)
    client.create_collection("c", {"t": m.VectorParams(size=2, distance=m.Distance.DOT, multivector_config=multi)})
    client.upsert("c", [m.PointStruct(id=n, vector={"t": [[n, 0.0], [0.0, n]]}) for n in (1, 2)])
    best = client.query_points("c", [[1.0, 0.0], [0.0, 1.0]], using="t").points[0]
    assert (best.id, best.score) == (2, 4.0)
    assert client.query_points("c", [1.0, 0.0], using="t").points[0].score == 2.0
    for bad in ([[1.0]], [], [1.0, 2.0]):
        with pytest.raises(BadRequest):
            client.upsert("c", [m.PointStruct.model_construct(id=3, vector={"t": bad}, payload=None)])


def test_changes_to_points_that_are_not_there(notes: EmbeddedClient) -> None:
    vector = m.PointVectors(id=999, vector={"dense": [1.0, 0.0, 0.0, 0.0]})
    changes: list[Callable[[], object]] = [
        lambda: notes.set_payload("notes", {"changed": 1}, [1, 999]),
        lambda: notes.overwrite_payload("notes", {"changed": 1}, [1, 999]),
        lambda: notes.delete_payload("notes", ["n"], [1, 999]),
        lambda: notes.clear_payload("notes", [1, 999]),
        lambda: notes.update_vectors("notes", [m.PointVectors(id=1, vector=vector.vector), vector]),
        lambda: notes.delete_vectors("notes", ["dense"], [1, 999]),
    ]
    for change in changes:
        with pytest.raises(NotFound, match="999"):
            change()
    assert payload(notes, 1)["n"] == 1  # nothing was done to the other point either
    assert "changed" not in payload(notes, 1)


def test_empty_and_malformed_requests(notes: EmbeddedClient) -> None:
    changes: list[tuple[Callable[[], object], str]] = [
        (lambda: notes.upsert("notes", []), "Empty"),
        (lambda: notes.delete("notes", []), "Empty"),
        (lambda: notes.set_payload("notes", {"a": 1}, [1], key="a["), "JSON path"),
        (lambda: notes.delete_payload("notes", ["a["], [1]), "JSON path"),
        (lambda: notes.delete_vectors("notes", ["nope"], [1]), "nope"),
        (lambda: notes.delete("notes", "1"), "list of ids"),  # type: ignore[arg-type]
        (lambda: notes.upsert("nope", [m.PointStruct(id=1, vector=[1.0])]), "nope not found"),
    ]
    for change, complaint in changes:
        with pytest.raises(ValueError, match=complaint):
            change()


def test_shard_keys_are_refused_not_ignored(notes: EmbeddedClient) -> None:
    with pytest.raises(NotImplementedError, match="is_tenant"):
        notes.delete("notes", m.FilterSelector(filter=FILMS, shard_key="a"))
    with pytest.raises(NotImplementedError, match="is_tenant"):
        notes.upsert("notes", [], shard_key_selector="a")


def test_documents_are_encoded_or_refused(notes: EmbeddedClient) -> None:
    """Texts are qdrant-client's to encode: they reach its embedder, never the engine."""
    document = m.Document(text="hi", model="no/such-model")
    for call in (
        lambda: notes.query_points("notes", document, using="dense"),
        lambda: notes.query_batch_points("notes", [m.QueryRequest(query=document, using="dense")]),
        lambda: notes.upsert("notes", [m.PointStruct(id=1, vector={"dense": document})]),
    ):
        with pytest.raises((ValueError, ImportError), match=r"(?i)no/such-model|fastembed"):
            call()


def test_arrays_are_vectors_too(client: EmbeddedClient) -> None:
    """They go to the engine without becoming lists; the same checks hold."""
    client.create_collection("a", {"dense": m.VectorParams(size=3, distance=m.Distance.DOT)})
    row = np.array([1.5, -2.25, 0.1], dtype=np.float32)
    given: dict[int, Any] = {1: row, 2: row[::-1], 3: row.astype(np.float64), 4: np.array([1, 2, 3])}
    client.upsert("a", [m.PointStruct.model_construct(id=i, vector={"dense": v}, payload={}) for i, v in given.items()])
    client.update_vectors("a", [m.PointVectors.model_construct(id=1, vector={"dense": 2 * row})])
    given[1] = 2 * row
    for record in client.retrieve("a", list(given), with_vectors=True):
        assert vectors_of(record)["dense"] == given[int(record.id)].astype(np.float32).tolist()
    found = client.query_points("a", row, using="dense", limit=1).points
    assert found[0].id == 1
    nan, too_long = np.array([1, np.nan, 1], dtype=np.float32), np.full(3, 3e38, dtype=np.float32)
    for wrong in (nan, row * np.inf, too_long, row[:2], np.stack([row, row])):
        with pytest.raises(BadRequest):
            client.upsert("a", [m.PointStruct.model_construct(id=9, vector={"dense": wrong}, payload={})])
    assert client.count("a").count == 4
