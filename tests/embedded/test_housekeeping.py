"""What a store does by itself, and the parts it's made of."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import models as m

from twofold.embedded import BadRequest, EmbeddedClient, embedded_client, lock, optimize, seal, store
from twofold.embedded.collection import Collection, Gate, Pace

from .conftest import eventually, fill, sample_points


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_TICK_SECONDS", 0.05)
    monkeypatch.setattr(store, "_IDLE_SECONDS_BEFORE_FLUSH", 0.1)
    monkeypatch.setattr(store, "_IDLE_SECONDS_BEFORE_OPTIMIZE", 0.2)
    monkeypatch.setattr(store, "_MIN_POINTS_TO_OPTIMIZE", 50)


def looked_at_while_idle(monkeypatch: pytest.MonkeyPatch) -> bool:
    """Wait until the housekeeper could have optimised: twice, since the first look may have begun before."""
    looks: list[float] = []
    look = store.Housekeeper._tend

    def watched(self: store.Housekeeper, collection: Collection) -> None:
        idle = time.monotonic() - collection.last_write
        look(self, collection)
        looks.append(idle)

    monkeypatch.setattr(store.Housekeeper, "_tend", watched)
    return eventually(lambda: sum(idle > store._IDLE_SECONDS_BEFORE_OPTIMIZE for idle in looks) >= 2)


@pytest.mark.usefixtures("quick")
def test_idle_collections_are_flushed_and_optimised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = fill(embedded_client(tmp_path))
    collection = client.store.get("notes")
    assert eventually(lambda: collection.settings.optimized_points == 60)
    assert eventually(lambda: collection.unflushed == 0)
    shard = collection.settings.shard
    client.upsert("notes", [m.PointStruct(id=1000, vector={})])
    assert looked_at_while_idle(monkeypatch)
    assert collection.settings.shard == shard  # one more point is no reason to do it again
    client.close()


def test_nobody_but_writers_waits_for_a_slow_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = fill(embedded_client(tmp_path))
    collection = client.store.get("notes")
    waiting, done = threading.Event(), threading.Event()

    def slow(path: str | Path, flags: int) -> None:
        waiting.set()
        assert done.wait(10)

    monkeypatch.setattr(lock, "_sync", slow)
    flusher = threading.Thread(target=collection.flush)
    flusher.start()
    assert waiting.wait(10)
    assert client.count("notes").count == 60
    assert collection.unflushed > 0
    done.set()
    flusher.join()
    assert collection.unflushed == 0
    client.close()


def test_a_flush_is_the_engines_whatever_came_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(path: str | Path, flags: int) -> None:
        raise OSError("no such luck")

    client = fill(embedded_client(tmp_path))
    collection = client.store.get("notes")
    asked: list[str] = []
    read = collection.read

    def watched(method: str, *args: Any) -> Any:
        asked.append(method)
        return read(method, *args)

    monkeypatch.setattr(collection, "read", watched)
    monkeypatch.setattr(lock, "_sync", fails)
    collection.flush()
    assert asked == ["flush"]
    monkeypatch.undo()
    client.close()


@pytest.mark.usefixtures("quick")
def test_points_that_were_written_again_are_a_reason_to_optimise(tmp_path: Path) -> None:
    """Their number stays the same, but they are no longer in the search graph; restarts forget nothing."""
    client = fill(embedded_client(tmp_path, optimize="manual"))
    client.optimize("notes")
    assert not store.should_optimize(client.store.get("notes"))
    for _ in range(2):
        client.upsert("notes", sample_points(30))
        client.close()
        client = embedded_client(tmp_path, optimize="manual")
    assert store.should_optimize(client.store.get("notes"))
    client.optimize("notes")
    assert not store.should_optimize(client.store.get("notes"))
    client.close()


@pytest.mark.usefixtures("quick")
def test_manual_means_manual(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = fill(embedded_client(tmp_path, optimize="manual"))
    assert looked_at_while_idle(monkeypatch)
    assert client.store.get("notes").settings.optimized_points == 0
    client.close()
    with pytest.raises(BadRequest, match="optimize"):
        embedded_client(tmp_path, optimize="never")  # type: ignore[arg-type]


@pytest.mark.usefixtures("quick")
def test_closing_does_not_wait_for_the_housekeeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child would index for an hour: a close that waited for it would never end."""
    (endless := tmp_path / "endless.py").write_text("import time\ntime.sleep(3600)\n")
    monkeypatch.setattr(seal, "_CHILD_SCRIPT", endless)
    indexing = threading.Event()

    def watched(collection: Collection) -> bool:
        return optimize.optimize(collection, lambda step: indexing.set() if step.stage == "indexing" else None)

    monkeypatch.setattr(store, "optimize", watched)
    client = fill(embedded_client(tmp_path / "store"))
    housekeeper = client.store._housekeeper
    assert indexing.wait(60)
    client.close()
    housekeeper.join(60)
    assert not housekeeper.is_alive()
    again = embedded_client(tmp_path / "store")
    assert again.count("notes").count == 60
    again.close()


