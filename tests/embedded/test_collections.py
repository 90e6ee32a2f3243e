"""Collections, payload indexes, named vectors and aliases; all of it again after reopening."""

from __future__ import annotations

import inspect
import json
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import AsyncQdrantClient, QdrantClient
from qdrant_client import models as m
from qdrant_client.http.exceptions import UnexpectedResponse

from twofold.embedded import (
    AsyncEmbeddedClient,
    BadRequest,
    Conflict,
    EmbeddedClient,
    NotFound,
    StoreClosed,
    StoreError,
    StoreFormatError,
    embedded_client,
)
from twofold.embedded import (
    collection as collection_module,
)

from .conftest import DENSE, SPARSE, fill, payload_of, sample_points, vectors_of

COSINE = m.VectorParams(size=3, distance=m.Distance.COSINE)


def reopen(client: EmbeddedClient) -> EmbeddedClient:
    path = client.init_options["path"]
    client.close()
    return embedded_client(path)


def test_create_list_delete(client: EmbeddedClient) -> None:
    assert client.create_collection("a", COSINE)
    client.create_collection("b", DENSE, SPARSE)
    assert client.collection_exists("a")
    assert [c.name for c in client.get_collections().collections] == ["a", "b"]
    assert client.delete_collection("a")
    assert not client.delete_collection("a")
    assert not client.collection_exists("a")
    with pytest.raises(NotFound, match="Not found: Collection a not found: this store has b"):
        client.count("a")
    with pytest.raises(Conflict, match="already exists"):
        client.create_collection("b", COSINE)


