"""The peers, as their documentation sets them up for hybrid search with BM25, on the same embedded engine.

Both make their BM25 vectors with fastembed's Qdrant/bm25, which fetches its stop words from the hub. `qdrant_edge.Bm25`
is the same algorithm with the same settings (k 1.2, b 0.75, mean length 256), offline. Here it gets the language of the
set, which it would not by default.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from qdrant_client import QdrantClient, models
from qdrant_edge import Bm25, Bm25Config

from benchmarks.quality.vectors import Material
from twofold import embedded_client

_COLLECTION = "quality"
_BATCH = 256
_ID = "own_id"
Ask = Callable[..., list[str]]


@contextmanager
def langchain(material: Material, modifier: models.Modifier | None = None) -> Iterator[Ask]:
    """langchain-qdrant: RetrievalMode.HYBRID. It makes its collections without the IDF modifier."""
    with _client() as client:
        client.create_collection(
            _COLLECTION,
            vectors_config={"": models.VectorParams(size=_dim(material), distance=models.Distance.COSINE)},
            sparse_vectors_config={"langchain-sparse": models.SparseVectorParams(modifier=modifier)},
        )
        store = _langchain_store(client, material)
        documents = material.data.documents
        store.add_texts(
            [document.text for document in documents],
            metadatas=[{**document.metadata, _ID: document.id} for document in documents],
            ids=[_uuid(document.id) for document in documents],
            batch_size=_BATCH,
        )

        def ask(query: str, k: int, filter: Mapping[str, Any] | None = None) -> list[str]:
            found = store.similarity_search(query, k=k, filter=_native(filter, "metadata."))
            return [document.metadata[_ID] for document in found]

        yield ask


langchain_with_idf = partial(langchain, modifier=models.Modifier.IDF)


@contextmanager
def qdrant_bm25(material: Material) -> Iterator[Ask]:
    """Qdrant's own BM25 and nothing else: the textbook's formula, to compare with published figures."""
    model = Bm25(Bm25Config(language=material.language))
    with _client() as client:
        client.create_collection(
            _COLLECTION,
            vectors_config={},
            sparse_vectors_config={"words": models.SparseVectorParams(modifier=models.Modifier.IDF)},
        )
        documents = material.data.documents
        points = (
            models.PointStruct(
                id=number,
                vector={"words": _sparse(model.embed_document(document.text))},
                payload={**document.metadata, _ID: document.id},
            )
            for number, document in enumerate(documents)
        )
        client.upload_points(_COLLECTION, points, batch_size=_BATCH)

        def ask(query: str, k: int, filter: Mapping[str, Any] | None = None) -> list[str]:
            vector = _sparse(model.embed_query(query))
            found = client.query_points(
                _COLLECTION, query=vector, using="words", limit=k, query_filter=_native(filter, "")
            )
            return [(point.payload or {})[_ID] for point in found.points]

        yield ask


def _sparse(vector: Any) -> models.SparseVector:
    return models.SparseVector(indices=list(vector.indices), values=list(vector.values))


def _langchain_store(client: QdrantClient, material: Material) -> Any:
    from langchain_core.embeddings import Embeddings
    from langchain_qdrant import QdrantVectorStore, RetrievalMode
    from langchain_qdrant.sparse_embeddings import SparseEmbeddings, SparseVector

    class Dense(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return material.embed_documents(texts)

        def embed_query(self, text: str) -> list[float]:
            return material.embed_query(text)

    class Words(SparseEmbeddings):
        def __init__(self) -> None:
            self._model = Bm25(Bm25Config(language=material.language))

        def embed_documents(self, texts: list[str]) -> list[SparseVector]:
            found = [self._model.embed_document(text) for text in texts]
            return [SparseVector(indices=list(v.indices), values=list(v.values)) for v in found]

        def embed_query(self, text: str) -> SparseVector:
            vector = self._model.embed_query(text)
            return SparseVector(indices=list(vector.indices), values=list(vector.values))

    return QdrantVectorStore(
        client,
        _COLLECTION,
        embedding=Dense(),
        sparse_embedding=Words(),
        retrieval_mode=RetrievalMode.HYBRID,
        validate_collection_config=False,  # it would embed a text of its own
    )


@contextmanager
def llama_index(material: Material) -> Iterator[Ask]:
    """llama-index: vector_store_query_mode="hybrid" with its own alpha of 0.5 and as many candidates as hits."""
    from llama_index.core.schema import TextNode
    from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode

    with _client() as client:
        store = _llama_store(client, material)
        nodes = [
            TextNode(
                id_=_uuid(document.id),
                text=document.text,
                metadata={**document.metadata, _ID: document.id},
                embedding=material.embed_documents([document.text])[0],
            )
            for document in material.data.documents
        ]
        store.add(nodes)

        def ask(query: str, k: int, filter: Mapping[str, Any] | None = None) -> list[str]:
            asked = VectorStoreQuery(
                query_embedding=material.embed_query(query),
                query_str=query,
                similarity_top_k=k,
                mode=VectorStoreQueryMode.HYBRID,
            )
            result = store.query(asked, qdrant_filters=_native(filter, ""))
            return [node.metadata[_ID] for node in result.nodes or ()]

        yield ask


def _llama_store(client: QdrantClient, material: Material) -> Any:
    from llama_index.vector_stores.qdrant import QdrantVectorStore

    model = Bm25(Bm25Config(language=material.language))

    def encode(embed: Callable[[str], Any], texts: list[str]) -> tuple[list[list[int]], list[list[float]]]:
        found = [embed(text) for text in texts]
        return [list(vector.indices) for vector in found], [list(vector.values) for vector in found]

    return QdrantVectorStore(
        _COLLECTION,
        client=client,
        enable_hybrid=True,
        batch_size=_BATCH,
        sparse_doc_fn=partial(encode, model.embed_document),
        sparse_query_fn=partial(encode, model.embed_query),
        # What it sets by itself when it is given fastembed's model by name.
        sparse_config=models.SparseVectorParams(modifier=models.Modifier.IDF),
    )


@contextmanager
def _client() -> Iterator[QdrantClient]:
    client = embedded_client(":memory:")
    try:
        yield client
    finally:
        client.close()


def _native(where: Mapping[str, Any] | None, prefix: str) -> models.Filter | None:
    if where is None:
        return None
    return models.Filter(
        must=[models.FieldCondition(key=prefix + k, match=models.MatchValue(value=v)) for k, v in where.items()]
    )


def _dim(material: Material) -> int:
    return len(material.embed_documents([material.data.documents[0].text])[0])


def _uuid(identity: str | None) -> str:
    """Both keep only ids that Qdrant takes; the set's own id travels in the metadata."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, str(identity)))
