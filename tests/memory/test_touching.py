"""Recalls are counted: exactly, in the background, and whatever fails."""

from __future__ import annotations

import asyncio
import gc
import logging
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import AsyncQdrantClient

from tests.memory.faces import MemoryFace, Opener
from twofold import EngineError, Memory, MemoryConfig, embedded_client
from twofold.memory import touching
from twofold.memory.touching import PendingRecalls
from twofold.testing import HashEmbedding

THREADS = 8
RECALLS = 25


@pytest.fixture
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written in the background until a test is long over."""
    monkeypatch.setattr(touching, "WRITE_DELAY_SECONDS", 1e6)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(touching, "WRITE_DELAY_SECONDS", 0.001)


def soon(holds: Callable[[], bool]) -> None:
    """Wait until something holds that a background thread brings about; the limit is only for when it never does."""
    for _ in range(6000):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("it never happened")


def in_threads(work: Callable[[int], Any]) -> None:
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def stored_count(memory: MemoryFace, identity: str) -> int:
    count: int = memory.raw.rows()[str(identity)]["metadata"]["access_count"]
    return count


def pending(memory: MemoryFace) -> list[str]:
    return memory.memory._store.counter.pending.owners()


def test_recalls_are_counted_with_their_time(open_memory: Opener) -> None:
    memory = open_memory()
    found, other = memory.remember("the tunnel"), memory.remember("nothing of the kind")
    for _ in range(3):
        memory.recall("tunnel", 1, min_score=0.01)
    item = memory.get(found)
    assert item.access_count == 3
    assert item.last_accessed >= item.created.replace(microsecond=0)
    assert memory.get(other).access_count == 0
    assert memory.get(other).last_accessed is None
    assert [each.access_count for each in memory.list() if each.id == found] == [3]


def test_touch_can_be_switched_off(open_memory: Opener) -> None:
    memory = open_memory(config=MemoryConfig(touch=False))
    found = memory.remember("the tunnel")
    memory.recall("tunnel")
    memory.similar(found)
    assert memory.get(found).access_count == 0
    memory.recall("tunnel", touch=True)
    assert memory.get(found).access_count == 1
    counting = open_memory(memory.memory.user)
    counting.recall("tunnel", touch=False)
    assert counting.get(found).access_count == 1


def test_an_answer_waits_for_no_writing(open_here: Opener, by_hand: None, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = open_here()
    found = memory.remember("the tunnel")
    connection = memory.memory.index._connection
    calls: list[str] = []
    real = connection.call

    def watched(call: Any) -> Any:
        calls.append(call.verb)
        return real(call)

    monkeypatch.setattr(connection, "call", watched)
    memory.recall("tunnel")
    calls.clear()
    memory.recall("tunnel")
    assert calls == ["query"], "one request, and no writing"
    assert stored_count(memory, found) == 0
    assert pending(memory) == [f"memory:{memory.memory.user}"]
    calls.clear()
    memory.flush()
    assert calls == ["retrieve", "set_payload"]
    assert stored_count(memory, found) == 2


def test_a_thread_writes_them_down_by_itself(open_here: Opener, at_once: None) -> None:
    memory = open_here()
    found = memory.remember("the tunnel")
    memory.recall("tunnel")
    soon(lambda: stored_count(memory, found) == 1)
    soon(lambda: memory.memory._store.counter._thread is None)
    memory.recall("tunnel")
    soon(lambda: stored_count(memory, found) == 2)


@pytest.mark.parametrize("pace", [0.0005, 0.02, 1e6])
def test_counts_of_many_threads_are_exact(open_here: Opener, pace: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(touching, "WRITE_DELAY_SECONDS", pace)
    memory = open_here()
    ids = [memory.remember(f"the tunnel number {n}") for n in range(5)]
    in_threads(lambda _: [memory.recall("tunnel", 5) for _ in range(RECALLS)])
    memory.flush()
    assert [memory.get(i).access_count for i in ids] == [THREADS * RECALLS] * 5


def test_writers_and_recalls_at_once_lose_nothing(open_here: Opener, at_once: None) -> None:
    memory = open_here()
    ids = [memory.remember(f"the tunnel number {n}") for n in range(4)]

    def work(number: int) -> None:
        for turn in range(RECALLS):
            if number % 4 == 1:
                memory.update(ids[turn % 4], importance=0.5, metadata={"turn": turn})
            elif number % 4 == 2:
                memory.remember(f"the tunnel number {turn % 4}", tags=[f"tag{number}"])
            elif number == 3:
                memory.remember(f"something about {turn}", supersedes=memory.remember(f"something on {turn}"))
            else:
                memory.recall("tunnel", 4)

    in_threads(work)
    memory.flush()
    recalling = sum(number % 4 not in (1, 2) and number != 3 for number in range(THREADS))
    assert [memory.get(i).access_count for i in ids] == [recalling * RECALLS] * 4
    assert set(memory.get(ids[0]).tags) == {"tag2", "tag6"}


def test_tags_that_are_written_during_recalls_are_known_afterwards(open_here: Opener) -> None:
    memory = open_here()

    def work(number: int) -> None:
        for turn in range(10):
            view = memory.for_user(f"{memory.memory.user} {turn}")
            if number % 2:
                view.remember(f"text {number}", tags=[f"tag{number}"])
            else:
                view.recall("tag1 tag3 tag5 tag7")

    in_threads(work)
    for turn in range(10):
        found = memory.for_user(f"{memory.memory.user} {turn}").recall("tag1 tag3 tag5 tag7")
        assert sorted(found.tags) == ["tag1", "tag3", "tag5", "tag7"]


class Refusing:
    """An engine that refuses writes for a while."""

    def __init__(self, memory: MemoryFace, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times = 0
        self.refused = 0
        connection = memory.memory.index._connection
        real = connection.call

        def call(asked: Any) -> Any:
            if asked.verb == "set_payload" and self.refused < self.times:
                self.refused += 1
                raise EngineError("no space left: free some", operation="set_payload", location="here")
            return real(asked)

        monkeypatch.setattr(connection, "call", call)


def test_what_cannot_be_written_is_tried_again(
    open_here: Opener, at_once: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    memory = open_here()
    found = memory.remember("the tunnel")
    engine = Refusing(memory, monkeypatch)
    engine.times = 3
    with caplog.at_level(logging.WARNING, "twofold.memory"):
        memory.recall("tunnel")
        soon(lambda: stored_count(memory, found) == 1)
    assert engine.refused == 3
    said = [record.getMessage() for record in caplog.records if record.name == "twofold.memory"]
    assert said == ["recalls could not be counted yet: no space left: free some"] * 3
    assert memory.get(found).access_count == 1


def test_reading_goes_on_where_counting_fails(
    open_here: Opener, by_hand: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = open_here()
    found = memory.remember("the tunnel")
    engine = Refusing(memory, monkeypatch)
    engine.times = 3
    memory.recall("tunnel")
    assert memory.get(found).text == "the tunnel"
    assert [item.id for item in memory.list()] == [found]
    with pytest.raises(EngineError, match="no space left"):
        memory.flush()
    memory.flush()
    assert memory.get(found).access_count == 1


def test_a_failure_half_way_counts_nothing_twice(open_here: Opener, by_hand: None, monkeypatch: Any) -> None:
    memory = open_here()
    ids = [memory.remember(f"the tunnel number {n}") for n in range(6)]
    for identity, times in zip(ids, range(6), strict=True):
        for _ in range(times):
            memory.memory._store.counter.note(memory.memory.user, [str(identity)])
    engine = Refusing(memory, monkeypatch)
    engine.times = 2
    for _ in range(2):
        with pytest.raises(EngineError):
            memory.flush()
    memory.flush()
    assert [memory.get(i).access_count for i in ids] == list(range(6))


def test_what_is_gone_is_left_out(open_memory: Opener, by_hand: None) -> None:
    memory = open_memory()
    kept, gone = memory.remember("the tunnel one"), memory.remember("the tunnel two")
    memory.recall("tunnel")
    memory.forget(gone)
    memory.flush()
    assert memory.get(kept).access_count == 1
    assert memory.get(gone) is None
    assert pending(memory) == []


def test_a_flush_waits_for_what_is_just_being_written() -> None:
    pending = PendingRecalls(lambda user, flow: flow)
    pending.note("ada", ["x"])
    assert pending.owners() == ["ada"], "somebody may be writing: whoever wants it all written has to wait for the lock"
    pending.note("ada", ["x", "y"])
    pending.settle("ada", {"x": 1})
    assert pending.owners() == ["ada"], "recalled again while the first was written"
    pending.settle("ada", {"x": 1, "y": 1})
    assert pending.owners() == []


@pytest.mark.parametrize("style", ["sync", "async"])
def test_closing_writes_what_is_pending(tmp_path: Path, by_hand: None, style: str) -> None:
    memory = Memory.open(tmp_path / "store", user="ada", dense=HashEmbedding())
    found = memory.remember("the tunnel")
    facts = memory.knowledge()
    fact = facts.remember("a tunnel has two ends")
    memory.recall("tunnel")
    facts.recall("tunnel")
    del facts
    if style == "sync":
        memory.close()
        memory.close()
    else:
        asyncio.run(memory.aclose())
    with Memory.open(tmp_path / "store", user="ada", dense=HashEmbedding()) as again:
        assert again.get(found).access_count == 1  # type: ignore[union-attr]
        assert again.knowledge().get(fact).access_count == 1  # type: ignore[union-attr]


def test_closing_during_a_write_in_the_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(touching, "WRITE_DELAY_SECONDS", 0.001)
    memory = Memory.open(tmp_path / "store", user="ada", dense=HashEmbedding())
    found = memory.remember("the tunnel")
    connection = memory.index._connection
    real, writing, go_on = connection.call, threading.Event(), threading.Event()

    def slow(call: Any) -> Any:
        if call.verb == "set_payload":
            writing.set()
            go_on.wait(60)
        return real(call)

    monkeypatch.setattr(connection, "call", slow)
    memory.recall("tunnel")
    assert writing.wait(60)
    threading.Timer(0.05, go_on.set).start()
    memory.close()
    with Memory.open(tmp_path / "store", user="ada", dense=HashEmbedding()) as again:
        assert again.get(found).access_count == 1  # type: ignore[union-attr]


LEAVE = """
from twofold import Memory
from twofold.testing import HashEmbedding
memory = Memory.open({store!r}, user="ada", dense=HashEmbedding())
memory.remember("the tunnel")
for _ in range(7):
    memory.recall("tunnel")
