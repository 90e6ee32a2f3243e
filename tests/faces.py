"""One test, every engine, blocking and awaited: a face looks the same whatever is behind it. And no waiting."""

from __future__ import annotations

import asyncio
import atexit
import time
import uuid
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import AsyncQdrantClient, QdrantClient

from tests.kit.engines import SERVERS, server_client, server_options
from tests.kit.rest import RestServer
from twofold import HybridIndex, SearchResult, embedded_client
from twofold.testing import HashEmbedding

STYLES = ("sync", "async")
ENGINES = ("memory", "path", "local", "http", *SERVERS)


class Face:
    """The methods of an index, blocking, whether they are awaited underneath or not."""

    def __init__(self, open_index: Callable[[], Any], style: str) -> None:
        self._loop = asyncio.new_event_loop() if style == "async" else None
        try:
            self.index: HybridIndex = self._finish(open_index())
        except BaseException:
            self._stop_loop()
            raise

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return self._finish(getattr(self.index, f"a{name}" if self._loop else name)(*args, **kwargs))

    def search(self, *args: Any, **kwargs: Any) -> SearchResult:
        result: SearchResult = self._call("search", *args, **kwargs)
        return result

    def add(self, *args: Any, **kwargs: Any) -> list[str]:
        ids: list[str] = self._call("add", *args, **kwargs)
        return ids

    def get(self, ids: Any) -> Any:
        return self._call("get", ids)

    def count(self, *args: Any, **kwargs: Any) -> int:
        number: int = self._call("count", *args, **kwargs)
        return number

    def delete(self, *args: Any, **kwargs: Any) -> int:
        number: int = self._call("delete", *args, **kwargs)
        return number

    def _finish(self, value: Any) -> Any:
        return self._loop.run_until_complete(value) if self._loop and asyncio.iscoroutine(value) else value

    def _stop_loop(self) -> None:
        if self._loop:
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    def shut(self) -> None:
        self._call("close")
        self._stop_loop()


@lru_cache(maxsize=1)
def _endpoint() -> RestServer:
    """One for the whole run: what opens on it takes a collection of its own."""
    server = RestServer(lambda: embedded_client(":memory:")).start()
    atexit.register(server.close)
    return server


def open_face(engine: str, style: str, folder: Path, collection: str, arguments: dict[str, Any]) -> Face:
    arguments.setdefault("dense", HashEmbedding())
    location: Any = {"memory": ":memory:", "path": folder / "store"}.get(engine)
    if engine == "local":
        location = AsyncQdrantClient(":memory:") if style == "async" else QdrantClient(":memory:")
    if engine in ("http", *SERVERS):
        collection = f"{collection}-{uuid.uuid4().hex}"
        location = _endpoint().url
    if engine in SERVERS and "location" not in arguments:
        arguments |= server_options(engine)
        location = arguments.pop("url")
    opening = HybridIndex.aopen if style == "async" else HybridIndex.open
    return Face(lambda: opening(arguments.pop("location", location), collection, **arguments), style)


def clear_away(engine: str, face: Face) -> None:
    """A real server keeps what it was given."""
    if engine in SERVERS:
        server_client().delete_collection(face.index.collection)


# Half of the first pause between tries: so much is left of it when chance takes the most away.
_SHORTEST_PAUSE_SECONDS = 0.05


class Pauses:
    """Stands in for sleeping: puts down for how long, and calls `meanwhile` in the second pause."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken: list[float] = []
        self.meanwhile: Callable[[], object] = lambda: None
        self._sleep, self._asleep = time.sleep, asyncio.sleep
        monkeypatch.setattr(time, "sleep", self._pause)
        monkeypatch.setattr(asyncio, "sleep", self._apause)

    def _pause(self, seconds: float) -> None:
        if seconds < _SHORTEST_PAUSE_SECONDS:  # somebody else's, such as the store's
            return self._sleep(seconds)
        return self._take(seconds)

    async def _apause(self, seconds: float, result: Any = None) -> Any:
        if seconds < _SHORTEST_PAUSE_SECONDS:
            return await self._asleep(seconds, result)
        return self._take(seconds)

    def _take(self, seconds: float) -> None:
        self.taken.append(seconds)
        if len(self.taken) == 2:
            self.meanwhile()
