"""Files that were damaged, one after the other: each is noticed and named, and nothing else suffers.

TWOFOLD_DAMAGE_ROUNDS=5 is the full run: every kind of file so often, in stores that were closed and that crashed.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from qdrant_client import models

from twofold.embedded import embedded_client

from .conftest import fill, sample_points
from .processes import start

ROUNDS = int(os.environ.get("TWOFOLD_DAMAGE_ROUNDS", "0"))
_QUICK_KINDS = 20
# Opens store after store, in each of which the collection `notes` is damaged and `other` is not, and uses both.
LOOK = """
import sys
from qdrant_client import models
from twofold.embedded import EngineFailure, StoreError, embedded_client, seal
seal._TRIAL_SECONDS = float(sys.argv[1])
for path in map(str.strip, sys.stdin):
    client = embedded_client(path, optimize="manual")
    assert client.count("other").count == 60
    client.upsert("other", [models.PointStruct(id=n, vector={}) for n in range(60)])
    try:
        records, _ = client.scroll("notes", limit=1000, with_vectors=True)
        client.query_points("notes", query=[1.0, 0.0, 0.0, 0.0], using="dense", limit=10)
        client.query_points("notes", query=models.SparseVector(indices=[1, 2], values=[1.0, 1.0]), using="words")
        print("opened", len(records), flush=True)
    except (StoreError, EngineFailure) as error:
        print("refused", " ".join(str(error).split()), flush=True)
    except Exception as error:
        print("failed", type(error).__name__, " ".join(str(error).split()), flush=True)
    client.close()
    print("closed", flush=True)
"""


def kind_of(path: Path) -> str:
    """What a file is, whatever the names of its segment and its field."""
    name = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|shard-[0-9a-f]+|\d+", "N", path.as_posix())
    return re.sub(r"/[0-9a-zN]{20,}-(\w+?)-", r"/\1-", name)


def make_store(home: Path, optimized: bool) -> Path:
    """Two collections; the first with all kinds of files."""
    path = home / ("optimized" if optimized else "plain")
    with_graph = models.OptimizersConfigDiff(indexing_threshold=1)
    client = embedded_client(path, optimize="manual")
    fill(client)
    client.update_collection("notes", optimizers_config=with_graph)
    client.create_payload_index("notes", "text", models.PayloadSchemaType.TEXT)
    client.create_collection("other", {"dense": models.VectorParams(size=4, distance=models.Distance.COSINE)})
    client.upsert("other", [models.PointStruct(id=n, vector={"dense": [float(n), 1.0, 0.0, 0.0]}) for n in range(60)])
    if optimized:
        client.optimize("notes")
        client.upsert("notes", sample_points(5))
    client.close()
    return path


def files_of(store: Path) -> dict[str, list[Path]]:
    """The files of the collection by kind, those that hold something."""
    [home] = (store / "collections").glob("notes-*")
    kinds: dict[str, list[Path]] = {}
    for path in sorted(home.rglob("*")):
        if path.is_file() and path.stat().st_size:
            kinds.setdefault(kind_of(path.relative_to(home)), []).append(path.relative_to(store))
    return kinds


def damage(path: Path, rng: random.Random) -> None:
    """64 random bytes, at a random place."""
    with open(path, "r+b") as file:
        size = path.stat().st_size
        file.seek(rng.randrange(max(1, size - 64)))
        file.write(rng.randbytes(min(64, size)))


class Looker:
    """A process that opens one store after the other, and must outlive them all."""

    def __init__(self, trial_seconds: float = 20) -> None:
        self._process = start(LOOK, trial_seconds)

    def look(self, store: Path) -> str:
        """What it says about a store."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{store}\n")
        self._process.stdin.flush()
        said, closed = self._process.stdout.readline(), self._process.stdout.readline()
        if closed != "closed\n":
            _, complaint = self._process.communicate()
            return f"ended with {self._process.returncode}: {said}{complaint[-1500:]}"
        return said.strip()

    def end(self) -> None:
        self._process.communicate()


def damaged_copies(store: Path, rng: random.Random, home: Path) -> Iterator[tuple[str, Path, Path]]:
    """Copies of a store, in each of which one file is damaged: its kind, the file and the copy."""
    kinds = files_of(store)
    for kind in kinds if ROUNDS else rng.sample(sorted(kinds), _QUICK_KINDS):
        files = kinds[kind]
        for _ in range(max(1, ROUNDS)):
            file, copy = rng.choice(files), home / "copy"
            shutil.copytree(store, copy)
            damage(copy / file, rng)
            yield kind, file, copy
            shutil.rmtree(copy)


@pytest.mark.slow
@pytest.mark.parametrize("optimized", [False, True], ids=["plain", "optimized"])
def test_a_damaged_file_is_named_and_takes_nothing_along(tmp_path: Path, optimized: bool) -> None:
    store, looker, rng = make_store(tmp_path, optimized), Looker(), random.Random(time.time_ns())
    assert looker.look(shutil.copytree(store, tmp_path / "whole")) == "opened 60"
    for kind, file, copy in damaged_copies(store, rng, tmp_path):
        said = looker.look(copy)
        assert said.startswith("refused"), (kind, said)
        assert file.name in said, (kind, said)
    looker.end()


@pytest.mark.skipif(not ROUNDS, reason="long: make crash")
@pytest.mark.parametrize("optimized", [False, True], ids=["plain", "optimized"])
def test_damage_after_a_crash_ends_no_process(tmp_path: Path, optimized: bool) -> None:
    """Nobody can tell then what the files were like: the engine finds it, or goes on with what it can read."""
    store, looker, rng = make_store(tmp_path, optimized), Looker(trial_seconds=5), random.Random(time.time_ns())
    for settled in (store / "collections").glob("*/closed.json"):
        settled.unlink()
    outcomes: Counter[tuple[str, str]] = Counter()
    for kind, file, copy in damaged_copies(store, rng, tmp_path):
        said = looker.look(copy)
        outcomes[kind, said.split()[0]] += 1
        print(kind, said)
        assert not said.startswith("ended"), (kind, file, said)
    looker.end()
