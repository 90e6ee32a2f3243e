"""A folder moves to a server: everything once, however often the move is killed, and both answer alike.

TWOFOLD_MOVE_DOCUMENTS=20000 TWOFOLD_MOVE_KILLS=10 is the full run.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runs import QUIET_ENV, run
from tests.kit.rest import RestServer
from tests.transfer.corpus import documents, fill, stored, told_by_index, told_by_memory
from twofold import Document, HybridIndex, Memory, embedded_client
from twofold.index.moving import move
from twofold.testing import HashEmbedding

DOCUMENTS = int(os.environ.get("TWOFOLD_MOVE_DOCUMENTS", "400"))
KILLS = int(os.environ.get("TWOFOLD_MOVE_KILLS", "1"))
QUESTIONS = 200 if DOCUMENTS > 1000 else 12


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RestServer]:
    with RestServer(lambda: embedded_client(tmp_path / "served", optimize="manual")) as serving:
        yield serving


def open_index(location: Any, collection: str = "notes") -> HybridIndex:
    options: dict[str, Any] = {} if "://" in str(location) else {"optimize": "manual"}
    return HybridIndex.open(location, collection, dense=HashEmbedding(), **options)


def open_memory(location: Any) -> Memory:
    return Memory.open(location, user="owner", dense=HashEmbedding())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with open_index(tmp_path / "folder") as index:
        index.add(documents(DOCUMENTS), batch_size=512)
    with open_memory(tmp_path / "folder") as memory:
        fill(memory, 3, 12)
    return tmp_path / "folder"


def start_move(folder: Path, url: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "twofold", "move", str(folder), url]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, env=QUIET_ENV, **pipes)


def check_all_is_there(folder: Path, url: str) -> None:
    with open_index(folder) as here, open_index(url) as there:
        assert there.count() == here.count() == DOCUMENTS
        assert told_by_index(there, QUESTIONS) == told_by_index(here, QUESTIONS)
        assert there.info().indexed == here.info().indexed
    with open_memory(folder) as mine, open_memory(url) as other:
        assert told_by_memory(other, QUESTIONS) == told_by_memory(mine, QUESTIONS)


@pytest.mark.timeout(3600)
def test_everything_arrives_and_the_command_says_what_to_change(folder: Path, server: RestServer) -> None:
    began = time.perf_counter()
    answer = run("move", folder, server.url)
    print(f"\nmoved in {time.perf_counter() - began:.1f} s\n{answer}")
    assert answer.code == 0, answer
    assert f"notes: {DOCUMENTS:,} documents, about " in answer.err
    assert f"notes: {DOCUMENTS:,} documents in both places (all of them sent)" in answer.out
    assert answer.out.count("questions get the same answer from both") == 2
    assert f"HybridIndex.open('{server.url}', collection='notes')" in answer.out
    assert f"Memory.open('{server.url}', user=…)" in answer.out
    check_all_is_there(folder, server.url)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_killed_and_started_again_nothing_is_lost_and_nothing_doubled(folder: Path, server: RestServer) -> None:
    chance, sent = random.Random(7), 0
    for kill in range(KILLS):
        # The batch with this document never gets its answer, whether it was stored or not.
        number = chance.randrange(DOCUMENTS)
        before = count(server)
        server.faults.hang(times=1, after=kill % 2 == 0, method="PUT", path="/notes/points", body=f'"n":{number},')
        process = start_move(folder, server.url)
        while process.poll() is None and not server.faults.used_up:
            time.sleep(0.005)
        process.kill()
        process.communicate()
        server.faults.clear()
        assert count(server) >= before  # what had arrived stays
        sent = max(sent, count(server))
    answer = run("move", folder, server.url)
    assert answer.code == 0, answer
    assert f"notes: {DOCUMENTS:,} documents in both places" in answer.out
    if sent:
        assert "the others were there" in answer.out
    check_all_is_there(folder, server.url)


def count(server: RestServer) -> int:
    client = server._client
    assert client is not None
    return client.count("notes").count if client.collection_exists("notes") else 0


class Stopped(Exception):
    """In place of a kill, where a process would take too long."""


def stop_at(number: int) -> Any:
    def progress(collection: str, done: int, total: int) -> None:
        if collection == "notes" and done >= number:
            raise Stopped

    return progress


def test_what_changed_between_two_runs_arrives_too(tmp_path: Path, server: RestServer) -> None:
    with open_index(tmp_path / "folder") as index:
        index.add(list(documents(200)))
    with pytest.raises(Stopped):
        list(move(tmp_path / "folder", server.url, on_progress=stop_at(128)))
    with open_index(tmp_path / "folder") as index:
        first = [each.id for each in index.scan()][:100]
        index.update_metadata({"changed": True}, first[:5])
        index.add([Document("a new text", first[5])])
        index.delete(first[6:40])
        index.add([f"one more {n}" for n in range(10)])
    (moved,) = move(tmp_path / "folder", server.url)
    assert moved.documents == 176
    assert 0 < moved.sent < 176
    with open_index(tmp_path / "folder") as here, open_index(server.url) as there:
        assert stored(there) == stored(here)


def test_a_move_that_is_done_is_not_done_again(tmp_path: Path, server: RestServer) -> None:
    with open_index(tmp_path / "folder") as index:
        index.add(list(documents(100)))
    assert [each.sent for each in move(tmp_path / "folder", server.url)] == [100]
    assert [each.sent for each in move(tmp_path / "folder", server.url)] == [0]
    with open_index(server.url) as there:
        assert "moving" not in (there.perform(record_of) or {})
        there.update_metadata({"changed": "there"}, ["document 0"])
        there.add(["only there"])
        told = stored(there)
        answer = run("move", tmp_path / "folder", server.url)
        assert (answer.code, "has changed since" in answer.err) == (2, True)
        assert stored(there) == told  # what was written there since is safe


def record_of(searcher: Any) -> Any:
    return searcher.ready.schema.record
    yield


def test_what_was_tuned_and_indexes_for_users_arrive(folder: Path, server: RestServer) -> None:
    client = embedded_client(folder)
    schema = client.get_collection("memories").payload_schema
    client.close()
    list(move(folder, server.url, collections=["memories"]))
    assert server._client is not None
    there = server._client.get_collection("memories").payload_schema
    assert {key: each.params for key, each in there.items()} == {key: each.params for key, each in schema.items()}
    assert '"is_tenant":true' in there["metadata.shelf"].model_dump_json()
    assert not server._client.collection_exists("notes")


def test_what_can_t_be_moved_is_named(tmp_path: Path, server: RestServer) -> None:
    from qdrant_client import models

    client = embedded_client(tmp_path / "folder")
    client.create_collection("foreign", models.VectorParams(size=2, distance=models.Distance.COSINE))
    client.close()
    with open_index(tmp_path / "folder") as index:
        index.add(["ours"])
    answer = run("move", tmp_path / "folder", server.url)
    assert (answer.code, "left: foreign" in answer.err, "notes: 1 documents" in answer.out) == (1, True, True), answer
    found = run("move", tmp_path / "folder", server.url, "--collection", "nothing")
    assert (found.code, "it has foreign, notes" in found.err) == (2, True)
    with open_index(server.url, "mine") as there:
        there.add(["somebody's"])
    with open_index(tmp_path / "folder", "mine") as index:
        index.add(["ours"])
    refused = run("move", tmp_path / "folder", server.url, "-c", "mine")
    assert (refused.code, "of its own" in refused.err) == (2, True)
    with open_index(server.url, "mine") as there:
        assert [each.text for each in there.scan()] == ["somebody's"]


def test_an_empty_collection_and_one_that_waits_there(tmp_path: Path, server: RestServer) -> None:
    with open_index(tmp_path / "folder") as index:
        pass
    with open_index(server.url):  # made by the application that will use it
        pass
    (moved,) = move(tmp_path / "folder", server.url)
    assert (moved.documents, moved.questions) == (0, 0)
    with open_index(tmp_path / "folder") as index:
        index.add(["now there is something"])


def test_a_server_that_fails_now_and_then(tmp_path: Path, server: RestServer) -> None:
    with open_index(tmp_path / "folder") as index:
        index.add(list(documents(200)))
    server.faults.status(503, times=2, method="PUT", path="/points")
    server.faults.drop(after=True, times=1, method="PUT", path="/points")
    assert [each.documents for each in move(tmp_path / "folder", server.url)] == [200]
