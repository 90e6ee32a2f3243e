"""langchain-qdrant and llama-index's Qdrant store accept the client as it is, with hybrid search."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import models as m

from twofold.embedded import EmbeddedClient, async_embedded_client, embedded_client

TEXTS = ["the fox jumps", "a lazy dog sleeps", "checkRateLimit fails with ERR_42", "migration plan"]


def words(text: str) -> tuple[list[int], list[float]]:
    counts: dict[int, float] = {}
    for word in text.lower().split():
        index = int(hashlib.sha1(word.encode()).hexdigest()[:6], 16)
        counts[index] = counts.get(index, 0.0) + 1.0
    return list(counts), list(counts.values())


def meaning(text: str) -> list[float]:
    return [byte / 255 - 0.5 for byte in hashlib.sha256(text.encode()).digest()[:16]]


def test_langchain(client: EmbeddedClient) -> None:
    qdrant = pytest.importorskip("langchain_qdrant")
    from langchain_core.embeddings import Embeddings

    class Dense(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [meaning(text) for text in texts]

        def embed_query(self, text: str) -> list[float]:
            return meaning(text)

    class Sparse(qdrant.SparseEmbeddings):  # type: ignore[name-defined,misc]
        def embed_documents(self, texts: list[str]) -> list[Any]:
            return [self.embed_query(text) for text in texts]

        def embed_query(self, text: str) -> Any:
            indices, values = words(text)
            return qdrant.SparseVector(indices=indices, values=values)

    client.create_collection(
        "lc",
        {"dense": m.VectorParams(size=16, distance=m.Distance.COSINE)},
        {"sparse": m.SparseVectorParams(modifier=m.Modifier.IDF)},
    )
    store = qdrant.QdrantVectorStore(
        client,
        "lc",
        embedding=Dense(),
        sparse_embedding=Sparse(),
        retrieval_mode=qdrant.RetrievalMode.HYBRID,
        vector_name="dense",
        sparse_vector_name="sparse",
    )
    ids = store.add_texts(TEXTS, metadatas=[{"n": n} for n in range(4)])
    found = store.similarity_search("checkRateLimit ERR_42", k=2)
    assert found[0].page_content == TEXTS[2]
    scored = store.similarity_search_with_score(
        "fox", k=1, filter=m.Filter(must=[m.FieldCondition(key="metadata.n", match=m.MatchValue(value=0))])
    )
    assert scored[0][0].metadata["n"] == 0
    assert store.max_marginal_relevance_search("dog sleeps", k=2)
    assert [document.page_content for document in store.get_by_ids([ids[1]])] == [TEXTS[1]]
    assert store.delete([ids[2]])
    assert client.count("lc").count == 3
    assert len(store.as_retriever(search_kwargs={"k": 3}).invoke("plan")) == 3


def test_llama_index(tmp_path: Path) -> None:
    module = pytest.importorskip("llama_index.vector_stores.qdrant")
    from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
    from llama_index.core.vector_stores.types import (
        MetadataFilter,
        MetadataFilters,
        VectorStoreQuery,
        VectorStoreQueryMode,
    )

    def sparse(texts: list[str]) -> tuple[list[list[int]], list[list[float]]]:
        pairs = [words(text) for text in texts]
        return [indices for indices, _ in pairs], [values for _, values in pairs]

    client, async_client = embedded_client(tmp_path), async_embedded_client(tmp_path)
    store = module.QdrantVectorStore(
        "li",
        client=client,
        aclient=async_client,
        enable_hybrid=True,
        sparse_doc_fn=sparse,
        sparse_query_fn=sparse,
    )
    nodes = [
        TextNode(
            text=text,
            embedding=meaning(text),
            metadata={"n": n},
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"doc{n}")},
        )
        for n, text in enumerate(TEXTS)
    ]
    store.add(nodes)
    query = VectorStoreQuery(
        query_embedding=meaning("something else"),
        query_str="checkRateLimit ERR_42",
        similarity_top_k=2,
        sparse_top_k=4,
        alpha=0.1,
        mode=VectorStoreQueryMode.HYBRID,
    )
    assert store.query(query).nodes[0].get_content() == TEXTS[2]
    assert asyncio.run(store.aquery(query)).nodes[0].get_content() == TEXTS[2]
    query.filters = MetadataFilters(filters=[MetadataFilter(key="n", value=1)])
    assert [node.get_content() for node in store.query(query).nodes] == [TEXTS[1]]
    store.delete("doc2")
    assert client.count("li").count == 3
    assert len(store.get_nodes(node_ids=[nodes[0].node_id])) == 1
    client.close()
    asyncio.run(async_client.close())
