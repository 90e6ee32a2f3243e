"""QdrantClient and AsyncQdrantClient over an embedded store."""

from __future__ import annotations

import os

from qdrant_client import AsyncQdrantClient, QdrantClient, models

from .backend import AsyncEdgeBackend, EdgeBackend
from .inference import QuickInspector, resolve_request
from .optimize import Progress
from .store import MEMORY, Durability, Optimizing, Options, open_store


class EmbeddedClient(QdrantClient):
    """A QdrantClient whose server is a directory."""

    def __init__(self, path: str | os.PathLike[str], options: Options | None = None) -> None:
        options = options or Options()
        # Opened first: the base class' finaliser closes what it finds.
        backend = EdgeBackend(open_store(path, options))
        super().__init__(location=MEMORY)
        self._client: EdgeBackend = backend
        self._inference_inspector = QuickInspector()
        self._init_options = {"path": os.fspath(path), "options": options}

    def _resolve_query_request(self, query: models.QueryRequest) -> models.QueryRequest:
        return resolve_request(query, super()._resolve_query_request)

    def __del__(self) -> None:
        if isinstance(getattr(self, "_client", None), EdgeBackend):
            self._client.forget()

    @property
    def backend(self) -> EdgeBackend:
        """What this client hands its calls to, once it has looked for texts that have to be encoded."""
        return self._client

    def optimize(self, collection_name: str, progress: Progress | None = None) -> bool:
        """Build the search index: queries on large collections become several times faster.

        Worth it from about 20,000 new points on. It takes minutes at 100,000; other threads go on reading and
        writing meanwhile. Kill it at any moment and the store is whole; call it again to start over.
        """
        return self._client.optimize(collection_name, progress)

    def flush(self) -> None:
        """Make every acknowledged write survive a power loss; durability="power" does so after each write."""
        self._client.flush()


class AsyncEmbeddedClient(AsyncQdrantClient):
    """An AsyncQdrantClient whose server is a directory."""

    def __init__(self, path: str | os.PathLike[str], options: Options | None = None) -> None:
        options = options or Options()
        backend = AsyncEdgeBackend(open_store(path, options))
        super().__init__(location=MEMORY)
        self._client: AsyncEdgeBackend = backend
        self._inference_inspector = QuickInspector()
        self._init_options = {"path": os.fspath(path), "options": options}

    def _resolve_query_request(self, query: models.QueryRequest) -> models.QueryRequest:
        return resolve_request(query, super()._resolve_query_request)

    def __del__(self) -> None:
        # asyncio can't be relied on here; a store left open would stay locked for other processes.
        if isinstance(getattr(self, "_client", None), AsyncEdgeBackend):
            self._client.sync.forget()

    async def optimize(self, collection_name: str, progress: Progress | None = None) -> bool:
        """As EmbeddedClient.optimize; `progress` is called from a worker thread."""
        done: bool = await self._client.run(self._client.sync.optimize, collection_name, progress)
        return done

    async def flush(self) -> None:
        """As EmbeddedClient.flush."""
        await self._client.run(self._client.sync.flush)


def embedded_client(
    path: str | os.PathLike[str], *, durability: Durability = "process", optimize: Optimizing = "auto"
) -> EmbeddedClient:
    """Open, or make, the store at `path`; ":memory:" for one that vanishes at close.

    durability="process": an acknowledged write survives the death of this process, however it dies (the
    engine's log is written before the answer); what is idle for two seconds is on disk. durability="power":
    it survives a power loss too, at the cost of a disk flush, some 10 ms, per call.

    optimize="auto": a collection where 20,000 points and a fifth are new or rewritten, and that nobody has written to
    for five seconds, gets its search index built in the background, by a child process of low priority, with
    no pause for readers or writers. "manual": only client.optimize(collection) does.

    Clients on the same path in one process share the store; another process gets StoreLocked.
    """
    return EmbeddedClient(path, Options(durability, optimize))


def check_options(*, durability: Durability = "process", optimize: Optimizing = "auto") -> None:
    """Refuse options that no store can be opened with, before anything is made for it."""
    Options(durability, optimize)


def async_embedded_client(
    path: str | os.PathLike[str], *, durability: Durability = "process", optimize: Optimizing = "auto"
) -> AsyncEmbeddedClient:
    """The same for asyncio; a cancelled call still runs to its end."""
    return AsyncEmbeddedClient(path, Options(durability, optimize))
