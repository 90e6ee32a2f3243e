"""One process holds a store; in one process, as many clients as you like. How others join: test_sharing.py.

TWOFOLD_LOCK_PROCESSES=6 is the full run.
"""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import models as m

from twofold.embedded import StoreClosed, StoreError, StoreLocked, async_embedded_client, embedded_client, lock

from .conftest import eventually, fill, payload_of
from .processes import start

PROCESSES = int(os.environ.get("TWOFOLD_LOCK_PROCESSES", "3"))

# The store without a client: it starts in a fraction of the time.
TRY = """
import sys
from twofold.embedded import Options, StoreLocked, open_store
try:
    store = open_store(sys.argv[1], Options(share=False))
except StoreLocked as error:
    print("refused", error, flush=True)
else:
    print("open", flush=True)
    sys.stdin.readline()
"""


class Clock:
    """Time that passes by sleeping only: how long somebody chose to wait, on a busy machine too."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_the_second_process_learns_who_and_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    holder = start(TRY, tmp_path)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "open\n"
    monkeypatch.setattr(lock, "time", clock := Clock())
    with pytest.raises(StoreLocked, match=f"process {holder.pid} on .* since .*Qdrant server") as caught:
        embedded_client(tmp_path)  # which would join
    assert 0.1 < clock.now < 1  # long enough for a holder that is just closing, and no longer
    assert caught.value.holder is not None
    assert caught.value.holder.pid == holder.pid
    holder.communicate("\n")
    embedded_client(tmp_path).close()


def test_of_several_processes_one_works_and_a_dead_holder_is_no_holder(tmp_path: Path) -> None:
    everyone = [start(TRY, tmp_path) for _ in range(PROCESSES)]
    # All have spoken while the one that works still holds the store: nobody waits for it to end.
    said = [process.stdout.readline() for process in everyone if process.stdout]
    assert sorted(line.split()[0] for line in said) == ["open"] + ["refused"] * (PROCESSES - 1)
    holder = everyone[said.index("open\n")]
    with pytest.raises(StoreLocked):
        embedded_client(tmp_path)
    holder.kill()
    for process in everyone:
        process.wait()
    embedded_client(tmp_path).close()


def test_clients_of_one_process_share(tmp_path: Path) -> None:
    one, two = fill(embedded_client(tmp_path)), embedded_client(os.path.relpath(tmp_path))
    assert two.count("notes").count == 60
    one.close()
    assert two.count("notes").count == 60
    two.delete("notes", [1])
    two.close()
    three = embedded_client(tmp_path)
    assert three.count("notes").count == 59
    three.close()


def test_sharing_needs_the_same_durability(tmp_path: Path) -> None:
    one = embedded_client(tmp_path)
    with pytest.raises(StoreError, match="durability='process'"):
        embedded_client(tmp_path, durability="power")
    one.close()
    with pytest.raises(ValueError, match="durability"):
        embedded_client(tmp_path, durability="none")  # type: ignore[arg-type]


def test_power_durability_works(tmp_path: Path) -> None:
    client = fill(embedded_client(tmp_path, durability="power"))
    assert client.count("notes").count == 60
    client.close()


def test_async_and_sync_on_one_store(tmp_path: Path) -> None:
    sync = fill(embedded_client(tmp_path))

    async def work() -> Any:
        client = async_embedded_client(tmp_path)
        await client.set_payload("notes", {"seen": 1}, points=[1])
        found = await asyncio.gather(
            *(client.query_points("notes", [1.0, 0, 0, 0], using="dense", limit=n + 1) for n in range(20))
        )
        batch = await client.query_batch_points("notes", [m.QueryRequest(query=3, using="dense")])
        with pytest.raises(ValueError, match="nope not found"):
            await client.count("nope")
        with pytest.raises(NotImplementedError, match="cluster"):
            await client.cluster_status()
        assert await client.optimize("notes")
        await client.flush()
        await client.close()
        return [len(response.points) for response in found], len(batch[0].points)

    assert asyncio.run(work()) == (list(range(1, 21)), 10)
    assert payload_of(sync.retrieve("notes", [1])[0])["seen"] == 1
    sync.close()


def test_an_async_client_is_closed_for_good(tmp_path: Path) -> None:
    async def work() -> None:
        client, other = async_embedded_client(tmp_path), async_embedded_client(tmp_path)
        await client.create_collection("a", {})
        await asyncio.gather(client.close(), client.close())
        await client.close()
        for call in (client.count("a"), client.flush()):
            with pytest.raises(StoreClosed, match="async_embedded_client"):
                await call
        assert (await other.count("a")).count == 0
        await other.close()

    asyncio.run(work())


ASYNC_FORK = """
import asyncio, os, signal, warnings
warnings.simplefilter("ignore")
from twofold.embedded import StoreClosed, async_embedded_client
async def use():
    client = async_embedded_client(":memory:")
    await client.create_collection("a", {})
    return client
