"""One test, every engine, blocking and awaited: a memory that looks the same whatever is behind it.

Making a collection takes longest, so all tests share one for each engine, and each has users of its own.
"""

from __future__ import annotations

import asyncio
import atexit
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import count
from typing import Any

from qdrant_client import AsyncQdrantClient, QdrantClient

from tests.faces import _endpoint
from tests.kit.engines import SERVERS, server_client, server_options
from twofold import Memory, embedded_client
from twofold.testing import HashEmbedding

EVERY = (
    *("embedded-sync", "embedded-async", "local-async", "http-sync"),
    *(("server-sync", "grpc-async") if SERVERS else ()),
)

Opener = Callable[..., "MemoryFace"]


class MemoryFace:
    """The methods of a memory, blocking, whether they are awaited underneath or not."""

    def __init__(self, memory: Memory, loop: asyncio.AbstractEventLoop | None) -> None:
        self.memory = memory
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.memory, name if self._loop is None else f"a{name}")
        return lambda *args, **kwargs: finish(self._loop, method(*args, **kwargs))

    def for_user(self, user: str, **narrower: Any) -> MemoryFace:
        return MemoryFace(self.memory.for_user(user, **narrower), self._loop)

    def in_project(self, project: str) -> MemoryFace:
        return MemoryFace(self.memory.in_project(project), self._loop)

    def knowledge(self, **given: Any) -> MemoryFace:
        return MemoryFace(self.memory.knowledge(**given), self._loop)

    @property
    def raw(self) -> Raw:
        return Raw(self)


def finish(loop: asyncio.AbstractEventLoop | None, value: Any) -> Any:
    return loop.run_until_complete(value) if loop and asyncio.iscoroutine(value) else value


class Raw:
    """The engine itself, past everything that a memory checks."""

    def __init__(self, face: MemoryFace) -> None:
        self._face = face
        connection: Any = face.memory.index._connection
        served = _endpoint() if connection.location == _endpoint().url else None
        self._client = getattr(connection, "_client", None) or (served._client if served else server_client())
        self._collection = face.memory.index._wish.collection

    def _call(self, method: str, **arguments: Any) -> Any:
        value = getattr(self._client, method)(collection_name=self._collection, **arguments)
        return finish(self._face._loop, value)

    def set(self, identity: str, **fields: Any) -> None:
        """Change fields of a row: `text`, or those of its metadata."""
        if "text" in fields:
            self._call("set_payload", payload={"text": fields.pop("text")}, points=[str(identity)])
        if fields:
            self._call("set_payload", payload=fields, key="metadata", points=[str(identity)])

    def drop(self, identity: str, *fields: str) -> None:
        self._call("delete_payload", keys=[f"metadata.{name}" for name in fields], points=[str(identity)])

    def rows(self) -> dict[str, dict[str, Any]]:
        """Everything that is stored for the user, or about them."""
        points, _ = self._call("scroll", limit=100_000, with_payload=True)
        own = [point for point in points if point.payload["metadata"].get("user") == self._face.memory.user]
        return {str(point.id): point.payload for point in own}


@lru_cache
def place(engine: str, style: str) -> tuple[Any, str]:
    """Where all tests of one process keep their memories: a location, and a collection."""
    if engine == "http":
        return _endpoint().url, f"memories-{uuid.uuid4().hex}"
    if engine in SERVERS:
        return server_options(engine)["url"], "memories"
    if engine == "local":
        return (QdrantClient if style == "sync" else AsyncQdrantClient)(":memory:"), "memories"
    client = embedded_client(":memory:")
    atexit.register(client.close)
    return client, "memories"


@lru_cache
def _of_this_run(engine: str, collection: str) -> str:
    """A name that no other run uses: a real server keeps what it was given, until the end of this one."""
    name = f"{collection}-{engine}-{uuid.uuid4().hex}"
    atexit.register(lambda: server_client().delete_collection(name))
    return name


_numbers = count()


@contextmanager
def opening(which: str) -> Iterator[Opener]:
    """A function that opens memories on one engine, of a new user unless one is named; all are closed at the end."""
    engine, style = which.rsplit("-", 1)
    location, collection = place(engine, style)
    loop = asyncio.new_event_loop() if style == "async" else None
    faces: list[MemoryFace] = []

    def opener(user: str | None = None, **arguments: Any) -> MemoryFace:
        given = {"location": location, "collection": collection, "dense": HashEmbedding(), **arguments}
        if engine in SERVERS:
            given = {**server_options(engine), **given, "collection": _of_this_run(engine, given["collection"])}
            del given["url"]
        opened = (Memory.open if loop is None else Memory.aopen)(
            given.pop("location"), user=user or f"user {next(_numbers)}", **given
        )
        face = MemoryFace(finish(loop, opened), loop)
        faces.append(face)
        return face

    try:
        yield opener
    finally:
        for face in faces:
            face.close()
        if loop is not None:
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()
