"""The files of a store: small while it is closed, looked at before they are loaded, and where they were when opened."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from qdrant_client import models

from twofold import HybridIndex, Memory
from twofold.embedded import EmbeddedClient, StoreError, embedded_client, room, seal
from twofold.engine.edge import EdgeEngine
from twofold.testing import HashEmbedding

from .conftest import DENSE, SPARSE, fill, sample_points


def size_of(path: Path) -> int:
    """As `ls` and a plain copy see it."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def home_of(store: Path) -> Path:
    return next((store / "collections").glob("notes-*"))


def test_three_notes_take_little_room(tmp_path: Path) -> None:
    texts = ["Rathole listens on 2333", "Apple cake needs four eggs", "The proxy closes idle connections"]
    with HybridIndex.open(tmp_path / "index", dense=HashEmbedding()) as index:
        index.add(texts)
    with Memory.open(tmp_path / "memory", user="ada", dense=HashEmbedding()) as memory:
        for text in texts:
            memory.remember(text, tags=["note"])
    assert size_of(tmp_path / "index") < 1 << 20
    assert size_of(tmp_path / "memory") < 1 << 20
    shutil.copytree(tmp_path / "index", tmp_path / "copy")
    for place in ("index", "copy"):
        for _ in range(2):
            with HybridIndex.open(tmp_path / place, dense=HashEmbedding()) as index:
                assert index.search("rathole")[0].text == texts[0]
                index.add(["once more"])
                assert index.count() == 4


def test_a_store_that_was_cut_opens_after_a_crash(tmp_path: Path) -> None:
    """Cut, opened, written to, and killed: the lengths of the close are those of before."""
    fill(embedded_client(tmp_path / "store")).close()
    client = embedded_client(tmp_path / "store")
    client.upsert("notes", sample_points(5))
    shutil.copytree(tmp_path / "store", tmp_path / "killed")  # as it's found after a kill -9
    client.close()
    again = embedded_client(tmp_path / "killed")
    assert again.count("notes").count == 60
    again.close()


def without_holes(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """A file system that doesn't know of holes, and says so in one of the ways that there are."""
    real = os.lseek

    def lseek(fd: int, position: int, how: int) -> int:
        if how in (os.SEEK_DATA, os.SEEK_HOLE):
            raise OSError(code, os.strerror(code))
        return real(fd, position, how)

    monkeypatch.setattr(os, "lseek", lseek)


@pytest.mark.skipif(not hasattr(os, "SEEK_DATA"), reason="the system doesn't know of holes at all")
@pytest.mark.parametrize(("code", "allocates"), [(errno.EINVAL, False), (errno.EOPNOTSUPP, True)])
def test_where_the_file_system_does_not_know_of_holes_all_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, allocates: bool
) -> None:
    without_holes(monkeypatch, code)
    if not allocates:  # as on macOS
        monkeypatch.setattr(room, "_fallocate", None)
    client = embedded_client(tmp_path / "store")
    client.create_collection("notes", DENSE, SPARSE)
    client.upsert("notes", sample_points(100))
    client.close()
    assert size_of(tmp_path / "store") < 1 << 20
    with closing(embedded_client(tmp_path / "store")) as again:
        assert again.count("notes").count == 100
        assert len(again.scroll("notes", limit=200, with_vectors=True)[0]) == 100


@pytest.mark.parametrize("holes", [True, False])
def test_a_copy_has_all_data_and_the_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, holes: bool) -> None:
    if not holes and hasattr(os, "SEEK_DATA"):
        without_holes(monkeypatch, errno.EINVAL)
    source = tmp_path / "source"
    with open(source, "wb") as file:
        for position, content in ((0, b"first\r\n"), (1 << 20, b"second\x1a"), (3 << 20, bytes(5000))):
            file.seek(position)
            file.write(content)
        file.truncate(5 << 20)
    seal.copy_file(str(source), str(tmp_path / "target"))
    assert (tmp_path / "target").read_bytes() == source.read_bytes()


