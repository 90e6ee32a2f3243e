"""What is measured: each engine fills, opens and searches the same data through its own front door."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import qdrant_edge as edge
from qdrant_client import QdrantClient, models

from benchmarks.data import DIM, Data, Sparse
from twofold import Document, HybridIndex
from twofold.encoders import base

DEPTH = 200
K = 10
BATCH = 256


class Engine(ABC):
    """An engine on a folder. `searches` names the ways to search, each a function of the query's number."""

    name: str
    largest = 100_000

    def __init__(self, folder: Path, data: Data) -> None:
        self.folder = folder
        self.data = data

    @abstractmethod
    def open(self) -> None: ...

    @abstractmethod
    def add(self, numbers: range) -> None: ...

    @abstractmethod
    def searches(self) -> dict[str, Callable[[int], Any]]: ...

    @abstractmethod
    def close(self) -> None: ...

    def optimize(self) -> bool:
        """Build the search graph, where that is a step of its own."""
        return False


def _number(text: str) -> int:
    return int(text.split(" ", 2)[1])


class _KnownDense:
    """Encoding is not what is measured: a text is the number of a vector."""

    def __init__(self, data: Data) -> None:
        self._data = data

    def embed_documents(self, texts: Sequence[str]) -> Any:
        return self._data.dense[[_number(text) for text in texts]]

    def embed_query(self, text: str) -> Any:
        return self._data.dense_queries[int(text)]


class _KnownSparse:
    needs_idf = True
    settings = {"model": "benchmark"}  # noqa: RUF012

    def __init__(self, data: Data) -> None:
        self._data = data

    def embed_documents(self, texts: Sequence[str]) -> list[base.Sparse]:
        found = (self._data.sparse[_number(text)] for text in texts)
        return [base.Sparse(sparse.indices, sparse.values) for sparse in found]

    def embed_query(self, text: str) -> base.Sparse:
        sparse = self._data.sparse_queries[int(text)]
        return base.Sparse(sparse.indices, sparse.values)

    def matched_words(self, query: str, texts: Sequence[str]) -> list[tuple[str, ...]]:
        return [() for _ in texts]


def known_encoders(data: Data) -> dict[str, Any]:
    """For an index of these texts, with nothing to encode."""
    known = _KnownDense(data)
    dense = base.DenseEncoder("benchmark", known.embed_documents, known.embed_query, dim=DIM)
    return {"dense": dense, "sparse": _KnownSparse(data)}


class Twofold(Engine):
    name = "twofold"

    def open(self) -> None:
        # By hand: the search graph is to be built between the measurements, not beside them.
        settings: dict[str, Any] = {"cache_size": 0, "optimize": "manual"}
        self.index = HybridIndex.open(self.folder, **known_encoders(self.data), **settings)

    def add(self, numbers: range) -> None:
        payloads = (self.data.payload(n) for n in numbers)
        documents = (Document(text=p["text"], id=p["id"], metadata=p["metadata"]) for p in payloads)
        self.index.add(documents, batch_size=BATCH)

    def searches(self) -> dict[str, Callable[[int], Any]]:
        search = self.index.search
        return {
            "hybrid": lambda i: search(str(i), K),
            "hybrid, explained": lambda i: search(str(i), K, explain=True),
            "rrf": lambda i: search(str(i), K, fusion="rrf"),
            "dense only": lambda i: search(str(i), K, alpha=1.0),
        }

    def optimize(self) -> bool:
        return bool(self.index.optimize())

    def close(self) -> None:
        self.index.close()


class RawEdge(Engine):
    """The engine with nothing around it: no validation, no locks, no ids of one's own, and its own default settings.

    Those have more search threads than Twofold gives it. With one it would be about a fifth faster at 1,000 points: a
    part of the ratio there is that setting.
    """

    name = "raw qdrant-edge"

    def open(self) -> None:
        path = str(self.folder)
        if (self.folder / "segments").exists():
            self.shard = edge.EdgeShard.load(path)
            return
        self.folder.mkdir(parents=True)
        hnsw = edge.HnswIndexConfig(16, 200, 10_000)
        vectors = {"dense": edge.EdgeVectorParams(DIM, edge.Distance.Cosine, hnsw_config=hnsw)}
        sparse = {"bm25": edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)}
        self.shard = edge.EdgeShard.create(path, edge.EdgeConfig(vectors=vectors, sparse_vectors=sparse))

    def add(self, numbers: range) -> None:
        data = self.data
        for start in range(numbers.start, numbers.stop, BATCH):
            points = [
                edge.Point(n, {"dense": data.dense[n].tolist(), "bm25": _edge_sparse(data.sparse[n])}, data.payload(n))
                for n in range(start, min(numbers.stop, start + BATCH))
            ]
            self.shard.update(edge.UpdateOperation.upsert_points(points))

    def searches(self) -> dict[str, Callable[[int], Any]]:
        return {
            "hybrid": lambda i: self._found(self._fused(i, self._formula(i))),
            "rrf": lambda i: self._found(self._fused(i, edge.Fusion.Rrf(61))),
            "dense only": lambda i: self._found(edge.QueryRequest(K, query=self._nearest(i)[0], with_payload=True)),
        }

    def _found(self, request: edge.QueryRequest) -> list[tuple[Any, float, Any]]:
        """Read, as all others hand it out: the engine's points are converted when somebody looks at them."""
        return [(point.id, point.score, point.payload) for point in self.shard.query(request)]

    def _nearest(self, i: int) -> tuple[edge.Query, edge.Query]:
        dense = edge.Query.Nearest(self.data.dense_queries[i].tolist(), using="dense")
        return dense, edge.Query.Nearest(_edge_sparse(self.data.sparse_queries[i]), using="bm25")

    def _fused(self, i: int, how: Any) -> edge.QueryRequest:
        legs = [edge.Prefetch(DEPTH, query) for query in self._nearest(i)]
        return edge.QueryRequest(K, query=how, prefetches=legs, with_payload=True)

    def _formula(self, i: int) -> edge.Formula:
        """What the index asks for by default, written by hand."""
        make, cosine, bm25 = edge.Expression, "$score[0]", "$score[1]"
        rising = make.Decay(edge.DecayKind.Lin, make.Variable(cosine), make.Constant(1.0), 0.5, 0.4)
        meaning = make.Mult([make.Constant(0.25), rising])
        full = 33 * len(self.data.sparse_queries[i].indices) ** 0.5
        words = make.Mult([make.Constant(0.75 / full), make.Variable(bm25)])
        return edge.Formula(make.Sum([meaning, words]), {cosine: 0.2, bm25: 0.0})

    def optimize(self) -> bool:
        return self.shard.optimize()

    def close(self) -> None:
        self.shard.flush()
        self.shard.close()


