"""One test, every store: LangGraph's own in memory, and ours on every engine, blocking and awaited."""

from __future__ import annotations

import asyncio
import atexit
import uuid
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from langgraph.store.base import BaseStore, Item, Op, Result, SearchItem
from langgraph.store.memory import InMemoryStore
from qdrant_client import AsyncQdrantClient

from tests.kit.engines import SERVERS, server_client, server_options
from tests.kit.rest import RestServer
from twofold import embedded_client
from twofold.langgraph import QdrantStore
from twofold.testing import HashEmbedding

REFERENCE = "reference"
OURS = ("embedded-sync", "local-async", "http-async", *(("server-async", "grpc-sync") if SERVERS else ()))
ALL = (REFERENCE, *OURS)


class Store:
    """The methods of a store, blocking, whether they are awaited underneath or not."""

    def __init__(self, make: Callable[[], BaseStore], style: str) -> None:
        self.loop = asyncio.new_event_loop() if style == "async" else None
        self.store = make()

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        if self.loop is None:
            return getattr(self.store, name)(*args, **kwargs)
        return self.loop.run_until_complete(getattr(self.store, f"a{name}")(*args, **kwargs))

    def put(self, namespace: tuple[str, ...], key: str, value: Any, *args: Any, **kwargs: Any) -> None:
        self.call("put", namespace, key, value, *args, **kwargs)

    def get(self, namespace: tuple[str, ...], key: str, **kwargs: Any) -> Item | None:
        item: Item | None = self.call("get", namespace, key, **kwargs)
        return item

    def value(self, namespace: tuple[str, ...], key: str) -> Any:
        item = self.get(namespace, key)
        return None if item is None else item.value

    def delete(self, namespace: tuple[str, ...], key: str) -> None:
        self.call("delete", namespace, key)

    def search(self, prefix: tuple[str, ...], **kwargs: Any) -> list[SearchItem]:
        found: list[SearchItem] = self.call("search", prefix, **kwargs)
        return found

    def keys(self, prefix: tuple[str, ...] = (), **kwargs: Any) -> list[str]:
        """What a search finds, in no order."""
        return sorted(item.key for item in self.search(prefix, **kwargs))

    def namespaces(self, **kwargs: Any) -> list[tuple[str, ...]]:
        found: list[tuple[str, ...]] = self.call("list_namespaces", **kwargs)
        return found

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        results: list[Result] = self.call("batch", ops)
        return results

    def clear(self) -> None:
        """Without anything in it, as if it were new."""
        if isinstance(self.store, QdrantStore):
            everything = self.store.index.delete if self.loop is None else self.store.index.adelete
            deleting: Any = everything(filter={"prefixes": "[]"})
            if self.loop is not None:
                self.loop.run_until_complete(deleting)
        else:
            self.store = InMemoryStore(index=_reference_index(None))

    def shut(self) -> None:
        if isinstance(self.store, QdrantStore):
            self.call("close")
        if self.loop is not None:
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()


def open_store(kind: str, **arguments: Any) -> Store:
    """A store of some kind, with the same model whatever it is."""
    if kind == REFERENCE:
        return Store(lambda: InMemoryStore(index=_reference_index(arguments.get("index"))), "sync")
    engine, style = kind.split("-")
    arguments.setdefault("dense", HashEmbedding())
    if engine in ("http", *SERVERS):
        arguments["collection"] = name = uuid.uuid4().hex
    if engine in SERVERS:
        atexit.register(lambda: server_client().delete_collection(name))
        arguments |= server_options(engine)
    return Store(lambda: QdrantStore(arguments.pop("url", None) or _location(engine), **arguments), style)


def _location(engine: str) -> Any:
    if engine == "http":
        return _endpoint().url
    return ":memory:" if engine == "embedded" else AsyncQdrantClient(":memory:")


@lru_cache(maxsize=1)
def _endpoint() -> RestServer:
    server = RestServer(lambda: embedded_client(":memory:")).start()
    atexit.register(server.close)
    return server


def _reference_index(fields: list[str] | None) -> Any:
    return {"dims": 64, "embed": HashEmbedding().embed_documents, "fields": fields}
