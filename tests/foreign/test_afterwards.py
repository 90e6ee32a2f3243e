"""A collection of another package, once adopted, is one like any: walked through, examined, taken elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import QdrantClient, models

from tests.cli.runs import run
from tests.foreign.shelf import NAMES, Model, put, snapshot
from tests.foreign.write import COLLECTION, NOTES
from tests.kit.rest import RestServer
from twofold import CollectionMismatch, Document, HybridIndex, embedded_client
from twofold.flow import Flow
from twofold.index import rewriting
from twofold.index.moving import move

COSINE = models.Distance.COSINE
QUESTIONS = ("rathole port", "who wrote checkRateLimit?", "oat milk")


@pytest.fixture(params=NAMES)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "theirs"
    client = embedded_client(path)
    put(client, request.param)
    client.close()
    with opened(path) as index:
        index.adopt()
    return path


def opened(location: Path | str) -> HybridIndex:
    return HybridIndex.open(location, COLLECTION, dense=Model())


def answers(index: HybridIndex) -> list[dict[str, Any]]:
    return [{hit.text: pytest.approx(hit.score, abs=1e-3) for hit in index.search(question)} for question in QUESTIONS]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RestServer]:
    with RestServer(lambda: embedded_client(tmp_path / "served", optimize="manual")) as serving:
        yield serving


def test_it_is_walked_through_and_found_healthy(folder: Path) -> None:
    with opened(folder) as index:
        walked = list(index.scan(vectors=True))
        found = index.doctor().findings
    assert {row.text for row in walked} == {text for text, _ in NOTES}
    for row in walked:
        assert row.problem is None
        assert row.dense is not None
        assert len(row.dense) == len(Model().embed_query("x"))
        assert row.sparse is not None
        assert row.sparse.indices
    # One that was written beside keeps the one that it replaced.
    assert {finding.code for finding in found} <= {"replaced-is-kept"}


def test_it_is_exported_and_imported(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl.gz"
    with opened(folder) as index:
        before = answers(index)
        assert index.export_to(file) == len(NOTES)
        own = index.beside("own")
        with pytest.raises(CollectionMismatch, match="reembed=True"):
            own.import_from(file)
        assert own.import_from(file, reembed=True).documents == len(NOTES)
        assert {row.text for row in own.scan()} == {text for text, _ in NOTES}
    assert run("import", file, "-l", tmp_path / "elsewhere", "-c", COLLECTION).code == 0
    with opened(tmp_path / "elsewhere") as index:
        assert answers(index) == before


def test_it_moves_to_a_server(folder: Path, server: RestServer) -> None:
    with opened(folder) as index:
        before, name = answers(index), index.info().collection
    moved = list(move(folder, server.url, collections=[name]))
    assert [(each.documents, each.left, each.alike == each.questions) for each in moved] == [(len(NOTES), None, True)]
    with HybridIndex.open(server.url, name, dense=Model()) as index:
        assert answers(index) == before


def test_points_that_somebody_numbered_are_found_by_their_numbers_after_adopt_too() -> None:
    """They have the keys and the vector name of Twofold's own rows."""
    client = embedded_client(":memory:")
    client.create_collection(
        COLLECTION, {"dense": models.VectorParams(size=len(Model().embed_query("x")), distance=COSINE)}
    )
    rows = [(5, "Rathole tunnels listen on port 2333."), (6, "Apple cake needs four eggs.")]
    client.upsert(
        COLLECTION,
        [
            models.PointStruct(
                id=n, vector={"dense": Model().embed_query(text)}, payload={"text": text, "metadata": {}}
            )
            for n, text in rows
        ],
    )
    for _ in range(2):
        index = HybridIndex.open(client, COLLECTION, dense=Model())
        found = index.get("5")
        assert found is not None
        assert found.text == rows[0][1]
        index.adopt()
    index.add([Document("Rathole tunnels listen on port 2334.", id="5")])
    assert index.count() == 2
    assert index.delete("6") == 1
    client.close()


def test_a_collection_that_came_from_elsewhere_has_replaced_nothing_here(tmp_path: Path) -> None:
    """The record that it brought along says so of a collection that was at the other place."""
    with HybridIndex.open(tmp_path / "a", "docs", dense=Model()) as index:
        index.add(["Rathole tunnels listen on port 2333."], ids=["1"])
        index.reembed(language="german")
        index.add(["Apple cake needs four eggs."], ids=["2"])
        index.drop_replaced()
        index.export_to(tmp_path / "rows.jsonl")
    assert run("import", tmp_path / "rows.jsonl", "-l", tmp_path / "b", "-c", "docs").code == 0
    with HybridIndex.open(tmp_path / "b", "docs", dense=Model()) as index:
        assert [finding.code for finding in index.doctor().findings] == []
        assert index.drop_replaced() is None
        assert index.count() == 2


def test_export_import_and_move_go_where_a_search_goes(tmp_path: Path, server: RestServer) -> None:
    """To what has taken the place of a collection that is kept."""
    with HybridIndex.open(tmp_path / "a", "docs", dense=Model()) as index:
        index.add(["Rathole tunnels listen on port 2333."], ids=["1"])
        index.reembed(language="german")
        index.add(["Apple cake needs four eggs."], ids=["2"])
    assert run("export", tmp_path / "rows.jsonl", "-l", tmp_path / "a", "-c", "docs").code == 0
    with HybridIndex.open(tmp_path / "a", "docs", dense=Model()) as index:
        index.delete(["1", "2"])
    assert run("import", tmp_path / "rows.jsonl", "-l", tmp_path / "a", "-c", "docs").code == 0
    with HybridIndex.open(tmp_path / "a", "docs", dense=Model()) as index:
        assert index.count() == 2
    moved = {each.collection: each for each in move(tmp_path / "a", server.url)}
    assert moved["docs"].replaced_by == "docs~2"
    assert moved["docs~2"].documents == 2
    with HybridIndex.open(server.url, "docs", dense=Model()) as index:
        assert index.count() == 2
        assert index.get("2") is not None


def test_vectors_of_somebody_else_move_along_and_are_missed_in_a_file(
    tmp_path: Path, server: RestServer, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "theirs"
    client = embedded_client(path)
    put(client, "langchain-hybrid")  # which has words of its own
    client.close()
    with opened(path) as index:
        index.adopt()
        index.export_to(tmp_path / "rows.jsonl")
    assert "'langchain-sparse', which are somebody else's" in caplog.text
    (moved,) = move(path, server.url)
    assert (moved.documents, moved.left) == (len(NOTES), None)
    here, there = embedded_client(path), QdrantClient(url=server.url)
    assert snapshot(there) == snapshot(here)
    assert all("langchain-sparse" in vectors for _, vectors in snapshot(there).values())
    here.close()


def test_what_others_add_at_the_last_moment_comes_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the last pass and the mark, another index adds to the old collection."""
    client = embedded_client(":memory:")
    index, other = (HybridIndex.open(client, "docs", dense=Model()) for _ in range(2))
    index.add(["Rathole tunnels listen on port 2333."], ids=["1"])
    switch = rewriting._switch

    def late(source: str, target: str) -> Flow[None]:
        other.add(["Apple cake needs four eggs."], ids=["2"])
        return (yield from switch(source, target))

    monkeypatch.setattr(rewriting, "_switch", late)
    index.reembed(language="german")
    assert index.get("2") is not None
    assert index.drop_replaced() == "docs"
    assert index.count() == 2
    client.close()
