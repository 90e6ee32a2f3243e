"""`adopt` and `reembed`: what comes out, that others go on meanwhile, and that it goes on after any interruption."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import QdrantClient, models

from tests.foreign.shelf import NAMES, Model, put, rows_of, snapshot
from tests.foreign.test_reading import client as client  # a fixture
from tests.foreign.test_reading import opened
from tests.foreign.write import COLLECTION, NOTES, PACKAGES
from tests.kit.rest import RestServer
from twofold import BM25, CollectionMismatch, ConfigError, Document, HybridIndex, embedded_client
from twofold.testing import HashEmbedding

QUESTIONS = ["rathole port", "checkRateLimit", "ERR_CONN_RESET", "oat milk", "migration 032", "cake", "backup", "Kenya"]


def ranking(index: HybridIndex, query: str) -> list[str]:
    return [hit.text for hit in index.search(query)]


def scores(index: HybridIndex, query: str) -> dict[str, Any]:
    """By text, since ties are ordered by id; recorded vectors have five digits."""
    return {hit.text: pytest.approx(hit.score, abs=2e-3) for hit in index.search(query)}


@pytest.mark.parametrize("in_place", [True, False], ids=["in place", "beside"])
@pytest.mark.parametrize("name", NAMES)
def test_it_becomes_hybrid_and_stays_what_it_was(name: str, in_place: bool) -> None:
    client = embedded_client(":memory:")
    _becomes_hybrid(client, name, in_place)
    client.close()


@pytest.mark.parametrize("in_place", [True, False], ids=["in place", "beside"])
def test_so_it_does_on_every_engine(client: QdrantClient, in_place: bool) -> None:
    _becomes_hybrid(client, "mem0", in_place)


def _becomes_hybrid(client: QdrantClient, name: str, in_place: bool) -> None:
    put(client, name)
    before = snapshot(client)
    index = opened(client)
    planned = index.adopt(in_place=in_place, dry_run=True)
    assert snapshot(client) == before
    seen: list[tuple[int, int | None]] = []
    done = index.adopt(in_place=in_place, progress=lambda *each: seen.append(each))
    assert (done.documents, done.encoded, done.problems) == (8, 8, ())
    assert (planned.collection, planned.replaces, planned.encoded) == (done.collection, done.replaces, 8)
    assert seen[-1] == (8, 8)
    with HybridIndex.open(":memory:", dense=Model()) as ours:
        ours.add([Document(text, metadata=metadata) for text, metadata in NOTES])
        for either in (index, opened(client)):
            result = either.search("who wrote checkRateLimit?", explain=True)
            assert (result.mode, result.degraded) == ("hybrid", None)
            for question in QUESTIONS:
                assert scores(either, question) == {hit.text: hit.score for hit in ours.search(question)}
    after = snapshot(client, done.collection)
    for row, (payload, vector) in before.items():
        assert after[row][0] == payload
        now = after[row][1]
        for known, value in vector.items() if isinstance(vector, dict) and "indices" not in vector else [("", vector)]:
            assert now[known] == value
    if not in_place:
        assert snapshot(client) == before, "the old one is kept as it was"
        assert index.drop_replaced() == COLLECTION
        assert index.drop_replaced() is None
        assert opened(client).search("oat milk").mode == "hybrid"
    again = opened(client).adopt()
    assert (again.documents, again.encoded, again.replaces) == (8, 0, None)


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith(("lang", "llama"))])
@pytest.mark.parametrize("engine", ["embedded", "local"])
def test_the_real_package_reads_it_afterwards(name: str, engine: str, tmp_path: Path) -> None:
    store = embedded_client(tmp_path / "store") if engine == "embedded" else QdrantClient(":memory:")
    PACKAGES[name](store, None)
    before = [set(PACKAGES[name](store, question)) for question in QUESTIONS]
    assert opened(store).adopt().encoded == len(NOTES)
    assert [set(PACKAGES[name](store, question)) for question in QUESTIONS] == before
    PACKAGES[name](store, None)  # and writes it
    result = opened(store).search("oat milk", k=20)
    assert result.mode == "hybrid"
    assert result.degraded is not None
    assert "8 rows have no words" in result.degraded
    assert opened(store).adopt().encoded == len(NOTES)
    assert opened(store).search("oat milk").degraded is None
    store.close()


def test_rows_that_cannot_be_read_are_named(client: QdrantClient) -> None:
    put(client, "langchain")
    broken = rows_of("langchain")[0]["id"]
    client.set_payload(COLLECTION, {"page_content": 7}, points=[broken])
    done = opened(client).adopt()
    assert (done.documents, done.encoded) == (8, 7)
    assert [problem.id for problem in done.problems] == [broken]
    assert opened(client).search("oat milk").degraded is None


def own(client: QdrantClient, **options: Any) -> HybridIndex:
    index = HybridIndex.open(client, COLLECTION, dense=HashEmbedding(), **options)
    index.add([Document(text, id=f"n{number}", metadata=meta) for number, (text, meta) in enumerate(NOTES)])
    return index


def test_another_model_takes_the_place_of_the_old(client: QdrantClient) -> None:
    index = own(client)
    old = HybridIndex.open(client, COLLECTION, dense=HashEmbedding())
    index.create_field_index("topic", "keyword")
    other = HashEmbedding(32, name="other")
    assert index.reembed(other, dry_run=True).encoded == 8
    done = index.reembed(other)
    assert (done.collection, done.replaces, done.documents, done.encoded) == ("notes~2", "notes", 8, 8)
    with HybridIndex.open(":memory:", dense=other) as fresh:
        fresh.add([Document(text) for text, _ in NOTES])
        for question in QUESTIONS:
            assert scores(index, question) == {hit.text: hit.score for hit in fresh.search(question)}
    assert index.dense_dim == 32
    assert index.get("n3") == Document(NOTES[3][0], id="n3", metadata=NOTES[3][1])
    assert (
        client.get_collection("notes~2").payload_schema.keys() == client.get_collection("notes").payload_schema.keys()
    )
    assert ranking(old, "oat milk")[0] == NOTES[3][0], "who had it open goes on reading the old one"
    with pytest.raises(CollectionMismatch, match="open the index again"):
        old.add(["too late"])
    reopened = HybridIndex.open(client, COLLECTION, dense=other)
    reopened.add(["More about zebras"], ids=["more"])
    assert index.drop_replaced() == "notes"
    assert HybridIndex.open(client, COLLECTION, dense=other).get("more") is not None
    assert index.reembed(HashEmbedding(name="third")).collection == "notes~3"
    assert index.drop_replaced() == "notes~2"
    assert HybridIndex.open(client, COLLECTION, dense=HashEmbedding(name="third")).count() == 9


def test_who_has_the_folder_open_too_does_not_write_to_the_old_one(tmp_path: Path) -> None:
    with (
        HybridIndex.open(tmp_path / "index", dense=HashEmbedding()) as index,
        HybridIndex.open(tmp_path / "index", dense=HashEmbedding()) as other,
    ):
        index.add(["Rathole tunnels"])
        index.reembed(HashEmbedding(name="another"))
        with pytest.raises(CollectionMismatch, match="was replaced"):
            other.add(["too late"])
        assert other.search("rathole")[0].text == "Rathole tunnels"


def test_other_settings_of_bm25_keep_the_vectors(client: QdrantClient) -> None:
    class Counting(HashEmbedding):
        embedded = 0

        def embed_documents(self, texts: Any) -> list[list[float]]:
            self.embedded += len(texts)
            return super().embed_documents(texts)

    model = Counting()
    index = HybridIndex.open(client, COLLECTION, dense=model)
    index.add([text for text, _ in NOTES])
    before = model.embedded
    done = index.reembed(language="portuguese", sparse=None)
    assert model.embedded == before
    assert index.info().sparse["language"] == "portuguese"
    assert HybridIndex.open(client, COLLECTION, dense=model).search("oat milk")[0].text == NOTES[3][0]
    assert index.reembed(sparse=BM25("english", b=0.2)).replaces == done.collection
    assert HybridIndex.open(client, COLLECTION, dense=model).info().sparse["b"] == 0.2


def test_what_is_written_meanwhile_comes_along(tmp_path: Path) -> None:
    store = embedded_client(tmp_path / "store")
    index = own(store)
    writer = HybridIndex.open(store, COLLECTION, dense=HashEmbedding())

    class Meanwhile(HashEmbedding):
        done = False

        def embed_documents(self, texts: Any) -> list[list[float]]:
            if not self.done:
                self.done = True
                writer.add(["A new one"], ids=["new"])
                writer.add([Document("Changed", id="n1")])
                writer.delete(["n2"])
            return super().embed_documents(texts)

    done = index.reembed(Meanwhile(name="other"))
    assert (done.documents, index.count()) == (8, 8)
    assert [document and document.text for document in index.get(["new", "n1", "n2"])] == ["A new one", "Changed", None]
    assert ranking(index, "changed")[0] == "Changed"


def test_another_run_with_other_settings_is_refused_until_the_first_is_given_up(tmp_path: Path) -> None:
    store = embedded_client(tmp_path / "store")
    index = own(store)

    class Failing(HashEmbedding):
        def embed_documents(self, texts: Any) -> list[list[float]]:
            raise RuntimeError("no")

    with pytest.raises(Exception, match="no"):
        index.reembed(Failing(name="other"))
    with pytest.raises(CollectionMismatch, match="drop_unfinished"):
        index.reembed(HashEmbedding(name="third"))
    assert index.drop_unfinished() == "notes~2"
    assert index.drop_unfinished() is None
    assert index.reembed(HashEmbedding(name="third")).encoded == 8


def test_memories_are_refused(tmp_path: Path) -> None:
    from twofold import Memory

    with Memory.open(tmp_path / "m", user="ada", dense=HashEmbedding()) as memory:
        memory.remember("Ana drinks oat milk")
    with HybridIndex.open(tmp_path / "m", "memories", dense=HashEmbedding()) as index:
        for act in (index.adopt, index.reembed):
            with pytest.raises(ConfigError, match="holds memories"):
                act()


def test_memories_among_documents_are_refused_and_documents_on_shelves_are_not(tmp_path: Path) -> None:
    from twofold import Memory

    books = [Document(f"book {n}", f"b{n}", {"shelf": "A:ada", "user": "ada"}) for n in range(300)]
    with HybridIndex.open(tmp_path / "m", "mixed", dense=HashEmbedding()) as index:
        index.add(books)
        assert index.reembed(HashEmbedding(name="other"), dry_run=True).documents == 300
    with Memory.open(
        tmp_path / "m", user="ada", projects="apollo", collection="mixed", dense=HashEmbedding()
    ) as memory:
        memory.in_project("apollo").remember("The launch is on Monday")
    with HybridIndex.open(tmp_path / "m", "mixed", dense=HashEmbedding()) as index:
        for act in (index.adopt, index.reembed):
            with pytest.raises(ConfigError, match="holds memories"):
                act()


def test_parts_are_embedded_in_their_context(tmp_path: Path) -> None:
    parts = [
        Document(text, id=f"p{number}", metadata={"part_of": "meeting", "position": number})
        for number, (text, _) in enumerate(NOTES)
    ]
    other = HashEmbedding(name="other")
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index, HybridIndex.open(":memory:", dense=other) as new:
        index.add(parts)
        new.add(parts)
        index.reembed(other)
        ids = [part.id or "" for part in parts]
        for one, two in zip(index.vectors(ids), new.vectors(ids), strict=True):
            assert one == pytest.approx(two, abs=1e-5)


async def test_awaited() -> None:
    store = embedded_client(":memory:")
    put(store, "langchain")
    async with await HybridIndex.aopen(store, COLLECTION, dense=Model()) as index:
        assert (await index.aadopt()).encoded == 8
        assert (await index.areembed(HashEmbedding(32))).replaces == COLLECTION
        assert (await index.asearch("oat milk")).mode == "hybrid"
        assert await index.adrop_unfinished() is None
        assert await index.adrop_replaced() == COLLECTION


def test_a_server_that_cannot_add_a_vector_gets_a_new_collection() -> None:
    with RestServer(lambda: embedded_client(":memory:"), version="1.17.0") as server:
        client = QdrantClient(url=server.url, check_compatibility=False)
        put(client, "langchain")
        with HybridIndex.open(server.url, COLLECTION, dense=Model()) as index:
            with pytest.raises(ConfigError, match="leave in_place out"):
                index.adopt(in_place=True)
            assert index.adopt().collection == "notes~2"
            assert index.search("oat milk").mode == "hybrid"
        assert not any("/vectors/" in path for _, path in server.requests)
        client.close()


def test_an_alias_is_switched(client: QdrantClient) -> None:
    own(client)
    switch = models.CreateAliasOperation(
        create_alias=models.CreateAlias(collection_name=COLLECTION, alias_name="notes~of~today")
    )
    client.update_collection_aliases([switch])
    other = HashEmbedding(32, name="other")
    with HybridIndex.open(client, "notes~of~today", dense=HashEmbedding()) as index:
        assert index.reembed(other).collection == "notes~2"
    aliases = {each.alias_name: each.collection_name for each in client.get_aliases().aliases}
    assert aliases["notes~of~today"] == "notes~2"
    assert HybridIndex.open(client, "notes~of~today", dense=other).count() == 8


# --- killed ---


class Killed(BaseException):
    pass


def test_killed_between_any_two_steps_of_the_switch(tmp_path: Path) -> None:
    """After each request in turn everything stops; opened again, the collection is whole, and the call goes on."""
    total = _requests(tmp_path / "all", None)
    assert total > 10
    for last in range(total):
        _requests(tmp_path / f"{last}", last)


def _requests(folder: Path, last: int | None) -> int:
    """How many requests a reembed and a drop take; stopped after `last` of them, then carried to the end."""
    store = embedded_client(folder)
    own(store)
    made = _stopping(HybridIndex.open(store, COLLECTION, dense=HashEmbedding()), last)
    other = HashEmbedding(32, name="other")
    stopped = False
    try:
        made.index.reembed(other)
        made.index.drop_replaced()
    except Killed:
        stopped = True
    if stopped:
        try:
            index = HybridIndex.open(store, COLLECTION, dense=HashEmbedding(), create=False)
        except CollectionMismatch:  # it has changed over to the other model
            index = HybridIndex.open(store, COLLECTION, dense=other, create=False)
        assert index.count() == 8
        assert ranking(index, "oat milk")[0] == NOTES[3][0]
        if index.dense_dim != 32:
            index.reembed(other)
        index.drop_replaced()
    index = HybridIndex.open(store, COLLECTION, dense=other, create=False)
    assert index.count() == 8
    assert sorted(document.id or "" for document in index.fetch()) == [f"n{number}" for number in range(8)]
    assert store.get_collections().collections[0].name == "notes~2"
    assert len(store.get_collections().collections) == 1
    store.close()
    return made.count


class _Stopping:
    def __init__(self, index: HybridIndex, last: int | None) -> None:
        self.index, self.count = index, 0
        connection: Any = index._connection
        real: Callable[[Any], Any] = connection.call

        def call(step: Any) -> Any:
            if last is not None and self.count > last:
                raise Killed
            self.count += 1
            return real(step)

        connection.call = call


def _stopping(index: HybridIndex, last: int | None) -> _Stopping:
    return _Stopping(index, last)
