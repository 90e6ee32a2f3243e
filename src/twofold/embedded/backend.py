"""The embedded engine behind qdrant_client's interfaces, sync and async."""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import Any

from qdrant_client import models
from qdrant_client.async_client_base import AsyncQdrantBase
from qdrant_client.client_base import QdrantBase

from .api.collections import CollectionsApi
from .api.direct import DirectApi
from .api.queries import QueriesApi
from .api.unsupported import UnsupportedApi
from .api.writes import WritesApi
from .errors import StoreClosed
from .optimize import Progress, optimize
from .store import Store

_ASYNC_THREADS = 8


class EdgeBackend(CollectionsApi, WritesApi, QueriesApi, DirectApi, UnsupportedApi):
    """Everything QdrantClient delegates to; what isn't served says what to use instead."""

    def optimize(self, collection_name: str, progress: Progress | None = None) -> bool:
        return optimize(self.store.get(collection_name), progress)

    def flush(self) -> None:
        for collection in self.store.collections():
            collection.flush()

    def info(self) -> models.VersionInfo:
        return models.VersionInfo(title="qdrant-edge, embedded by twofold", version=version("qdrant-edge-py"))

    def close(self, **kwargs: Any) -> None:
        if self._let_go():
            self._store.release()

    def forget(self) -> None:
        """Close from a finaliser, which must not wait for anything."""
        if self._let_go():
            self._store.forget()

    def _let_go(self) -> bool:
        first = not self._released and not sys.is_finalizing()
        self._released = True
        return first


class AsyncEdgeBackend(AsyncQdrantBase):
    """The same backend, with every call in a thread: the event loop goes on meanwhile."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.sync = EdgeBackend(store)
        self._threads: ThreadPoolExecutor | None = _new_threads()
        self._pid = os.getpid()

    async def run(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return await self._start(lambda: method(*args, **kwargs))

    def _start(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        if os.getpid() != self._pid:  # threads stay behind in a fork, and nobody would do the work
            self._threads, self._pid = _new_threads(), os.getpid()
        if self._threads is None:
            raise StoreClosed("This client is closed: open another with async_embedded_client(path).")
        return asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def close(self, **kwargs: Any) -> None:
        if self._threads is not None:
            closing = self._start(self.sync.close)
            threads, self._threads = self._threads, None
            await closing
            threads.shutdown(wait=False)


def _new_threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_ASYNC_THREADS, thread_name_prefix="twofold")


def _in_thread(name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    async def method(self: AsyncEdgeBackend, *args: Any, **kwargs: Any) -> Any:
        return await self.run(getattr(self.sync, name), *args, **kwargs)

    method.__name__ = name
    return method


for _name, _method in inspect.getmembers(QdrantBase, inspect.isfunction):
    if not _name.startswith("_") and _name not in ("close", "migrate"):
        setattr(AsyncEdgeBackend, _name, _in_thread(_name))