client = asyncio.run(use())
child = os.fork()
if child == 0:
    signal.alarm(50)
    try:
        asyncio.run(client.count("a"))
    except StoreClosed:
        os._exit(0)
    os._exit(1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_an_async_client_does_not_hang_in_a_forked_child() -> None:
    out, err = start(ASYNC_FORK).communicate(timeout=60)
    assert out == "0\n", err


FORK = """
import os, sys, warnings
warnings.simplefilter("ignore")
from twofold.embedded import StoreLocked, embedded_client
client = embedded_client(sys.argv[1], share=False)
client.create_collection("a", {})
child = os.fork()
if child == 0:
    try:
        client.count("a")
    except StoreLocked:
        pass
    else:
        os._exit(1)
    client.close()
    try:
        embedded_client(sys.argv[1])
    except StoreLocked:
        os._exit(0)
    os._exit(2)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), client.count("a").count)
client.close()
embedded_client(sys.argv[1]).close()
print("reopened")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_may_not_touch_a_store_that_its_parent_does_not_share(tmp_path: Path) -> None:
    process = start(FORK, tmp_path)
    out, err = process.communicate(timeout=60)
    assert out == "0 0\nreopened\n", err


FORGOTTEN = """
import gc, sys
from twofold.embedded import StoreLocked, embedded_client, store
gc.disable()
class Box: pass
box = Box()
box.itself, box.client = box, embedded_client(sys.argv[1])
read = store.read_versioned
def collect_and_read(*args):
    gc.collect()  # as Python may at any moment
    return read(*args)
store.read_versioned = collect_and_read
del box
other = embedded_client(sys.argv[2])
print("open", flush=True)
sys.stdin.readline()
other.close()
"""


def test_a_forgotten_client_is_closed_and_holds_nobody_up(tmp_path: Path) -> None:
    process = start(FORGOTTEN, tmp_path / "one", tmp_path / "two")
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    assert eventually(lambda: opens(tmp_path / "one"))
    out, err = process.communicate("\n", timeout=60)
    assert (process.returncode, out, err) == (0, "", "")


def opens(path: Path) -> bool:
    try:
        embedded_client(path).close()
    except StoreLocked:
        return False
    return True


def test_a_collection_that_fails_to_close_keeps_no_other_from_closing(tmp_path: Path) -> None:
    client = fill(embedded_client(tmp_path))
    client.create_collection("a", {})
    collection = client.store.get("notes")
    collection._shard = FullDisk(collection._shard)  # type: ignore[assignment]
    with pytest.raises(ValueError, match="no space left"):
        client.close()
    again = embedded_client(tmp_path)
    assert [again.count(name).count for name in ("a", "notes")] == [0, 60]
    again.close()


class FullDisk:
    """A shard that can't be flushed."""

    def __init__(self, shard: Any) -> None:
        self.close = shard.close

    def flush(self) -> None:
        raise OSError("no space left")


def test_a_disk_that_cannot_lock_is_not_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StoreError, match=r"No locks available.*local disk") as caught:
        embedded_client(tmp_path)
    assert not isinstance(caught.value, StoreLocked)


def test_a_file_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="directory"):
        embedded_client(tmp_path / "file")


UNCLOSED = """
import sys
from twofold.embedded import embedded_client
client = embedded_client(sys.argv[1])
client.create_collection("a", {})
"""


def test_an_unclosed_client_lets_the_process_end(tmp_path: Path) -> None:
    process = start(UNCLOSED, tmp_path)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    client = embedded_client(tmp_path)
    assert client.collection_exists("a")
    client.close()
