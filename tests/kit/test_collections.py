"""Collections and payload indexes."""

from __future__ import annotations

import uuid

import pytest
from qdrant_client import models

from tests.kit import corpus
from tests.kit.conftest import Shelf
from tests.kit.engines import Engine, refused

ABSENT = "kit-no-such-collection"


def test_exists_from_creation_to_deletion(engine: Engine) -> None:
    name = engine.new_collection(**corpus.LAYOUT)
    assert engine.collection_exists(name) is True
    assert name in [each.name for each in engine.get_collections().collections]
    assert engine.delete_collection(name) is True
    assert engine.collection_exists(name) is False
    assert name not in [each.name for each in engine.get_collections().collections]


def test_a_name_is_taken_once(shelf: Shelf) -> None:
    with refused(409):
        shelf.engine.create_collection(shelf.name, **corpus.LAYOUT)
    assert shelf.engine.count(shelf.name).count == len(shelf.points)


def test_info_tells_vectors_modifier_and_metadata(library: Shelf) -> None:
    info = library.engine.get_collection(library.name)
    dense = info.config.params.vectors["dense"]
    sparse = info.config.params.sparse_vectors
    assert (dense.size, dense.distance) == (corpus.SIZE, models.Distance.COSINE)
    assert sparse["bm25"].modifier == models.Modifier.IDF
    assert sparse["plain"].modifier in (None, models.Modifier.NONE)
    assert info.config.metadata == corpus.LAYOUT["metadata"]
    assert info.points_count == len(library.points)
    assert info.status == models.CollectionStatus.GREEN


def test_info_lists_payload_indexes(engine: Engine) -> None:
    if not engine.indexes:
        pytest.skip("local mode has no payload indexes")
    name = engine.new_collection(**corpus.LAYOUT)
    for field, kind in corpus.INDEXES.items():
        engine.create_payload_index(name, field, kind)
    schema = engine.get_collection(name).payload_schema
    assert set(schema) == set(corpus.INDEXES)
    assert schema["metadata.when"].data_type == models.PayloadSchemaType.DATETIME
    engine.delete_payload_index(name, "metadata.when")
    assert "metadata.when" not in engine.get_collection(name).payload_schema


def test_metadata_is_merged(engine: Engine) -> None:
    name = engine.new_collection(**corpus.LAYOUT)
    engine.update_collection(name, metadata={"seen": [1, 2]})
    assert engine.get_collection(name).config.metadata == {**corpus.LAYOUT["metadata"], "seen": [1, 2]}


def test_one_unnamed_vector(engine: Engine) -> None:
    name = engine.new_collection(models.VectorParams(size=2, distance=models.Distance.DOT))
    engine.upsert(name, [models.PointStruct(id=1, vector=[3.0, 4.0], payload={"a": None})])
    assert engine.get_collection(name).config.params.vectors.size == 2
    assert engine.query_points(name, [1.0, 1.0]).points[0].score == pytest.approx(7.0)
    assert engine.retrieve(name, [1], with_vectors=True)[0].vector == [3.0, 4.0]


def test_a_name_with_a_space_and_letters_beyond_ascii(engine: Engine) -> None:
    name = "kit søk %41 & x"
    engine.create_collection(name, **corpus.LAYOUT)
    try:
        assert engine.collection_exists(name)
        assert engine.count(name).count == 0
    finally:
        engine.delete_collection(name)


def test_an_alias_stands_for_its_collection(engine: Engine) -> None:
    name, alias = engine.new_collection(**corpus.LAYOUT), f"alias-{uuid.uuid4().hex}"
    action = models.CreateAliasOperation(create_alias=models.CreateAlias(collection_name=name, alias_name=alias))
    engine.update_collection_aliases([action])
    engine.upsert(alias, [models.PointStruct(id=1, vector={})])
    assert engine.count(name).count == 1
    assert [each.alias_name for each in engine.get_collection_aliases(name).aliases] == [alias]


def test_a_vector_is_added_in_place(engine: Engine) -> None:
    name = engine.new_collection({"dense": corpus.LAYOUT["vectors_config"]["dense"]})
    engine.upsert(name, [models.PointStruct(id=1, vector={"dense": [1.0] * corpus.SIZE}, payload={"a": 1})])
    config = models.SparseVectorNameConfig(sparse=models.SparseVectorConfig(modifier=models.Modifier.IDF))
    engine.create_vector_name(name, "bm25", config)
    words = models.SparseVector(indices=[3], values=[2.0])
    engine.update_vectors(name, [models.PointVectors(id=1, vector={"bm25": words})])
    assert engine.get_collection(name).config.params.sparse_vectors["bm25"].modifier == models.Modifier.IDF
    assert [point.id for point in engine.query_points(name, words, using="bm25").points] == [1]
    assert engine.retrieve(name, [1])[0].payload == {"a": 1}


def test_deleting_what_is_not_there_says_so(engine: Engine) -> None:
    assert engine.delete_collection(ABSENT) is False


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("get_collection", {}),
        ("count", {}),
        ("scroll", {}),
        ("retrieve", {"ids": [1]}),
        ("query_points", {"query": [0.1] * corpus.SIZE, "using": "dense"}),
        ("query_batch_points", {"requests": [models.QueryRequest(query=1, using="dense")]}),
        ("upsert", {"points": [models.PointStruct(id=1, vector={})]}),
        ("delete", {"points_selector": [1]}),
        ("set_payload", {"payload": {"a": 1}, "points": [1]}),
        ("facet", {"key": "metadata.kind"}),
        ("update_collection", {"metadata": {"a": 1}}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_missing_collection_is_refused(engine: Engine, method: str, arguments: dict[str, object]) -> None:
    with refused(404):
        getattr(engine, method)(ABSENT, **arguments)


def test_a_restart_keeps_everything(engine: Engine) -> None:
    name = engine.new_collection(**corpus.LAYOUT)
    points = corpus.points(20)
    engine.upsert(name, [point.struct() for point in points])
    before = engine.get_collection(name)
    engine.restart()
    after = engine.get_collection(name)
    assert after.config == before.config
    records, _ = engine.scroll(name, limit=100)
    assert {record.id: record.payload for record in records} == {point.id: point.payload for point in points}
