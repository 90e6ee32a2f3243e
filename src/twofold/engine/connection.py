"""From a location to something that answers calls: a path, memory, a URL, or the user's own client."""

from __future__ import annotations

import asyncio
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock, Thread
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from qdrant_client import AsyncQdrantClient, QdrantClient
from qdrant_client.local.async_qdrant_local import AsyncQdrantLocal
from qdrant_client.local.qdrant_local import QdrantLocal

from twofold.embedded import AsyncEmbeddedClient, BadRequest, EmbeddedClient, check_options, embedded_client
from twofold.engine.calls import for_client
from twofold.engine.faults import Attempts, translated
from twofold.errors import CollectionNotFound, ConfigError, IndexClosed
from twofold.flow import Call, Caller

# --- From a location to something that answers calls: a path, memory, a URL, or the user's own client ---

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


# --- A Qdrant server by URL: bounded retries, and one deadline for each call of the index ---


class RemoteConnection(Connection):
    """One blocking client, and one async client for each event loop that asks.

    An async HTTP client belongs to the loop it was first used in; a second `asyncio.run` would
    find it closed.
    """

    def __init__(self, url: str, timeout: float, options: dict[str, Any]) -> None:
        super().__init__(url, SERVER)
        self._timeout = timeout
        # The version is checked when the index opens; the client would do it in a thread, with a warning. Its own
        # timeout only ends what the deadline has already given up on.
        given = {"url": url, "timeout": max(1, round(timeout + 0.5)), "check_compatibility": False, **options}
        self._make_sync: Callable[[], QdrantClient] = partial(QdrantClient, **given)
        self._make_async: Callable[[], AsyncQdrantClient] = partial(AsyncQdrantClient, **given)
        self._sync: QdrantClient | None = None
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncQdrantClient] = WeakKeyDictionary()
        self._lock = Lock()

    def begin(self) -> Caller:
        return _Deadlined(self, self._timeout)

    def submit(self, call: Call) -> Future[Any]:
        """Send from a thread, so that the caller can stop waiting: a socket that trickles never times out."""
        with self._lock:
            if self._sync is None:
                self._sync = self._make_sync()
        answer: Future[Any] = Future()
        # A daemon: one that a dead server holds forever must not keep the process from ending.
        Thread(target=_settle, args=(answer, self._send, call), name="twofold-remote", daemon=True).start()
        return answer

    def _send(self, call: Call) -> Any:
        return getattr(self._sync, call.method)(**for_client(call))

    async def _asend(self, call: Call) -> Any:
        loop = asyncio.get_running_loop()
        if loop not in self._by_loop:
            self._by_loop[loop] = self._make_async()
        return await getattr(self._by_loop[loop], call.method)(**for_client(call))

    def close(self) -> None:
        if not self.closed and self._sync is not None:
            self._sync.close()
        super().close()

    async def aclose(self) -> None:
        client = self._by_loop.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()
        await super().aclose()


def _settle(answer: Future[Any], send: Callable[[Call], Any], call: Call) -> None:
    try:
        answer.set_result(send(call))
    except BaseException as error:
        answer.set_exception(error)


class _Deadlined:
    """One call of the index: its requests share a deadline."""

    def __init__(self, connection: RemoteConnection, timeout: float) -> None:
        self._connection = connection
        self._timeout = timeout
        self.renew()

    def renew(self) -> None:
        self._deadline = time.monotonic() + self._timeout

    def extend(self, seconds: float) -> None:
        self._deadline += seconds

    def call(self, call: Call) -> Any:
        self._connection.check_open()
        attempts = Attempts(call.method, self._connection.location, self._deadline)
        with translated(call.method, self._connection.location):
            while True:
                try:
                    return self._connection.submit(call).result(timeout=attempts.remaining())
                except FutureTimeout:
                    raise attempts.timed_out() from None
                except Exception as error:
                    time.sleep(attempts.pause_after(error))

    async def acall(self, call: Call) -> Any:
        self._connection.check_open()
        attempts = Attempts(call.method, self._connection.location, self._deadline)
        with translated(call.method, self._connection.location):
            while True:
                try:
                    return await asyncio.wait_for(self._connection._asend(call), attempts.remaining())
                except (asyncio.TimeoutError, TimeoutError):
                    raise attempts.timed_out() from None
                except Exception as error:
                    await asyncio.sleep(attempts.pause_after(error))


# --- From a location to a connection: a path, memory, a URL, or the user's own client ---

# A store of ours, or one of qdrant-client's local mode, which is refused with the way to import it.
_STORE_FILES = ("twofold.json", "meta.json")
_LIKE_A_URL = re.compile(r"(https?:.*|[\w.-]+:\d{2,5}(/.*)?)")
_FOLDER_OPTIONS = {"durability", "optimize"}

Location: TypeAlias = str | Path | QdrantClient | AsyncQdrantClient


def connect(location: Location, *, create: bool, api_key: str | None, timeout: float, **options: Any) -> Connection:
    """Open a location. A URL takes an api_key, a timeout and the client's options, a folder the store's."""
    if isinstance(location, (AsyncQdrantClient, QdrantClient)) and (api_key is not None or options):
        given = sorted(options) if api_key is None else ["api_key", *sorted(options)]
        raise ConfigError(f"{', '.join(given)} can't be set on a client that is already there: leave it out")
    if isinstance(location, AsyncQdrantClient):
        return AsyncConnection(location, "your AsyncQdrantClient")
    if isinstance(location, QdrantClient):
        return SyncConnection(location, "your QdrantClient", owned=False)
    if not isinstance(location, (str, Path)) or not str(location).strip():
        raise ConfigError(
            f"location must be a path, ':memory:', a URL or a Qdrant client, got {type(location).__name__} {location!r}"
        )
    if str(location).startswith(("http://", "https://")):
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < 1e6:
            raise ConfigError(f"timeout must be a number of seconds above 0, got {timeout!r}")
        return RemoteConnection(str(location), timeout, {"api_key": api_key, **options})
    if _LIKE_A_URL.fullmatch(str(location)) and not Path(location).exists():
        raise ConfigError(f"{location!r} looks like the address of a server: write http:// or https:// before it")
    foreign = ({"api_key"} if api_key is not None else set()) | (set(options) - _FOLDER_OPTIONS)
    if foreign:
        raise ConfigError(f"{', '.join(sorted(foreign))} is for a URL, and {str(location)!r} is not one")
    return EmbeddedConnection(_embedded(location, create, options), str(location))


def _embedded(location: str | Path, create: bool, options: dict[str, Any]) -> EmbeddedClient:
    """An engine in this process, in memory or in a folder."""
    try:
        check_options(**options)
    except BadRequest as error:
        raise ConfigError(str(error)) from error
    if str(location) == ":memory:":
        return embedded_client(":memory:", **options)
    path = Path(location).expanduser()
    if path.exists() and not path.is_dir():
        raise ConfigError(f"{path} is a file: an index needs a folder of its own")
    if not create and not any((path / name).exists() for name in _STORE_FILES):
        raise CollectionNotFound(f"there is no index at {path}: check the path, or open it without create=False")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{path} can't be made into an index: {error.strerror}: choose another folder") from error
    with translated("open", str(path)):
        return embedded_client(path, **options)
