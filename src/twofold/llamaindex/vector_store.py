"""`HybridVectorStore`: what a `VectorStoreIndex` keeps its nodes in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores import MetadataFilters, VectorStoreQuery, VectorStoreQueryResult
from llama_index.core.vector_stores.types import BasePydanticVectorStore
from qdrant_client import models

from twofold.config import CollectionSettings, SearchConfig
from twofold.errors import ConfigError, InvalidQuery
from twofold.index.hybrid import HybridIndex
from twofold.index.writing import FilterLike
from twofold.llamaindex import querying, writing
from twofold.llamaindex.embedding import IndexEmbedding
from twofold.llamaindex.nodes import REF_DOC

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient, QdrantClient

_EVERYTHING = models.Filter(must_not=[models.HasIdCondition(has_id=[])])


class HybridVectorStore(BasePydanticVectorStore):
    """Nodes that are found by meaning, by words, or by both: embedded, or on a Qdrant server.

    The vectors are those that LlamaIndex makes; the words are indexed here. Query modes: default (meaning), hybrid
    (with `alpha`), sparse and text_search (words), and mmr.
    """

    stores_text: bool = True
    is_embedding_query: bool = True
    flat_metadata: bool = False

    _index: HybridIndex = PrivateAttr()

    def __init__(
        self,
        location: str | Path | QdrantClient | AsyncQdrantClient = ":memory:",
        *,
        collection: str = "twofold",
        embed_model: Any = None,
        dims: int | None = None,
        sparse: Any = None,
        language: str | None = None,
        config: SearchConfig | None = None,
        settings: CollectionSettings | None = None,
        index: HybridIndex | None = None,
        **options: Any,
    ) -> None:
        """Open a store, and create it if it isn't there.

        Args:
            location: A folder, ":memory:", the URL of a Qdrant server, or a client of your own.
            collection: The name of the collection.
            embed_model: The model that the vectors come from: the same that the `VectorStoreIndex` gets. Its name is
                recorded, so that vectors of two models are never mixed. By default the bundled one: then give
                `store.embed_model` to the `VectorStoreIndex`.
            dims: How long the vectors are, where the model can't be given; the store then can't embed by itself.
            sparse: The model for words.
            language: The language of the built-in BM25.
            config: How to search.
            settings: How a new collection is laid out.
            index: An open index, in place of all of the above.
            options: Whatever else `HybridIndex.open` takes: `api_key`, `timeout`, `durability` ….
        """
        super().__init__(stores_text=True)
        self._index = index or HybridIndex.open(
            location,
            collection,
            dense=_model(embed_model, dims),
            sparse=sparse,
            language=language,
            config=config,
            settings=settings,
            **options,
        )

    @classmethod
    async def aopen(
        cls,
        location: str | Path | QdrantClient | AsyncQdrantClient = ":memory:",
        *,
        collection: str = "twofold",
        embed_model: Any = None,
        dims: int | None = None,
        **options: Any,
    ) -> HybridVectorStore:
        """Open a store without blocking the event loop."""
        dense = _model(embed_model, dims)
        return cls(index=await HybridIndex.aopen(location, collection, dense=dense, **options))

    @classmethod
    def class_name(cls) -> str:
        """Its name in traces."""
        return "HybridVectorStore"

    @property
    def client(self) -> HybridIndex:
        """The index underneath."""
        return self._index

    @property
    def index(self) -> HybridIndex:
        """The index underneath: a `HybridRetriever` can look in it too."""
        return self._index

    @property
    def embed_model(self) -> IndexEmbedding:
        """The model of the store, for the `VectorStoreIndex`."""
        return IndexEmbedding(self._index)

    def close(self) -> None:
        """Let go of the engine. A client that you brought stays open; closing twice is fine."""
        self._index.close()

    async def aclose(self) -> None:
        """`close` without blocking the event loop."""
        await self._index.aclose()

    def __enter__(self) -> HybridVectorStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> HybridVectorStore:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    # --- storing -------------------------------------------------------------------------------

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Store nodes with their vectors, and replace those whose id is there; one without a vector is embedded."""
        return self._index.perform(lambda searcher: writing.add(searcher, nodes))

    async def async_add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """`add` without blocking the event loop."""
        return await self._index.aperform(lambda searcher: writing.add(searcher, nodes))

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Delete the nodes of a document."""
        self._index.delete(filter={REF_DOC: ref_doc_id})

    async def adelete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """`delete` without blocking the event loop."""
        await self._index.adelete(filter={REF_DOC: ref_doc_id})

    def delete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **delete_kwargs: Any
    ) -> None:
        """Delete nodes by id, by filter, or those that fulfil both."""
        self._index.delete(filter=_named(node_ids, filters))

    async def adelete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **delete_kwargs: Any
    ) -> None:
        """`delete_nodes` without blocking the event loop."""
        await self._index.adelete(filter=_named(node_ids, filters))

    def clear(self) -> None:
        """Delete everything."""
        self._index.delete(filter=_EVERYTHING)

    async def aclear(self) -> None:
        """`clear` without blocking the event loop."""
        await self._index.adelete(filter=_EVERYTHING)

    # --- finding -------------------------------------------------------------------------------

    def get_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        """Nodes by id (in that order), by filter, or all of them."""
        wanted = querying.where(node_ids, filters)
        return self._index.perform(lambda searcher: querying.fetch(searcher, node_ids, wanted))

    async def aget_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """`get_nodes` without blocking the event loop."""
        wanted = querying.where(node_ids, filters)
        return await self._index.aperform(lambda searcher: querying.fetch(searcher, node_ids, wanted))

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Find nodes.

        Args:
            query: What LlamaIndex asks for. `alpha` counts in hybrid mode, and None is what the index does by itself.
            kwargs: For mmr: `mmr_threshold`, from 0, as different as possible, to 1, as near as possible;
                `mmr_prefetch_k` or `mmr_prefetch_factor`, among how many to choose.
        """
        asked = querying.understand(self._index, query, kwargs)
        return self._index.perform(lambda searcher: querying.search(searcher, asked))

    async def aquery(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """`query` without blocking the event loop."""
        asked = querying.understand(self._index, query, kwargs)
        return await self._index.aperform(lambda searcher: querying.search(searcher, asked))


def _model(embed_model: Any, dims: int | None) -> Any:
    if embed_model is not None and dims is not None:
        raise ConfigError("embed_model= says how long the vectors are: leave dims= out")
    return embed_model if dims is None else writing.given_vectors(dims)


def _named(node_ids: list[str] | None, filters: MetadataFilters | None) -> FilterLike:
    wanted = querying.where(node_ids, filters)
    if wanted is None:
        raise InvalidQuery("delete_nodes takes node_ids, filters or both: clear() deletes everything")
    return wanted