class LocalMode(Engine):
    name = "qdrant-client local"
    largest = 10_000

    def open(self) -> None:
        self.client = QdrantClient(path=str(self.folder))
        if not self.client.collection_exists("c"):
            self.client.create_collection(
                "c",
                vectors_config={"dense": models.VectorParams(size=DIM, distance=models.Distance.COSINE)},
                sparse_vectors_config={"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)},
            )

    def add(self, numbers: range) -> None:
        data = self.data
        for start in range(numbers.start, numbers.stop, BATCH):
            points = [
                models.PointStruct(
                    id=n,
                    vector={"dense": data.dense[n].tolist(), "bm25": _sparse(data.sparse[n])},
                    payload=data.payload(n),
                )
                for n in range(start, min(numbers.stop, start + BATCH))
            ]
            self.client.upsert("c", points)

    def searches(self) -> dict[str, Callable[[int], Any]]:
        return {"hybrid": self._hybrid, "dense only": self._dense}

    def _hybrid(self, i: int) -> Any:
        legs = [
            models.Prefetch(query=self.data.dense_queries[i].tolist(), using="dense", limit=DEPTH),
            models.Prefetch(query=_sparse(self.data.sparse_queries[i]), using="bm25", limit=DEPTH),
        ]
        return self.client.query_points("c", prefetch=legs, query=models.RrfQuery(rrf=models.Rrf(k=61)), limit=K)

    def _dense(self, i: int) -> Any:
        return self.client.query_points("c", query=self.data.dense_queries[i].tolist(), using="dense", limit=K)

    def close(self) -> None:
        self.client.close()


class LangChain(LocalMode):
    """langchain-qdrant's hybrid mode, on the store that local mode filled with the names it expects."""

    name = "langchain-qdrant"

    def searches(self) -> dict[str, Callable[[int], Any]]:
        from langchain_core.embeddings import Embeddings
        from langchain_qdrant import QdrantVectorStore, RetrievalMode
        from langchain_qdrant.sparse_embeddings import SparseEmbeddings, SparseVector

        data = self.data

        class Dense(Embeddings):
            def embed_documents(self, texts: list[str]) -> list[list[float]]:
                return [data.dense_queries[0].tolist() for _ in texts]

            def embed_query(self, text: str) -> list[float]:
                return list(data.dense_queries[int(text)].tolist())

        class Words(SparseEmbeddings):
            def embed_documents(self, texts: list[str]) -> list[SparseVector]:
                return [self.embed_query("0") for _ in texts]

            def embed_query(self, text: str) -> SparseVector:
                found = data.sparse_queries[int(text)]
                return SparseVector(indices=found.indices, values=found.values)

        store = QdrantVectorStore(
            self.client,
            "c",
            embedding=Dense(),
            sparse_embedding=Words(),
            retrieval_mode=RetrievalMode.HYBRID,
            vector_name="dense",
            sparse_vector_name="bm25",
            content_payload_key="text",
            validate_collection_config=False,
        )
        return {"hybrid": lambda i: store.similarity_search(str(i), K)}


class LlamaIndex(LocalMode):
    """llama-index's hybrid mode, on the store that local mode filled with the names it expects."""

    name = "llama-index"

    def searches(self) -> dict[str, Callable[[int], Any]]:
        from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode
        from llama_index.vector_stores.qdrant import QdrantVectorStore

        data = self.data

        def words(texts: list[str]) -> tuple[list[list[int]], list[list[float]]]:
            found = [data.sparse_queries[int(text)] for text in texts]
            return [f.indices for f in found], [f.values for f in found]

        store = QdrantVectorStore(
            "c",
            client=self.client,
            enable_hybrid=True,
            dense_vector_name="dense",
            sparse_vector_name="bm25",
            sparse_query_fn=words,
            sparse_doc_fn=words,
            text_key="text",
        )

        def search(i: int) -> Any:
            return store.query(
                VectorStoreQuery(
                    query_embedding=data.dense_queries[i].tolist(),
                    query_str=str(i),
                    similarity_top_k=K,
                    sparse_top_k=K,
                    hybrid_top_k=K,
                    mode=VectorStoreQueryMode.HYBRID,
                )
            )

        return {"hybrid": search}


def _edge_sparse(sparse: Sparse) -> edge.SparseVector:
    return edge.SparseVector(sparse.indices, sparse.values)


def _sparse(sparse: Sparse) -> models.SparseVector:
    return models.SparseVector(indices=sparse.indices, values=sparse.values)


ENGINES: tuple[type[Engine], ...] = (Twofold, RawEdge, LocalMode, LangChain, LlamaIndex)