def test_answers_are_ordinary_models(notes: EmbeddedClient) -> None:
    """They are put together without validation; nothing of that may show."""
    points = notes.query_points("notes", [1.0, 0, 0, 0], using="dense", with_vectors=True, limit=3).points
    records = notes.retrieve("notes", [1, 3], with_vectors=True)
    answers: list[m.ScoredPoint | m.Record] = [*points, *records]
    for made in answers:
        checked: Any = type(made)(**made.model_dump())
        assert made == checked
        assert repr(made) == repr(checked)
        assert made.model_dump_json() == checked.model_dump_json()
        assert made.model_copy(deep=True) == checked
        assert pickle.loads(pickle.dumps(made)) == checked
        made.payload = {"changed": True}
        assert made.payload != checked.payload


def test_pace_finds_the_size_for_its_target() -> None:
    pace = Pace(target_seconds=0.02, start=64, smallest=8, largest=512)
    for _ in range(20):
        pace.learn(pace.size, pace.size * 0.0001)
    assert 180 <= pace.size <= 220
    pace.learn(pace.size, 10.0)
    assert pace.size >= 90  # one hiccup halves it at most
    pace.learn(1, 0.000001)
    assert pace.size < 200  # a lone point proves nothing
    for _ in range(20):
        pace.learn(pace.size, 10.0)
    assert pace.size == 8


def test_a_shut_gate_lets_nobody_in() -> None:
    gate, inside = Gate(), threading.Event()
    log: list[str] = []

    def pass_through() -> None:
        with gate:
            log.append("in")

    def hold() -> None:
        with gate:
            inside.set()
            time.sleep(0.1)
            log.append("left")

    holder = threading.Thread(target=hold)
    holder.start()
    inside.wait()
    with gate.shut():
        log.append("shut")
        late = threading.Thread(target=pass_through)
        late.start()
        time.sleep(0.05)
        log.append("open")
    late.join()
    holder.join()
    assert log == ["left", "shut", "open", "in"]


@pytest.mark.slow
def test_a_folder_that_is_gone_at_exit_is_no_traceback(tmp_path: Path) -> None:
    program = """
import shutil, sys
from twofold.embedded import embedded_client
from qdrant_client import models
client = embedded_client(sys.argv[1])
client.create_collection("a", models.VectorParams(size=2, distance=models.Distance.COSINE))
client.upsert("a", [models.PointStruct(id=1, vector=[1, 2])])
shutil.rmtree(sys.argv[1])
"""
    ended = subprocess.run([sys.executable, "-c", program, str(tmp_path / "store")], capture_output=True, text=True)
    assert ended.returncode == 0
    assert "Traceback" not in ended.stderr
    assert "was removed while it was open" in ended.stderr
