"""Writes a collection with somebody else's package, or reads it with that: run in an environment that has the package.

    python tests/foreign/write.py langchain write FOLDER     # into a store of qdrant-client's local mode
    python tests/foreign/write.py langchain read FOLDER "rathole port"    # prints what the package itself finds
    python tests/foreign/write.py langchain record FOLDER    # prints what lies in the store, as JSON

`in_own_environments.sh` does all of that for every package, each in an environment of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import sys
from collections.abc import Callable
from typing import Any

from qdrant_client import QdrantClient, models

COLLECTION = "notes"
DIM = 64
NOTES = [
    ("Rathole tunnels listen on port 2333 and forward to the home server.", {"year": 2021, "topic": "network"}),
    ("checkRateLimit rejects a client after 100 requests a minute.", {"year": 2022, "topic": "api"}),
    ("ERR_CONN_RESET appears when the proxy closes idle connections.", {"year": 2022, "topic": "network"}),
    ("Ana drinks oat milk only; dairy makes her ill.", {"year": 2023, "topic": "people"}),
    ("The migration 032 renames the column user_name to login.", {"year": 2023, "topic": "database"}),
    ("Apple cake needs four eggs and a pinch of salt.", {"year": 2024, "topic": "kitchen"}),
    ("The backup of the database runs every night at two.", {"year": 2024, "topic": "database"}),
    ("Zebras in Kenya cross the river in July.", {"year": 2020, "topic": "animals"}),
]


def embed(text: str) -> list[float]:
    """The sum of one fixed direction for each word: a model that is the same in every environment."""
    total = [0.0] * DIM
    for word in re.findall(r"\w+", text.lower()):
        for place, byte in enumerate(hashlib.shake_128(word.encode()).digest(DIM)):
            total[place] += byte / 127.5 - 1
    length = sum(value * value for value in total) ** 0.5 or 1.0
    return [value / length for value in total]


def words(text: str) -> tuple[list[int], list[float]]:
    """Stands in for a learned sparse model, whose numbers are its own."""
    counts: dict[int, float] = {}
    for word in re.findall(r"\w+", text.lower()):
        index = int(hashlib.sha1(word.encode()).hexdigest()[:6], 16)
        counts[index] = counts.get(index, 0.0) + 1.0
    return list(counts), list(counts.values())


# --- LangChain ---


def _langchain(client: QdrantClient, *, hybrid: bool, make: bool) -> Any:
    from langchain_core.embeddings import Embeddings
    from langchain_qdrant import QdrantVectorStore, RetrievalMode, SparseEmbeddings, SparseVector

    class Dense(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [embed(text) for text in texts]

        def embed_query(self, text: str) -> list[float]:
            return embed(text)

    class Sparse(SparseEmbeddings):
        def embed_documents(self, texts: list[str]) -> list[SparseVector]:
            return [self.embed_query(text) for text in texts]

        def embed_query(self, text: str) -> SparseVector:
            indices, values = words(text)
            return SparseVector(indices=indices, values=values)

    more: dict[str, Any] = {"sparse_vector_name": "langchain-sparse", "sparse_embedding": Sparse()} if hybrid else {}
    more["retrieval_mode"] = RetrievalMode.HYBRID if hybrid else RetrievalMode.DENSE
    if make and not client.collection_exists(COLLECTION):
        sparse = {"langchain-sparse": models.SparseVectorParams()} if hybrid else None
        params = models.VectorParams(size=DIM, distance=models.Distance.COSINE)
        client.create_collection(COLLECTION, params, sparse)
    return QdrantVectorStore(client, COLLECTION, embedding=Dense(), **more)


def langchain(client: QdrantClient, query: str | None, *, hybrid: bool = False) -> list[str]:
    store = _langchain(client, hybrid=hybrid, make=query is None)
    if query is None:
        store.add_texts([text for text, _ in NOTES], metadatas=[metadata for _, metadata in NOTES])
        return []
    return [document.page_content for document in store.similarity_search(query, k=3)]


def langchain_hybrid(client: QdrantClient, query: str | None) -> list[str]:
    return langchain(client, query, hybrid=True)


# --- LlamaIndex ---


def llamaindex(client: QdrantClient, query: str | None, *, hybrid: bool = False) -> list[str]:
    from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
    from llama_index.core.vector_stores.types import VectorStoreQuery
    from llama_index.vector_stores.qdrant import QdrantVectorStore

    def sparse(texts: list[str]) -> tuple[list[list[int]], list[list[float]]]:
        indices, values = zip(*map(words, texts), strict=True)
        return list(indices), list(values)

    more: dict[str, Any] = {"enable_hybrid": True, "sparse_doc_fn": sparse, "sparse_query_fn": sparse} if hybrid else {}
    store = QdrantVectorStore(COLLECTION, client=client, **more)
    if query is None:
        nodes: list[Any] = [
            TextNode(
                text=text,
                metadata=metadata,
                embedding=embed(text),
                relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"page-{number}")},
            )
            for number, (text, metadata) in enumerate(NOTES)
        ]
        store.add(nodes)
        return []
    found = store.query(VectorStoreQuery(query_embedding=embed(query), query_str=query, similarity_top_k=3))
    return [node.get_content() for node in found.nodes or ()]


def llamaindex_hybrid(client: QdrantClient, query: str | None) -> list[str]:
    return llamaindex(client, query, hybrid=True)


# --- Haystack ---


def haystack(client: QdrantClient, query: str | None, *, sparse: bool = False) -> list[str]:
    from haystack import Document
    from haystack.dataclasses.sparse_embedding import SparseEmbedding
    from haystack_integrations.document_stores.qdrant import QdrantDocumentStore

    store = QdrantDocumentStore(
        ":memory:", index=COLLECTION, embedding_dim=DIM, use_sparse_embeddings=sparse, sparse_idf=sparse
    )
    store._client = client  # the store of this process, which only one client may have open
    if query is None:
        store._set_up_collection(COLLECTION, DIM, False, "cosine", sparse, sparse)
        made = []
        for text, metadata in NOTES:
            own = SparseEmbedding(*words(text)) if sparse else None
            made.append(Document(content=text, meta=metadata, embedding=embed(text), sparse_embedding=own))
        store.write_documents(made)
        return []
    return [document.content or "" for document in store._query_by_embedding(embed(query), top_k=3)]


def haystack_sparse(client: QdrantClient, query: str | None) -> list[str]:
    return haystack(client, query, sparse=True)


# --- mem0 ---


def mem0(client: QdrantClient, query: str | None) -> list[str]:
    os.environ.setdefault("MEM0_TELEMETRY", "False")
    os.environ.setdefault("MEM0_DIR", os.path.join(os.environ.get("TMPDIR", "/tmp"), "mem0"))
    os.environ.setdefault("OPENAI_API_KEY", "none")
    from mem0 import Memory

    class Model:
        config = None

        def embed(self, text: str, memory_action: str | None = None) -> list[float]:
            return embed(text)

        def embed_batch(self, texts: list[str], memory_action: str | None = None) -> list[list[float]]:
            return [embed(text) for text in texts]

    store = {"client": client, "collection_name": COLLECTION, "embedding_model_dims": DIM}
    memory = Memory.from_config(
        {"vector_store": {"provider": "qdrant", "config": store}, "history_db_path": ":memory:"}
    )
    memory.embedding_model = Model()
    if query is None:
        for text, metadata in NOTES:
            memory.add(text, user_id="ada", metadata=metadata, infer=False)
        return []
    return [found["memory"] for found in memory.search(query, filters={"user_id": "ada"})["results"]][:3]


# --- mcp-server-qdrant ---


def mcp_server_qdrant(client: QdrantClient, query: str | None) -> list[str]:
    from mcp_server_qdrant.embeddings.base import EmbeddingProvider
    from mcp_server_qdrant.qdrant import Entry, QdrantConnector

    class Model(EmbeddingProvider):  # type: ignore[misc]  # only its own environment has it
        async def embed_documents(self, documents: list[str]) -> list[list[float]]:
            return [embed(text) for text in documents]

        async def embed_query(self, query: str) -> list[float]:
            return embed(query)

        def get_vector_name(self) -> str:
            return "fast-all-minilm-l6-v2"

        def get_vector_size(self) -> int:
            return DIM

    class Awaited:
        """The client of this process, awaited."""

        def __getattr__(self, name: str) -> Any:
            async def call(*args: Any, **kwargs: Any) -> Any:
                return getattr(client, name)(*args, **kwargs)

            return call

    async def use() -> list[str]:
        connector = QdrantConnector(":memory:", None, COLLECTION, Model())
        connector._client = Awaited()
        if query is None:
            for text, metadata in NOTES:
                await connector.store(Entry(content=text, metadata=metadata))
            return []
        return [entry.content for entry in await connector.search(query, limit=3)]

    return asyncio.run(use())


PACKAGES: dict[str, Callable[[QdrantClient, str | None], list[str]]] = {
    "langchain": langchain,
    "langchain-hybrid": langchain_hybrid,
    "llamaindex": llamaindex,
    "llamaindex-hybrid": llamaindex_hybrid,
    "haystack": haystack,
    "haystack-sparse": haystack_sparse,
    "mem0": mem0,
    "mcp-server-qdrant": mcp_server_qdrant,
}


def recorded(client: QdrantClient) -> str:
    """What a package made, as JSON: the settings of the collection, and a line for each row."""
    params = client.get_collection(COLLECTION).config.params.model_dump(mode="json", exclude_none=True)
    points, _ = client.scroll(COLLECTION, limit=100, with_vectors=True)
    kept = {name: params[name] for name in ("vectors", "sparse_vectors") if name in params}
    lines = []
    for point in points:
        row = point.model_dump(mode="json", include={"id", "payload", "vector"})
        lines.append(json.dumps({**row, "vector": rounded(row["vector"])}, ensure_ascii=False))
    return f'{{"settings": {json.dumps(kept)},\n"rows": [\n' + ",\n".join(lines) + "\n]}"


def rounded(value: Any) -> Any:
    """Numbers of a vector as they are worth to be kept."""
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list) else round(value, 5)


def main() -> None:
    package, action, folder, *rest = sys.argv[1:]
    client = QdrantClient(path=folder)
    if action == "record":
        print(recorded(client))
    else:
        print(json.dumps(PACKAGES[package](client, rest[0] if action == "read" else None)))
    client.close()


if __name__ == "__main__":
    main()
