"""From a location to something that answers calls: a path, memory, a URL, or the user's own client."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from qdrant_client import AsyncQdrantClient, QdrantClient
from qdrant_client.local.async_qdrant_local import AsyncQdrantLocal
from qdrant_client.local.qdrant_local import QdrantLocal

from twofold.embedded import AsyncEmbeddedClient, EmbeddedClient
from twofold.engine.calls import for_client
from twofold.engine.faults import translated
from twofold.engine.flow import Call, Caller
from twofold.errors import ConfigError, IndexClosed

# One lock for each in-process client, shared by all indexes on it: local mode is not thread-safe.
_locks: WeakKeyDictionary[QdrantClient, Lock] = WeakKeyDictionary()
_locks_guard = Lock()


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What tells one engine from another."""

    versioned: bool
    """A server, whose version must be asked for."""
    indexes: bool
    """Has payload indexes and an HNSW graph; otherwise every search is exact."""
    threads: bool
    """May be used by several threads at once."""

    optimizes: bool = False
    """Builds its search graph when it is told to, or when it pays; a server does so by itself."""
    shared: bool = False
    """Others may write to it as well, so that what was read goes out of date."""
    at_hand: bool = False
    """So near that to ask twice is cheaper than to ask for more."""


SERVER = Capabilities(versioned=True, indexes=True, threads=True, shared=True)
EMBEDDED = Capabilities(versioned=False, indexes=True, threads=True, optimizes=True)
LOCAL_MODE = Capabilities(versioned=False, indexes=False, threads=False)


def capabilities_of(client: QdrantClient | AsyncQdrantClient) -> Capabilities:
    """What the engine behind a client can do."""
    if isinstance(client, (EmbeddedClient, AsyncEmbeddedClient)):
        return EMBEDDED
    backend = getattr(client, "_client", None)
    return LOCAL_MODE if isinstance(backend, (QdrantLocal, AsyncQdrantLocal)) else SERVER


class Connection(ABC):
    """An open way to an engine. `location` is for people to read."""

    def __init__(self, location: str, capabilities: Capabilities) -> None:
        self.location = location
        self.capabilities = capabilities
        self.closed = False

    @property
    def store(self) -> object:
        """What all connections to one engine have in common, where they can tell."""
        return self

    def begin(self) -> Caller:
        """What executes the requests of one call of the index."""
        return self

    def renew(self) -> None:  # noqa: B027 - doing nothing is what most engines need
        """Nothing to renew: requests to this engine have no deadline."""

    def extend(self, seconds: float) -> None:  # noqa: B027 - no deadline, nothing to extend
        """Nothing to extend."""

    def call(self, call: Call) -> Any:
        """Send a request and wait."""
        self.check_open()
        with translated(call.method, self.location):
            return self._send(call)

    async def acall(self, call: Call) -> Any:
        """Send a request without blocking the event loop."""
        self.check_open()
        with translated(call.method, self.location):
            return await self._asend(call)

    def close(self) -> None:
        """Let go of what this connection opened. Closing twice is fine."""
        self.closed = True

    async def aclose(self) -> None:
        """Let go of what this connection opened, without blocking the event loop."""
        await asyncio.to_thread(self.close)

    def check_open(self) -> None:
        """Raise if the connection is closed."""
        if self.closed:
            raise IndexClosed(f"the index on {self.location} is closed: open it again")

    @abstractmethod
    def _send(self, call: Call) -> Any: ...

    @abstractmethod
    async def _asend(self, call: Call) -> Any: ...


class SyncConnection(Connection):
    """A `QdrantClient`; awaiting callers are served from a thread."""

    def __init__(self, client: QdrantClient, location: str, *, owned: bool) -> None:
        capabilities = capabilities_of(client)
        super().__init__(location, capabilities if owned else replace(capabilities, shared=True))
        self._client = client
        self._owned = owned
        self._lock = None if self.capabilities.threads else _lock_for(client)

    @property
    def store(self) -> object:
        return self._client

    def _send(self, call: Call) -> Any:
        method = getattr(self._client, call.method)
        if self._lock is None:
            return method(**for_client(call))
        with self._lock:
            return method(**for_client(call))

    async def _asend(self, call: Call) -> Any:
        return await asyncio.to_thread(self._send, call)

    def close(self) -> None:
        if self._owned and not self.closed:
            self._client.close()
        super().close()


class EmbeddedConnection(SyncConnection):
    """A store that was opened for the index alone: what the index does most goes straight to the engine.

    A client that somebody brought may have been wrapped or watched, so it is called by its own methods.
    """

    def __init__(self, client: EmbeddedClient, location: str) -> None:
        super().__init__(client, location, owned=True)
        self.capabilities = replace(self.capabilities, at_hand=True)
        self._direct: dict[str, Any] = {
            "upsert": client.backend.upsert_made,
            "query_batch_points": client.backend.query_made,
        }

    def _send(self, call: Call) -> Any:
        direct = self._direct.get(call.method)
        return super()._send(call) if direct is None else direct(**call.arguments)


class AsyncConnection(Connection):
    """The user's `AsyncQdrantClient`: only the async methods of the index can use it."""

    def __init__(self, client: AsyncQdrantClient, location: str) -> None:
        super().__init__(location, replace(capabilities_of(client), shared=True))
        self._client = client

    @property
    def store(self) -> object:
        return self._client

    def _send(self, call: Call) -> Any:
        raise ConfigError(
            f"this index was opened on an AsyncQdrantClient, so {call.method} can only be awaited: use the async "
            "methods (asearch, aadd, …), or open the index with a QdrantClient, a path or a URL"
        )

    async def _asend(self, call: Call) -> Any:
        return await getattr(self._client, call.method)(**for_client(call))


def _lock_for(client: QdrantClient) -> Lock:
    with _locks_guard:
        return _locks.setdefault(client, Lock())
