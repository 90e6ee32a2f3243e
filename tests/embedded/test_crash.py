"""kill -9 at random moments of ingestion. TWOFOLD_CRASH_ROUNDS=100 is the full run."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from twofold import Document, HybridIndex
from twofold.embedded import EmbeddedClient, embedded_client
from twofold.testing import HashEmbedding

from .conftest import payload_of, vectors_of
from .processes import start

ROUNDS = int(os.environ.get("TWOFOLD_CRASH_ROUNDS", "2"))
LARGE_ROUNDS = max(1, ROUNDS // 5)
BATCH = 40
# Everything is read back after each kill, which would take ever longer in a store that grows for a hundred rounds.
ROUNDS_A_STORE = 10

# Ingests batch after batch and prints the number of each one that was acknowledged. Every point of batch b
# carries b in its payload and both vectors, so that half a point or half an overwrite would show.
INGEST = """
import sys
from qdrant_client import models as m
from twofold.embedded import embedded_client
path, first, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
client = embedded_client(path)
if not client.collection_exists("c"):
    client.create_collection(
        "c",
        {"d": m.VectorParams(size=64, distance=m.Distance.DOT)},
        {"s": m.SparseVectorParams(modifier="idf")},
    )
    client.create_payload_index("c", "batch", m.PayloadSchemaType.INTEGER)
print("ready", flush=True)
for batch in range(first, first + 100_000):
    points = [
        m.PointStruct(
            id=batch * size + n, vector={"d": [float(batch)] * 64, "s": m.SparseVector(indices=[1, 2 + n],
            values=[1.0, float(batch)])}, payload={"batch": batch, "n": n},
        )
        for n in range(size)
    ]
    client.upsert("c", points)
    if batch % 3 == 0:
        client.set_payload("c", {"touched": batch}, [batch * size])
    print(batch, flush=True)
"""


def crash(path: Path, first: int, moment: float, ingest: str = INGEST, size: int = BATCH) -> int:
    """Run the ingestion, kill it, and return the last batch that was acknowledged."""
    process = start(ingest, path, first, size)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(moment)
    process.send_signal(signal.SIGKILL)
    said = process.stdout.read().split()
    process.wait()
    return int(said[-1]) if said else first - 1


def whole_batches(client: EmbeddedClient) -> dict[int, int]:
    """Points per batch; checks that no point is half-written."""
    counts: dict[int, int] = {}
    offset = None
    while True:
        records, offset = client.scroll("c", limit=2000, offset=offset, with_vectors=True)
        for record in records:
            payload, vectors = payload_of(record), vectors_of(record)
            batch = payload["batch"]
            assert record.id == batch * BATCH + payload["n"]
            assert vectors["d"] == [float(batch)] * 64
            assert vectors["s"].values == [1.0, float(batch)]
            counts[batch] = counts.get(batch, 0) + 1
        if offset is None:
            return counts


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
def test_no_acknowledged_batch_is_lost_and_none_is_half_there(tmp_path: Path) -> None:
    rng = random.Random(time.time_ns())
    for first in range(0, ROUNDS, ROUNDS_A_STORE):
        next_batch = 1
        for _ in range(first, min(ROUNDS, first + ROUNDS_A_STORE)):
            next_batch = one_round(tmp_path / str(first), next_batch, rng.uniform(0.02, 1.0))


LARGE = 500
# Batches of documents beyond what is written in one piece.
INGEST_LARGE = """
import sys
from twofold import Document, HybridIndex
from twofold.testing import HashEmbedding
path, first, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
index = HybridIndex.open(path, dense=HashEmbedding())
print("ready", flush=True)
for batch in range(first, first + 100_000):
    index.add([Document(text=f"memory {n} of batch {batch}", id=f"{batch}-{n}") for n in range(size)])
    print(batch, flush=True)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
def test_of_a_large_batch_a_beginning_is_there_and_adding_it_again_completes_it(tmp_path: Path) -> None:
    rng, next_batch = random.Random(time.time_ns()), 1
    for number in range(LARGE_ROUNDS):
        path = tmp_path / str(number // ROUNDS_A_STORE)
        first = 1 if number % ROUNDS_A_STORE == 0 else next_batch
        acknowledged = crash(path, first, rng.uniform(0.02, 1.0), INGEST_LARGE, LARGE)
        with HybridIndex.open(path, dense=HashEmbedding()) as index:
            there = [batch_of(index, batch) for batch in range(1, acknowledged + 2)]
            assert all(ids == list(range(LARGE)) for ids in there[:-1])
            assert there[-1] == list(range(len(there[-1])))  # in order, so a beginning
            again = [
                Document(text=f"memory {n} of batch {acknowledged + 1}", id=f"{acknowledged + 1}-{n}")
                for n in range(LARGE)
            ]
            index.add(again)
            assert index.count() == LARGE * (acknowledged + 1)
        next_batch = acknowledged + 2


def batch_of(index: HybridIndex, batch: int) -> list[int]:
    """The numbers of its documents that are there, each whole."""
    found = [document for document in index.get([f"{batch}-{n}" for n in range(LARGE)]) if document]
    assert all(d.text == f"memory {str(d.id).split('-')[1]} of batch {batch}" for d in found)
    return [int(str(document.id).split("-")[1]) for document in found]


def one_round(path: Path, next_batch: int, moment: float) -> int:
    """Ingest, kill, look at everything; returns where to go on: the interrupted batch again, with the same ids."""
    acknowledged = crash(path, next_batch, moment)
    client = embedded_client(path)
    counts = whole_batches(client)
    assert set(range(1, acknowledged + 1)) <= set(counts)
    assert set(counts.values()) <= {BATCH}
    assert max(counts, default=0) <= acknowledged + 1
    payloads = map(payload_of, client.scroll("c", limit=10_000_000)[0])
    touched = {payload["batch"] for payload in payloads if "touched" in payload}
    assert {b for b in range(1, acknowledged + 1) if b % 3 == 0} <= touched
    client.close()
    return acknowledged + 1
