"""Files that were damaged, one after the other: each is noticed and named, and nothing else suffers.

TWOFOLD_DAMAGE_ROUNDS=5 is the full run: every kind of file so often, in stores that were closed and in one that crashed.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from qdrant_client import models

from twofold.embedded import StoreError, embedded_client

from .conftest import fill, sample_points
from .processes import start

ROUNDS = int(os.environ.get("TWOFOLD_DAMAGE_ROUNDS", "0"))
# Opens a store whose collection `notes` is damaged and `other` is not, and uses both.
LOOK = """
import sys
from qdrant_client import models
from twofold.embedded import EngineFailure, StoreError, embedded_client
client = embedded_client(sys.argv[1], optimize="manual")
assert client.count("other").count == 60
client.upsert("other", [models.PointStruct(id=7000, vector={})])
try:
    records, _ = client.scroll("notes", limit=1000, with_vectors=True)
    client.query_points("notes", query=[1.0, 0.0, 0.0, 0.0], using="dense", limit=10)
    client.query_points("notes", query=models.SparseVector(indices=[1, 2], values=[1.0, 1.0]), using="words")
    print("opened", len(records))
except (StoreError, EngineFailure) as error:
    print("refused", " ".join(str(error).split()))
client.close()
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
    client.upsert("other", [models.PointStruct(id=n, vector={"dense": [n, 1, 0, 0]}) for n in range(60)])
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


def look(store: Path) -> str:
    """What a process says that opens the store: one that ends by itself, in its own words."""
    looking = start(LOOK, store)
    try:
        said, complaint = looking.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        looking.kill()
        raise
    assert looking.returncode == 0, complaint[-2000:]
    return said.strip()
