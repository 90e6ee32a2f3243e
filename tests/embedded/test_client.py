"""The QdrantClient-shaped layer: what it was made for, what it adds to the store, what is left to qdrant-client."""

from __future__ import annotations

import asyncio
import json
import pickle
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType
from qdrant_client import AsyncQdrantClient, QdrantClient
from qdrant_client import models as m
from qdrant_client.http.exceptions import UnexpectedResponse

import twofold
from twofold.embedded import (
    BadRequest,
    Conflict,
    EmbeddedClient,
    EmbeddedError,
    NotFound,
    async_embedded_client,
    embedded_client,
)
from twofold.embedded.client import check_version
from twofold.embedded.settings import VectorSchema

from .conftest import DENSE
from .processes import start

MODEL = "tests/minilm"
STORE_ALONE = """
import sys
import qdrant_edge as edge
from twofold.embedded import Options, Settings, open_store
store = open_store(sys.argv[1], Options())
store.create(Settings("notes", {"vectors": {"dense": {"size": 2, "distance": "Dot"}}}))
notes = store.get("notes")
notes.create_index("kind", "keyword")
points = [edge.Point(1, {"dense": [1.0, 2.0]}, {"kind": "note"})]
notes.apply_pieces(points, edge.UpdateOperation.upsert_points, notes.schema)
found = notes.read("query", edge.QueryRequest(limit=1, query=edge.Query.Nearest([1.0, 1.0], "dense")))
store.release()
print(found[0].id, found[0].score, [name for name in ("qdrant_client", "httpx", "pydantic") if name in sys.modules])
"""


def test_the_store_needs_no_qdrant_client(tmp_path: Path) -> None:
    out, err = start(STORE_ALONE, tmp_path).communicate(timeout=60)
    assert out == "1 3.0 []\n", err


def test_another_minor_version_is_refused_with_what_to_install() -> None:
    check_version("1.20.7")
    for other in ("1.16.2", "1.2.0", "1.21.0", "2.20.0"):
        with pytest.raises(ImportError, match=rf"{other} is installed: .pip install 'qdrant-client>=1.20,<1.21'"):
            check_version(other)


