"""What the scenario tests share: one engine for all memories of a module, since making a collection takes longest."""

from __future__ import annotations

from itertools import count
from typing import Any

from twofold import Explanation, Memory, MemoryResult, embedded_client
from twofold.testing import HashEmbedding


class Model(HashEmbedding):
    """Counts the queries that it encodes, and can be down."""

    def __init__(self) -> None:
        super().__init__()
        self.down = False
        self.queries: list[str] = []

    def embed_query(self, text: str) -> list[float]:
        if self.down:
            raise ConnectionError("the embedding service is down")
        self.queries.append(text)
        return super().embed_query(text)


class Store:
    """Opens memories on one engine, each for a new user unless one is named."""

    def __init__(self, **options: Any) -> None:
        self.client = embedded_client(":memory:")
        self._options = options
        self._users = count()
        self._memories: list[Memory] = []

    def open(self, user: str | None = None, **options: Any) -> Memory:
        """Memories, with settings of their own."""
        memory = Memory.open(self.client, user=user or f"user {next(self._users)}", **{**self._options, **options})
        self._memories.append(memory)
        return memory

    def close(self) -> None:
        """Close the memories, then the engine."""
        for memory in self._memories:
            memory.close()
        self.client.close()


def why(result: MemoryResult) -> list[Explanation]:
    """The explanations of all hits."""
    found = [hit.explanation for hit in result if hit.explanation is not None]
    assert len(found) == len(result)
    return found


def texts(result: MemoryResult) -> list[str]:
    """The texts of all hits, best first."""
    return [hit.text for hit in result]
