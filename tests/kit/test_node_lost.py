"""A node of a cluster dies in the middle of writing and searching, and comes back.

It needs a cluster, and two commands of whoever runs it: `QDRANT_KILL` ends one node, not the one at `QDRANT_URL`, as
hard as it can, and `QDRANT_START` starts it again. `QDRANT_OTHER_URLS` has the other nodes' addresses, with commas
between them. `make server` runs this by itself, after everything else.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from qdrant_client import QdrantClient, models

from tests.kit.engines import SERVERS, server_client, server_options
from twofold import CollectionSettings, EngineUnavailable, HybridIndex
from twofold.documents import point_id
from twofold.testing import HashEmbedding

OTHERS = [url for url in os.environ.get("QDRANT_OTHER_URLS", "").split(",") if url]
KILL, START = os.environ.get("QDRANT_KILL", ""), os.environ.get("QDRANT_START", "")

AUTHORS = ("Ada", "Bob", "Cid", "Dee")
WRITES = SEARCHES = 2000
WRITERS, READERS = 4, 2
TIMEOUT = 30.0
# Beyond its deadline a call may take what a busy machine takes to notice it.
GRACE = 30.0
PATIENCE_SECONDS = 120.0


@dataclass
class Calls:
    """What became of calls of one kind."""

    done: list[int] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    took: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{len(self.done):,} answered, {len(self.refused)} given up, slowest {max(self.took):.2f} s"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("which", ["server-sync", "server-async", "grpc-sync", "grpc-async"])
async def test_a_node_killed_and_back_loses_nothing(which: str) -> None:
    if not (SERVERS and OTHERS and KILL and START):
        pytest.skip("needs a cluster: QDRANT_URL, QDRANT_OTHER_URLS, and the commands QDRANT_KILL and QDRANT_START")
    engine, style = which.split("-")
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(WRITERS + READERS + 4))
    name, settings = f"lost-{uuid.uuid4().hex}", CollectionSettings(shard_number=2, replication_factor=2)
    options = {**server_options(engine), "dense": HashEmbedding(), "timeout": TIMEOUT, "settings": settings}
    index = await HybridIndex.aopen(options.pop("url"), name, **options)
    try:
        await index.aadd([_text(number) for number in range(100)], ids=[f"first-{number}" for number in range(100)])
        written, found = await _under_load(index, style, lambda: _whole(name))
        print(f"{which}: writes {written}; searches {found}")
        await _until(lambda: _whole(name))
        assert len(written.done) + len(written.refused) == WRITES
        assert len(found.done) + len(found.refused) == SEARCHES
        assert max(written.took + found.took) < TIMEOUT + GRACE
        for url in (os.environ["QDRANT_URL"], *OTHERS):
            assert await asyncio.to_thread(_missing, url, name, written.done) == []
    finally:
        await index.aclose()
        server_client().delete_collection(name)


async def _under_load(index: HybridIndex, style: str, whole: Callable[[], bool]) -> tuple[Calls, Calls]:
    """Writes and searches, during which a node dies and comes back."""
    written, found = Calls(), Calls()
    back = asyncio.Event()

    async def add(number: int) -> None:
        one: dict[str, Any] = {"documents": [_text(number)], "ids": [f"n{number}"]}
        await (index.aadd(**one) if style == "async" else asyncio.to_thread(partial(index.add, **one)))

    async def search(number: int) -> None:
        query = f"who wrote note {number} about the tunnel"
        result = await (index.asearch(query) if style == "async" else asyncio.to_thread(index.search, query))
        assert len(result) == 10

    async def lose_a_node() -> None:
        await _until(lambda: len(written.done) >= WRITES // 4 and len(found.done) >= SEARCHES // 4)
        await asyncio.to_thread(_run, KILL)
        await _until(lambda: not whole())  # else the command killed nobody who has a part in this
        await _until(lambda: len(written.took) >= WRITES // 2 and len(found.took) >= SEARCHES // 2)
        await asyncio.to_thread(_run, START)
        back.set()

    # The last quarter of both waits for the node, so that all this happens in the middle, however quick the server is.
    writing, searching = (_numbers(count, count * 3 // 4) for count in (WRITES, SEARCHES))
    await asyncio.gather(
        lose_a_node(),
        *(_work(writing, add, written, back) for _ in range(WRITERS)),
        *(_work(searching, search, found, back) for _ in range(READERS)),
    )
    return written, found


def _numbers(count: int, waiting_from: int) -> Iterator[tuple[int, bool]]:
    return ((number, number >= waiting_from) for number in range(count))


async def _work(
    numbers: Iterator[tuple[int, bool]], call: Callable[[int], Awaitable[Any]], calls: Calls, back: asyncio.Event
) -> None:
    for number, wait in numbers:
        if wait:
            await back.wait()
        began = time.monotonic()
        try:
            await call(number)
            calls.done.append(number)
        except EngineUnavailable as error:  # said so, in time: then nothing was promised
            calls.refused.append(str(error))
        calls.took.append(time.monotonic() - began)


def _text(number: int) -> str:
    return f"note {number} about the tunnel, written by {AUTHORS[number % 4]}"


def _run(command: str) -> None:
    subprocess.run(command, shell=True, check=True, timeout=PATIENCE_SECONDS, stdout=subprocess.DEVNULL)


def _whole(collection: str) -> bool:
    """Every copy of every shard is there and up to date."""
    info = server_client().collection_cluster_info(collection)
    states = {shard.state for shard in info.local_shards} | {shard.state for shard in info.remote_shards}
    return states == {models.ReplicaState.ACTIVE} and not info.shard_transfers


async def _until(condition: Callable[[], bool]) -> None:
    ending = time.monotonic() + PATIENCE_SECONDS
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < ending, "the cluster is not in the state that was waited for"
        await asyncio.sleep(0.05)


def _missing(url: str, collection: str, numbers: list[int]) -> list[int]:
    """What was acknowledged and is not in every copy, as this node sees it."""
    client = QdrantClient(url=url, api_key=os.environ.get("QDRANT_API_KEY"), timeout=60, check_compatibility=False)
    by_point = {point_id(f"n{number}"): number for number in numbers}
    records = client.retrieve(
        collection, list(by_point), with_payload=False, consistency=models.ReadConsistencyType.ALL
    )
    client.close()
    return sorted(by_point[point] for point in by_point.keys() - {str(record.id) for record in records})