def test_both_are_what_they_look_like(client: EmbeddedClient, tmp_path: Path) -> None:
    assert isinstance(client, QdrantClient)
    other = async_embedded_client(tmp_path / "store")
    assert isinstance(other, AsyncQdrantClient)
    asyncio.run(other.close())


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda client: client.count("notes", wrong=1), AssertionError),
        (lambda client: client.count(), TypeError),
        (lambda client: client.count("notes", collection_name="notes"), TypeError),
        (lambda client: client.collection_exists("notes", "films"), TypeError),
    ],
    ids=["unknown", "missing", "twice", "too many"],
)
def test_wrong_arguments_are_refused(notes: EmbeddedClient, call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call(notes)


def test_errors_are_those_of_the_store_and_of_a_server(notes: EmbeddedClient) -> None:
    calls: dict[type[EmbeddedError], Any] = {
        BadRequest: lambda: notes.query_points("notes", [1.0], using="dense"),
        NotFound: lambda: notes.count("films"),
        Conflict: lambda: notes.create_collection("notes", DENSE),
    }
    for kind, call in calls.items():
        with pytest.raises(kind) as caught:
            call()
        assert isinstance(caught.value, UnexpectedResponse)
        assert caught.value.status_code == kind.status_code
        again = pickle.loads(pickle.dumps(caught.value))
        assert (type(again), str(again)) == (type(caught.value), str(caught.value))


def test_an_async_client_uploads_at_once_as_qdrant_clients_own_does(tmp_path: Path) -> None:
    async def work() -> int:
        client = async_embedded_client(tmp_path)
        await client.create_collection("c", m.VectorParams(size=2, distance=m.Distance.DOT))
        client.upload_points("c", [m.PointStruct(id=n, vector=[1.0, n]) for n in range(3)])
        client.upload_collection("c", [[1.0, 2.0]], ids=[7])
        count = (await client.count("c")).count
        await client.close()
        return count

    assert asyncio.run(work()) == 4


def bundled_for_fastembed(folder: Path) -> Path:
    """The bundled MiniLM, with the files beside it that fastembed wants."""
    bundled = Path(twofold.__file__).parent / "encoders" / "bundled"
    (folder / "model.onnx").symlink_to(bundled / "minilm.onnx")
    (folder / "tokenizer.json").symlink_to(bundled / "tokenizer.json")
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    settings = {"config": {"pad_token_id": 0}, "tokenizer_config": {"model_max_length": 256, **special}}
    for name, values in {**settings, "special_tokens_map": special}.items():
        (folder / f"{name}.json").write_text(json.dumps(values))
    return folder


def test_texts_are_encoded_as_by_qdrant_clients_own(client: EmbeddedClient, tmp_path: Path) -> None:
    """The bundled model stands in for one of fastembed's list, which would have to be downloaded."""
    if not any(known["model"] == MODEL for known in TextEmbedding.list_supported_models()):
        mean, source = PoolingType.MEAN, ModelSource(hf=MODEL)
        TextEmbedding.add_custom_model(MODEL, mean, True, source, dim=384, model_file="model.onnx")
    folder = bundled_for_fastembed(tmp_path)

    def text(words: str) -> m.Document:
        return m.Document(text=words, model=MODEL, options={"specific_model_path": str(folder)})

    def use(one: QdrantClient) -> list[Any]:
        one.create_collection("c", {"d": m.VectorParams(size=384, distance=m.Distance.COSINE)})
        one.upsert("c", [m.PointStruct(id=1, vector={"d": text("a fox")}, payload={"g": 1})])
        one.upsert("c", m.Batch(ids=[2], vectors={"d": [text("a dog")]}, payloads=[{"g": 2}]))
        one.upload_points("c", [m.PointStruct(id=n, vector={"d": text(f"page {n}")}) for n in (3, 4)])
        one.upload_collection("c", [{"d": text("a bird")}], ids=[5])
        one.update_vectors("c", [m.PointVectors(id=4, vector={"d": text("a cat")})])
        wolf = m.PointStruct(id=6, vector={"d": text("a wolf")})
        one.batch_update_points("c", [m.UpsertOperation(upsert=m.PointsList(points=[wolf]))])
        request = m.QueryRequest(query=text("animals"), using="d", limit=6)
        leg = m.Prefetch(query=text("a puppy"), using="d", limit=6)
        fused = m.FusionQuery(fusion=m.Fusion.RRF)
        answers = [
            one.query_points("c", text("animals"), using="d", limit=6).points,
            one.query_batch_points("c", [request])[0].points,
            one.query_points("c", fused, prefetch=[leg]).points,
            one.query_points("c", fused, prefetch=leg).points,
            one.query_points_groups("c", "g", text("a pet"), using="d").groups[0].hits,
        ]
        return [(point.id, pytest.approx(point.score, abs=1e-5)) for points in answers for point in points]

    local = QdrantClient(":memory:")
    assert use(client) == use(local)
    local.close()


def test_what_the_progress_function_raises_comes_through(client: EmbeddedClient) -> None:
    def progress(_: object) -> None:
        raise ValueError("mine")

    client.create_collection("c", {"d": m.VectorParams(size=2, distance=m.Distance.DOT)})
    client.upsert("c", [m.PointStruct(id=1, vector={"d": [1.0, 2.0]})])
    with pytest.raises(ValueError, match=r"^mine$"):
        client.optimize("c", progress)


def test_a_fresh_client_knows_how_long_vectors_are(client: EmbeddedClient) -> None:
    assert client.get_embedding_size("sentence-transformers/all-MiniLM-L6-v2") == 384


def test_options_that_are_none_are_refused_as_by_a_server() -> None:
    with pytest.raises(UnexpectedResponse, match="durability"):
        embedded_client(":memory:", durability="x")  # type: ignore[arg-type]


@pytest.mark.parametrize("index", [-1, 2**32])
def test_an_index_of_a_sparse_vector_out_of_range_is_named(index: int) -> None:
    schema = VectorSchema({}, frozenset({"words"}))
    with pytest.raises(BadRequest, match="'words': indices must be from 0"):
        schema.vector("words", {"indices": [index], "values": [1.0]})


def test_a_collection_with_an_impossible_size_leaves_the_others_open(tmp_path: Path) -> None:
    with closing(embedded_client(tmp_path)) as one:
        for name in ("good", "bad"):
            one.create_collection(name, {"d": m.VectorParams(size=2, distance=m.Distance.DOT)})
    for file in tmp_path.rglob("collection.json"):
        settings = json.loads(file.read_text())
        if "bad" in str(file):
            settings["config"]["vectors"]["d"]["size"] = -1
            file.write_text(json.dumps(settings))
    with closing(embedded_client(tmp_path)) as again:
        assert again.count("good").count == 0
