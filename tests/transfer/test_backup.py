"""A copy of a folder that is in use: it has what was acknowledged before it began, and opens as a store."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread

import pytest

from tests.cli.runs import QUIET_ENV, run
from tests.transfer.corpus import documents, fill, told_by_index, told_by_memory
from twofold import ConfigError, EngineError, HybridIndex, Memory, StoreError, embedded_client
from twofold.testing import HashEmbedding


def test_the_copy_answers_as_the_folder_does(tmp_path: Path) -> None:
    with HybridIndex.open(tmp_path / "a", "notes", dense=HashEmbedding()) as index:
        index.add(list(documents(200)))
        with Memory.open(tmp_path / "a", user="owner", dense=HashEmbedding()) as memory:
            fill(memory, 2, 12)
            told = told_by_index(index, 8), told_by_memory(memory, 8)
            copied = asyncio.run(index.abackup(tmp_path / "b"))
        assert copied == {"memories": memory_rows(tmp_path / "b"), "notes": 200}
        index.clear()
    with (
        HybridIndex.open(tmp_path / "b", "notes", dense=HashEmbedding(), create=False) as index,
        Memory.open(tmp_path / "b", user="owner", dense=HashEmbedding()) as memory,
    ):
        assert (told_by_index(index, 8), told_by_memory(memory, 8)) == told
        index.add(["it can be written to"])
        assert index.count() == 201


def memory_rows(folder: Path) -> int:
    client = embedded_client(folder)
    number = client.count("memories").count
    client.close()
    return number


def test_what_was_acknowledged_before_it_began_is_in_it_while_others_write(tmp_path: Path) -> None:
    written, ended = [0], Event()
    with HybridIndex.open(tmp_path / "a", dense=HashEmbedding()) as index:
        enough = Event()

        def write() -> None:
            while not ended.is_set():
                number = written[0]
                index.add(
                    [f"text {n}" for n in range(number, number + 8)], ids=[str(n) for n in range(number, number + 8)]
                )
                index.update_metadata({"seen": number}, [str(number)])
                written[0] = number + 8
                if written[0] >= 200:
                    enough.set()

        writer = Thread(target=write)
        writer.start()
        try:
            enough.wait()
            before = []
            for n in range(3):
                before.append(written[0])
                index.backup(tmp_path / f"copy {n}")
        finally:
            ended.set()
            writer.join()
    for n, number in enumerate(before):
        with HybridIndex.open(tmp_path / f"copy {n}", dense=HashEmbedding(), create=False) as copy:
            found = {each.id: each for each in copy.scan(vectors=True)}
            assert {str(each) for each in range(number)} <= found.keys()
            assert len(found) == copy.count() <= written[0] + 8
            assert len(found) % 8 == 0  # batches, whole
            assert all(each.dense is not None and each.sparse is not None for each in found.values())
            assert all(found[str(each)].metadata == {"seen": each} for each in range(0, number, 8))


def test_aliases_and_what_was_optimised_come_along(tmp_path: Path) -> None:
    from qdrant_client import models

    client = embedded_client(tmp_path / "a", optimize="manual")
    index = HybridIndex.open(client, "notes", dense=HashEmbedding())
    index.add(list(documents(150)))
    index.optimize()
    index.add(["after that"])
    alias = models.CreateAlias(collection_name="notes", alias_name="other")
    client.update_collection_aliases([models.CreateAliasOperation(create_alias=alias)])
    client.close()
    assert run("backup", tmp_path / "a", tmp_path / "b", "--json").json["collections"] == {"notes": 151}
    with HybridIndex.open(tmp_path / "b", "other", dense=HashEmbedding()) as copy:
        assert copy.count() == 151


def test_the_copy_takes_no_more_room_than_what_is_in_it(tmp_path: Path) -> None:
    with HybridIndex.open(tmp_path / "a", dense=HashEmbedding()) as index:
        index.add(["one"])
        index.backup(tmp_path / "b")
    blocks = sum(file.stat().st_blocks * 512 for file in (tmp_path / "b").rglob("*") if file.is_file())
    assert blocks < 60e6


def test_where_it_can_t_be_made(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    (tmp_path / "file").write_text("mine")
    with HybridIndex.open(tmp_path / "a", dense=HashEmbedding()) as index:
        for target in ("full", "file"):
            with pytest.raises(EngineError, match="new folder"):
                index.backup(tmp_path / target)
        with pytest.raises(EngineError, match="another place"):
            index.backup(tmp_path / "a" / "inside")
        (tmp_path / "b.unfinished").mkdir()  # of one that was killed
        (tmp_path / "b.unfinished" / "rest").write_text("")
        assert index.backup(tmp_path / "b") == {"twofold": 0}
        assert not (tmp_path / "b.unfinished").exists()
        assert not (tmp_path / "b" / "rest").exists()
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index, pytest.raises(EngineError, match="export"):
        index.backup(tmp_path / "c")
    client = embedded_client(":memory:")
    with pytest.raises(ConfigError, match="export_to"):
        HybridIndex.open(client, dense=HashEmbedding()).backup(tmp_path / "c")
    client.close()
    assert run("backup", tmp_path / "nothing", tmp_path / "c").code == 2


def test_a_damaged_collection_is_not_left_out_in_silence(tmp_path: Path) -> None:
    with HybridIndex.open(tmp_path / "a", "good", dense=HashEmbedding()) as index:
        index.beside("bad").add(["text"])
    settings = next(file for file in (tmp_path / "a").rglob("collection.json") if '"bad"' in file.read_text())
    for shard in settings.parent.glob("shard-*"):
        shard.rename(shard.with_name("gone"))
    index = HybridIndex.open(tmp_path / "a", "good", dense=HashEmbedding())
    with index, pytest.raises(StoreError, match="bad can't be used"):
        index.backup(tmp_path / "b")
    assert not (tmp_path / "b").exists()


@pytest.mark.slow
def test_the_command_copies_what_another_process_has_open_and_what_a_killed_one_had_stored(tmp_path: Path) -> None:
    code = f"""
from twofold import HybridIndex
from twofold.testing import HashEmbedding
index = HybridIndex.open({str(tmp_path / "a")!r}, dense=HashEmbedding())
index.add([f"text {{n}}" for n in range(100)])
print("stored", flush=True)
input()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=QUIET_ENV
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "stored\n"
    assert run("backup", tmp_path / "a", tmp_path / "of one that is open").code == 0
    process.kill()
    process.communicate()
    assert run("backup", tmp_path / "a", tmp_path / "of one that was killed").code == 0
    for copy in ("of one that is open", "of one that was killed"):
        with HybridIndex.open(tmp_path / copy, dense=HashEmbedding()) as index:
            assert index.count() == 100
