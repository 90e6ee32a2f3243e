"""The facade: every method once blocking and once awaited, over the same flow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar, overload

from twofold.config import CollectionSettings, SearchConfig
from twofold.documents import Document, DocumentLike
from twofold.engine.connection import AsyncConnection, Connection
from twofold.engine.flow import Flow, arun, run
from twofold.engine.locations import connect
from twofold.errors import IndexClosed
from twofold.fusion import FusionLike
from twofold.index import access, writing
from twofold.index.access import FilterLike
from twofold.index.opening import Ready, Wish, prepare
from twofold.index.progress import ProgressLike, reporting
from twofold.index.queries import Query, check_query
from twofold.index.searching import Searcher
from twofold.results import IndexInfo, SearchResult

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient, QdrantClient

    from twofold.embedded import OptimizeProgress

T = TypeVar("T")
_BATCH = 64
_CACHED_QUERIES = 1024
_TIMEOUT = 30.0


class HybridIndex:
    """Documents that can be found by meaning and by words.

    Open one with `HybridIndex.open`. Every method has an async twin with an `a` in front.
    An index is safe to use from several threads and several event loops.
    """

    def __init__(self, connection: Connection, wish: Wish, config: SearchConfig, cache_size: int) -> None:
        """Not for direct use: `open` and `aopen` build an index."""
        self._connection = connection
        self._wish = wish
        self._config = config
        self._cache_size = cache_size
        self._searcher: Searcher | None = None
        self._ready: Ready | None = None
        self._opening = Lock()

    # --- opening and closing -------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        location: str | Path | QdrantClient | AsyncQdrantClient,
        collection: str = "twofold",
        *,
        dense: Any = None,
        sparse: Any = None,
        language: str | None = None,
        config: SearchConfig | None = None,
        settings: CollectionSettings | None = None,
        adopt: bool = False,
        create: bool = True,
        api_key: str | None = None,
        timeout: float = _TIMEOUT,
        cache_size: int = _CACHED_QUERIES,
        **client_options: Any,
    ) -> HybridIndex:
        """Open a collection, and create it if it isn't there.

        Args:
            location: A folder, ":memory:", the URL of a Qdrant server, or a client of your own. With an
                `AsyncQdrantClient` the collection is checked at the first awaited call.
            collection: The name of the collection.
            dense: The model for meaning: a fastembed name, a LangChain or LlamaIndex embedding, or any object
                with `embed_documents` and `embed_query`. Default: what the collection was written with, or
                the bundled MiniLM.
            sparse: The model for words: a `BM25` or the name of a fastembed sparse model.
            language: The language of the built-in BM25; "english" for a new collection.
            config: How to search when a call doesn't say otherwise.
            settings: How a new collection is laid out.
            adopt: Vouch that a collection written by something else fits `dense` and `sparse`, so that
                documents can be added to it.
            create: Create the collection if it isn't there; False makes that an error.
            api_key: For a server that wants one.
            timeout: Seconds a call may take on a server, retries included; for `add`, each batch.
            cache_size: How many query vectors to remember.
            client_options: For a URL, passed to the Qdrant client: `prefer_grpc`, `grpc_port`, `https` …. For a folder,
                `durability` ("process": a stored batch survives the death of the process; "power": a power loss too)
                and `optimize` ("auto", or "manual": only when `optimize()` is called).
        """
        wish = Wish(collection, dense, sparse, language, settings or CollectionSettings(), adopt, create)
        connection = connect(location, create=create, api_key=api_key, timeout=timeout, **client_options)
        index = cls(connection, wish, config or SearchConfig(), cache_size)
        if not isinstance(index._connection, AsyncConnection):
            with index._closed_on_error():
                index._prepare()
        return index

    @classmethod
    async def aopen(
        cls,
        location: str | Path | QdrantClient | AsyncQdrantClient,
        collection: str = "twofold",
        *,
        dense: Any = None,
        sparse: Any = None,
        language: str | None = None,
        config: SearchConfig | None = None,
        settings: CollectionSettings | None = None,
        adopt: bool = False,
        create: bool = True,
        api_key: str | None = None,
        timeout: float = _TIMEOUT,
        cache_size: int = _CACHED_QUERIES,
        **client_options: Any,
    ) -> HybridIndex:
        """`open` without blocking the event loop."""
        wish = Wish(collection, dense, sparse, language, settings or CollectionSettings(), adopt, create)
        connection = await asyncio.to_thread(
            connect, location, create=create, api_key=api_key, timeout=timeout, **client_options
        )
        index = cls(connection, wish, config or SearchConfig(), cache_size)
        with index._closed_on_error():
            await index._aprepare()
        return index

    def close(self) -> None:
        """Let go of the engine. A client that you brought stays open; closing twice is fine."""
        self._connection.close()

    async def aclose(self) -> None:
        """Let go of the engine."""
        await self._connection.aclose()

    def __enter__(self) -> HybridIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> HybridIndex:
        await self._aprepare()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        state = "closed" if self._connection.closed else "open"
        return f"<HybridIndex {self._wish.collection!r} on {self._connection.location}, {state}>"

    # --- storing -------------------------------------------------------------------------------

    def add(
        self,
        documents: Iterable[DocumentLike],
        *,
        ids: Sequence[str] | None = None,
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        batch_size: int = _BATCH,
        progress: ProgressLike = False,
    ) -> list[str]:
        """Store documents, and replace those whose id is already there.

        Args:
            documents: `Document`s, plain strings or mappings with `text`, from any iterable. A list is checked
                as a whole before anything is written; from a generator, each batch before it is written.
            ids: One for each document, where the documents have none of their own.
            metadatas: One for each document, where the documents have none of their own.
            batch_size: Documents to encode and write at a time. A batch of up to 64 is stored whole or not at all.
            progress: True for a progress bar, or a function that gets (done, total or None).

        Returns:
            The ids, in the order of the documents.
        """
        with reporting(documents, progress) as report:
            flow = writing.add(self._prepare(), documents, ids, metadatas, batch_size, report)
            return run(flow, self._connection)

    async def aadd(
        self,
        documents: Iterable[DocumentLike],
        *,
        ids: Sequence[str] | None = None,
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        batch_size: int = _BATCH,
        progress: ProgressLike = False,
    ) -> list[str]:
        """`add` without blocking the event loop."""
        with reporting(documents, progress) as report:
            ready = await self._aprepare()
            flow = writing.add(ready, documents, ids, metadatas, batch_size, report)
            return await arun(flow, self._connection)

    def delete(self, ids: str | Sequence[str] | None = None, *, filter: FilterLike | None = None) -> int:
        """Delete documents by id or by filter, and say how many there were."""
        return run(access.delete(self._prepare(), ids, filter), self._connection)

    async def adelete(self, ids: str | Sequence[str] | None = None, *, filter: FilterLike | None = None) -> int:
        """`delete` without blocking the event loop."""
        return await arun(access.delete(await self._aprepare(), ids, filter), self._connection)

    # --- finding -------------------------------------------------------------------------------

    def search(
        self,
        query: str,
        k: int = 10,
        *,
        offset: int = 0,
        filter: FilterLike | None = None,
        fusion: FusionLike | None = None,
        alpha: float | None = None,
        depth: int | None = None,
        min_score: float | None = None,
        min_semantic: float | None = None,
        min_lexical: float | None = None,
        explain: bool = False,
    ) -> SearchResult:
        """Find documents by meaning and by words.

        Args:
            query: What to look for. An empty one finds nothing.
            k: How many hits at most.
            offset: How many of the best to skip, for the next page.
            filter: What a hit's metadata must fulfil, as {"year": {"gte": 2010}}; or a native `models.Filter`.
            fusion: The strategy, by name ("auto", "rrf", "dbsf", "weighted", "average") or from `Fusion`.
            alpha: From 0, words only, to 1, meaning only.
            depth: How many candidates each leg brings.
            min_score: Leave out hits below this final score.
            min_semantic: The dense leg leaves out candidates below this cosine similarity.
            min_lexical: The lexical leg leaves out candidates below this BM25 score.
            explain: Say for each hit where its score comes from. Changes no ranking, sends no second request.
        """
        checked = self._query(query, k, offset, filter, explain, fusion=fusion, alpha=alpha, depth=depth,
                              min_score=min_score, min_semantic=min_semantic, min_lexical=min_lexical)  # fmt: skip
        self._prepare()
        return run(self._search(checked), self._connection)

    async def asearch(
        self,
        query: str,
        k: int = 10,
        *,
        offset: int = 0,
        filter: FilterLike | None = None,
        fusion: FusionLike | None = None,
        alpha: float | None = None,
        depth: int | None = None,
        min_score: float | None = None,
        min_semantic: float | None = None,
        min_lexical: float | None = None,
        explain: bool = False,
    ) -> SearchResult:
        """`search` without blocking the event loop."""
        checked = self._query(query, k, offset, filter, explain, fusion=fusion, alpha=alpha, depth=depth,
                              min_score=min_score, min_semantic=min_semantic, min_lexical=min_lexical)  # fmt: skip
        await self._aprepare()
        return await arun(self._search(checked), self._connection)

    @overload
    def get(self, ids: str) -> Document | None: ...  # type: ignore[overload-overlap]  # a str is a Sequence[str]
    @overload
    def get(self, ids: Sequence[str]) -> list[Document | None]: ...
    def get(self, ids: str | Sequence[str]) -> Document | list[Document | None] | None:
        """A document by id, or several: None in the place of one that isn't there."""
        return run(access.get(self._prepare(), ids), self._connection)

    @overload
    async def aget(self, ids: str) -> Document | None: ...  # type: ignore[overload-overlap]  # a str is a Sequence[str]
    @overload
    async def aget(self, ids: Sequence[str]) -> list[Document | None]: ...
    async def aget(self, ids: str | Sequence[str]) -> Document | list[Document | None] | None:
        """`get` without blocking the event loop."""
        return await arun(access.get(await self._aprepare(), ids), self._connection)

    def count(self, filter: FilterLike | None = None) -> int:
        """How many documents there are, or match a filter."""
        return run(access.count(self._prepare(), filter), self._connection)

    async def acount(self, filter: FilterLike | None = None) -> int:
        """`count` without blocking the event loop."""
        return await arun(access.count(await self._aprepare(), filter), self._connection)

    def info(self) -> IndexInfo:
        """What the index is made of: models, legs, settings, number of documents."""
        return run(access.info(self._prepare(), self._connection.location), self._connection)

    async def ainfo(self) -> IndexInfo:
        """`info` without blocking the event loop."""
        return await arun(access.info(await self._aprepare(), self._connection.location), self._connection)

    def optimize(self, progress: Callable[[OptimizeProgress], None] | None = None) -> bool:
        """Build the search graph now, which makes searches of a large folder index several times faster.

        It happens by itself in quiet moments once it pays (unless opened with optimize="manual"), and a server does
        so on its own: then this does nothing and says False. Reading and writing go on meanwhile.
        """
        return run(access.optimize(self._prepare(), progress), self._connection)

    async def aoptimize(self, progress: Callable[[OptimizeProgress], None] | None = None) -> bool:
        """`optimize` without blocking the event loop; `progress` is called from a worker thread."""
        return await arun(access.optimize(await self._aprepare(), progress), self._connection)

    # --- inside --------------------------------------------------------------------------------

    def _query(
        self, query: str, k: int, offset: int, where: FilterLike | None, explain: bool, **overrides: Any
    ) -> Query:
        return check_query(
            query,
            k=k,
            offset=offset,
            where=access.where_node(where),
            config=self._config,
            overrides=overrides,
            explain=explain,
        )

    def _search(self, query: Query) -> Flow[SearchResult]:
        if self._searcher is None:
            raise IndexClosed("the index is not open")
        return self._searcher.search(query)

    def _prepare(self) -> Ready:
        """Create or check the collection, once."""
        with self._opening:
            if self._ready is None:
                flow = prepare(self._wish, self._connection.capabilities)
                self._opened(run(flow, self._connection))
        return self._state()

    async def _aprepare(self) -> Ready:
        """Create or check the collection. Two tasks that come first together both do it, which is harmless."""
        if self._ready is None:
            flow = prepare(self._wish, self._connection.capabilities)
            self._opened(await arun(flow, self._connection))
        return self._state()

    def _opened(self, ready: Ready) -> None:
        self._searcher = Searcher(ready, self._cache_size)
        self._ready = ready

    def _state(self) -> Ready:
        if self._ready is None or self._connection.closed:
            raise IndexClosed(f"the index on {self._connection.location} is closed: open it again")
        return self._ready

    @contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._connection.close()
            raise
