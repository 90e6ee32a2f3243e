"""`HybridVectorStore`: an index as a LangChain vector store, whose similarity is hybrid.

First what the index holds as LangChain has it: its model, hits as documents, documents back as they were stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.structured_query import Comparator, Comparison, Operation, Operator, StructuredQuery, Visitor
from langchain_core.vectorstores import VectorStore
from typing_extensions import Self

from twofold import Document as StoredDocument
from twofold import Hit, HybridIndex, InvalidDocument, InvalidQuery, SearchResult
from twofold.documents import check_column
from twofold.memory import added_by_search

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient, QdrantClient

    Location = str | Path | QdrantClient | AsyncQdrantClient

Scored: TypeAlias = list[tuple[Document, float]]


class IndexEmbeddings(Embeddings):
    """Embeds as the index does, whatever its model is: the bundled one, a name, or an object of any framework."""

    def __init__(self, index: HybridIndex) -> None:
        self._index = index

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Vectors to store."""
        return self._index.embed(texts)

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """`embed_documents` without blocking the event loop."""
        return await self._index.aembed(texts)

    def embed_query(self, text: str) -> list[float]:
        """A vector to search with."""
        return self._index.embed_query(text)

    async def aembed_query(self, text: str) -> list[float]:
        """`embed_query` without blocking the event loop."""
        return await self._index.aembed_query(text)


def to_document(stored: Hit | StoredDocument, title_key: str | None = None) -> Document:
    """A document as it was stored, nothing added but its title, where that is asked for."""
    title = {title_key: stored.title} if title_key and stored.title else {}
    return Document(page_content=stored.text, id=stored.id, metadata={**title, **stored.metadata})


def to_documents(result: SearchResult, *, explain: bool = False, title_key: str | None = None) -> list[Document]:
    """The hits of a search; with `explain`, each with its score and why it is there beside its own metadata."""
    documents = [to_document(hit, title_key) for hit in result]
    for hit, document in zip(result if explain else (), documents, strict=False):
        own = document.metadata
        if "explanation" not in own:  # which marks what a search added, when a document is written back
            document.metadata = {**own, **hit.as_metadata(result), **own}  # the user's own goes first
    return documents