def test_a_store_is_closed_where_there_is_no_pread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows."""
    monkeypatch.delattr(os, "pread", raising=False)
    fill(embedded_client(tmp_path / "store")).close()
    with closing(embedded_client(tmp_path / "store")) as again:
        assert again.count("notes").count == 60


def taken_away(how: str) -> Callable[[Path], None]:
    def replace(path: Path) -> None:
        path.rename(path.with_name("elsewhere"))
        shutil.copytree(path.with_name("elsewhere"), path)

    return {
        "removed": lambda path: shutil.rmtree(path),
        "renamed": lambda path: path.rename(path.with_name("elsewhere")) and None,
        "replaced": replace,
    }[how]


@pytest.mark.parametrize("how", ["removed", "renamed", "replaced"])
def test_nothing_is_written_to_a_folder_that_is_gone(notes: EmbeddedClient, tmp_path: Path, how: str) -> None:
    taken_away(how)(tmp_path / "store")
    for _ in range(2):
        with pytest.raises(StoreError, match="removed, renamed or replaced"):
            notes.upsert("notes", sample_points(2))
        with pytest.raises(StoreError, match="removed, renamed or replaced"):
            notes.create_payload_index("notes", "when", models.PayloadSchemaType.DATETIME)
    with pytest.raises(StoreError, match="removed, renamed or replaced"):
        notes.close()
    if how != "removed":  # it's complete where it is now
        moved = embedded_client(tmp_path / "elsewhere")
        assert moved.count("notes").count == 60
        moved.close()


def test_more_points_than_at_the_close_are_no_damage(notes: EmbeddedClient, tmp_path: Path) -> None:
    """The engine makes up for a write that it refused when it reads its log again."""
    notes.close()
    path = home_of(tmp_path / "store") / "closed.json"
    sealed = json.loads(path.read_text())
    path.write_text(json.dumps({**sealed, "points": 59}))
    again = embedded_client(tmp_path / "store")
    assert again.count("notes").count == 60
    again.close()
    path.write_text(json.dumps({**json.loads(path.read_text()), "points": 61}))
    for _ in range(2):
        again = embedded_client(tmp_path / "store")
        with pytest.raises(StoreError, match=r"60 of its 61 points.* remove .*closed\.json.* restore .* give it up"):
            again.count("notes")
        again.close()


def test_a_large_file_is_read_where_its_time_is_another(
    notes: EmbeddedClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seal, "_ALWAYS_READ", 0)
    notes.close()
    [chunk] = home_of(tmp_path / "store").rglob("chunk_0.mmap")
    content = bytearray(chunk.read_bytes())
    content[5] ^= 1
    chunk.write_bytes(content)
    again = embedded_client(tmp_path / "store")
    with pytest.raises(StoreError, match=r"damaged.*chunk_0\.mmap"):
        again.count("notes")
    again.close()


@pytest.mark.slow
def test_a_load_that_never_ends_is_given_up(
    notes: EmbeddedClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes.close()
    (home_of(tmp_path / "store") / "closed.json").unlink()
    (endless := tmp_path / "endless.py").write_text("import time\ntime.sleep(3600)\n")
    with monkeypatch.context() as patched:
        patched.setattr(seal, "_CHILD_SCRIPT", endless)
        patched.setattr(seal, "_TRIAL_SECONDS", 0.0)
        again = embedded_client(tmp_path / "store")
    with pytest.raises(StoreError, match="still trying to load it"):
        again.count("notes")
    again.close()
    whole = embedded_client(tmp_path / "store")
    assert whole.count("notes").count == 60
    whole.close()


def test_the_count_of_all_is_exact_whatever_was_overwritten_and_deleted(tmp_path: Path) -> None:
    """It is read off and not counted: points move from a finished segment to the one that is written."""
    threshold = models.OptimizersConfigDiff(indexing_threshold=10)
    vectors = {"dense": models.VectorParams(size=64, distance=models.Distance.COSINE)}
    rng, there = random.Random(3), set[int]()
    for opened in range(2):
        with closing(embedded_client(tmp_path / "store")) as client:
            if opened == 0:
                client.create_collection("notes", vectors, optimizers_config=threshold)
            verbs = EdgeEngine(client.store)
            for step in range(12):
                some = set(rng.sample(range(1000), 200))
                points = [models.PointStruct(id=n, vector={"dense": [rng.random() for _ in range(64)]}) for n in some]
                client.upsert("notes", points)
                gone = set(rng.sample(range(1000), 80))
                client.delete("notes", list(gone))
                there = (there | some) - gone
                assert verbs.count("notes", None) == len(there) == client.count("notes", exact=True).count
                if step == 5:
                    verbs.optimize("notes", None)
                    assert verbs.count("notes", None) == len(there)
            assert verbs.inspect("notes").segments > 1, "or nothing has moved"
