"""`HybridIndex`, the public face: every method once blocking and once awaited, over the same flow.

Each body checks its arguments and runs a flow of `searching` or `writing` on the open collection. What
is done to a collection as a whole, now and then, is in `upkeep`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar, overload

from twofold.config import CollectionSettings, SearchConfig
from twofold.documents import Document, DocumentLike
from twofold.encoders.base import Vectors
from twofold.engine.connection import Connection, connect, laid
from twofold.errors import InvalidQuery
from twofold.flow import Flow, Turns, arun, closed_on_error, run
from twofold.index import writing
from twofold.index.opening import Wish, check_settings, prepare
from twofold.index.queries import FilterLike, check_query, with_reranker
from twofold.index.searching import Searcher, search_diverse
from twofold.index.upkeep import Upkeep
from twofold.ranking.fusion import FusionLike
from twofold.results import SearchResult

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient, QdrantClient
    from typing_extensions import Self

    from twofold.engine.layout import Layout

T = TypeVar("T")
_BATCH_SIZE = 64
_CACHED_QUERIES = 1024
_TIMEOUT_SECONDS = 30.0


class HybridIndex(Upkeep):
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
        rerank: Any = None,
        settings: CollectionSettings | None = None,
        adopt: bool = False,
        create: bool = True,
        layout: Layout | None = None,
        api_key: str | None = None,
        timeout: float = _TIMEOUT_SECONDS,
        cache_size: int = _CACHED_QUERIES,
        **client_options: Any,
    ) -> HybridIndex:
        """Open a collection, and create it if it isn't there.

        Args:
            location: A folder, ":memory:", the URL of a Qdrant server, or a client of your own. With an
                `AsyncQdrantClient` the collection is checked at the first awaited call.
            collection: The name of the collection.
            dense: The model for meaning: "fast", "best" or "multilingual", a fastembed name, a LangChain or LlamaIndex
                embedding, or any object with `embed_documents` and `embed_query`. Default: what the collection was
                written with, or "fast".
            sparse: The model for words: a `BM25` or the name of a fastembed sparse model.
            language: The language of the built-in BM25; "english" for a new collection.
            config: How to search when a call doesn't say otherwise.
            rerank: Looks at the best hits of every search once more: the name of a fastembed cross-encoder, a
                LangChain compressor, a LlamaIndex postprocessor, or a function of (query, texts) that gives a score
                for each text. Goes before that of `config`.
            settings: How a new collection is laid out.
            adopt: Vouch that a collection written by something else fits `dense` and `sparse`, so that
                documents can be added to it.
            create: Create the collection if it isn't there; False makes that an error.
            layout: Where a collection that something else wrote has its texts, metadata and vectors. Those of
                LangChain, LlamaIndex, Haystack, mem0 and mcp-server-qdrant are recognised without it.
            api_key: For a server that wants one.
            timeout: Seconds a call may take on a server, retries included, or in the process that holds the folder; for
                `add`, each batch.
            cache_size: How many query vectors to remember.
            client_options: For a URL, passed to the Qdrant client: `prefer_grpc`, `grpc_port`, `https` …. For a folder,
                `durability` ("process": a stored batch survives the death of the process; "power": a power loss too),
                `optimize` ("auto", or "manual": only when `optimize()` is called) and `share` (False: no other process
                may open it meanwhile).
        """
        wish = Wish(collection, dense, sparse, language, _settings(settings), adopt, create, layout)
        config = with_reranker(SearchConfig() if config is None else config, rerank)
        connection = connect(location, create=create, api_key=api_key, timeout=timeout, **client_options)
        index = cls(connection, wish, config, cache_size)
        if not index._connection.async_only:
            with closed_on_error(index):
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
        rerank: Any = None,
        settings: CollectionSettings | None = None,
        adopt: bool = False,
        create: bool = True,
        layout: Layout | None = None,
        api_key: str | None = None,
        timeout: float = _TIMEOUT_SECONDS,
        cache_size: int = _CACHED_QUERIES,
        **client_options: Any,
    ) -> HybridIndex:
        """`open` without blocking the event loop."""
        wish = Wish(collection, dense, sparse, language, _settings(settings), adopt, create, layout)
        config = await asyncio.to_thread(with_reranker, SearchConfig() if config is None else config, rerank)
        connection = await asyncio.to_thread(
            connect, location, create=create, api_key=api_key, timeout=timeout, **client_options
        )
        index = cls(connection, wish, config, cache_size)
        with closed_on_error(index):
            await index._aprepare()
        return index

    def beside(self, collection: str, *, settings: CollectionSettings | None = None) -> HybridIndex:
        """Another collection at the same place, with the same models. It lives as long as this index is open."""
        settings = _settings(settings)
        if settings.dense is None:
            settings = settings.model_copy(update={"dense": self.dense_model})
        wish = replace(self._wish, collection=collection, settings=settings, adopt=False, layout=None)
        other = HybridIndex(self._connection, wish, self._config, self._cache_size)
        if not self.awaited_only:
            other._prepare()
        return other

    @property
    def collection(self) -> str:
        """The name of the collection."""
        return self._wish.collection

    @property
    def store(self) -> object:
        """What all indexes on one client have in common."""
        return self._connection.store

    @property
    def new_lock(self) -> Callable[[str], Turns]:
        """Makes a lock by its name, for all who work on this collection: in a folder, in other processes too."""
        return lambda name: self._connection.new_lock(f"{name} of {self.collection}")

    @property
    def closed(self) -> bool:
        """It has been closed, and can't be used any more."""
        return self._connection.closed

    def close(self) -> None:
        """Let go of the engine. A client that you brought stays open; closing twice is fine."""
        self._connection.close()

    async def aclose(self) -> None:
        """`close` without blocking the event loop."""
        await self._connection.aclose()

    async def __aenter__(self) -> Self:
        await self._aprepare()
        return self

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
        vectors: Sequence[Sequence[float] | None] | Vectors | None = None,
        batch_size: int = _BATCH_SIZE,
        progress: writing.ProgressLike = False,
    ) -> list[str]:
        """Store documents, and replace those whose id is already there.

        Args:
            documents: `Document`s, plain strings or mappings with `text`, from any iterable. A list is checked
                as a whole before anything is written; from a generator, each batch before it is written.
            ids: One for each document, where the documents have none of their own.
            metadatas: One for each document, where the documents have none of their own.
            vectors: Dense vectors, one for each document, made with the model of the index; None for a document that
                is to be embedded here.
            batch_size: Documents to encode and write at a time. A batch of up to 64 is stored whole or not at all.
            progress: True for a progress bar, or a function that gets (done, total or None).

        Returns:
            The ids, in the order of the documents.
        """
        columns = writing.Columns(ids, metadatas, vectors)
        with writing.reporting(documents, progress) as report:
            return self.perform(lambda s: writing.add(s.ready, documents, columns, batch_size, report))

    async def aadd(
        self,
        documents: Iterable[DocumentLike],
        *,
        ids: Sequence[str] | None = None,
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        vectors: Sequence[Sequence[float] | None] | Vectors | None = None,
        batch_size: int = _BATCH_SIZE,
        progress: writing.ProgressLike = False,
    ) -> list[str]:
        """`add` without blocking the event loop; `progress` may be called from a worker thread."""
        columns = writing.Columns(ids, metadatas, vectors)
        with writing.reporting(documents, progress) as report:
            return await self.aperform(lambda s: writing.add(s.ready, documents, columns, batch_size, report))

    def update_metadata(
        self, changes: Mapping[str, Any], ids: str | Sequence[str] | None = None, *, filter: FilterLike | None = None
    ) -> None:
        """Change some metadata fields of documents, without encoding them again; their other fields stay.

        Args:
            changes: The fields and their new values.
            ids: Which documents.
            filter: Which documents, as for `search`, in place of ids. It must hold at the moment of writing, so that
                {"$id": ["a", "b"], "version": 3} leaves alone what somebody else has changed since it was read.
        """
        return self.perform(lambda s: writing.update_metadata(s.ready, changes, ids, filter))

    async def aupdate_metadata(
        self, changes: Mapping[str, Any], ids: str | Sequence[str] | None = None, *, filter: FilterLike | None = None
    ) -> None:
        """`update_metadata` without blocking the event loop."""
        return await self.aperform(lambda s: writing.update_metadata(s.ready, changes, ids, filter))

    def delete(self, ids: str | Sequence[str] | None = None, *, filter: FilterLike | None = None) -> int:
        """Delete documents by id or by filter, and say how many there were."""
        return self.perform(lambda s: writing.delete(s.ready, writing.selected(ids, filter, "delete")))

    async def adelete(self, ids: str | Sequence[str] | None = None, *, filter: FilterLike | None = None) -> int:
        """`delete` without blocking the event loop."""
        return await self.aperform(lambda s: writing.delete(s.ready, writing.selected(ids, filter, "delete")))

    def clear(self) -> int:
        """Delete every document, and say how many there were. The collection stays, with its models and settings."""
        return self.perform(lambda s: writing.delete(s.ready, writing.EVERYTHING))

    async def aclear(self) -> int:
        """`clear` without blocking the event loop."""
        return await self.aperform(lambda s: writing.delete(s.ready, writing.EVERYTHING))

    def create_field_index(self, field: str, kind: str) -> None:
        """Index a metadata field, so that filtering on it is faster; does nothing where there is an index.

        Indexes for texts and booleans make themselves. One for ranges doesn't, since it answers every range on its
        field: use it where you know that the field holds nothing else. Where it can't be made, a warning says so.

        Args:
            field: The name of the field.
            kind: "keyword", "tenant" (a keyword that tells users apart), "integer", "float", "bool", "datetime",
                "text", "uuid" or "geo".
        """
        return self.perform(lambda s: s.ready.indexes.ensure(field, kind))

    async def acreate_field_index(self, field: str, kind: str) -> None:
        """`create_field_index` without blocking the event loop."""
        return await self.aperform(lambda s: s.ready.indexes.ensure(field, kind))

    def create_indexes(self, settings: CollectionSettings) -> None:
        """Create the indexes of `settings` (`text_index`, `payload_indexes`) that a collection from before lacks.

        One that can't be created is an error, unless the key may only read.
        """
        return self.perform(lambda s: s.ready.indexes.create(settings))

    async def acreate_indexes(self, settings: CollectionSettings) -> None:
        """`create_indexes` without blocking the event loop."""
        return await self.aperform(lambda s: s.ready.indexes.create(settings))

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
        vector: Sequence[float] | None = None,
        rerank: Any = None,
        rerank_top: int | None = None,
        explain: bool = False,
    ) -> SearchResult:
        """Find documents by meaning and by words.

        Args:
            query: What to look for. An empty one finds nothing, unless there is a vector.
            k: How many hits at most.
            offset: How many of the best to skip, for the next page.
            filter: What a hit's metadata must fulfil, as {"year": {"gte": 2010}}; or a native `models.Filter`.
            fusion: The strategy, by name ("auto", "rrf", "dbsf", "weighted", "average") or from `Fusion`.
            alpha: From 0, words only, to 1, meaning only.
            depth: How many candidates each leg brings.
            min_score: Leave out hits of less relevance, from 0 to 1.
            min_semantic: The dense leg leaves out candidates below this cosine similarity.
            min_lexical: The lexical leg leaves out candidates below this BM25 score.
            vector: What the dense leg looks for, instead of the query's own vector; made with the model of the index.
            rerank: Looks at the best hits once more, as for `open`; False leaves out the one of the index.
            rerank_top: How many of the best it looks at.
            explain: Say for each hit where its score comes from. Changes no ranking, sends no second request.
        """
        checked = check_query(query, self._config, k=k, offset=offset, where=filter, explain=explain, vector=vector,
                              fusion=fusion, alpha=alpha, depth=depth, min_score=min_score, min_semantic=min_semantic,
                              min_lexical=min_lexical, rerank=rerank, rerank_top=rerank_top)  # fmt: skip
        return self.perform(lambda s: s.answer(checked))

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
        vector: Sequence[float] | None = None,
        rerank: Any = None,
        rerank_top: int | None = None,
        explain: bool = False,
    ) -> SearchResult:
        """`search` without blocking the event loop."""
        checked = check_query(query, self._config, k=k, offset=offset, where=filter, explain=explain, vector=vector,
                              fusion=fusion, alpha=alpha, depth=depth, min_score=min_score, min_semantic=min_semantic,
                              min_lexical=min_lexical, rerank=rerank, rerank_top=rerank_top)  # fmt: skip
        return await self.aperform(lambda s: s.answer(checked))

    def search_by_vector(
        self,
        vector: Sequence[float],
        k: int = 10,
        *,
        offset: int = 0,
        filter: FilterLike | None = None,
        depth: int | None = None,
        min_score: float | None = None,
        min_semantic: float | None = None,
        explain: bool = False,
    ) -> SearchResult:
        """Find the documents nearest to a vector: what `search` does with alpha=1 and a text of that vector.

        Args:
            vector: What to look for, made with the model of the index.
            k, offset, filter, depth, min_score, min_semantic, explain: As for `search`.
        """
        return self.search("", k, offset=offset, filter=filter, alpha=1.0, depth=depth, min_score=min_score,
                           min_semantic=min_semantic, vector=_given(vector), explain=explain)  # fmt: skip

    async def asearch_by_vector(
        self,
        vector: Sequence[float],
        k: int = 10,
        *,
        offset: int = 0,
        filter: FilterLike | None = None,
        depth: int | None = None,
        min_score: float | None = None,
        min_semantic: float | None = None,
        explain: bool = False,
    ) -> SearchResult:
        """`search_by_vector` without blocking the event loop."""
        return await self.asearch("", k, offset=offset, filter=filter, alpha=1.0, depth=depth, min_score=min_score,
                                  min_semantic=min_semantic, vector=_given(vector), explain=explain)  # fmt: skip

    def search_diverse(
        self,
        query: str | Sequence[float],
        k: int = 10,
        *,
        diversity: float = 0.5,
        candidates: int = 50,
        filter: FilterLike | None = None,
        fusion: FusionLike | None = None,
        alpha: float | None = None,
        depth: int | None = None,
        min_score: float | None = None,
        rerank: Any = None,
        explain: bool = False,
    ) -> SearchResult:
        """Find documents that fit the query and differ from each other (maximal marginal relevance).

        Args:
            query: What to look for: a text, found by meaning and words, or a vector.
            diversity: From 0, the ranking of `search`, to 1, as different as possible.
            candidates: How many of the best to choose from.
            k, filter, fusion, alpha, depth, min_score, rerank, explain: As for `search`; fusion, alpha and rerank only
                for a text.

        Returns:
            The hits in the order in which they were chosen; their scores are those of `search`.
        """
        text, vector = (query, None) if isinstance(query, str) else ("", _given(query))
        checked = check_query(text, self._config, k=k, where=filter, explain=explain, vector=vector, fusion=fusion,
                              alpha=alpha if vector is None else 1.0, depth=depth, min_score=min_score,
                              rerank=rerank)  # fmt: skip
        return self.perform(lambda s: search_diverse(s, checked, candidates, diversity))

    async def asearch_diverse(
        self,
        query: str | Sequence[float],
        k: int = 10,
        *,
        diversity: float = 0.5,
        candidates: int = 50,
        filter: FilterLike | None = None,
        fusion: FusionLike | None = None,
        alpha: float | None = None,
        depth: int | None = None,
        min_score: float | None = None,
        rerank: Any = None,
        explain: bool = False,
    ) -> SearchResult:
        """`search_diverse` without blocking the event loop."""
        text, vector = (query, None) if isinstance(query, str) else ("", _given(query))
        checked = check_query(text, self._config, k=k, where=filter, explain=explain, vector=vector, fusion=fusion,
                              alpha=alpha if vector is None else 1.0, depth=depth, min_score=min_score,
                              rerank=rerank)  # fmt: skip
        return await self.aperform(lambda s: search_diverse(s, checked, candidates, diversity))

    @overload
    def get(self, ids: str) -> Document | None: ...  # type: ignore[overload-overlap]  # a str is a Sequence[str]
    @overload
    def get(self, ids: Sequence[str]) -> list[Document | None]: ...
    def get(self, ids: str | Sequence[str]) -> Document | list[Document | None] | None:
        """A document by id, or several: None in the place of one that isn't there."""
        return self.perform(lambda s: writing.get(s.ready, ids))

    @overload
    async def aget(self, ids: str) -> Document | None: ...  # type: ignore[overload-overlap]  # a str is a Sequence[str]
    @overload
    async def aget(self, ids: Sequence[str]) -> list[Document | None]: ...
    async def aget(self, ids: str | Sequence[str]) -> Document | list[Document | None] | None:
        """`get` without blocking the event loop."""
        return await self.aperform(lambda s: writing.get(s.ready, ids))

    def vectors(self, ids: Sequence[str]) -> list[list[float] | None]:
        """The dense vectors of documents by id, as they are stored; None in the place of one that has none."""
        return self.perform(lambda s: writing.vectors(s.ready, ids))

    async def avectors(self, ids: Sequence[str]) -> list[list[float] | None]:
        """`vectors` without blocking the event loop."""
        return await self.aperform(lambda s: writing.vectors(s.ready, ids))

    def fetch(
        self, filter: FilterLike | None = None, *, limit: int | None = None, newest_first: str | None = None
    ) -> list[Document]:
        """Documents by filter, or all of them, in no particular order unless a date is named.

        Args:
            filter: What their metadata must fulfil, as for `search`.
            limit: How many at most; None gives all.
            newest_first: A metadata field with a date: those with the latest come first, and those without are left
                out. The field gets an index for dates.
        """
        return self.perform(lambda s: writing.fetch(s.ready, filter, limit, newest_first))

    async def afetch(
        self, filter: FilterLike | None = None, *, limit: int | None = None, newest_first: str | None = None
    ) -> list[Document]:
        """`fetch` without blocking the event loop."""
        return await self.aperform(lambda s: writing.fetch(s.ready, filter, limit, newest_first))

    def count(self, filter: FilterLike | None = None) -> int:
        """How many documents there are, or match a filter."""
        return self.perform(lambda s: writing.count(s.ready, filter))

    async def acount(self, filter: FilterLike | None = None) -> int:
        """`count` without blocking the event loop."""
        return await self.aperform(lambda s: writing.count(s.ready, filter))

    def values(self, field: str, filter: FilterLike | None = None) -> dict[Any, int]:
        """The values that a metadata field has, and how many documents (of those that a filter selects) have each.

        The field gets an index for texts.
        """
        return self.perform(lambda s: writing.values(s.ready, field, filter))

    async def avalues(self, field: str, filter: FilterLike | None = None) -> dict[Any, int]:
        """`values` without blocking the event loop."""
        return await self.aperform(lambda s: writing.values(s.ready, field, filter))

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """The dense vectors of texts, made with the model of the index as `add` makes them."""
        return self.perform(lambda s: writing.embed(s.ready, texts))

    async def aembed(self, texts: Sequence[str]) -> list[list[float]]:
        """`embed` without blocking the event loop."""
        return await self.aperform(lambda s: writing.embed(s.ready, texts))

    def embed_query(self, text: str) -> list[float]:
        """The dense vector of a query, made with the model of the index as `search` makes it."""
        return self.perform(lambda s: s.encoder.embed_query(text))

    async def aembed_query(self, text: str) -> list[float]:
        """`embed_query` without blocking the event loop."""
        return await self.aperform(lambda s: s.encoder.embed_query(text))

    # --- inside --------------------------------------------------------------------------------

    def perform(self, make: Callable[[Searcher], Flow[T]]) -> T:
        """Run a flow on the open collection, blocking. Not for direct use: `Memory` builds on it."""
        searcher = self._searcher
        if searcher is None or self._connection.closed:
            searcher = self._prepare()
        return run(make(searcher), laid(self._connection, searcher.ready.layout))

    async def aperform(self, make: Callable[[Searcher], Flow[T]]) -> T:
        """`perform` without blocking the event loop."""
        searcher = self._searcher
        if searcher is None or self._connection.closed:
            searcher = await self._aprepare()
        return await arun(make(searcher), laid(self._connection, searcher.ready.layout))

    @property
    def dense_model(self) -> str | None:
        """The name of the model for meaning; None where the first awaited call has yet to tell."""
        return None if self._searcher is None else self._searcher.ready.dense.name

    @property
    def dense_dim(self) -> int | None:
        """How long dense vectors are; None where the first awaited call has yet to tell."""
        return None if self._searcher is None else self._searcher.ready.dim

    @property
    def awaited_only(self) -> bool:
        """Opened on the user's own `AsyncQdrantClient`, which only the async methods can use."""
        return self._connection.async_only

    def _prepare(self) -> Searcher:
        """Create or check the collection, once."""
        with self._opening:
            self._connection.check_open()
            if self._searcher is None:
                flow = prepare(self._wish, self._connection)
                self._searcher = Searcher(run(flow, self._connection), self._cache_size)
            return self._searcher

    async def _aprepare(self) -> Searcher:
        """Create or check the collection. Two tasks that come first together both do it, which is harmless."""
        self._connection.check_open()
        if self._searcher is None:
            flow = prepare(self._wish, self._connection)
            self._searcher = Searcher(await arun(flow, self._connection), self._cache_size)
        return self._searcher

    def _reopen(self, **asked: Any) -> None:
        self._wish = _settled(self._wish, asked)
        with self._opening:
            self._searcher = None
        self._prepare()

    async def _areopen(self, **asked: Any) -> None:
        self._wish = _settled(self._wish, asked)
        self._searcher = None
        await self._aprepare()


def _settled(wish: Wish, asked: Mapping[str, Any]) -> Wish:
    """What the collection is opened with from now on: its record says the rest."""
    words = None if asked.get("sparse") is not None or asked.get("language") is not None else wish.sparse
    dense = wish.dense if asked.get("dense") is None else asked["dense"]
    sparse = words if asked.get("sparse") is None else asked["sparse"]
    return replace(wish, dense=dense, sparse=sparse, language=None, adopt=False, layout=None)


def _settings(given: CollectionSettings | None) -> CollectionSettings:
    return CollectionSettings() if given is None else check_settings(given)


def _given(vector: Sequence[float]) -> Sequence[float]:
    if vector is None:  # as a vector, None would stand for "there is none"
        raise InvalidQuery("the query must be a text or a vector, got None")
    return vector
