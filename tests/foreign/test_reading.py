"""What others wrote is opened with nothing but its model: right texts, metadata and ids, and a true word about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import QdrantClient, models

from tests.faces import _endpoint
from tests.foreign.shelf import NAMES, Model, put, rows_of, snapshot
from tests.foreign.write import COLLECTION, NOTES
from twofold import CollectionMismatch, ConfigError, HybridIndex, Layout, embedded_client

WRITERS = {"langchain": "LangChain", "llamaindex": "LlamaIndex", "haystack": "Haystack", "mem0": "mem0"}


@pytest.fixture(params=["embedded", "local", "http"])
def client(request: pytest.FixtureRequest) -> Iterator[QdrantClient]:
    makers: dict[str, Callable[[], QdrantClient]] = {
        "embedded": lambda: embedded_client(":memory:"),
        "local": lambda: QdrantClient(":memory:"),
        "http": lambda: QdrantClient(url=_endpoint().url),
    }
    made = makers[request.param]()
    yield made
    for each in made.get_collections().collections:  # the endpoint is that of all tests
        if each.name.startswith(COLLECTION):
            made.delete_collection(each.name)
    made.close()


def opened(client: QdrantClient, **options: object) -> HybridIndex:
    return HybridIndex.open(client, COLLECTION, dense=Model(), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_it_is_recognised(client: QdrantClient, name: str) -> None:
    put(client, name)
    before = snapshot(client)
    index = opened(client)
    for text, metadata in NOTES:
        hit = index.search(text, k=1)[0]
        assert hit.text == text
        assert hit.relevance > 0.5
        assert metadata.items() <= hit.metadata.items()
        found = index.get(hit.id)
        assert found is not None
        assert (found.text, found.metadata) == (hit.text, hit.metadata)
    assert index.count() == len(NOTES)
    result = index.search("database", k=10, filter={"year": {"gte": 2023}, "topic": "database"})
    assert sorted(hit.metadata["year"] for hit in result) == [2023, 2024]
    assert index.count({"$id": [hit.id for hit in result]}) == 2
    assert index.count({"topic": "network"}) == 2
    assert snapshot(client) == before, "reading writes nothing"
    assert not client.get_collection(COLLECTION).config.metadata


@pytest.mark.parametrize("name", NAMES)
def test_it_says_that_only_meaning_is_searched(client: QdrantClient, name: str) -> None:
    put(client, name)
    result = opened(client).search("rathole", explain=True)
    assert result.mode == "dense"
    assert result.degraded is not None
    assert "index.adopt() adds" in result.degraded
    assert result[0].explanation is not None
    assert result[0].explanation.lexical_score is None


def test_ids_are_those_of_the_package(client: QdrantClient) -> None:
    put(client, "haystack")
    index = opened(client)
    for row in rows_of("haystack"):
        found = index.get(row["payload"]["id"])
        assert found is not None
        assert found.text == row["payload"]["content"]


def test_words_of_bm25_are_asked_for(client: QdrantClient) -> None:
    """As fastembed writes them: the ids of its tokens are those of ours, its weights are other ones."""
    texts = [text for text, _ in NOTES]
    from qdrant_edge import Bm25, Bm25Config

    encoder = Bm25(Bm25Config())
    params = models.VectorParams(size=64, distance=models.Distance.COSINE)
    client.create_collection(COLLECTION, params, {"text-sparse": models.SparseVectorParams()})
    points = []
    for number, text in enumerate(texts):
        made = encoder.embed_document(text)
        words = models.SparseVector(indices=list(made.indices), values=list(made.values))
        vector: Any = {"": Model().embed_query(text), "text-sparse": words}
        points.append(models.PointStruct(id=number, vector=vector, payload={"page_content": text, "metadata": None}))
    client.upsert(COLLECTION, points)
    index = opened(client)
    result = index.search("oat milk", k=1, explain=True)
    assert result.mode == "hybrid"
    assert result.degraded is not None
    assert "no IDF modifier" in result.degraded
    assert result[0].text.startswith("Ana")
    assert result[0].explanation is not None
    assert result[0].explanation.lexical_score is not None
    assert result[0].id == "3"
    assert index.get("3") is not None


def test_the_layout_of_anything_else_is_told(client: QdrantClient) -> None:
    vectors = {name: models.VectorParams(size=64, distance=models.Distance.COSINE) for name in ("plot", "poster")}
    client.create_collection(COLLECTION, vectors)
    for number, (text, metadata) in enumerate(NOTES):
        made = Model().embed_query(text)
        payload = {"film": {"plot": text}, **metadata}
        client.upsert(COLLECTION, [models.PointStruct(id=number, vector={"plot": made}, payload=payload)])
    with pytest.raises(CollectionMismatch, match=r"rows have 'film', 'year', 'topic'.*layout=Layout"):
        opened(client)
    with pytest.raises(CollectionMismatch, match="several dense vectors, 'plot', 'poster'"):
        opened(client, layout=Layout("film.plot", metadata=None))
    with pytest.raises(CollectionMismatch, match="no dense vector named 'plod'"):
        opened(client, layout=Layout("film.plot", metadata=None, dense="plod"))
    index = opened(client, layout=Layout("film.plot", metadata=None, dense="plot"))
    hit = index.search("oat milk", k=1)[0]
    assert (hit.text, hit.metadata["year"], hit.id) == (NOTES[3][0], 2023, "3")
    assert index.get("3") == index.fetch({"year": 2023, "topic": "people"})[0]


@pytest.mark.parametrize("name", NAMES)
def test_a_row_that_cannot_be_read_is_named(client: QdrantClient, name: str) -> None:
    put(client, name)
    broken = rows_of(name)[0]["id"]
    client.overwrite_payload(COLLECTION, {"something": "else"}, points=[broken])
    result = opened(client).search("rathole port of the home server", k=len(NOTES))
    assert len(result) == len(NOTES) - 1
    assert [problem.id for problem in result.problems] == [broken]
    assert "is no text" in result.problems[0].reason


@pytest.mark.parametrize("name", NAMES)
def test_nobody_adds_to_it_before_somebody_vouched(client: QdrantClient, name: str) -> None:
    put(client, name)
    with pytest.raises(CollectionMismatch, match="open it once with adopt=True"):
        opened(client).add(["more"])
    index = opened(client, adopt=True)
    if name.startswith(("langchain", "haystack", "mcp")):
        index.add(["More about zebras"], ids=["mine"])
        found = opened(client).get("mine")
        assert found is not None
        assert found.text == "More about zebras"
    else:
        with pytest.raises(CollectionMismatch, match=f"so that {WRITERS[name.split('-')[0]]} could read it"):
            index.add(["more"])


def test_a_layout_is_for_what_is_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="layout= is for a collection that is there"):
        HybridIndex.open(tmp_path / "store", dense=Model(), layout=Layout("plot"))


def test_a_folder_that_has_others_says_which(tmp_path: Path) -> None:
    from twofold import CollectionNotFound

    with HybridIndex.open(tmp_path / "store", "films", dense=Model()):
        pass
    with pytest.raises(CollectionNotFound, match=r"no collection 'movies' here \(there are films\)"):
        HybridIndex.open(tmp_path / "store", "movies", create=False)