def test_errors_are_what_either_backend_of_qdrant_client_raises(client: EmbeddedClient) -> None:
    with pytest.raises(ValueError, match="not found"):  # local mode
        client.get_collection("nope")
    with pytest.raises(UnexpectedResponse) as caught:  # a server
        client.get_collection("nope")
    assert caught.value.status_code == 404
    assert "not found" in caught.value.structured()["status"]["error"]


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "a\\b", "a:b", pytest.param("x" * 256, id="256 letters"), "a\x00"]
)
def test_bad_collection_names(client: EmbeddedClient, name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        client.create_collection(name, COSINE)


def test_names_that_file_systems_confuse(client: EmbeddedClient) -> None:
    names = ["Notes", "notes", "nötes", "no tes", "con", "a" * 255]
    for name in names:
        client.create_collection(name, COSINE)
        client.upsert(name, [m.PointStruct(id=1, vector=[1.0, 2.0, 3.0], payload={"name": name})])
    again = reopen(client)
    for name in names:
        assert again.retrieve(name, [1])[0].payload == {"name": name}
    again.close()


def test_settings_survive(client: EmbeddedClient) -> None:
    client.create_collection(
        "a",
        {"d": m.VectorParams(size=3, distance=m.Distance.DOT, datatype=m.Datatype.FLOAT16, on_disk=True)},
        {"s": m.SparseVectorParams(modifier=m.Modifier.IDF, index=m.SparseIndexParams(on_disk=True))},
        hnsw_config=m.HnswConfigDiff(m=24, ef_construct=80),
        optimizers_config=m.OptimizersConfigDiff(indexing_threshold=500),
        quantization_config=m.ScalarQuantization(scalar=m.ScalarQuantizationConfig(type=m.ScalarType.INT8)),
        metadata={"model": "MiniLM"},
        on_disk_payload=False,
        timeout=3,
    )
    text = m.TextIndexParams(type=m.TextIndexType.TEXT, tokenizer=m.TokenizerType.WORD, stopwords=m.Language.ENGLISH)
    client.create_payload_index("a", "t", text)
    before = client.get_collection("a")
    client = reopen(client)
    after = client.get_collection("a")
    assert after == before
    assert after.config.hnsw_config.m == 24
    assert after.config.metadata == {"model": "MiniLM"}
    assert isinstance(after.config.params.vectors, dict)
    assert after.config.params.vectors["d"].datatype == m.Datatype.FLOAT16
    assert after.payload_schema["t"].params == text
    client.close()


@pytest.mark.parametrize(
    "quantization",
    [
        m.ProductQuantization(product=m.ProductQuantizationConfig(compression=m.CompressionRatio.X4)),
        m.BinaryQuantization(
            binary=m.BinaryQuantizationConfig(
                encoding=m.BinaryQuantizationEncoding.TWO_BITS,
                query_encoding=m.BinaryQuantizationQueryEncoding.SCALAR8BITS,
            )
        ),
        m.TurboQuantization(turbo=m.TurboQuantQuantizationConfig(bits=m.TurboQuantBitSize.BITS4)),
    ],
    ids=["product", "binary", "turbo"],
)
def test_quantization(client: EmbeddedClient, quantization: Any) -> None:
    client.create_collection("a", m.VectorParams(size=8, distance=m.Distance.DOT), quantization_config=quantization)
    client.upsert("a", [m.PointStruct(id=1, vector=[1.0] * 8)])
    assert client.query_points("a", [1.0] * 8).points[0].score == pytest.approx(8.0, rel=0.05)


def test_a_collection_without_vectors(client: EmbeddedClient) -> None:
    client.create_collection("a", {})
    client.upsert("a", [m.PointStruct(id=1, vector={}, payload={"x": 1})])
    assert client.retrieve("a", [1], with_vectors=True)[0].payload == {"x": 1}
    assert client.get_collection("a").config.params.sparse_vectors is None


def test_update_collection(notes: EmbeddedClient, caplog: pytest.LogCaptureFixture) -> None:
    assert notes.update_collection("notes", metadata={"a": 1})
    assert notes.update_collection("notes", metadata={"b": 2}, hnsw_config=m.HnswConfigDiff(m=32))
    assert notes.update_collection("notes", optimizers_config=m.OptimizersConfigDiff(indexing_threshold=9))
    assert notes.update_collection(
        "notes", vectors_config={"dense": m.VectorParamsDiff(hnsw_config=m.HnswConfigDiff(m=8))}
    )
    config = notes.get_collection("notes").config
    assert config.metadata == {"a": 1, "b": 2}
    assert config.hnsw_config.m == 32
    assert config.optimizer_config.indexing_threshold == 9
    assert isinstance(config.params.vectors, dict)
    assert config.params.vectors["dense"].hnsw_config == m.HnswConfigDiff(m=8)
    assert notes.count("notes").count == 60
    with pytest.raises(BadRequest, match="nope"):
        notes.update_collection("notes", vectors_config={"nope": m.VectorParamsDiff()})
    with caplog.at_level("WARNING", logger="twofold.embedded"):  # what client.migrate() brings from a server
        notes.create_collection("strict", COSINE, strict_mode_config=m.StrictModeConfig(enabled=True))
    assert "strict mode" in caplog.text


@pytest.mark.parametrize(
    "refused",
    [
        {"hnsw_config": m.HnswConfigDiff(m=-1)},
        {"hnsw_config": m.HnswConfigDiff(ef_construct=-5)},
        {"optimizers_config": m.OptimizersConfigDiff(default_segment_number=-1)},
    ],
)
def test_a_refused_change_of_settings_changes_nothing(notes: EmbeddedClient, refused: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        notes.update_collection("notes", **refused)
    assert notes.count("notes").count == 60
    notes.upsert("notes", sample_points(1))


def test_a_sparse_vector_gets_its_modifier_later(client: EmbeddedClient) -> None:
    client.create_collection("a", {}, {"s": m.SparseVectorParams()})
    words = [[1, 2], [1, 3], [1, 4], [1, 5]]
    for n, indices in enumerate(words):
        vector = m.SparseVector(indices=indices, values=[1.0, 1.0])
        client.upsert("a", [m.PointStruct(id=n, vector={"s": vector}, payload={"n": n})])
    client.create_payload_index("a", "n", m.PayloadSchemaType.INTEGER)
    query = m.SparseVector(indices=[1, 3], values=[1.0, 1.0])
    assert client.query_points("a", query, using="s").points[0].score == 2.0
    client.update_collection("a", sparse_vectors_config={"s": m.SparseVectorParams(modifier=m.Modifier.IDF)})
    client = reopen(client)
    best = client.query_points("a", query, using="s").points[0]
    assert best.id == 1
    assert best.score < 2.0
    settings = client.get_collection("a").config.params.sparse_vectors
    assert settings is not None
    assert settings["s"].modifier == m.Modifier.IDF
    assert [payload_of(r)["n"] for r in client.scroll("a", order_by="n")[0]] == [0, 1, 2, 3]
    client.close()


def test_vectors_can_be_added_and_removed(notes: EmbeddedClient) -> None:
    sparse = m.SparseVectorNameConfig(sparse=m.SparseVectorConfig(modifier=m.Modifier.IDF))
    dense = m.DenseVectorNameConfig(dense=m.DenseVectorConfig(size=2, distance=m.Distance.DOT))
    notes.create_vector_name("notes", "more", sparse)
    notes.create_vector_name("notes", "flat", dense)
    vector: dict[str, m.Vector] = {"more": m.SparseVector(indices=[1], values=[1.0]), "flat": [1.0, 2.0]}
    notes.update_vectors("notes", [m.PointVectors(id=1, vector=vector)])
    with pytest.raises(BadRequest, match="already exists"):
        notes.create_vector_name("notes", "more", sparse)
    notes = reopen(notes)
    assert [p.id for p in notes.query_points("notes", [1.0, 0.0], using="flat").points] == [1]
    assert set(vectors_of(notes.retrieve("notes", [1], with_vectors=True)[0])) == {
        "dense",
        "words",
        "more",
        "flat",
    }
    notes.delete_vector_name("notes", "flat")
    assert set(vectors_of(notes.retrieve("notes", [1], with_vectors=True)[0])) == {"dense", "words", "more"}
    with pytest.raises(BadRequest, match="'flat'"):
        notes.query_points("notes", [1.0, 0.0], using="flat")
    notes = reopen(notes)
    assert set(notes.get_collection("notes").config.params.sparse_vectors or {}) == {"words", "more"}
    notes.close()


@pytest.mark.parametrize("size", [0, 65_537, 2**40])
def test_an_added_vector_has_a_size_the_engine_can_hold(notes: EmbeddedClient, size: int) -> None:
    impossible = m.DenseVectorConfig.model_construct(size=size, distance=m.Distance.DOT)
    with pytest.raises(BadRequest, match="from 1 to 65536"):
        notes.create_vector_name("notes", "flat", m.DenseVectorNameConfig.model_construct(dense=impossible))
    notes = reopen(notes)
    assert notes.count("notes").count == 60
    notes.close()


def test_a_write_checked_against_vectors_that_are_gone_is_refused(notes: EmbeddedClient) -> None:
    from twofold.embedded.client.writes import _upsert

    collection = notes.store.get("notes")
    late = _upsert(collection, [(1, {"words": m.SparseVector(indices=[1], values=[1.0])}, {})], None, None)
    notes.update_collection("notes", metadata={"a": 1})
    late()  # other settings don't matter
    notes.delete_vector_name("notes", "words")
    with pytest.raises(Conflict, match="call again"):
        late()


def test_payload_indexes(notes: EmbeddedClient) -> None:
    schemas: dict[str, Any] = {
        "kind": m.KeywordIndexParams(type=m.KeywordIndexType.KEYWORD, is_tenant=True),
        "n": m.IntegerIndexParams(type=m.IntegerIndexType.INTEGER, lookup=True, range=True),
        "price": m.FloatIndexParams(type=m.FloatIndexType.FLOAT),
        "place": m.GeoIndexParams(type=m.GeoIndexType.GEO),
        "done": m.BoolIndexParams(type=m.BoolIndexType.BOOL),
        "when": m.DatetimeIndexParams(type=m.DatetimeIndexType.DATETIME),
        "key": m.UuidIndexParams(type=m.UuidIndexType.UUID),
        "text": m.TextIndexParams(
            type=m.TextIndexType.TEXT,
            tokenizer=m.TokenizerType.MULTILINGUAL,
            stemmer=m.SnowballParams(type=m.Snowball.SNOWBALL, language=m.SnowballLanguage.ENGLISH),
            stopwords=m.StopwordsSet(languages=[m.Language.ENGLISH], custom=["fox"]),
            scoring=m.TextScoringParams(type=m.TextScoringType.BM25),
        ),
    }
    for field, schema in schemas.items():
        notes.create_payload_index("notes", field, schema)
    notes = reopen(notes)
    assert {k: v.params for k, v in notes.get_collection("notes").payload_schema.items()} == schemas
    notes.delete_payload_index("notes", "kind")
    assert "kind" not in notes.get_collection("notes").payload_schema
    with pytest.raises(BadRequest, match="field_schema"):
        notes.create_payload_index("notes", "kind")
    with pytest.raises(ValueError, match="JSON path"):
        notes.create_payload_index("notes", "a[", m.PayloadSchemaType.KEYWORD)
    notes.close()


def test_a_missing_index_is_made_again(notes: EmbeddedClient, tmp_path: Path) -> None:
    path = next((tmp_path / "store" / "collections").glob("*/collection.json"))
    notes.close()
    settings = json.loads(path.read_text())
    settings["indexes"]["done"] = "bool"
    path.write_text(json.dumps(settings))
    path.with_name("closed.json").unlink()  # as after a crash
    again = embedded_client(tmp_path / "store")
    assert {hit.value: hit.count for hit in again.facet("notes", "done").hits} == {True: 30, False: 30}
    again.close()


def test_aliases(notes: EmbeddedClient) -> None:
    create = m.CreateAliasOperation(create_alias=m.CreateAlias(collection_name="notes", alias_name="live"))
    assert notes.update_collection_aliases([create])
    rename = m.RenameAliasOperation(rename_alias=m.RenameAlias(old_alias_name="live", new_alias_name="now"))
    notes.update_collection_aliases([rename])
    notes = reopen(notes)
    assert notes.count("now").count == 60
    assert [a.alias_name for a in notes.get_collection_aliases("notes").aliases] == ["now"]
    with pytest.raises(NotFound):
        notes.update_collection_aliases([rename])
    with pytest.raises(Conflict, match="Alias now"):
        notes.create_collection("now", COSINE)
    notes.delete_collection("notes")
    assert notes.get_aliases().aliases == []
    notes.close()


def test_aliases_given_by_many_threads_are_all_kept(client: EmbeddedClient) -> None:
    client.create_collection("a", {})

    def give(thread: int) -> None:
        for number in range(5):
            alias = m.CreateAlias(collection_name="a", alias_name=f"{thread}-{number}")
            client.update_collection_aliases([m.CreateAliasOperation(create_alias=alias)])

    threads = [threading.Thread(target=give, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(client.get_aliases().aliases) == 40


def test_settings_of_a_deleted_collection_cannot_be_changed(notes: EmbeddedClient, tmp_path: Path) -> None:
    """As when one thread deletes it while another is about to change it."""
    collection = notes.store.get("notes")
    notes.delete_collection("notes")
    with pytest.raises(StoreClosed, match="deleted"):
        collection.change(collection.settings)
    assert list((tmp_path / "store" / "collections").iterdir()) == []


def test_recreate(notes: EmbeddedClient) -> None:
    notes.recreate_collection("notes", COSINE)
    assert notes.count("notes").count == 0


def test_a_new_collection_is_on_disk_with_its_directories(
    client: EmbeddedClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[int] = set()
    sync = os.fsync

    def watch(fd: int) -> None:
        sync(fd)
        synced.add(os.fstat(fd).st_ino)

    monkeypatch.setattr(os, "fsync", watch)
    client.create_collection("a", COSINE)
    home = tmp_path / "store"
    written = [home, *home.glob("collections"), *home.glob("collections/**/*")]
    assert [path.name for path in written if path.stat().st_ino not in synced] == []


def test_leftovers_of_a_crash_are_removed_and_strangers_are_not(notes: EmbeddedClient, tmp_path: Path) -> None:
    home = tmp_path / "store" / "collections"
    real = next(home.iterdir())
    notes.close()
    for name, mark in (("half-made", "unfinished"), ("half-gone", "deleted"), ("stranger", "data.bin")):
        (home / name).mkdir()
        (home / name / mark).touch()
    (real / "shard-99").mkdir()
    again = embedded_client(tmp_path / "store")
    assert sorted(path.name for path in home.iterdir()) == sorted([real.name, "stranger"])
    assert not (real / "shard-99").exists()
    assert again.count("notes").count == 60
    again.close()


def test_one_damaged_collection_does_not_close_off_the_others(notes: EmbeddedClient, tmp_path: Path) -> None:
    notes.create_collection("bad", COSINE)
    notes.close()
    damaged = next((tmp_path / "store" / "collections").glob("bad-*"))
    for segment in damaged.glob("shard-*/segments/*/segment.json"):
        segment.write_text("{")
    again = embedded_client(tmp_path / "store")
    assert again.count("notes").count == 60
    assert [c.name for c in again.get_collections().collections] == ["bad", "notes"]
    again.flush()
    for use in (lambda: again.count("bad"), lambda: again.get_collection("bad")):
        with pytest.raises(StoreError, match=r"restore .*bad-.* from a backup, or give it up with delete_collection"):
            use()
    with pytest.raises(Conflict, match="already exists"):
        again.create_collection("bad", COSINE)
    assert again.delete_collection("bad")
    assert not damaged.exists()
    again.create_collection("bad", COSINE)
    again.close()


@pytest.mark.parametrize("damage", ["{", "[]", '{"format": 99}', '{"format": 1}'])
def test_a_store_file_that_cannot_be_read_is_refused(notes: EmbeddedClient, tmp_path: Path, damage: str) -> None:
    notes.close()
    (tmp_path / "store" / "twofold.json").write_text(damage)
    with pytest.raises(StoreFormatError, match=r"backup|upgrade"):
        embedded_client(tmp_path / "store")


@pytest.mark.parametrize("damage", [None, "{", "[]", '{"format": 99}', '{"format": 1}'])
def test_a_collection_whose_name_is_lost_keeps_it_taken(
    notes: EmbeddedClient, tmp_path: Path, damage: str | None
) -> None:
    """Nobody starts over without noticing, nothing is removed, and the others are there."""
    notes.create_collection("my shelf", COSINE)
    notes.close()
    home = next((tmp_path / "store" / "collections").glob("my-shelf-*"))
    whole = (home / "collection.json").read_text()
    (home / "collection.json").unlink()
    if damage is not None:
        (home / "collection.json").write_text(damage)
    again = embedded_client(tmp_path / "store")
    assert again.count("notes").count == 60
    assert again.collection_exists("my shelf")
    for use in (lambda: again.count("my shelf"), lambda: again.delete_collection("my shelf")):
        with pytest.raises(StoreFormatError, match=r"restore .*my-shelf-.* from a backup, or remove that folder"):
            use()
    with pytest.raises(Conflict, match="already exists"):
        again.create_collection("my shelf", COSINE)
    again.close()
    (home / "collection.json").write_text(whole)
    mended = embedded_client(tmp_path / "store")
    assert mended.count("my shelf").count == 0
    mended.close()


def test_a_lost_name_is_taken_from_nobody_else(notes: EmbeddedClient, tmp_path: Path) -> None:
    """Both names make the same beginning of a directory; the one that is whole can be used, by its alias too."""
    notes.create_collection("my-shelf", COSINE)
    lost = next((tmp_path / "store" / "collections").glob("my-shelf-*"))
    notes.create_collection("my shelf", COSINE)
    alias = m.CreateAlias(collection_name="my shelf", alias_name="shelf")
    notes.update_collection_aliases([m.CreateAliasOperation(create_alias=alias)])
    notes.close()
    (lost / "collection.json").unlink()
    again = embedded_client(tmp_path / "store")
    assert again.count("my shelf").count == again.count("shelf").count == 0
    with pytest.raises(StoreFormatError, match="my-shelf can't be used"):
        again.count("my-shelf")
    assert again.delete_collection("my shelf")
    assert lost.exists()
    again.close()


def test_a_removal_that_is_killed_goes_on_at_the_next_open(
    notes: EmbeddedClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = next((tmp_path / "store" / "collections").glob("notes-*"))

    def killed(path: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(collection_module, "remove_tree", killed)
    with pytest.raises(KeyboardInterrupt):
        notes.delete_collection("notes")
    monkeypatch.undo()
    notes.close()
    assert home.exists()
    again = embedded_client(tmp_path / "store")
    assert not again.collection_exists("notes")
    assert not home.exists()
    again.close()


def test_points_that_are_gone_are_missed(notes: EmbeddedClient, tmp_path: Path) -> None:
    """The engine opens what is left of an incomplete copy without a word."""
    notes.close()
    home = next((tmp_path / "store" / "collections").glob("notes-*"))
    for segment in home.glob("shard-*/segments/*"):
        shutil.rmtree(segment)
    for log in home.glob("shard-*/wal/open-*"):  # otherwise they might come back from there
        log.unlink()
    for _ in range(2):  # and are missed again
        again = embedded_client(tmp_path / "store")
        with pytest.raises(StoreError, match=r"missing.*segments.*restore .* from a backup"):
            again.count("notes")
        again.close()
    (home / "closed.json").unlink()
    left = embedded_client(tmp_path / "store")
    assert left.count("notes").count == 0
    left.close()


def test_points_that_were_deleted_are_not_missed(notes: EmbeddedClient, tmp_path: Path) -> None:
    notes.close()
    seal = next((tmp_path / "store" / "collections").glob("notes-*")) / "closed.json"
    assert seal.exists()
    again = embedded_client(tmp_path / "store")
    again.delete("notes", [point.id for point in sample_points(2)])
    assert not seal.exists()  # whoever is killed from here on has nothing to compare with
    again.close()
    assert json.loads(seal.read_text())["points"] == 58
    last = embedded_client(tmp_path / "store")
    assert last.count("notes").count == 58
    last.close()


def test_points_can_be_taken_elsewhere(notes: EmbeddedClient) -> None:
    """What snapshots are refused with: qdrant-client's own way from one store to another."""
    for target in (QdrantClient(":memory:"), embedded_client(":memory:")):
        notes.migrate(target)
        assert target.count("notes").count == 60
        target.close()


def test_a_closed_client_is_closed_for_itself_alone(notes: EmbeddedClient, tmp_path: Path) -> None:
    other = embedded_client(tmp_path / "store")
    notes.close()
    with pytest.raises(StoreClosed, match="embedded_client"):
        notes.count("notes")
    assert other.count("notes").count == 60
    other.close()


def test_closed_means_closed(notes: EmbeddedClient) -> None:
    notes.close()
    notes.close()
    for call in (
        lambda: notes.count("notes"),
        notes.get_collections,
        lambda: notes.create_collection("a", COSINE),
    ):
        with pytest.raises(StoreClosed, match="embedded_client"):
            call()


def test_memory(tmp_path: Path) -> None:
    one, two = embedded_client(":memory:"), embedded_client(":memory:")
    fill(one)
    directory = one.store.path
    assert not two.collection_exists("notes")
    assert one.count("notes").count == 60
    assert one.optimize("notes")
    assert one.update_collection("notes", hnsw_config=m.HnswConfigDiff(m=8))
    assert one.count("notes").count == 60
    one.close()
    assert not directory.exists()
    two.close()


def test_what_only_a_server_has_names_the_alternative(client: EmbeddedClient) -> None:
    for call, alternative in (
        (lambda: client.create_snapshot("a"), "copy"),
        (lambda: client.cluster_status(), "cluster"),
        (lambda: client.create_shard_key("a", "k"), "is_tenant"),
        (lambda: client.create_collection("a", COSINE, sharding_method=m.ShardingMethod.CUSTOM), "is_tenant"),
        (lambda: client.get_optimizations("a"), "optimize"),
    ):
        with pytest.raises(NotImplementedError, match=alternative):
            call()


def test_every_method_of_the_interface_is_served_or_refused_in_words() -> None:
    from qdrant_client.client_base import QdrantBase

    from twofold.embedded import client as module

    public = {name for name in vars(QdrantBase) if not name.startswith("_")} - {"close", "migrate"}
    assert public == {*module._HANDLERS, *module._INSTEAD}
    for client, base in ((EmbeddedClient, QdrantClient), (AsyncEmbeddedClient, AsyncQdrantClient)):
        for name in public:
            assert getattr(client, name) is not getattr(base, name)
            assert inspect.signature(getattr(client, name)) == inspect.signature(getattr(base, name))


def test_info(client: EmbeddedClient) -> None:
    assert "edge" in client.info().title
