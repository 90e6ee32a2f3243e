"""Many threads on one store, and how long they hold each other up.

TWOFOLD_CONCURRENCY_ROUNDS and TWOFOLD_STALL_POINTS make the run longer.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import models as m

from twofold.embedded import EmbeddedClient, collection, embedded_client, optimize

from .conftest import payload_of

ROUNDS = int(os.environ.get("TWOFOLD_CONCURRENCY_ROUNDS", "2"))
STALL_POINTS = int(os.environ.get("TWOFOLD_STALL_POINTS", "5000"))
STALL_LIMIT = float(os.environ.get("TWOFOLD_STALL_LIMIT", "0.25"))
WRITERS = READERS = 8
BATCHES = 10


def run_all(*work: Callable[[], None]) -> list[BaseException]:
    failures: list[BaseException] = []

    def guarded(job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(job,)) for job in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


def batch(writer: int, number: int) -> list[m.PointStruct]:
    rng = random.Random(writer * 1000 + number)
    ids = [writer * 100_000 + number * 100 + n for n in range(20)]
    return [m.PointStruct(id=i, vector=[rng.random() for _ in range(8)], payload={"w": writer}) for i in ids]


@pytest.mark.parametrize("round_", range(ROUNDS))
def test_writers_and_readers(tmp_path: Path, round_: int) -> None:
    client = embedded_client(tmp_path)
    client.create_collection("c", m.VectorParams(size=8, distance=m.Distance.DOT))
    client.create_payload_index("c", "w", m.PayloadSchemaType.INTEGER)
    writing = threading.Barrier(WRITERS + READERS)
    left = iter(range(WRITERS - 1))
    ended = threading.Event()

    def write(writer: int) -> None:
        writing.wait()
        try:
            for number in range(BATCHES):
                client.upsert("c", batch(writer, number))
                client.set_payload("c", {"seen": number}, [writer * 100_000])
                client.delete("c", [writer * 100_000 + number * 100 + 1])
        finally:  # readers read until all have ended, by an error or not
            if next(left, None) is None:
                ended.set()

    def read() -> None:
        writing.wait()
        while not ended.is_set():
            client.query_points("c", [1.0] * 8, limit=5)
            mine = m.Filter(must=[m.FieldCondition(key="w", match=m.MatchValue(value=0))])
            # Each batch of twenty appears at once, then loses one.
            assert client.count("c", mine).count % 19 in (0, 1)

    jobs = [lambda writer=writer: write(writer) for writer in range(WRITERS)] + [read] * READERS
    assert run_all(*jobs) == []
    client.close()
    again = embedded_client(tmp_path)
    assert again.count("c").count == WRITERS * BATCHES * 19
    assert all(payload_of(again.retrieve("c", [w * 100_000])[0])["seen"] == BATCHES - 1 for w in range(WRITERS))
    again.close()


def test_collections_come_and_go_meanwhile(client: EmbeddedClient) -> None:
    def churn(name: str) -> None:
        for _ in range(3):
            client.create_collection(name, {})
            client.upsert(name, [m.PointStruct(id=1, vector={})])
            assert client.count(name).count == 1
            client.delete_collection(name)

    assert run_all(*[lambda name=f"c{n}": churn(name) for n in range(4)]) == []
    assert client.get_collections().collections == []


class EngineCalls:
    """The longest that one call of the engine kept Python's global lock, and with it every other thread.

    On a busy machine a call takes longer because others are at work. Then this process computes nothing meanwhile, so
    the time that it computed is the measure.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, self.longest = 0, 0.0
        for module in (collection, optimize):
            monkeypatch.setattr(module, "call", self._watched(module.call))

    def _watched(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(function: Callable[..., Any], *args: Any) -> Any:
            began, computed = time.perf_counter(), time.process_time()
            try:
                return call(function, *args)
            finally:
                took = min(time.perf_counter() - began, time.process_time() - computed)
                self.count, self.longest = self.count + 1, max(self.longest, took)

        return watched


def test_ingestion_does_not_stall_other_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TWOFOLD_STALL_POINTS=100000 is the full measurement."""
    rng = random.Random(5)
    client = embedded_client(tmp_path)
    client.create_collection("c", m.VectorParams(size=384, distance=m.Distance.COSINE))
    calls = EngineCalls(monkeypatch)
    for start in range(0, STALL_POINTS, 1000):
        points = [
            m.PointStruct.model_construct(id=start + n, vector=[rng.random() for _ in range(384)], payload=None)
            for n in range(1000)
        ]
        client.upsert("c", points)
    assert calls.longest < STALL_LIMIT
    assert calls.count > STALL_POINTS / 1000  # each batch of a thousand is cut into pieces
    client.close()


def test_optimising_does_not_stall_other_threads(client: EmbeddedClient, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(6)
    client.create_collection(
        "c",
        m.VectorParams(size=64, distance=m.Distance.COSINE),
        optimizers_config=m.OptimizersConfigDiff(indexing_threshold=10),
    )
    client.upload_points("c", (m.PointStruct(id=n, vector=[rng.random() for _ in range(64)]) for n in range(3000)))
    calls = EngineCalls(monkeypatch)
    client.optimize("c")
    assert calls.count > 0
    assert calls.longest < STALL_LIMIT
