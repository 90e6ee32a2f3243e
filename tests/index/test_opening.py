"""Opening: what is there is checked, and never mixed with what doesn't fit."""

from __future__ import annotations

import asyncio
import pickle
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import AsyncQdrantClient, QdrantClient, models

from tests.faces import Face, Pauses
from twofold import (
    BM25,
    CollectionMismatch,
    CollectionNotFound,
    CollectionSettings,
    ConfigError,
    Document,
    EngineError,
    EngineUnavailable,
    HybridIndex,
    IndexClosed,
    PartialAdd,
)
from twofold.testing import HashEmbedding

Opener = Callable[..., Face]
DIM = 64


def collection(client: QdrantClient, *, dense: int | None = DIM, sparse: bool = True, idf: bool = True) -> None:
    client.create_collection(
        "twofold",
        vectors_config={"dense": models.VectorParams(size=dense, distance=models.Distance.COSINE)} if dense else {},
        sparse_vectors_config={"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF if idf else None)}
        if sparse
        else None,
    )


def fill(client: QdrantClient, *, dense: bool = True, sparse: bool = True) -> None:
    """Points that something else wrote: same layout, no record of the models."""
    for i, text in enumerate(["tunnels listen", "caches expire"]):
        vector: dict[str, Any] = {}
        if dense:
            vector["dense"] = HashEmbedding().embed_query(text)
        if sparse:
            found = BM25().embed_documents([text])[0]
            vector["bm25"] = models.SparseVector(indices=list(found.indices), values=list(found.values))
        client.upsert("twofold", [models.PointStruct(id=i + 1, vector=vector, payload={"text": text})])


def test_what_was_added_is_there_after_reopening(tmp_path: Path) -> None:
    with HybridIndex.open(tmp_path / "index", dense=HashEmbedding()) as index:
        index.add([Document(text="tunnels listen on 2333", id="t", metadata={"year": 2024})])
        before = index.search("tunnels")
    with HybridIndex.open(tmp_path / "index", dense=HashEmbedding()) as index:
        after = index.search("tunnels")
        assert [(hit.id, hit.text, hit.metadata) for hit in after] == [("t", before[0].text, {"year": 2024})]
        assert after[0].score == pytest.approx(before[0].score)
        assert index.count() == 1


def test_another_model_is_refused_even_with_the_same_dimension(open_index: Opener) -> None:
    client = QdrantClient(":memory:")
    HybridIndex.open(client, dense=HashEmbedding(name="one"))
    with pytest.raises(CollectionMismatch, match=r"was written with dense model .*one-64.*, not .*two-64") as caught:
        HybridIndex.open(client, dense=HashEmbedding(name="two"))
    assert caught.value.expected == "HashEmbedding:one-64"
    with pytest.raises(ConfigError, match="pass that embedding as dense="):
        HybridIndex.open(client)


@pytest.mark.parametrize(
    "arguments",
    [{"language": "portuguese"}, {"sparse": BM25("english", b=0.2)}, {"sparse": BM25("english", k1=2.0)}],
    ids=["language", "b", "k1"],
)
def test_other_bm25_settings_are_refused(arguments: dict[str, Any]) -> None:
    client = QdrantClient(":memory:")
    HybridIndex.open(client, dense=HashEmbedding())
    with pytest.raises(CollectionMismatch, match="leave language= and sparse= out"):
        HybridIndex.open(client, dense=HashEmbedding(), **arguments)


def test_a_collection_remembers_its_language_and_settings() -> None:
    client = QdrantClient(":memory:")
    HybridIndex.open(client, dense=HashEmbedding(), sparse=BM25("portuguese", b=0.3))
    reopened = HybridIndex.open(client, dense=HashEmbedding())
    assert reopened.info().sparse == BM25("portuguese", b=0.3).settings
    assert HybridIndex.open(client, dense=HashEmbedding(), language="portuguese").info().sparse["b"] == 0.3


def test_an_unknown_language_names_some_that_are_known() -> None:
    with pytest.raises(ConfigError, match=r"language 'klingon' is not known: .*norwegian"):
        HybridIndex.open(":memory:", dense=HashEmbedding(), language="klingon")


def test_another_dimension_is_refused() -> None:
    client = QdrantClient(":memory:")
    collection(client, dense=12)
    with pytest.raises(CollectionMismatch, match=r"12 dimensions and .* makes 64"):
        HybridIndex.open(client, dense=HashEmbedding())


def test_a_foreign_layout_is_refused() -> None:
    client = QdrantClient(":memory:")
    client.create_collection("twofold", models.VectorParams(size=DIM, distance=models.Distance.COSINE))
    with pytest.raises(CollectionMismatch, match=r"it is empty\. Open it with layout="):
        HybridIndex.open(client, dense=HashEmbedding())


def test_a_dense_only_collection_is_searched_by_meaning() -> None:
    client = QdrantClient(":memory:")
    collection(client, sparse=False)
    fill(client, sparse=False)
    result = HybridIndex.open(client, dense=HashEmbedding()).search("tunnels", explain=True)
    assert result[0].text == "tunnels listen"
    assert result.mode == "dense"
    assert result.degraded == "the collection has no words: index.adopt() adds them"
    assert result[0].explanation is not None
    assert result[0].explanation.lexical_score is None


def test_a_sparse_only_collection_is_searched_by_words() -> None:
    client = QdrantClient(":memory:")
    collection(client, dense=None)
    fill(client, dense=False)
    result = HybridIndex.open(client, dense=HashEmbedding()).search("tunnels")
    assert [hit.text for hit in result] == ["tunnels listen"]
    assert result.mode == "lexical"
    assert result.degraded == "the collection has no dense vector"


def test_without_idf_every_result_says_so() -> None:
    client = QdrantClient(":memory:")
    collection(client, idf=False)
    fill(client)
    result = HybridIndex.open(client, dense=HashEmbedding()).search("tunnels")
    assert result[0].text == "tunnels listen"
    assert result.mode == "hybrid"
    assert result.degraded is not None
    assert "no IDF modifier" in result.degraded


def test_rows_without_a_sparse_vector_are_still_found_by_meaning() -> None:
    client = QdrantClient(":memory:")
    collection(client)
    fill(client, sparse=False)
    result = HybridIndex.open(client, dense=HashEmbedding()).search("tunnels")
    assert result[0].text == "tunnels listen"
    assert len(result) == 2


def test_points_of_unknown_origin_are_not_added_to_until_somebody_vouches() -> None:
    client = QdrantClient(":memory:")
    collection(client)
    fill(client)
    with pytest.raises(CollectionMismatch, match="open it once with adopt=True"):
        HybridIndex.open(client, dense=HashEmbedding()).add(["more"])
    assert client.count("twofold").count == 2
    HybridIndex.open(client, dense=HashEmbedding(), adopt=True).add(["more"])
    HybridIndex.open(client, dense=HashEmbedding()).add(["and more"])
    assert client.count("twofold").count == 4
    with pytest.raises(CollectionMismatch, match="was written with dense model"):
        HybridIndex.open(client, dense=HashEmbedding(name="other"))


def test_a_format_of_the_future_is_refused() -> None:
    client = QdrantClient(":memory:")
    HybridIndex.open(client, dense=HashEmbedding())
    client.update_collection("twofold", metadata={"twofold": {"format": 99}})
    with pytest.raises(CollectionMismatch, match="has format 99, this version of Twofold reads 1"):
        HybridIndex.open(client, dense=HashEmbedding())


def test_opening_without_creating(tmp_path: Path) -> None:
    with pytest.raises(CollectionNotFound, match="no index at"):
        HybridIndex.open(tmp_path / "nowhere", create=False)
    assert not (tmp_path / "nowhere").exists()
    (tmp_path / "mine.txt").write_text("not an index")
    with pytest.raises(CollectionNotFound, match="no index at"):
        HybridIndex.open(tmp_path, create=False)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    client = QdrantClient(":memory:")
    with pytest.raises(CollectionNotFound, match="no collection 'notes'"):
        HybridIndex.open(client, "notes", create=False)
    assert not client.collection_exists("notes")


@pytest.mark.parametrize("location", [None, 7, "", "  "])
def test_a_location_is_a_path_a_url_or_a_client(location: Any) -> None:
    with pytest.raises(ConfigError, match="location must be a path"):
        HybridIndex.open(location)


@pytest.mark.parametrize("location", ["localhost:6333", "qdrant.example.com:6333", "http:/host", "10.0.0.1:6333/path"])
def test_an_address_needs_its_scheme(location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of that name is never what was meant, unless there is one."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="write http:// or https:// before it"):
        HybridIndex.open(location, dense=HashEmbedding())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"durability": "forever"}, "durability must be"),
        ({"optimize": "never"}, "optimize must be"),
        ({"collection": "a/b"}, "not a collection name"),
        ({"collection": "x" * 256}, "not a collection name"),
    ],
)
def test_a_wrong_argument_makes_no_folder(tmp_path: Path, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        HybridIndex.open(tmp_path / "index", dense=HashEmbedding(), **arguments)
    assert not (tmp_path / "index").exists()


def test_a_file_is_not_a_location(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match="is a file"):
        HybridIndex.open(tmp_path / "file")
    with pytest.raises(ConfigError, match="choose another folder"):
        HybridIndex.open(tmp_path / "file" / "below")


@pytest.mark.parametrize("arguments", [{"api_key": "secret"}, {"prefer_grpc": True}])
def test_server_options_are_for_servers(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="for a URL"):
        HybridIndex.open(":memory:", dense=HashEmbedding(), **arguments)


def test_a_server_that_is_not_there_is_said_plainly(pauses: Pauses) -> None:
    with pytest.raises(EngineUnavailable, match=r"http://127.0.0.1:9 does not answer") as caught:
        HybridIndex.open("http://127.0.0.1:9", dense=HashEmbedding(), timeout=60)
    assert caught.value.operation == "version"
    with pytest.raises(EngineUnavailable, match="Is the server running"):
        asyncio.run(HybridIndex.aopen("http://127.0.0.1:9", dense=HashEmbedding(), timeout=60))


def test_a_closed_index_says_so(open_index: Opener) -> None:
    face = open_index()
    face.add(["tunnels"])
    face.index.close()
    face.index.close()
    for use in (lambda: face.search("tunnels"), lambda: face.add(["x"]), lambda: face.count(), lambda: face.get("x")):
        with pytest.raises(IndexClosed, match="open it again"):
            use()
    assert repr(face.index).endswith("closed>")


def test_a_client_of_ones_own_stays_open() -> None:
    client = QdrantClient(":memory:")
    with HybridIndex.open(client, dense=HashEmbedding()) as index:
        index.add(["tunnels"])
    assert client.count("twofold").count == 1


async def test_an_async_client_is_only_for_awaiting() -> None:
    async with HybridIndex.open(AsyncQdrantClient(":memory:"), dense=HashEmbedding()) as index:
        await index.aadd(["tunnels listen"])
        assert len(await index.asearch("tunnels")) == 1
        with pytest.raises(ConfigError, match="use the async methods"):
            index.search("tunnels")


async def test_tasks_that_come_first_together_open_one_collection() -> None:
    index = HybridIndex.open(AsyncQdrantClient(":memory:"), dense=HashEmbedding())
    await asyncio.gather(*(index.aadd([f"memory {i}"]) for i in range(20)))
    assert await index.acount() == 20


def test_cluster_settings_reach_the_collection() -> None:
    client = QdrantClient(":memory:")
    seen: dict[str, Any] = {}
    real = client.create_collection
    client.create_collection = lambda **kwargs: seen.update(kwargs) or real(**kwargs)  # type: ignore[method-assign]
    settings = CollectionSettings(
        shard_number=3, replication_factor=2, write_consistency_factor=2, on_disk=True, quantization="scalar"
    )
    HybridIndex.open(client, dense=HashEmbedding(), settings=settings)
    dense = seen["vectors_config"]["dense"]
    assert (seen["shard_number"], seen["replication_factor"], seen["write_consistency_factor"]) == (3, 2, 2)
    assert (dense.hnsw_config.m, dense.hnsw_config.ef_construct, dense.on_disk) == (16, 200, True)
    assert dense.distance == models.Distance.COSINE
    assert isinstance(dense.quantization_config, models.ScalarQuantization)
    assert seen["sparse_vectors_config"]["bm25"].modifier == models.Modifier.IDF
    assert seen["metadata"]["twofold"]["dense"] == {"model": "HashEmbedding:hash-64", "dim": 64, "by_name": False}


def test_info_tells_what_an_index_is_made_of(open_index: Opener) -> None:
    face = open_index()
    face.add(["one", "two"])
    info = face._call("info")
    assert (info.documents, info.dense_model, info.dense_dim) == (2, "HashEmbedding:hash-64", 64)
    assert info.legs == ("dense", "lexical")
    assert info.sparse["language"] == "english"
    assert info.notes == ()


def test_another_distance_is_refused() -> None:
    """By Euclid the nearest have the lowest score, and the worst would come first."""
    client = QdrantClient(":memory:")
    client.create_collection(
        "twofold", vectors_config={"dense": models.VectorParams(size=DIM, distance=models.Distance.EUCLID)}
    )
    with pytest.raises(CollectionMismatch, match="by cosine"):
        HybridIndex.open(client, dense=HashEmbedding(), adopt=True)


def test_an_empty_foreign_collection_is_recorded_when_it_is_opened() -> None:
    client = QdrantClient(":memory:")
    collection(client)
    HybridIndex.open(client, dense=HashEmbedding()).add(["first"])
    HybridIndex.open(client, dense=HashEmbedding()).add(["second"])
    with pytest.raises(CollectionMismatch, match="was written with dense model"):
        HybridIndex.open(client, dense=HashEmbedding(name="other"))


@pytest.mark.parametrize("arguments", [{"api_key": "secret"}, {"durability": "power"}, {"tpyo": 1}])
def test_options_are_not_for_a_client_that_is_there(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="already there"):
        HybridIndex.open(QdrantClient(":memory:"), dense=HashEmbedding(), **arguments)


@pytest.mark.parametrize("arguments", [{"cache_size": -1}, {"cache_size": 1.5}])
def test_wrong_numbers_are_said(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="cache_size"):
        HybridIndex.open(":memory:", dense=HashEmbedding(), **arguments)


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan"), "soon", True])
def test_a_timeout_is_a_number_of_seconds(timeout: Any) -> None:
    with pytest.raises(ConfigError, match="timeout"):
        HybridIndex.open("http://127.0.0.1:9", dense=HashEmbedding(), timeout=timeout)


async def test_opening_with_a_slow_model_does_not_block_the_event_loop() -> None:
    go_on = threading.Event()

    class Slow(HashEmbedding):
        def embed_query(self, text: str) -> list[float]:
            assert go_on.wait(60)
            return super().embed_query(text)

    opening = asyncio.create_task(HybridIndex.aopen(":memory:", dense=Slow()))
    for _ in range(5):
        await asyncio.sleep(0.02)
        assert not opening.done()
    go_on.set()
    (await opening).close()


def test_errors_travel_between_processes() -> None:
    error = EngineUnavailable("gone", operation="upsert", location="there", attempts=["503"])
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is EngineUnavailable
    assert (str(copy), copy.operation, copy.location, copy.attempts) == ("gone", "upsert", "there", ["503"])
    partial = pickle.loads(pickle.dumps(PartialAdd("half", written=["a"])))
    assert partial.written == ["a"]


@pytest.mark.parametrize("wrong", ["foo", 5, {"scalr": {"type": "int8"}}])
def test_a_quantisation_that_is_none_is_refused(wrong: object) -> None:
    with pytest.raises(ConfigError, match="quantization must be 'scalar', 'binary' or a quantisation config"):
        HybridIndex.open(":memory:", dense=HashEmbedding(), settings=CollectionSettings(quantization=wrong))


def test_a_folder_that_cannot_be_read_is_said_plainly(tmp_path: Path) -> None:
    (tmp_path / "twofold.json").mkdir()
    with pytest.raises(EngineError, match=f"open on {re.escape(str(tmp_path))} failed: IsADirectoryError"):
        HybridIndex.open(tmp_path, dense=HashEmbedding())
