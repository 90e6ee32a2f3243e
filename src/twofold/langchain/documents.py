"""What the index holds as LangChain has it: hits as documents, documents back as they were stored, the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from twofold import Document as StoredDocument
from twofold import Hit, HybridIndex, InvalidDocument, SearchResult
from twofold.memory import added_by_search


def to_document(stored: Hit | StoredDocument) -> Document:
    """A document as it was stored, nothing added."""
    return Document(page_content=stored.text, id=stored.id, metadata=dict(stored.metadata))


def to_documents(result: SearchResult, *, explain: bool = False) -> list[Document]:
    """The hits of a search; with `explain`, each with its score and why it is there beside its own metadata."""
    return [_explained(hit, result) if explain else to_document(hit) for hit in result]


def _explained(hit: Hit, result: SearchResult) -> Document:
    document = to_document(hit)
    if "explanation" not in document.metadata:  # which marks what a search added, when a document is written back
        for name, value in hit.as_metadata(result).items():
            document.metadata.setdefault(name, value)  # the user's own goes first
    return document


def as_columns(documents: Sequence[Document], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `add_texts` for documents: ids that are given go before the documents' own."""
    own_ids = [document.id for document in documents]
    return {
        **arguments,
        "texts": [document.page_content for document in documents],
        "metadatas": [document.metadata for document in documents],
        "ids": own_ids if arguments.get("ids") is None else arguments["ids"],
    }


def to_stored(
    texts: Iterable[str], metadatas: Sequence[dict[str, Any] | None] | None, ids: Sequence[str | None] | None
) -> list[StoredDocument]:
    """Texts as documents of an index; one whose id is None gets one derived from what it holds, None is no metadata."""
    given = list(texts)
    for name, column in (("metadatas", metadatas), ("ids", ids)):
        if column and len(column) != len(given):
            raise InvalidDocument(f"{len(given)} texts but {len(column)} {name}: give one for each text")
    rows = zip(given, metadatas or [{}] * len(given), ids or [None] * len(given), strict=True)
    return [StoredDocument(text, identity, _own_metadata(metadata or {})) for text, metadata, identity in rows]


def _own_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata without what a retriever added, so that a document can be found, changed and written back."""
    added = added_by_search(metadata)
    return {name: value for name, value in metadata.items() if name not in added}


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
