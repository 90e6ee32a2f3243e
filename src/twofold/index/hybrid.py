"""The facade: every method once blocking and once awaited, over the same flow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

from qdrant_client import models

from twofold.config import CollectionSettings, SearchConfig
from twofold.documents import Document, DocumentLike, point_id
from twofold.engine import calls
from twofold.engine.connection import AsyncConnection, Connection, connect
from twofold.engine.filters import compile_filter
from twofold.engine.flow import Flow, arun, run
from twofold.engine.layout import from_point
from twofold.errors import ConfigError, FilterError, IndexClosed, InvalidQuery
from twofold.filters import Node, parse
from twofold.fusion import FusionLike
from twofold.index import writing
from twofold.index.opening import Ready, Wish, prepare
from twofold.index.searching import Query, Searcher, check_query
from twofold.results import SearchResult

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient, QdrantClient

T = TypeVar("T")
FilterLike: TypeAlias = Mapping[str, Any] | models.Filter
ProgressLike: TypeAlias = bool | Callable[[int, int | None], None]

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
            api_key: For a server that wants one.
            timeout: Seconds a request to a server may take.
            cache_size: How many query vectors to remember.
            client_options: For a URL, passed to the Qdrant client: `prefer_grpc`, `grpc_port`, `https` ….
        """
        index = cls._build(
            location, collection, dense, sparse, language, config, settings, adopt, cache_size,
            {"api_key": api_key, "timeout": timeout, **client_options},
        )  # fmt: skip
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
        api_key: str | None = None,
        timeout: float = _TIMEOUT,
        cache_size: int = _CACHED_QUERIES,
        **client_options: Any,
    ) -> HybridIndex:
        """`open` without blocking the event loop."""
        index = await asyncio.to_thread(
            cls._build,
            location, collection, dense, sparse, language, config, settings, adopt, cache_size,
            {"api_key": api_key, "timeout": timeout, **client_options},
        )  # fmt: skip
        with index._closed_on_error():
            await index._aprepare()
        return index

    @classmethod
    def _build(
        cls,
        location: Any,
        collection: str,
        dense: Any,
        sparse: Any,
        language: str | None,
        config: SearchConfig | None,
        settings: CollectionSettings | None,
        adopt: bool,
        cache_size: int,
        client: dict[str, Any],
    ) -> HybridIndex:
        if not isinstance(collection, str) or not collection:
            raise ConfigError(f"collection must be a name, got {collection!r}")
        wish = Wish(collection, dense, sparse, language, settings or CollectionSettings(), adopt)
        return cls(connect(location, **client), wish, config or SearchConfig(), cache_size)

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
            ids: One for each document, instead of the documents' own.
            metadatas: One for each document, instead of the documents' own.
            batch_size: Documents to encode and write at a time; a batch is stored whole or not at all.
            progress: True for a progress bar, or a function that gets (done, total or None).

        Returns:
            The ids, in the order of the documents.
        """
        with _reporting(documents, progress) as report:
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
        with _reporting(documents, progress) as report:
            ready = await self._aprepare()
            flow = writing.add(ready, documents, ids, metadatas, batch_size, report)
            return await arun(flow, self._connection)

    def delete(self, ids: str | Sequence[str] | None = None, *, filter: FilterLike | None = None) -> int:
        """Delete documents by id or by filter, and say how many there were."""
        return run(_delete(self._prepare(), ids, filter), self._connection)

    async def adelete(self, ids: str | Sequence[str] | None = None, *, filter: FilterLike | None = None) -> int:
        """`delete` without blocking the event loop."""
        return await arun(_delete(await self._aprepare(), ids, filter), self._connection)

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
        return run(_get(self._prepare(), ids), self._connection)

    @overload
    async def aget(self, ids: str) -> Document | None: ...  # type: ignore[overload-overlap]  # a str is a Sequence[str]
    @overload
    async def aget(self, ids: Sequence[str]) -> list[Document | None]: ...
    async def aget(self, ids: str | Sequence[str]) -> Document | list[Document | None] | None:
        """`get` without blocking the event loop."""
        return await arun(_get(await self._aprepare(), ids), self._connection)

    def count(self, filter: FilterLike | None = None) -> int:
        """How many documents there are, or match a filter."""
        return run(_count(self._prepare(), filter), self._connection)

    async def acount(self, filter: FilterLike | None = None) -> int:
        """`count` without blocking the event loop."""
        return await arun(_count(await self._aprepare(), filter), self._connection)

    # --- inside --------------------------------------------------------------------------------

    def _query(
        self, query: str, k: int, offset: int, where: FilterLike | None, explain: bool, **overrides: Any
    ) -> Query:
        return check_query(
            query,
            k=k,
            offset=offset,
            where=_where(where),
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


def _where(where: FilterLike | None) -> Node | models.Filter | None:
    if where is None or isinstance(where, models.Filter):
        return where
    return parse(where) if where else None


def _native(where: FilterLike | None) -> models.Filter | None:
    node = _where(where)
    return node if node is None or isinstance(node, models.Filter) else compile_filter(node)


def _get(ready: Ready, ids: str | Sequence[str]) -> Flow[Document | list[Document | None] | None]:
    wanted = _id_list(ids)
    points = [point_id(identity) for identity in wanted]
    found = yield from calls.retrieve(ready.collection, points)
    documents = {str(point.id): from_point(point).as_document() for point in found}
    result = [documents.get(point) for point in points]
    return result[0] if isinstance(ids, str) else result


def _count(ready: Ready, where: FilterLike | None) -> Flow[int]:
    return (yield from calls.count(ready.collection, _native(where)))


def _delete(ready: Ready, ids: str | Sequence[str] | None, where: FilterLike | None) -> Flow[int]:
    if (ids is None) == (where is None):
        raise InvalidQuery("delete takes either ids or a filter")
    native = _native(where)
    if ids is not None:
        native = writing.only([point_id(identity) for identity in _id_list(ids)])
    if native is None:
        raise FilterError("an empty filter would delete everything: name what to delete")
    number = yield from calls.count(ready.collection, native)
    if number:
        yield from calls.delete(ready.collection, native)
    return number


def _id_list(ids: str | Sequence[str]) -> list[str]:
    wanted = [ids] if isinstance(ids, str) else list(ids)
    for identity in wanted:
        if not isinstance(identity, str):
            raise InvalidQuery(f"ids are strings, got {type(identity).__name__} {identity!r}")
    return wanted


@contextmanager
def _reporting(documents: object, progress: ProgressLike) -> Iterator[writing.Progress]:
    """Turn (done, total) into what was asked for: nothing, a function's calls, or a bar."""
    total = len(documents) if isinstance(documents, Sequence) else None
    done = 0

    if progress is False:
        yield lambda count: None
    elif callable(progress):

        def report(count: int) -> None:
            nonlocal done
            done += count
            progress(done, total)

        yield report
    else:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("adding"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns) as bar:
            task = bar.add_task("adding", total=total)
            yield lambda count: bar.advance(task, count)
