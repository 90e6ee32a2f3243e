"""A collection of another package, once adopted, is one like any: walked through, examined, taken elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runs import run
from tests.foreign.shelf import NAMES, Model, put
from tests.foreign.write import COLLECTION, NOTES
from tests.kit.rest import RestServer
from twofold import CollectionMismatch, HybridIndex, embedded_client
from twofold.index.moving import move

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