"""


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["raise SystemExit(0)", "def f(): return memory\nkeep = [f, memory]"])
def test_an_interpreter_that_ends_writes_what_is_pending(tmp_path: Path, ending: str) -> None:
    code = LEAVE.format(store=str(tmp_path / "store")) + ending
    done = subprocess.run([sys.executable, "-X", "dev", "-c", code], capture_output=True, text=True, timeout=110)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    with Memory.open(tmp_path / "store", user="ada", dense=HashEmbedding()) as memory:
        assert [item.access_count for item in memory.list()] == [7]


def test_a_memory_that_is_dropped_writes_what_is_pending(by_hand: None) -> None:
    client = embedded_client(":memory:")
    memory = Memory.open(client, user="ada", dense=HashEmbedding())
    found = memory.remember("the tunnel")
    memory.recall("tunnel")
    memory._store.counter._thread = None  # the thread that waits would keep it alive
    memory._store.counter._closing.set()
    del memory
    gc.collect()
    with Memory.open(client, user="ada", dense=HashEmbedding()) as again:
        soon(lambda: again.get(found).access_count == 1)  # type: ignore[union-attr]
    client.close()


# --- where only awaiting works -------------------------------------------------------------------


@pytest.fixture
def quiet() -> Iterator[list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        yield seen
        gc.collect()
        assert [
            str(each.message) for each in seen if "asyncio" in str(each.message) or "await" in str(each.message)
        ] == []


async def test_an_async_client_is_written_to_by_a_task(
    at_once: None, quiet: Any, caplog: pytest.LogCaptureFixture
) -> None:
    client = AsyncQdrantClient(":memory:")
    memory = await Memory.aopen(client, user="ada", dense=HashEmbedding())
    found = await memory.aremember("the tunnel")
    for _ in range(3):
        await memory.arecall("tunnel")
        for _ in range(20):
            await asyncio.sleep(0.002)
    task = memory._store.counter._task
    assert task is not None
    await asyncio.wait([task])
    assert not memory._store.counter.pending.owners()
    assert (await memory.aget(found)).access_count == 3  # type: ignore[union-attr]
    await memory.aclose()
    assert "destroyed" not in caplog.text


async def test_tasks_at_once_are_counted_exactly(at_once: None) -> None:
    memory = await Memory.aopen(AsyncQdrantClient(":memory:"), user="ada", dense=HashEmbedding())
    found = await memory.aremember("the tunnel")
    updates = [memory.aupdate(found, metadata={"n": n}) for n in range(10)]
    await asyncio.gather(*(memory.arecall("tunnel") for _ in range(40)), *updates)
    await memory.aflush()
    assert (await memory.aget(found)).access_count == 40  # type: ignore[union-attr]
    await memory.aclose()


@pytest.mark.parametrize("closed", [True, False])
def test_a_loop_that_ends_leaves_no_task_behind(
    closed: bool, by_hand: None, quiet: Any, caplog: pytest.LogCaptureFixture
) -> None:
    client = AsyncQdrantClient(":memory:")

    async def session() -> str:
        memory = await Memory.aopen(client, user="ada", dense=HashEmbedding())
        found = await memory.aremember("the tunnel")
        await memory.arecall("tunnel")
        if closed:
            await memory.aclose()
        return str(found)

    async def look(identity: str) -> int:
        memory = await Memory.aopen(client, user="ada", dense=HashEmbedding())
        item = await memory.aget(identity)
        await memory.aclose()
        assert item is not None
        return item.access_count

    identity = asyncio.run(session())
    gc.collect()
    assert asyncio.run(look(identity)) == (1 if closed else 0)
    assert "destroyed" not in caplog.text


def test_one_memory_in_several_loops(at_once: None, quiet: Any, caplog: pytest.LogCaptureFixture) -> None:
    client = AsyncQdrantClient(":memory:")
    memory = asyncio.run(Memory.aopen(client, user="ada", dense=HashEmbedding()))
    found = asyncio.run(memory.aremember("the tunnel"))
    for _ in range(3):
        asyncio.run(memory.arecall("tunnel"))
    assert asyncio.run(memory.aget(found)).access_count == 3  # type: ignore[union-attr]
    asyncio.run(memory.aclose())
    assert "destroyed" not in caplog.text


async def test_a_task_that_is_called_off_lets_go_of_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = await Memory.aopen(AsyncQdrantClient(":memory:"), user="ada", dense=HashEmbedding())
    first = await memory.aremember("the tunnel")
    connection = memory.index._connection
    real, stuck = connection.acall, asyncio.Event()

    async def hanging(call: Any) -> Any:
        if call.verb == "upsert":
            stuck.set()
            await asyncio.Event().wait()
        return await real(call)

    monkeypatch.setattr(connection, "acall", hanging)
    task = asyncio.create_task(memory.aremember("never stored"))
    await stuck.wait()
    task.cancel()
    try:
        await task
    except asyncio.CancelledError as error:  # held on to, with its traceback
        kept = error
    monkeypatch.setattr(connection, "acall", real)
    assert not any(lock.locked() for lock in memory._store.shared.locks)
    assert await memory.aremember("the tunnel") == first
    assert kept.__traceback__ is not None
    await memory.aclose()
