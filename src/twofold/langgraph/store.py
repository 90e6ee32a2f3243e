"""The store that a graph is compiled with."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langgraph.store.base import BaseStore, IndexConfig, Op, Result, TTLConfig

from twofold.config import CollectionSettings, SearchConfig
from twofold.errors import ConfigError
from twofold.flow import Flow
from twofold.index.hybrid import HybridIndex
from twofold.index.searching import Searcher
from twofold.langgraph import batching, expiry
from twofold.langgraph.batching import Rules
from twofold.langgraph.items import INDEXES
from twofold.langgraph.texts import check_dims, fields_of, model_of
from twofold.memory.state import closed_on_error, complete

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient, QdrantClient


class QdrantStore(BaseStore):
    """LangGraph's long-term store on Qdrant: found by meaning and by words, embedded or on a server.

    Everything that `BaseStore` offers works, blocking and awaited. It is safe to use from several threads.
    """

    supports_ttl = True

    def __init__(
        self,
        location: str | Path | QdrantClient | AsyncQdrantClient,
        *,
        collection: str = "store",
        dense: Any = None,
        sparse: Any = None,
        language: str | None = None,
        index: IndexConfig | Sequence[str] | None = None,
        ttl: TTLConfig | None = None,
        config: SearchConfig | None = None,
        settings: CollectionSettings | None = None,
        explain: bool = False,
        **options: Any,
    ) -> None:
        """Open a store, and create it if it isn't there.

        Args:
            location: A folder, ":memory:", the URL of a Qdrant server, or a client of your own. With an
                `AsyncQdrantClient` only the awaited methods can be used.
            collection: The name of the collection.
            dense: The model for meaning, as for `HybridIndex.open`; the bundled one by default.
            sparse: The model for words.
            language: The language of the built-in BM25.
            index: Which fields of a value are searched, as a list of paths or as LangGraph's own configuration
                (`fields`, and `embed` in place of `dense`). The whole value by default.
            ttl: LangGraph's own configuration of expiry: `default_ttl` and `sweep_interval_minutes`, both in minutes,
                `refresh_on_read`, and `omit_expired`, which is True here unless you say otherwise.
            config: How to search.
            settings: How a new collection is laid out.
            explain: Found items say where their score comes from: they are `ExplainedItem`s.
            options: Whatever else `HybridIndex.open` takes: `api_key`, `timeout`, `durability` ….
        """
        opening = _opening(collection, model_of(index, dense), sparse, language, settings, options)
        self._set_up(HybridIndex.open(location, **opening), index, ttl, config, explain)
        if not self.index.awaited_only:
            with closed_on_error(self.index):
                self.index.perform(lambda searcher: _complete(searcher, opening["settings"], index))

    @classmethod
    async def aopen(
        cls,
        location: str | Path | QdrantClient | AsyncQdrantClient,
        *,
        collection: str = "store",
        dense: Any = None,
        sparse: Any = None,
        language: str | None = None,
        index: IndexConfig | Sequence[str] | None = None,
        ttl: TTLConfig | None = None,
        config: SearchConfig | None = None,
        settings: CollectionSettings | None = None,
        explain: bool = False,
        **options: Any,
    ) -> QdrantStore:
        """Open a store without blocking the event loop."""
        opening = _opening(collection, model_of(index, dense), sparse, language, settings, options)
        store = cls.__new__(cls)
        store._set_up(await HybridIndex.aopen(location, **opening), index, ttl, config, explain)
        with closed_on_error(store.index):
            await store.index.aperform(lambda searcher: _complete(searcher, opening["settings"], index))
        return store

    def _set_up(
        self,
        opened: HybridIndex,
        index: IndexConfig | Sequence[str] | None,
        ttl: TTLConfig | None,
        config: SearchConfig | None,
        explain: bool,
    ) -> None:
        with closed_on_error(opened):
            self.index = opened
            self.ttl_config = expiry.check_config(ttl)
            omit = (ttl or {}).get("omit_expired", True)
            self._rules = Rules(fields_of(index), config or SearchConfig(), explain, omit)
            self._sweeper = expiry.Sweeper(self.sweep_ttl)

    # --- operations ----------------------------------------------------------------------------

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations together. Reads see what was there before; of several puts of one item the last counts.

        All are checked before the first is carried out, and an item that can't be stored fails them all.
        """
        checked = batching.check_ops(ops)
        return self.index.perform(lambda searcher: batching.perform(searcher, self._rules, checked))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """`batch` without blocking the event loop."""
        checked = batching.check_ops(ops)
        return await self.index.aperform(lambda searcher: batching.perform(searcher, self._rules, checked))

    # --- expiry --------------------------------------------------------------------------------

    def sweep_ttl(self) -> int:
        """Delete what has expired; says how many items it was."""
        return self.index.perform(expiry.sweep)

    async def asweep_ttl(self) -> int:
        """`sweep_ttl` without blocking the event loop."""
        return await self.index.aperform(expiry.sweep)

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> None:
        """Delete what has expired from time to time, in a thread; every 5 minutes unless configured otherwise."""
        if self.index.awaited_only:
            raise ConfigError(
                "this store is on an AsyncQdrantClient, which a thread can't use: await asweep_ttl() in a task of yours"
            )
        expiry.check_minutes("sweep_interval_minutes", sweep_interval_minutes)
        self._sweeper.start(sweep_interval_minutes or (self.ttl_config or {}).get("sweep_interval_minutes"))

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Stop the thread; says whether it has ended within `timeout` seconds."""
        return self._sweeper.stop(timeout)

    # --- closing -------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop sweeping and let go of the engine. A client that you brought stays open; closing twice is fine."""
        self._sweeper.stop(None)
        self.index.close()

    async def aclose(self) -> None:
        """`close` without blocking the event loop."""
        await asyncio.to_thread(self._sweeper.stop, None)
        await self.index.aclose()

    def __enter__(self) -> QdrantStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> QdrantStore:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<QdrantStore in {self.index!r}>"


def _complete(
    searcher: Searcher, settings: CollectionSettings, index: IndexConfig | Sequence[str] | None
) -> Flow[None]:
    check_dims(index, searcher.ready.dim)
    yield from complete(searcher, settings)


def _opening(
    collection: str,
    dense: Any,
    sparse: Any,
    language: str | None,
    settings: CollectionSettings | None,
    options: dict[str, Any],
) -> dict[str, Any]:
    given = settings or CollectionSettings()
    indexes = {**given.payload_indexes, **INDEXES}
    return {
        "collection": collection,
        "dense": dense,
        "sparse": sparse,
        "language": language,
        "settings": given.model_copy(update={"payload_indexes": indexes}),
        **options,
    }
