"""Writing points, and reading them back."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from qdrant_client import models

from tests.kit import corpus
from tests.kit.conftest import Shelf
from tests.kit.corpus import Point
from tests.kit.engines import Engine, refused

UNKNOWN = str(UUID(int=2**100))
FILMS = models.Filter(must=[models.FieldCondition(key="metadata.kind", match=models.MatchValue(value="film"))])


def payload_of(shelf: Shelf, point: Point) -> Any:
    return shelf.engine.retrieve(shelf.name, [point.id])[0].payload


def vectors_of(shelf: Shelf, point: Point) -> dict[str, Any]:
    found = shelf.engine.retrieve(shelf.name, [point.id], with_vectors=True)[0].vector
    return {name: as_plain(value) for name, value in found.items()}


def as_plain(vector: Any) -> Any:
    if isinstance(vector, models.SparseVector):
        return dict(zip(vector.indices, vector.values, strict=True))
    return vector


def stored(vectors: dict[str, Any]) -> dict[str, Any]:
    """As they are kept: those compared by cosine at length 1."""
    kept = {name: pytest.approx(value, abs=1e-6) for name, value in vectors.items()}
    if "dense" in vectors:
        length = sum(x * x for x in vectors["dense"]) ** 0.5
        kept["dense"] = pytest.approx([x / length for x in vectors["dense"]], abs=1e-6)
    return kept


def films(shelf: Shelf) -> list[Point]:
    return [point for point in shelf.points if point.metadata["kind"] == "film"]


def test_every_point_comes_back_whole(library: Shelf) -> None:
    for point in library.points[:12]:
        assert payload_of(library, point) == point.payload
        assert vectors_of(library, point) == stored(point.vectors)


def test_retrieve_follows_the_order_asked_for(library: Shelf) -> None:
    wanted = [library.points[n].id for n in (7, 2, 11, 0)]
    assert [record.id for record in library.engine.retrieve(library.name, wanted)] == wanted


def test_retrieve_leaves_out_what_is_missing(library: Shelf) -> None:
    asked = [library.points[3].id, UNKNOWN, 10**9, library.points[1].id]
    assert [record.id for record in library.engine.retrieve(library.name, asked)] == [asked[0], asked[3]]
    assert library.engine.retrieve(library.name, [UNKNOWN]) == []


@pytest.mark.parametrize(
    ("choice", "keys"),
    [
        (True, {"id", "text", "metadata"}),
        (False, None),
        (["text"], {"text"}),
        (models.PayloadSelectorInclude(include=["id", "text"]), {"id", "text"}),
        (models.PayloadSelectorExclude(exclude=["text"]), {"id", "metadata"}),
    ],
    ids=["all", "none", "names", "include", "exclude"],
)
def test_payload_selectors(library: Shelf, choice: Any, keys: set[str] | None) -> None:
    engine, name, point = library.engine, library.name, library.points[0]
    answers = [
        engine.retrieve(name, [point.id], with_payload=choice)[0],
        engine.scroll(name, limit=1, with_payload=choice)[0][0],
        engine.query_points(name, point.vectors["dense"], using="dense", limit=1, with_payload=choice).points[0],
    ]
    assert [set(answer.payload or ()) for answer in answers] == [keys or set()] * 3


def test_a_nested_field_can_be_selected(library: Shelf) -> None:
    chosen = library.engine.retrieve(library.name, [library.points[5].id], with_payload=["metadata.lang.code"])[0]
    assert chosen.payload == {"metadata": {"lang": {"code": "no"}}}


def test_vectors_can_be_selected(library: Shelf) -> None:
    record = library.engine.retrieve(library.name, [library.points[0].id], with_vectors=["bm25"])[0]
    assert set(record.vector) == {"bm25"}
    assert library.engine.retrieve(library.name, [library.points[0].id])[0].vector is None


@pytest.mark.parametrize("size", [1, 7, 20, 60, 100])
def test_scrolling_meets_every_point_once(library: Shelf, size: int) -> None:
    seen: list[Any] = []
    offset = None
    while True:
        records, offset = library.engine.scroll(library.name, limit=size, offset=offset)
        assert len(records) <= size
        seen += [record.id for record in records]
        if offset is None:
            break
    assert len(seen) == len(library.points)
    assert set(seen) == {point.id for point in library.points}


def test_scrolling_goes_by_id_numbers_first(library: Shelf) -> None:
    ids = [record.id for record in library.engine.scroll(library.name, limit=100)[0]]
    numbers = [key for key in ids if isinstance(key, int)]
    assert ids[: len(numbers)] == sorted(numbers)
    assert ids[len(numbers) :] == sorted(ids[len(numbers) :])


@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_scrolling_in_the_order_of_a_field(library: Shelf, direction: str) -> None:
    order = models.OrderBy(key="metadata.rank", direction=models.Direction(direction), start_from=20)
    records, offset = library.engine.scroll(library.name, order_by=order, limit=10)
    step = 1 if direction == "asc" else -1
    assert [record.payload["metadata"]["rank"] for record in records] == [20 + step * n for n in range(10)]
    assert offset is None


def test_scrolling_in_the_order_of_dates_with_a_filter(library: Shelf) -> None:
    order = models.OrderBy(key="metadata.when", direction=models.Direction.DESC)
    records, _ = library.engine.scroll(library.name, FILMS, order_by=order, limit=5)
    expected = sorted((point.metadata["when"] for point in films(library)), reverse=True)[:5]
    assert [record.payload["metadata"]["when"] for record in records] == expected


def test_upsert_takes_columns(shelf: Shelf) -> None:
    first, second = corpus.points(2, seed=3)
    columns: dict[str, Any] = {"dense": [first.vectors["dense"], second.vectors["dense"]]}
    batch = models.Batch(ids=[101, 102], vectors=columns, payloads=[{"a": None}, {"b": [1, "x", {"c": 2.5}]}])
    shelf.engine.upsert(shelf.name, batch)
    found = shelf.engine.retrieve(shelf.name, [101, 102])
    assert [record.payload for record in found] == [{"a": None}, {"b": [1, "x", {"c": 2.5}]}]
    assert shelf.engine.count(shelf.name).count == 14


def test_upsert_replaces_the_whole_point(shelf: Shelf) -> None:
    point = Point(shelf.points[0].id, {"dense": [0.5] * corpus.SIZE}, {"only": "this"})
    shelf.engine.upsert(shelf.name, [point.struct()])
    assert payload_of(shelf, point) == {"only": "this"}
    assert vectors_of(shelf, point) == stored(point.vectors)
    assert shelf.engine.count(shelf.name).count == len(shelf.points)
    words = corpus.to_sparse(shelf.points[0].vectors["plain"])
    found = shelf.engine.query_points(shelf.name, words, using="plain", limit=100).points
    assert point.id not in [each.id for each in found]


def test_the_last_of_equal_ids_wins(shelf: Shelf) -> None:
    twice = [models.PointStruct(id=500, vector={}, payload={"n": n}) for n in (1, 2)]
    shelf.engine.upsert(shelf.name, twice)
    assert shelf.engine.retrieve(shelf.name, [500])[0].payload == {"n": 2}


def test_an_id_is_the_same_uuid_however_it_is_spelt(shelf: Shelf) -> None:
    plain = str(UUID(int=2**90 + 5))
    shelf.engine.upsert(shelf.name, [models.PointStruct(id=plain, vector={}, payload={"n": 1})])
    assert shelf.engine.retrieve(shelf.name, [plain])[0].id == plain
    assert shelf.engine.count(shelf.name, models.Filter(must=[models.HasIdCondition(has_id=[plain])])).count == 1


@pytest.mark.parametrize("bad", ["not-a-uuid", -1], ids=["text", "negative"])
def test_a_bad_id_is_refused(shelf: Shelf, bad: Any) -> None:
    if bad == -1 and shelf.engine.name == "local":
        pytest.skip("local mode takes negative ids")
    with refused(400):
        shelf.engine.upsert(shelf.name, [models.PointStruct(id=bad, vector={})])
    assert shelf.engine.count(shelf.name).count == len(shelf.points)


@pytest.mark.parametrize(
    "vector",
    [{"dense": [1.0, 2.0]}, {"nobody": [1.0] * corpus.SIZE}],
    ids=["size", "name"],
)
def test_a_bad_vector_is_refused_and_nothing_is_written(shelf: Shelf, vector: Any) -> None:
    with refused(400):
        shelf.engine.upsert(shelf.name, [models.PointStruct(id=900, vector=vector)])
    assert shelf.engine.retrieve(shelf.name, [900]) == []


def test_delete_by_id(shelf: Shelf) -> None:
    gone: list[Any] = [shelf.points[0].id, shelf.points[5].id, UNKNOWN]
    shelf.engine.delete(shelf.name, gone)
    shelf.engine.delete(shelf.name, models.PointIdsList(points=gone))
    assert shelf.engine.count(shelf.name).count == len(shelf.points) - 2
    assert shelf.engine.retrieve(shelf.name, gone) == []


@pytest.mark.parametrize("wrapped", [False, True], ids=["filter", "selector"])
def test_delete_by_filter(shelf: Shelf, wrapped: bool) -> None:
    shelf.engine.delete(shelf.name, models.FilterSelector(filter=FILMS) if wrapped else FILMS)
    left = {record.id for record in shelf.engine.scroll(shelf.name, limit=100)[0]}
    assert left == {point.id for point in shelf.points} - {point.id for point in films(shelf)}


def test_set_payload_merges_at_the_top(shelf: Shelf) -> None:
    point = shelf.points[1]
    shelf.engine.set_payload(shelf.name, {"text": "new", "more": {"a": [1]}}, [point.id])
    assert payload_of(shelf, point) == {**point.payload, "text": "new", "more": {"a": [1]}}


def test_set_payload_under_a_key(shelf: Shelf) -> None:
    point = shelf.points[1]
    shelf.engine.set_payload(shelf.name, {"seen": True}, [point.id], key="metadata.lang")
    assert payload_of(shelf, point)["metadata"]["lang"] == {"code": "no", "seen": True}


def test_set_payload_by_filter(shelf: Shelf) -> None:
    shelf.engine.set_payload(shelf.name, {"seen": True}, FILMS)
    seen = {record.id for record in shelf.engine.scroll(shelf.name, limit=100)[0] if "seen" in record.payload}
    assert seen == {point.id for point in films(shelf)}


def test_overwrite_payload(shelf: Shelf) -> None:
    point = shelf.points[2]
    shelf.engine.overwrite_payload(shelf.name, {"only": None}, [point.id])
    assert payload_of(shelf, point) == {"only": None}
    assert vectors_of(shelf, point) == stored(point.vectors)


def test_delete_payload(shelf: Shelf) -> None:
    point = shelf.points[3]
    shelf.engine.delete_payload(shelf.name, ["text", "metadata.kind", "nothing"], [point.id])
    kept = {key: value for key, value in point.metadata.items() if key != "kind"}
    assert payload_of(shelf, point) == {"id": point.payload["id"], "metadata": kept}


def test_clear_payload(shelf: Shelf) -> None:
    shelf.engine.clear_payload(shelf.name, FILMS)
    assert [payload_of(shelf, point) for point in films(shelf)] == [{}] * len(films(shelf))
    assert payload_of(shelf, shelf.points[0]) == shelf.points[0].payload


def test_update_vectors_leaves_the_others_and_the_payload(shelf: Shelf) -> None:
    point, changed = shelf.points[0], {"bm25": {2: 0.5, 29: 1.5}}
    shelf.engine.update_vectors(shelf.name, [models.PointVectors(id=point.id, vector=corpus.to_vectors(changed))])
    assert vectors_of(shelf, point) == stored({**point.vectors, **changed})
    assert payload_of(shelf, point) == point.payload


def test_a_vector_can_be_added_later(shelf: Shelf) -> None:
    point = shelf.points[4]
    assert "dense" not in point.vectors
    added: dict[str, Any] = {"dense": [0.25] * corpus.SIZE}
    shelf.engine.update_vectors(shelf.name, [models.PointVectors(id=point.id, vector=added)])
    found = shelf.engine.query_points(shelf.name, added["dense"], using="dense", limit=1).points
    assert (found[0].id, found[0].score) == (point.id, pytest.approx(1.0, abs=1e-6))


def test_delete_vectors(shelf: Shelf) -> None:
    point = shelf.points[0]
    shelf.engine.delete_vectors(shelf.name, ["plain"], [point.id])
    assert set(vectors_of(shelf, point)) == {"dense", "bm25"}
    words = corpus.to_sparse(point.vectors["plain"])
    found = shelf.engine.query_points(shelf.name, words, using="plain", limit=100).points
    assert point.id not in [each.id for each in found]


def test_several_operations_in_order(shelf: Shelf) -> None:
    first, second, third = shelf.points[:3]
    operations = [
        models.UpsertOperation(upsert=models.PointsList(points=[Point(77, {}, {"n": 1}).struct()])),
        models.SetPayloadOperation(set_payload=models.SetPayload(payload={"n": 2}, points=[77])),
        models.DeletePayloadOperation(delete_payload=models.DeletePayload(keys=["text"], points=[first.id])),
        models.OverwritePayloadOperation(overwrite_payload=models.SetPayload(payload={"o": 1}, points=[second.id])),
        models.DeleteOperation(delete=models.PointIdsList(points=[third.id])),
    ]
    results = shelf.engine.batch_update_points(shelf.name, operations)
    assert [result.status for result in results] == [models.UpdateStatus.COMPLETED] * 5
    assert shelf.engine.retrieve(shelf.name, [77])[0].payload == {"n": 2}
    assert "text" not in payload_of(shelf, first)
    assert payload_of(shelf, second) == {"o": 1}
    assert shelf.engine.retrieve(shelf.name, [third.id]) == []


def test_facets_count_values(library: Shelf) -> None:
    hits = library.engine.facet(library.name, "metadata.kind", exact=True).hits
    assert {hit.value: hit.count for hit in hits} == dict.fromkeys(corpus.KINDS, 20)
    finished = models.Filter(must=[models.FieldCondition(key="metadata.done", match=models.MatchValue(value=True))])
    hits = library.engine.facet(library.name, "metadata.kind", finished, limit=2, exact=True).hits
    assert [hit.count for hit in hits] == [5, 5]


def test_a_payload_of_every_json_kind(engine: Engine) -> None:
    name = engine.new_collection(**corpus.LAYOUT)
    payload = {
        "text": 'Ünïcode 🎉 \n\t"quoted" \\ \u0000',
        "numbers": [0, -1, 2**53, 2**63 - 1, 1.5, -0.25, 1e300],
        "empty": [{}, [], "", None],
        "deep": {"a": {"b": {"c": [{"d": None}]}}},
        "flags": [True, False],
        "a.b": 1,
        "": "no name",
    }
    engine.upsert(name, [models.PointStruct(id=1, vector={}, payload=payload)])
    assert engine.retrieve(name, [1])[0].payload == payload
