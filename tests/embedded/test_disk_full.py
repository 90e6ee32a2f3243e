"""A disk that fills up, at any moment: a file system of its own, and a process that must outlive it.

TWOFOLD_DISK_FULL_ROUNDS=5 is the full run: every moment so often, on ext4 too.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from twofold import HybridIndex
from twofold.embedded import DiskFull
from twofold.testing import HashEmbedding

from .processes import start

ROUNDS = int(os.environ.get("TWOFOLD_DISK_FULL_ROUNDS", "0"))
KINDS = ["tmpfs", "ext4"] if ROUNDS else ["tmpfs"]
SIZE_MB = 128
# Adds until it is told to close; says what was acknowledged and what was refused.
WORKER = """
import sys, threading
from twofold import DiskFull, HybridIndex, PartialAdd
from twofold.testing import HashEmbedding

path, task, batch = sys.argv[1], sys.argv[2], int(sys.argv[3])
size = {"one": 1, "large": 300}.get(task, 40)
stopped = threading.Event()
index = HybridIndex.open(path, dense=HashEmbedding(), optimize="manual")
threading.Thread(target=lambda: (sys.stdin.readline(), stopped.set()), daemon=True).start()
print("ready", flush=True)
while not stopped.is_set():
    try:
        index.add(
            [f"memory {n} of batch {batch}: " + f"word{batch}x{n} " * 30 for n in range(size)],
            ids=[f"{batch}-{n}" for n in range(size)],
            metadatas=[{"n": n} for n in range(size)],
        )
        print("added", batch, flush=True)
        batch += 1
        if task == "optimize" and batch % 5 == 0:
            index.optimize()
    except (DiskFull, PartialAdd) as error:
        cause = error.__cause__ if isinstance(error, PartialAdd) else error
        assert isinstance(cause, DiskFull), repr(cause)
        print("refused", batch, flush=True)
        stopped.wait(0.02)
    if task == "slow":
        stopped.wait(0.3)
try:
    index.close()
    print("closed", flush=True)
except DiskFull:
    print("closed as far as it went", flush=True)
"""
TASKS = {"one": 1, "many": 40, "large": 300, "slow": 40, "optimize": 40}
ENDINGS = ["goes on", "is closed", "is killed"]
MOMENTS = [(task, ending) for task in TASKS for ending in ENDINGS]
QUICK_MOMENTS = [("many", "goes on"), ("slow", "is closed"), ("large", "is killed")]


@pytest.fixture(params=KINDS)
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    mounted = mount(request.param, tmp_path)
    yield mounted
    subprocess.run(["umount", "-l", mounted], check=True)


def mount(kind: str, home: Path) -> Path:
    """A small file system; who may not mount one can't run these tests."""
    place, image = home / "disk", home / "image"
    place.mkdir()
    if kind == "tmpfs":
        commands: list[list[str | Path]] = [["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m", "tmpfs", place]]
    else:
        image.touch()
        os.truncate(image, SIZE_MB << 20)
        commands = [["mkfs.ext4", "-q", "-F", image], ["mount", "-o", "loop", image, place]]
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            pytest.skip(f"needs {command[0]}: {error}")
        if done.returncode != 0:
            pytest.skip(f"can't mount a file system ({done.stderr.strip()}): run it as root")
    return place


def fill(disk: Path) -> None:
    """To the last byte, in one go."""
    with open(disk / "filler", "ab", buffering=0) as file:
        size = shutil.disk_usage(disk).free
        while size > 0:
            try:
                os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, size)
            except OSError:
                size //= 2
    assert shutil.disk_usage(disk).free == 0


def one_round(disk: Path, task: str, ending: str, first: int, moment: float) -> int:
    """Fill the disk while one works, and look at what it acknowledged; returns where to go on."""
    worker = start(WORKER, disk / "store", task, first)
    assert worker.stdin is not None
    assert worker.stdout is not None
    assert worker.stderr is not None
    said = [worker.stdout.readline().strip()]
    assert said == ["ready"], worker.stderr.read()

    def read_until(word: str) -> None:
        while not said[-1].startswith(word):
            line = worker.stdout.readline()  # type: ignore[union-attr]
            assert line, f"{task}, {ending}: ended with {worker.wait()} after {said[-3:]}: {worker.stderr.read()}"  # type: ignore[union-attr]
            said.append(line.strip())

    time.sleep(moment)
    fill(disk)
    read_until("refused")
    if ending == "is killed":
        worker.send_signal(signal.SIGKILL)
    elif ending == "goes on":
        (disk / "filler").unlink()
        read_until("added")
    worker.stdin.close()
    said += worker.stdout.read().splitlines()
    assert worker.wait() == (-signal.SIGKILL if ending == "is killed" else 0), worker.stderr.read()
    worker.stdout.close()
    worker.stderr.close()
    if ending != "goes on":
        fill(disk)  # what was given up may have made room
        with pytest.raises(DiskFull):
            HybridIndex.open(disk / "store", dense=HashEmbedding())
        (disk / "filler").unlink()
    added = [int(line.split()[1]) for line in said if line.startswith("added")]
    with HybridIndex.open(disk / "store", dense=HashEmbedding()) as index:
        for batch in range(first, max(added, default=first - 1) + 1):
            ids = [f"{batch}-{n}" for n in range(TASKS[task])]
            found = index.get(ids)
            assert [document and document.id for document in found] == ids
        index.delete([f"{batch}-{n}" for batch in range(first, batch_end(added, first)) for n in range(TASKS[task])])
    return batch_end(added, first)


def batch_end(added: list[int], first: int) -> int:
    return max(added, default=first - 1) + 2  # what was refused may be there in part


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="mounts a file system of Linux")
def test_a_full_disk_ends_no_process_and_loses_nothing(disk: Path) -> None:
    rng, first = random.Random(time.time_ns()), 1
    for _ in range(max(1, ROUNDS)):
        for task, ending in MOMENTS if ROUNDS else QUICK_MOMENTS:
            first = one_round(disk, task, ending, first, rng.uniform(0, 0.5))
            if shutil.disk_usage(disk).free < SIZE_MB << 19:
                shutil.rmtree(disk / "store")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="mounts a file system of Linux")
def test_nothing_is_begun_on_a_full_disk(disk: Path) -> None:
    fill(disk)
    with pytest.raises(DiskFull, match="make room and call again"):
        HybridIndex.open(disk / "new", dense=HashEmbedding())
    (disk / "filler").unlink()
    with HybridIndex.open(disk / "new", dense=HashEmbedding()) as index:
        index.add(["first"])
        fill(disk)
        with pytest.raises(DiskFull):
            index.add(["second"])
        assert [hit.text for hit in index.search("first")] == ["first"]
        with pytest.raises(DiskFull):
            HybridIndex.open(disk / "new", collection="other", dense=HashEmbedding())
        (disk / "filler").unlink()
        index.add(["second"])
        assert index.count() == 2
