"""Optimising in a child process while this one reads and writes.

TWOFOLD_OPTIMIZE_ROUNDS sets how often in a row (2 unless set).
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import models as m

from twofold import EngineError, HybridIndex
from twofold.embedded import EmbeddedClient, StoreClosed, StoreError, embedded_client, seal, store
from twofold.testing import HashEmbedding

from .conftest import eventually, payload_of
from .processes import start

POINTS = 1500
ROUNDS = int(os.environ.get("TWOFOLD_OPTIMIZE_ROUNDS", "2"))


def vector(rng: random.Random) -> list[float]:
    return [rng.uniform(-1, 1) for _ in range(32)]


@pytest.fixture
def big(client: EmbeddedClient) -> EmbeddedClient:
    rng = random.Random(1)
    client.create_collection(
        "c",
        m.VectorParams(size=32, distance=m.Distance.COSINE),
        optimizers_config=m.OptimizersConfigDiff(indexing_threshold=10),
        hnsw_config=m.HnswConfigDiff(full_scan_threshold=10),
    )
    client.upsert("c", [m.PointStruct(id=n, vector=vector(rng), payload={"n": n}) for n in range(POINTS)])
    return client


def everything(client: EmbeddedClient) -> dict[Any, Any]:
    return {r.id: r.payload for r in client.scroll("c", limit=10_000)[0]}


def test_it_indexes_and_changes_nothing_else(big: EmbeddedClient) -> None:
    query = vector(random.Random(2))
    before, exact = everything(big), big.query_points("c", query, limit=20).points
    stages: list[str] = []
    assert big.optimize("c", lambda step: stages.append(step.stage))
    assert list(dict.fromkeys(stages)) == ["copying", "indexing", "catching up", "done"]
    assert big.get_collection("c").segments_count > 1
    assert everything(big) == before
    found = big.query_points("c", query, limit=20, search_params=m.SearchParams(exact=True)).points
    assert [p.id for p in found] == [p.id for p in exact]
    big.close()
    again = embedded_client(big.init_options["path"])
    assert everything(again) == before
    again.close()


def test_an_empty_collection_needs_none(client: EmbeddedClient) -> None:
    client.create_collection("c", {})
    assert not client.optimize("c")


def test_writes_of_all_kinds_meanwhile_are_kept(big: EmbeddedClient) -> None:
    """Each kind of write happens while the child indexes; the swapped shard has them all."""
    rng = random.Random(3)
    started, finish = threading.Event(), threading.Event()

    def watch(step: Any) -> None:
        if step.stage == "indexing":
            started.set()
            finish.wait(60)

    run = threading.Thread(target=big.optimize, args=("c", watch))
    run.start()
    assert started.wait(60)
    big.upsert("c", [m.PointStruct(id=n, vector=vector(rng), payload={"n": n}) for n in range(5000, 5300)])
    big.delete("c", list(range(100)))
    big.delete("c", m.Filter(must=[m.FieldCondition(key="n", range=m.Range(gte=100, lt=200))]))
    big.set_payload("c", {"new": 1}, [500, 501])
    big.overwrite_payload("c", {"all": 2}, [502])
    big.clear_payload("c", [503])
    big.create_payload_index("c", "n", m.PayloadSchemaType.INTEGER)
    big.create_vector_name("c", "s", m.SparseVectorNameConfig(sparse=m.SparseVectorConfig()))
    big.update_vectors("c", [m.PointVectors(id=504, vector={"s": m.SparseVector(indices=[1], values=[1.0])})])
    expected = everything(big)
    finish.set()
    run.join()
    assert everything(big) == expected
    assert len(expected) == POINTS - 200 + 300
    big.close()
    again = embedded_client(big.init_options["path"])
    assert everything(again) == expected
    assert [payload_of(r)["n"] for r in again.scroll("c", order_by="n", limit=2)[0]] == [200, 201]
    assert again.query_points("c", m.SparseVector(indices=[1], values=[1.0]), using="s").points[0].id == 504
    again.close()


def test_readers_and_writers_go_on(big: EmbeddedClient) -> None:
    failures: list[BaseException] = []
    done = threading.Event()

    def keep(work: Any) -> None:
        rng = random.Random(4)
        try:
            while not done.is_set():
                work(rng)
        except BaseException as error:
            failures.append(error)

    written: list[int] = []

    def write(rng: random.Random) -> None:
        number = 10_000 + len(written)
        big.upsert("c", [m.PointStruct(id=number, vector=vector(rng))])
        written.append(number)
        time.sleep(0.002)  # what is written meanwhile has to be indexed too, the next time

    threads = [
        threading.Thread(target=keep, args=(write,)),
        threading.Thread(target=keep, args=(lambda rng: big.query_points("c", vector(rng)),)),
    ]
    for thread in threads:
        thread.start()
    for _ in range(ROUNDS):
        big.optimize("c")
    done.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(big.retrieve("c", written)) == len(written) > 0


def test_closing_ends_it(big: EmbeddedClient) -> None:
    outcome: list[BaseException] = []

    def run() -> None:
        try:
            big.optimize("c", lambda step: big.close() if step.stage == "indexing" else None)
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(120)
    assert isinstance(outcome[0], StoreClosed)
    again = embedded_client(big.init_options["path"])
    assert len(everything(again)) == POINTS
    again.close()


def optimize_in_a_thread(client: EmbeddedClient, watch: Any) -> threading.Thread:
    def run() -> None:
        with pytest.raises(StoreClosed):
            client.optimize("c", watch)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def shards(client: EmbeddedClient) -> list[Path]:
    return list(Path(client.init_options["path"]).glob("collections/*/shard-*"))


def test_closing_waits_until_nobody_writes_to_the_folder(
    big: EmbeddedClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (endless := tmp_path / "endless.py").write_text("import time\ntime.sleep(3600)\n")
    monkeypatch.setattr(seal, "_CHILD_SCRIPT", endless)
    indexing = threading.Event()
    thread = optimize_in_a_thread(big, lambda step: indexing.set() if step.stage == "indexing" else None)
    assert indexing.wait(60)
    assert len(shards(big)) == 2
    big.close()
    assert len(shards(big)) == 1
    thread.join()


def test_one_that_outlives_the_close_leaves_the_next_one_alone(
    big: EmbeddedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_REBUILD_WAIT_SECONDS", 0.05)
    indexing, go_on = threading.Event(), threading.Event()

    def hold_up(step: Any) -> None:
        indexing.set()
        if step.stage == "indexing":
            go_on.wait(60)

    thread = optimize_in_a_thread(big, hold_up)
    assert indexing.wait(60)
    big.close()
    again = embedded_client(big.init_options["path"])
    assert again.optimize("c")
    go_on.set()
    thread.join()
    again.close()
    third = embedded_client(big.init_options["path"])
    assert len(everything(third)) == POINTS
    third.close()


def test_the_new_files_are_on_disk_before_they_take_over(big: EmbeddedClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power loss right after the swap, which removes the old files, must find the new ones."""
    synced: set[int] = set()
    missing: list[list[str]] = []
    sync, replace = os.fsync, os.replace

    def watch_sync(fd: int) -> None:
        sync(fd)
        synced.add(os.fstat(fd).st_ino)

    def watch_replace(source: Any, target: Path) -> None:
        new = [path for shard in shards(big) if shard.name != "shard-1" for path in (shard, *shard.rglob("*"))]
        missing.append([path.name for path in new if path.stat().st_ino not in synced])
        replace(source, target)

    monkeypatch.setattr(os, "fsync", watch_sync)
    monkeypatch.setattr(os, "replace", watch_replace)
    assert big.optimize("c")
    assert missing == [[]]