def _as_columns(documents: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `add_texts` for documents: ids that are given go before the documents' own."""
    documents = list(documents) if isinstance(documents, Iterable) and not isinstance(documents, type) else [None]
    if not all(isinstance(each, Document) for each in documents):
        raise InvalidDocument("documents must be a list of LangChain's Documents: wrap a single one in [ ]")
    own_ids = [document.id for document in documents]
    return {
        **arguments,
        "texts": [document.page_content for document in documents],
        "metadatas": [document.metadata for document in documents],
        "ids": own_ids if arguments.get("ids") is None else arguments["ids"],
    }


def _to_stored(
    texts: Iterable[str],
    metadatas: Sequence[dict[str, Any] | None] | None,
    ids: Sequence[str | None] | None,
    title_key: str | None,
) -> list[StoredDocument]:
    """Texts as documents of an index; one whose id is None gets one derived from what it holds, None is no metadata."""
    if not isinstance(texts, Iterable) or isinstance(texts, (str, bytes, type)):
        raise InvalidDocument(f"texts must be a list of texts, got {type(texts).__name__}")
    given = list(texts)
    columns: list[Sequence[Any]] = []
    for name, column in (("metadatas", metadatas), ("ids", ids)):
        check_column(column, name)
        columns.append([None] * len(given) if column is None or len(column) == 0 else column)
        if len(columns[-1]) != len(given):
            raise InvalidDocument(f"{len(given)} texts but {len(columns[-1])} {name}: give one for each text")
    rows = zip(given, *columns, strict=True)
    return [
        StoredDocument(text, identity, own := _own_metadata(metadata or {}), title=own.get(title_key or ""))
        for text, metadata, identity in rows
    ]


def _own_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata without what a retriever added, so that a document can be found, changed and written back."""
    if not isinstance(metadata, Mapping):
        raise InvalidDocument(f"metadata must be a mapping, got {type(metadata).__name__}")
    added = added_by_search(metadata)
    return {name: value for name, value in metadata.items() if name not in added}


class HybridVectorStore(VectorStore):
    """Documents that are found by meaning and by words.

    Searches take whatever `HybridIndex.search` takes besides k: `filter`, `alpha`, `fusion`, `min_score`, `depth` ….
    """

    def __init__(self, index: HybridIndex, *, embedding: Any = None, title_key: str | None = None) -> None:
        """Make a store of an open index.

        Args:
            index: Where the documents are. It can be used beside the store.
            embedding: The LangChain embedding that it was opened with, if `embeddings` is to be that very object.
            title_key: The metadata field that is a document's title, such as "title": it then counts for meaning and
                for words as the text does, and stays in the metadata. By default metadata is for filters alone.
        """
        self.index = index
        self.title_key = title_key
        self._embedding = embedding if isinstance(embedding, Embeddings) else IndexEmbeddings(index)

    @property
    def embeddings(self) -> Embeddings:
        """The model for meaning."""
        return self._embedding

    # --- making a store of what is there -------------------------------------------------------

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Any = None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        location: Location = ":memory:",
        collection: str = "twofold",
        title_key: str | None = None,
        **options: Any,
    ) -> Self:
        """Open a store and add texts to it.

        Args:
            texts: What to store.
            embedding: The model for meaning: a LangChain embedding, or whatever else `HybridIndex.open` takes as
                `dense`. The bundled one if none is given.
            metadatas: One for each text.
            ids: One for each text; derived from text and metadata if not given.
            location: A folder, ":memory:", the URL of a Qdrant server, or a client of your own.
            collection: The name of the collection.
            title_key: The metadata field that is a document's title, if there is one.
            options: Whatever else `HybridIndex.open` takes: `language`, `sparse`, `config`, `api_key` ….
        """
        index = HybridIndex.open(location, collection, dense=embedding, **options)
        store = cls(index, embedding=embedding, title_key=title_key)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    @classmethod
    async def afrom_texts(
        cls,
        texts: list[str],
        embedding: Any = None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        location: Location = ":memory:",
        collection: str = "twofold",
        title_key: str | None = None,
        **options: Any,
    ) -> Self:
        """`from_texts` without blocking the event loop."""
        index = await HybridIndex.aopen(location, collection, dense=embedding, **options)
        store = cls(index, embedding=embedding, title_key=title_key)
        await store.aadd_texts(texts, metadatas, ids=ids)
        return store

    @classmethod
    def from_documents(cls, documents: list[Document], embedding: Any = None, **kwargs: Any) -> Self:
        """Open a store and add documents to it; further arguments are those of `from_texts`."""
        return cls.from_texts(**_as_columns(documents, kwargs), embedding=embedding)

    @classmethod
    async def afrom_documents(cls, documents: list[Document], embedding: Any = None, **kwargs: Any) -> Self:
        """`from_documents` without blocking the event loop."""
        return await cls.afrom_texts(**_as_columns(documents, kwargs), embedding=embedding)

    # --- storing -------------------------------------------------------------------------------

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Store texts, and replace those whose id is already there; `batch_size` and `progress` are as for `add`."""
        return self.index.add(_to_stored(texts, metadatas, ids, self.title_key), **kwargs)

    async def aadd_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """`add_texts` without blocking the event loop."""
        return await self.index.aadd(_to_stored(texts, metadatas, ids, self.title_key), **kwargs)

    def add_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:
        """Store documents, and replace those whose id is already there. `ids` go before the documents' own."""
        return self.add_texts(**_as_columns(documents, kwargs))

    async def aadd_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:
        """`add_documents` without blocking the event loop."""
        return await self.aadd_texts(**_as_columns(documents, kwargs))

    def delete(self, ids: list[str] | None = None, *, filter: Any = None, **kwargs: Any) -> bool:
        """Delete by ids or by filter; without either, everything. Ids that aren't there are no error."""
        if ids is None and filter is None:
            self.index.clear()
        else:
            self.index.delete(ids, filter=filter)
        return True

    async def adelete(self, ids: list[str] | None = None, *, filter: Any = None, **kwargs: Any) -> bool:
        """`delete` without blocking the event loop."""
        if ids is None and filter is None:
            await self.index.aclear()
        else:
            await self.index.adelete(ids, filter=filter)
        return True

    # --- finding -------------------------------------------------------------------------------

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Documents by id, in the order of the ids; those that aren't there are left out."""
        return [to_document(each, self.title_key) for each in self.index.get(_ids(ids)) if each is not None]

    async def aget_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """`get_by_ids` without blocking the event loop."""
        return [to_document(each, self.title_key) for each in await self.index.aget(_ids(ids)) if each is not None]

    def _documents(self, result: SearchResult) -> list[Document]:
        return to_documents(result, title_key=self.title_key)

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Find documents by meaning and by words."""
        return self._documents(self.index.search(query, k, **kwargs))

    async def asimilarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """`similarity_search` without blocking the event loop."""
        return self._documents(await self.index.asearch(query, k, **kwargs))

    def similarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> Scored:
        """The same, each with its final score: higher is better."""
        return [(to_document(hit, self.title_key), hit.score) for hit in self.index.search(query, k, **kwargs)]

    async def asimilarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> Scored:
        """`similarity_search_with_score` without blocking the event loop."""
        return [(to_document(hit, self.title_key), hit.score) for hit in await self.index.asearch(query, k, **kwargs)]

    def _similarity_search_with_relevance_scores(self, query: str, k: int = 4, **kwargs: Any) -> Scored:
        return [(to_document(hit, self.title_key), hit.relevance) for hit in self.index.search(query, k, **kwargs)]

    async def _asimilarity_search_with_relevance_scores(self, query: str, k: int = 4, **kwargs: Any) -> Scored:
        return [
            (to_document(hit, self.title_key), hit.relevance) for hit in await self.index.asearch(query, k, **kwargs)
        ]

    def similarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> list[Document]:
        """Find the documents nearest to a vector, by meaning alone."""
        return self._documents(self.index.search_by_vector(embedding, k, **kwargs))

    async def asimilarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> list[Document]:
        """`similarity_search_by_vector` without blocking the event loop."""
        return self._documents(await self.index.asearch_by_vector(embedding, k, **kwargs))

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Find documents that fit the query and differ from each other.

        Args:
            query: What to look for, by meaning and by words.
            k: How many documents at most.
            fetch_k: How many of the best to choose from.
            lambda_mult: From 0, as different as possible, to 1, the ranking of `similarity_search`.
            kwargs: Whatever else `HybridIndex.search_diverse` takes.
        """
        return self._documents(self.index.search_diverse(query, k, **_mmr(fetch_k, lambda_mult), **kwargs))

    async def amax_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """`max_marginal_relevance_search` without blocking the event loop."""
        return self._documents(await self.index.asearch_diverse(query, k, **_mmr(fetch_k, lambda_mult), **kwargs))

    def max_marginal_relevance_search_by_vector(
        self, embedding: list[float], k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Find documents that are near a vector and differ from each other."""
        return self._documents(self.index.search_diverse(embedding, k, **_mmr(fetch_k, lambda_mult), **kwargs))

    async def amax_marginal_relevance_search_by_vector(
        self, embedding: list[float], k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """`max_marginal_relevance_search_by_vector` without blocking the event loop."""
        return self._documents(await self.index.asearch_diverse(embedding, k, **_mmr(fetch_k, lambda_mult), **kwargs))


class HybridTranslator(Visitor):
    """What a model asks of the metadata as a filter of the index, for `SelfQueryRetriever` to search with."""

    def visit_structured_query(self, structured_query: StructuredQuery) -> tuple[str, dict[str, Any]]:
        """The text to look for, and the arguments of the search."""
        asked = {} if structured_query.filter is None else {"filter": structured_query.filter.accept(self)}
        return structured_query.query, asked

    def visit_operation(self, operation: Operation) -> dict[str, Any]:
        """Conditions that are combined."""
        parts = [each.accept(self) for each in operation.arguments]
        return {"not": {"or": parts}} if operation.operator == Operator.NOT else {operation.operator.value: parts}

    def visit_comparison(self, comparison: Comparison) -> dict[str, Any]:
        """One condition. A list contains its elements, and "like" finds words of a text."""
        name = comparison.comparator.value
        value = comparison.value
        if isinstance(value, Mapping) and "date" in value:  # how LangChain's parser hands over dates and datetimes
            value = value["date"]
        if comparison.comparator in (Comparator.IN, Comparator.NIN) and not isinstance(value, (list, tuple)):
            value = [value]
        return {comparison.attribute: {_COMPARATORS.get(name, name): value}}


_COMPARATORS = {"contain": "eq", "like": "text"}
"""Those that the filter language has another word for."""


def _ids(given: Sequence[str]) -> list[str]:
    if not isinstance(given, Iterable) or isinstance(given, (str, bytes, type)):
        raise InvalidQuery(f"ids must be a list of strings, got {type(given).__name__}")
    return list(given)


def _mmr(fetch_k: int, lambda_mult: float) -> dict[str, Any]:
    if isinstance(lambda_mult, bool) or not isinstance(lambda_mult, (int, float)):
        raise InvalidQuery(f"lambda_mult must be a number from 0 to 1, got {lambda_mult!r}")
    return {"candidates": fetch_k, "diversity": 1 - lambda_mult}
