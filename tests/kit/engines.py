"""Every engine, blocking and awaited, behind one face: the methods of a QdrantClient."""

from __future__ import annotations

import asyncio
import inspect
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from grpc import RpcError  # type: ignore[import-untyped]
from qdrant_client import AsyncQdrantClient, QdrantClient
from qdrant_client.http.exceptions import UnexpectedResponse

from tests.kit.process import RestProcess
from tests.kit.rest import RestServer
from twofold.embedded import async_embedded_client, embedded_client
from twofold.engine.client import _GRPC_STATUS, grpc_code

STYLES = ("sync", "async")
SERVERS = ("server", "grpc") if os.environ.get("QDRANT_URL") else ()
"""A real server, over REST and over gRPC."""
ENGINES = ("local", "embedded", "http", *SERVERS)


def server_options(engine: str) -> dict[str, Any]:
    """How a client reaches the real server, or one node of the cluster."""
    options: dict[str, Any] = {"url": os.environ["QDRANT_URL"], "api_key": os.environ.get("QDRANT_API_KEY")}
    if engine == "grpc":
        options |= {"prefer_grpc": True, "grpc_port": int(os.environ.get("QDRANT_GRPC_PORT", "6334"))}
    return options


@lru_cache(maxsize=1)
def server_client() -> QdrantClient:
    """For what a test has to do on the real server besides."""
    return QdrantClient(**server_options("server"), timeout=60, check_compatibility=False)


@lru_cache(maxsize=1)
def _server_version() -> tuple[int, ...]:
    return tuple(int(number) for number in server_client().info().version.split(".")[:2])


def needs(engine: str, *version: int) -> None:
    """Skip a test of what only newer servers have."""
    if engine in SERVERS and _server_version() < version:
        pytest.skip(f"needs Qdrant {'.'.join(map(str, version))}")


class Engine:
    """A client of one engine. Its methods block, whether they are awaited underneath or not."""

    def __init__(self, name: str, style: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.rest: RestServer | None = None
        self.process: RestProcess | None = None
        self._loop = asyncio.new_event_loop() if style == "async" else None
        self._made: list[str] = []
        self._serve()
        self.client: Any = self._open()

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method.startswith("_") or "client" not in self.__dict__:
            raise AttributeError(method)
        return lambda *args, **kwargs: self._finish(getattr(self.client, method)(*args, **kwargs))

    @property
    def indexes(self) -> bool:
        """Has payload indexes; local mode ignores them, with a warning."""
        return self.name != "local"

    def new_collection(self, *args: Any, **kwargs: Any) -> str:
        """Create a collection under a name of its own."""
        name = f"kit-{uuid.uuid4().hex[:12]}"
        self.create_collection(name, *args, **kwargs)
        self._made.append(name)
        return name

    def restart(self) -> None:
        """Close and reopen the store. Over HTTP the client stays and the endpoint goes, by kill -9 if it can."""
        if self.process is not None:
            self.process.kill()
            self.process.start()
        elif self.rest is not None:
            self.rest.restart()
        elif self.name in ("embedded", "local"):
            self._finish(self.client.close())
            self.client = self._open()

    def shut(self) -> None:
        if self.name in SERVERS:
            for name in self._made:
                self.delete_collection(name)
        self._finish(self.client.close())
        for served in (self.rest, self.process):
            if served is not None:
                served.close()
        if self._loop:
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    def _serve(self) -> None:
        if self.name == "http":
            self.rest = RestServer(lambda: embedded_client(self.folder)).start()
        if self.name == "process":
            self.process = RestProcess(self.folder).start()

    def _open(self) -> Any:
        if self.name == "embedded":
            return (async_embedded_client if self._loop else embedded_client)(self.folder)
        remote: type[AsyncQdrantClient] | type[QdrantClient] = AsyncQdrantClient if self._loop else QdrantClient
        if self.name == "local":
            return remote(path=str(self.folder / "local"))
        served = self.rest or self.process
        options = {"url": served.url} if served else server_options(self.name)
        return remote(**options, timeout=30, check_compatibility=False)

    def _finish(self, value: Any) -> Any:
        return self._loop.run_until_complete(value) if self._loop and inspect.isawaitable(value) else value


@contextmanager
def refused(status: int) -> Iterator[None]:
    """The call is refused: with this status where there are statuses, as ValueError in local mode."""
    with pytest.raises((UnexpectedResponse, ValueError, RpcError)) as raised:
        yield
    if isinstance(raised.value, UnexpectedResponse):
        assert raised.value.status_code == status
    elif isinstance(raised.value, RpcError):
        assert _GRPC_STATUS[grpc_code(raised.value)] == status
