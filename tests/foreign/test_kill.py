"""Killed at any request and started again, `adopt` and `reembed` lose nothing and double nothing.

TWOFOLD_REWRITE_KILLS=10 is the long version; each run begins where the last one was killed.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from qdrant_client import models

from tests.foreign.dies import OTHER, opened
from tests.foreign.shelf import Model, snapshot
from tests.foreign.write import COLLECTION, DIM
from twofold import embedded_client

KILLS = int(os.environ.get("TWOFOLD_REWRITE_KILLS", "1"))
ROWS = 300


def write(folder: Path) -> dict[object, object]:
    """As LangChain does it: two pages of rows."""
    store = embedded_client(folder)
    store.create_collection(COLLECTION, models.VectorParams(size=DIM, distance=models.Distance.COSINE))
    texts = [f"note {number} says kappa{number} of lambda{number % 7}" for number in range(ROWS)]
    points = [
        models.PointStruct(id=number, vector=Model().embed_query(text), payload={"page_content": text, "metadata": {}})
        for number, text in enumerate(texts)
    ]
    store.upsert(COLLECTION, points)
    payloads = {row: payload for row, (payload, _) in snapshot(store).items()}
    store.close()
    return payloads


@pytest.mark.slow
@pytest.mark.parametrize("action", ["adopt", "reembed"])
def test_killed_and_started_again(action: str, tmp_path: Path) -> None:
    before = write(tmp_path / "store")
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # shown where the test fails
    chance = random.Random(seed)
    killed = 0
    for _ in range(KILLS):
        code = run(tmp_path / "store", action, chance.randrange(22))
        killed += code == -signal.SIGKILL
        assert code in (0, -signal.SIGKILL)
        index = opened(str(tmp_path / "store"), action)
        assert index.count() == ROWS
        assert index.search("kappa150", k=1)[0].text.startswith("note 150 ")
        index.close()
    assert run(tmp_path / "store", action, -1) == 0
    store = embedded_client(tmp_path / "store")
    names = [each.name for each in store.get_collections().collections]
    assert names == ([COLLECTION] if action == "adopt" else [COLLECTION, f"{COLLECTION}~2"])
    assert {row: payload for row, (payload, _) in snapshot(store, names[-1]).items()} == before
    assert {row: payload for row, (payload, _) in snapshot(store).items()} == before
    for row, (_, vector) in snapshot(store, names[-1]).items():
        assert len(vector[""]) == (DIM if action == "adopt" else OTHER.dim), row
        assert vector["bm25"]["indices"], row
    store.close()
    index = opened(str(tmp_path / "store"), action)
    assert (index.search("kappa7").mode, index.search("kappa7").degraded) == ("hybrid", None)
    index.close()
    assert killed or KILLS < 10


def run(folder: Path, action: str, requests: int) -> int:
    command = [sys.executable, "-m", "tests.foreign.dies", str(folder), action, str(requests)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode
