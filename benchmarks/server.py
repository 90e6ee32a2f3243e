"""What Twofold adds on a Qdrant server: each search beside its own request, sent by the client alone.

All in turns and in one run, so that a machine that is slower for a while is slower for all. Encoding is left out.
"""

from __future__ import annotations

import argparse
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from qdrant_client import QdrantClient
from rich.console import Console
from rich.table import Table

from benchmarks import recall
from benchmarks.data import Data
from benchmarks.engines import BATCH, K, known_encoders
from twofold import Document, HybridIndex, Memory

_WARM_UP = 20
_WIDTH = 110
Took = dict[str, tuple[float, float]]
"""For each way to search, the median of its milliseconds, and of those of its request alone."""


class Recorded(QdrantClient):
    """A client that remembers what it was last asked for."""

    asked: tuple[Any, Any] = (None, None)

    def query_batch_points(self, collection_name: str, requests: Any, *rest: Any, **options: Any) -> Any:
        self.asked = collection_name, requests
        return super().query_batch_points(collection_name, requests, *rest, **options)


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.server", description=__doc__)
    parser.add_argument("--url", default=os.environ.get("QDRANT_URL", "http://localhost:6333"))
    parser.add_argument("--grpc-port", type=int, default=int(os.environ.get("QDRANT_GRPC_PORT", "6334")))
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--memories", type=int, default=2_000)
    parser.add_argument("--queries", type=int, default=200)
    chosen = parser.parse_args(words)
    data, memories = Data(chosen.points, chosen.queries), Data(chosen.memories, chosen.queries)
    asked: dict[str, Any] = {"api_key": os.environ.get("QDRANT_API_KEY"), "timeout": 120}
    with filled(chosen.url, asked, data, memories) as collections:
        over = {
            "REST": measure(chosen.url, asked, collections, data, memories),
            "gRPC": measure(
                chosen.url, {**asked, "prefer_grpc": True, "grpc_port": chosen.grpc_port}, collections, data, memories
            ),
        }
    table = Table(title=f"p50, {data.points:,} texts, {memories.points:,} memories", title_justify="left")
    for column in ("", *(f"{name} {what}" for name in over for what in ("ms", "request alone", "ratio"))):
        table.add_column(column, justify="right" if column else "left")
    for way in over["REST"]:
        pairs = (took[way] for took in over.values())
        table.add_row(
            way, *(cell for ours, raw in pairs for cell in (f"{ours:.2f}", f"{raw:.2f}", f"{ours / raw:.2f}"))
        )
    Console(width=max(Console().width, _WIDTH)).print(table)


@contextmanager
def filled(url: str, asked: dict[str, Any], data: Data, memories: Data) -> Iterator[tuple[str, str]]:
    """A collection of texts and one of memories, which are gone afterwards."""
    collections = f"speed-{uuid.uuid4().hex}", f"speed-memories-{uuid.uuid4().hex}"
    try:
        with HybridIndex.open(url, collections[0], **known_encoders(data), **asked) as index:
            payloads = map(data.payload, range(data.points))
            documents = (Document(each["text"], id=each["id"], metadata=each["metadata"]) for each in payloads)
            index.add(documents, batch_size=BATCH)
        with Memory.open(url, collection=collections[1], **remembered(memories), **asked) as memory:
            recall.fill(memory, memories.points)
        yield collections
    finally:
        client = QdrantClient(url=url, check_compatibility=False, **asked)
        for name in collections:
            client.delete_collection(name)
        client.close()


def remembered(memories: Data) -> dict[str, Any]:
    return {"user": "ada", "dense": recall.prepared(memories), "config": recall.CONFIG}


def measure(url: str, asked: dict[str, Any], collections: tuple[str, str], data: Data, memories: Data) -> Took:
    """Every way to search by one protocol, and its requests alone."""
    with ExitStack() as ending:
        client = Recorded(url=url, check_compatibility=False, **asked)
        ending.callback(client.close)
        kept = recall.questions(memories.points, memories.queries)

        def ways(place: Any, options: dict[str, Any]) -> dict[str, Callable[[int], Any]]:
            index = ending.enter_context(HybridIndex.open(place, collections[0], **known_encoders(data), **options))
            memory = ending.enter_context(
                Memory.open(place, collection=collections[1], **remembered(memories), **options)
            )
            return {
                "search": lambda i: index.search(str(i), K),
                "search, explained": lambda i: index.search(str(i), K, explain=True),
                "search, rrf": lambda i: index.search(str(i), K, fusion="rrf"),
                "search, alpha 0": lambda i: index.search(str(i), K, alpha=0.0),
                "search, alpha 1": lambda i: index.search(str(i), K, alpha=1.0),
                "recall": lambda i: memory.recall(kept[i], K),
                "recall, explained": lambda i: memory.recall(kept[i], K, explain=True),
            }

        ours, recorded = ways(url, asked), ways(client, {})
        took: dict[str, list[tuple[float, float]]] = {way: [] for way in ours}
        for turn in range(-_WARM_UP, data.queries):
            for way, search in ours.items():
                number = turn % data.queries
                recorded[way](number)  # what it asks for; now its vector is known, too
                collection, requests = client.asked
                pair = timed(search, number), timed(client.query_batch_points, collection, requests)
                took[way] += [pair] if turn >= 0 else []
    medians = {way: np.median(pairs, axis=0) for way, pairs in took.items()}
    return {way: (float(ours), float(alone)) for way, (ours, alone) in medians.items()}


def timed(call: Callable[..., Any], *arguments: Any) -> float:
    began = time.perf_counter()
    call(*arguments)
    return (time.perf_counter() - began) * 1e3


if __name__ == "__main__":
    main()