@pytest.mark.skipif(os.name == "nt", reason="needs a shell script")
def test_the_child_finds_the_engine_wherever_it_is_installed(
    big: EmbeddedClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as `pip install --user`, or PYTHONPATH: here with no site directory at all."""
    (bare := tmp_path / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    bare.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(bare))
    assert big.optimize("c")


def test_a_frozen_application_has_no_python_to_start(big: EmbeddedClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with pytest.raises(StoreError, match="frozen"):
        big.optimize("c")
    assert len(everything(big)) == POINTS


KILLED = """
import os, signal, sys, threading, time
from twofold.embedded import Options, open_store
from twofold.embedded.optimize import optimize
collection = open_store(sys.argv[1], Options()).get("c")
def end():
    time.sleep(float(sys.argv[2]))
    os.kill(os.getpid(), signal.SIGKILL)
threading.Thread(target=end).start()
while True:
    optimize(collection)
"""


@pytest.mark.parametrize("moment", [0.02, 0.1, 0.25, 0.4, 0.6])
def test_killed_at_any_moment_the_store_is_whole(big: EmbeddedClient, moment: float) -> None:
    before, path = everything(big), Path(big.init_options["path"])
    big.close()
    start(KILLED, path, moment).wait(60)
    again = embedded_client(path)
    assert everything(again) == before
    assert again.optimize("c")
    again.close()
    assert eventually(lambda: tidy(path))


def tidy(path: Path) -> bool:
    """Opening removes what was left; the child that was killed with its parent may take a moment to go."""
    embedded_client(path).close()
    return len(list(path.glob("collections/*/shard-*"))) == 1


def test_what_the_progress_function_raises_is_not_called_the_engines(tmp_path: Path) -> None:
    def progress(_: object) -> None:
        raise ValueError("mine")

    with HybridIndex.open(tmp_path, dense=HashEmbedding()) as index:
        index.add(["a text"])
        with pytest.raises(EngineError, match=r"failed: ValueError: mine"):
            index.optimize(progress)
