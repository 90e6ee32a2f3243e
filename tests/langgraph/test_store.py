"""The store as a whole: opening, models, folders, threads, ranking, and other documents in the same place."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from langgraph.store.base import IndexConfig, PutOp
from qdrant_client import AsyncQdrantClient, QdrantClient

from tests.kit.rest import RestServer
from twofold import (
    CollectionMismatch,
    CollectionSettings,
    ConfigError,
    Document,
    EngineError,
    HybridIndex,
    IndexClosed,
    embedded_client,
)
from twofold.langgraph import ExplainedItem, QdrantStore
from twofold.testing import HashEmbedding

NOTES = [
    "checkRateLimit() rejects a client after 100 requests a minute",
    "Rathole tunnels listen on port 2333 and forward to the home server",
    "ERR_CONN_RESET appears when the proxy closes idle connections",
    "The staging database is rebuilt every night at two",
    "Grandmother's apple cake needs four eggs",
]


def test_a_folder_keeps_everything(tmp_path: Path) -> None:
    with QdrantStore(tmp_path / "store", dense=HashEmbedding()) as store:
        store.put(("a", "b"), "k", {"text": "rathole", "n": 5})
    with QdrantStore(tmp_path / "store", dense=HashEmbedding()) as store:
        assert store.search(("a",), query="rathole")[0].value == {"text": "rathole", "n": 5}
        assert [item.key for item in store.search((), filter={"n": {"$gte": 5}})] == ["k"]
        assert store.list_namespaces() == [("a", "b")]


def test_meaning_and_words_with_the_bundled_model() -> None:
    with QdrantStore(":memory:", index=["text"]) as store:
        store.batch([PutOp(("notes",), str(n), {"text": text}) for n, text in enumerate(NOTES)])
        for query, best in [("too many API calls", "0"), ("2333", "1"), ("baking a pie", "4"), ("ERR_CONN_RESET", "2")]:
            assert store.search(("notes",), query=query)[0].key == best, query


def test_the_ranking_is_that_of_the_index() -> None:
    queries = ["rathole port", "database night", "cake", "reset connections", "requests a minute", "home", "eggs four"]
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        index.add(NOTES, ids=[str(n) for n in range(len(NOTES))])
        with QdrantStore(":memory:", dense=HashEmbedding(), index=["text"]) as store:
            store.batch([PutOp(("notes",), str(n), {"text": text}) for n, text in enumerate(NOTES)])
            for query in queries:
                wanted = {hit.id: pytest.approx(hit.relevance) for hit in index.search(query)}
                assert {item.key: item.score for item in store.search(("notes",), query=query)} == wanted


async def test_blocking_and_awaited_agree(tmp_path: Path) -> None:
    async with await QdrantStore.aopen(tmp_path / "store", dense=HashEmbedding()) as store:
        for n, text in enumerate(NOTES):
            await store.aput(("notes",), str(n), {"text": text})
        for query in ["rathole port", "database"]:
            assert await store.asearch((), query=query) == await asyncio.to_thread(store.search, (), query=query)
        assert await store.aget(("notes",), "1") == store.get(("notes",), "1")
        assert await store.alist_namespaces() == store.list_namespaces() == [("notes",)]
        await store.adelete(("notes",), "1")
        assert store.get(("notes",), "1") is None


def test_found_items_can_say_why() -> None:
    with QdrantStore(":memory:", dense=HashEmbedding(), explain=True) as store:
        store.put(("notes",), "k", {"text": NOTES[1]})
        (found,) = store.search(("notes",), query="rathole tunnels")
        assert isinstance(found, ExplainedItem)
        assert found.explanation is not None
        assert 0.5 < (found.score or 0) <= 1, "as relevance"
        assert found.explanation.matched_words == ("rathole", "tunnels")
        assert not isinstance(store.search(("notes",))[0], ExplainedItem)


def test_other_documents_of_the_collection_are_not_items() -> None:
    client = QdrantClient(":memory:")
    with HybridIndex.open(client, "shared", dense=HashEmbedding()) as index:
        index.add([Document("rathole", id="x", metadata={"namespace": ["a"], "key": "k", "value": {}})])
        with QdrantStore(client, collection="shared", dense=HashEmbedding()) as store:
            assert store.search(()) == []
            assert store.search((), query="rathole") == []
            assert store.list_namespaces() == []
            store.put(("a",), "k", {"text": "rathole"})
            assert len(store.search((), query="rathole")) == 1
            assert index.count() == 2


def test_a_collection_from_before_gets_the_indexes_it_lacks(tmp_path: Path) -> None:
    HybridIndex.open(tmp_path, "store", dense=HashEmbedding()).close()
    with QdrantStore(tmp_path, dense=HashEmbedding(), settings=CollectionSettings(text_index=True)) as store:
        assert {"text", "metadata.prefixes", "metadata.expires"} <= set(store.index.info().indexed)


async def test_a_collection_from_before_gets_the_indexes_it_lacks_awaited(tmp_path: Path) -> None:
    HybridIndex.open(tmp_path, "store", dense=HashEmbedding()).close()
    settings = CollectionSettings(text_index=True)
    async with await QdrantStore.aopen(tmp_path, dense=HashEmbedding(), settings=settings) as store:
        assert {"text", "metadata.prefixes", "metadata.expires"} <= set((await store.index.ainfo()).indexed)


def test_an_index_that_cannot_be_created_at_opening_is_an_error() -> None:
    server = RestServer(lambda: embedded_client(":memory:")).start()
    try:
        HybridIndex.open(server.url, "store", dense=HashEmbedding()).close()
        server.faults.status(400, method="PUT", path="/index")
        with pytest.raises(EngineError, match="400"):
            QdrantStore(server.url, dense=HashEmbedding(), settings=CollectionSettings(text_index=True))
    finally:
        server.close()


def test_two_stores_in_two_collections_do_not_mix(tmp_path: Path) -> None:
    client = QdrantClient(":memory:")
    one = QdrantStore(client, collection="one", dense=HashEmbedding())
    two = QdrantStore(client, collection="two", dense=HashEmbedding())
    one.put(("a",), "k", {"n": 1})
    assert two.get(("a",), "k") is None
    assert two.search(()) == []


def test_another_model_is_refused(tmp_path: Path) -> None:
    QdrantStore(tmp_path / "store", dense=HashEmbedding()).close()
    with pytest.raises(CollectionMismatch):
        QdrantStore(tmp_path / "store", dense=HashEmbedding(name="other"))
    QdrantStore(tmp_path / "store", dense=HashEmbedding()).close()  # and the folder is free again


def test_langgraphs_own_configuration_names_the_model() -> None:
    def embed(texts: Sequence[str]) -> list[list[float]]:
        return HashEmbedding().embed_documents(texts)

    with QdrantStore(":memory:", index={"dims": 64, "embed": embed, "fields": ["text"]}) as store:
        store.put(("a",), "k", {"text": "rathole", "other": "tunnel"})
        assert store.index.info().dense_dim == 64
        assert store.index.get('[["a"], "k"]').text == "rathole"  # type: ignore[union-attr]


async def test_an_embedding_that_can_only_be_awaited() -> None:
    async def embed(texts: Sequence[str]) -> list[list[float]]:
        return HashEmbedding().embed_documents(texts)

    async with await QdrantStore.aopen(":memory:", index={"dims": 64, "embed": embed}) as store:
        await store.aput(("a",), "k", {"text": "rathole"})
        assert (await store.asearch(("a",), query="rathole"))[0].key == "k"


@pytest.mark.parametrize(
    "arguments",
    [
        {"index": {"embed": HashEmbedding().embed_documents, "dims": 64}, "dense": HashEmbedding()},
        {"index": "text"},
        {"index": {"fields": "text"}},
        {"index": {"dims": 99}, "dense": HashEmbedding()},
        {"collection": ""},
    ],
    ids=["two-models", "text", "fields", "dims", "collection"],
)
def test_wrong_arguments_are_errors(arguments: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        QdrantStore(":memory:", **arguments)  # type: ignore[arg-type]


def test_threads_may_write_and_read_at_once() -> None:
    with QdrantStore(":memory:", dense=HashEmbedding()) as store:
        failures: list[Exception] = []

        def work(number: int) -> None:
            try:
                for n in range(10):
                    store.put(("t", str(number)), str(n), {"text": f"item {n}"}, ttl=10)
                    assert store.get(("t", str(number)), str(n)) is not None
                    store.search(("t",), query="item", limit=3)
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert len(store.search(("t",), limit=100)) == 40


async def test_tasks_may_write_and_read_at_once() -> None:
    async with await QdrantStore.aopen(AsyncQdrantClient(":memory:"), dense=HashEmbedding()) as store:
        await asyncio.gather(*(store.aput(("t",), str(n), {"n": n}) for n in range(20)))
        found = await asyncio.gather(*(store.aget(("t",), str(n)) for n in range(20)))
        assert [item.value["n"] for item in found if item] == list(range(20))


def test_a_closed_store_says_so() -> None:
    store = QdrantStore(":memory:", dense=HashEmbedding())
    store.close()
    store.close()
    with pytest.raises(IndexClosed):
        store.get(("a",), "k")


def test_an_async_client_is_only_awaited() -> None:
    store = QdrantStore(AsyncQdrantClient(":memory:"), dense=HashEmbedding())
    with pytest.raises(ConfigError, match="await"):
        store.put(("a",), "k", {"n": 1})


def test_without_langgraph_the_import_says_what_to_install() -> None:
    script = (
        "import sys\n"
        "sys.modules['langgraph'] = None\n"
        "import twofold\n"
        "try:\n    import twofold.langgraph\n"
        "except ImportError as error:\n    print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == 'twofold.langgraph needs LangGraph: pip install "twofold[langgraph]"'


def test_the_index_configuration_can_be_read_as_from_langgraphs_own_stores() -> None:
    given: IndexConfig = {"dims": 64, "embed": lambda texts: [[1.0] * 64 for _ in texts], "fields": ["text"]}
    with QdrantStore(":memory:", index=given) as store:
        assert store.index_config == given
    with QdrantStore(":memory:", dense=HashEmbedding(), index=["text"]) as store:
        assert store.index_config == {"fields": ["text"]}
    with QdrantStore(":memory:", dense=HashEmbedding()) as store:
        assert store.index_config is None
