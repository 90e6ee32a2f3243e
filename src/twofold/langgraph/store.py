"""`QdrantStore`: the store that a graph is compiled with, and the thread that deletes what has expired."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langgraph.store.base import BaseStore, IndexConfig, Op, Result, TTLConfig

from twofold import CollectionSettings, ConfigError, HybridIndex, SearchConfig
from twofold.flow import Closeable, MethodCaller, arun, closed_on_error, run
from twofold.langgraph import items, operations

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient, QdrantClient

log = logging.getLogger("twofold")
_TTL_KEYS = {"refresh_on_read", "omit_expired", "default_ttl", "sweep_interval_minutes"}
_DEFAULT_SWEEP_INTERVAL_MINUTES = 5.0


class QdrantStore(BaseStore, Closeable):
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
            dense: The model for meaning, as for `HybridIndex.open`. Default: what the collection was written with, or
                "fast".
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
        model, settings = items.configured_model(index, dense), _with_item_indexes(settings)
        options |= {"dense": model, "sparse": sparse, "language": language, "config": config, "settings": settings}
        self._set_up(HybridIndex.open(location, collection, **options), index, ttl, explain)
        if not self.index.awaited_only:
            with closed_on_error(self.index):
                self.index.create_indexes(settings)

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
        model, settings = items.configured_model(index, dense), _with_item_indexes(settings)
        options |= {"dense": model, "sparse": sparse, "language": language, "config": config, "settings": settings}
        store = cls.__new__(cls)
        store._set_up(await HybridIndex.aopen(location, collection, **options), index, ttl, explain)
        with closed_on_error(store.index):
            await store.index.acreate_indexes(settings)
        return store

    def _set_up(
        self, opened: HybridIndex, index: IndexConfig | Sequence[str] | None, ttl: TTLConfig | None, explain: bool
    ) -> None:
        with closed_on_error(opened):
            self.index = opened
            self.index_config = index if index is None or isinstance(index, Mapping) else {"fields": list(index)}
            """LangGraph's own configuration of what is searched, as it was given; None for the whole value."""
            self.ttl_config = _check_ttl_config(ttl)
            omit_expired = (ttl or {}).get("omit_expired", True)
            self._rules = operations.Rules(items.searched_fields(index), explain, omit_expired)
            self._calls = MethodCaller(opened)
            self._sweeper: threading.Thread | None = None
            self._stop_sweeping = threading.Event()
            dims, dim = index.get("dims") if isinstance(index, Mapping) else None, opened.dense_dim
            if dims is not None and dim is not None and dims != dim:
                advice = "leave dims out, or mend it"
                raise ConfigError(f"index['dims'] is {dims!r}, but the model makes {dim} dimensions: {advice}")

    # --- operations ----------------------------------------------------------------------------

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations together. Reads see what was there before; of several puts of one item the last counts.

        All are checked before the first is carried out, and an item that can't be stored fails them all.
        """
        return run(operations.carry_out(operations.check_ops(ops), self._rules), self._calls)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """`batch` without blocking the event loop."""
        return await arun(operations.carry_out(operations.check_ops(ops), self._rules), self._calls)

    # --- expiry --------------------------------------------------------------------------------

    def sweep_ttl(self) -> int:
        """Delete what has expired; says how many items it was."""
        return self.index.delete(filter=items.expired(items.utc_now()))

    async def asweep_ttl(self) -> int:
        """`sweep_ttl` without blocking the event loop."""
        return await self.index.adelete(filter=items.expired(items.utc_now()))

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> None:
        """Delete what has expired from time to time, in a thread; every 5 minutes unless configured otherwise."""
        if self.index.awaited_only:
            raise ConfigError(
                "this store is on an AsyncQdrantClient, which a thread can't use: await asweep_ttl() in a task of yours"
            )
        operations.check_minutes("sweep_interval_minutes", sweep_interval_minutes)
        if self._sweeper is None or not self._sweeper.is_alive():
            configured = (self.ttl_config or {}).get("sweep_interval_minutes")
            seconds = 60 * (sweep_interval_minutes or configured or _DEFAULT_SWEEP_INTERVAL_MINUTES)
            self._stop_sweeping.clear()
            self._sweeper = threading.Thread(target=self._sweep, args=(seconds,), name="twofold-sweeper", daemon=True)
            self._sweeper.start()

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Stop the thread; says whether it has ended within `timeout` seconds."""
        self._stop_sweeping.set()
        if self._sweeper is None or self._sweeper is threading.current_thread():
            return True
        self._sweeper.join(timeout)
        return not self._sweeper.is_alive()

    def _sweep(self, interval_seconds: float) -> None:
        while not self._stop_sweeping.wait(interval_seconds):
            try:
                self.sweep_ttl()
            except Exception as error:  # the next round may fare better; who reads is not shown what has expired
                log.warning("expired items could not be deleted: %s", error)

    # --- closing -------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop sweeping and let go of the engine. A client that you brought stays open; closing twice is fine."""
        self.stop_ttl_sweeper()
        self.index.close()

    async def aclose(self) -> None:
        await asyncio.to_thread(self.stop_ttl_sweeper)
        await self.index.aclose()

    def __repr__(self) -> str:
        return f"<QdrantStore in {self.index!r}>"


def _with_item_indexes(settings: CollectionSettings | None) -> CollectionSettings:
    """The user's settings, the indexes that items need, and the model for memories."""
    given = settings or CollectionSettings()
    indexes = {**given.payload_indexes, **items.FIELD_INDEXES}
    return given.model_copy(update={"payload_indexes": indexes})


def _check_ttl_config(ttl: TTLConfig | None) -> TTLConfig | None:
    """LangGraph's own configuration of expiry."""
    unknown = set(ttl or {}) - _TTL_KEYS
    if unknown:
        raise ConfigError(f"ttl has {', '.join(sorted(unknown))}: it may have {', '.join(sorted(_TTL_KEYS))}")
    operations.check_minutes("default_ttl", (ttl or {}).get("default_ttl"))
    operations.check_minutes("sweep_interval_minutes", (ttl or {}).get("sweep_interval_minutes"))
    return ttl
