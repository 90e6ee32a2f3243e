"""What may be passed as `dense=` and `sparse=`, and vectors that can't be stored."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from llama_index.core import MockEmbedding

from twofold import BM25, ConfigError, Document, EncoderError, HybridIndex, PartialAdd
from twofold.encoders import models
from twofold.encoders.base import DenseEncoder, Sparse, check_dense
from twofold.encoders.models import LearnedSparse, dimension_of, resolve_dense, resolve_sparse
from twofold.testing import HashEmbedding


class Prefixed:
    """An asymmetric model: a passage lies near the query that is written differently."""

    model_name = "prefixed"

    def __init__(self) -> None:
        self.inner = HashEmbedding(32)
        self.seen: list[str] = []

    def _embed(self, text: str) -> list[float]:
        self.seen.append(text)
        return self.inner.embed_query(text)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        assert isinstance(texts, list)
        return [self._embed(f"passage: {text}") for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self._embed(f"query: {text}")


class Awaited(Embeddings):
    """A LangChain embedding with async methods of its own."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        raise AssertionError("the blocking method was used")

    def embed_query(self, text: str) -> list[float]:
        raise AssertionError("the blocking method was used")

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[1.0, 0.0] for _ in texts]

    async def aembed_query(self, text: str) -> list[float]:
        return [0.0, 1.0]


class FastembedLike:
    model_name = "fast/embed"

    def passage_embed(self, texts: Sequence[str]) -> Iterator[Any]:
        return (np.asarray([len(text), 1.0]) for text in texts)

    def query_embed(self, query: str) -> Iterator[Any]:
        return iter([np.asarray([-len(query), 1.0])])


@pytest.mark.parametrize(
    ("model", "name", "dim"),
    [
        (DeterministicFakeEmbedding(size=5), "DeterministicFakeEmbedding", 5),
        (MockEmbedding(embed_dim=7, model_name="mock-7"), "MockEmbedding:mock-7", 7),
        (HashEmbedding(9), "HashEmbedding:hash-9", 9),
        (Prefixed(), "Prefixed:prefixed", 32),
        (FastembedLike(), "fast/embed", 2),
    ],
    ids=["langchain", "llamaindex", "plain", "prefixed", "fastembed"],
)
def test_an_embedding_of_any_framework_is_an_encoder(model: Any, name: str, dim: int) -> None:
    encoder = resolve_dense(model)
    assert encoder.name == name
    assert not encoder.by_name
    assert dimension_of(encoder) == dim
    documents = check_dense(encoder.embed_documents(("one", "two")), 2, dim, name)
    query = check_dense([encoder.embed_query("one")], 1, dim, name)
    assert documents.dtype == query.dtype == np.float32
    if encoder.aembed_documents is not None and encoder.aembed_query is not None:
        assert np.array_equal(asyncio.run(_wait(encoder.aembed_documents(("one", "two")))), documents)
        assert np.array_equal(asyncio.run(_wait(encoder.aembed_query("one"))), query[0])


async def _wait(vectors: Awaitable[Any]) -> Any:
    return np.asarray(await vectors, dtype=np.float32)


@pytest.mark.parametrize(
    "model",
    [DeterministicFakeEmbedding(size=8), MockEmbedding(embed_dim=8), FastembedLike(), Prefixed()],
    ids=["langchain", "llamaindex", "fastembed", "plain"],
)
def test_any_of_them_serves_an_index(model: Any) -> None:
    with HybridIndex.open(":memory:", dense=model) as index:
        index.add(["the first tunnel", "the second port"])
        result = index.search("tunnel", 2)
        assert len(result) == 2
        assert result.mode == "hybrid"
        assert result.degraded is None


def test_queries_and_documents_are_told_apart() -> None:
    model = Prefixed()
    with HybridIndex.open(":memory:", dense=model) as index:
        model.seen.clear()
        index.add(["a tunnel", "a port"])
        assert model.seen == ["passage: a tunnel", "passage: a port"]
        index.search("a tunnel")
        assert model.seen[2] == "query: a tunnel"
        assert {text.split()[0] for text in model.seen[2:]} == {"query:"}, "so are the questions that scores are set by"
        asked = len(model.seen)
        index.search("a tunnel")
        assert len(model.seen) == asked, "the vector of a query that was asked before is remembered"


class Recording(FastembedLike):
    """Keeps what it is given to embed."""

    def __init__(self, model_name: str) -> None:
        self.model_name = model_name
        self.seen: list[str] = []

    def passage_embed(self, texts: Sequence[str]) -> Iterator[Any]:
        self.seen += texts
        return super().passage_embed(texts)

    def query_embed(self, query: str) -> Iterator[Any]:
        self.seen.append(query)
        return super().query_embed(query)


@pytest.mark.parametrize(
    ("name", "passage", "query"),
    [
        ("intfloat/multilingual-e5-large", "passage: tunnel", "query: tunnel"),
        ("nomic-ai/nomic-embed-text-v1.5-Q", "search_document: tunnel", "search_query: tunnel"),
        ("BAAI/bge-base-en-v1.5", "tunnel", "Represent this sentence for searching relevant passages: tunnel"),
        ("sentence-transformers/all-MiniLM-L6-v2", "tunnel", "tunnel"),
        ("BAAI/bge-small-zh-v1.5", "tunnel", "tunnel"),
    ],
)
def test_a_fastembed_model_gets_the_words_it_was_trained_with(name: str, passage: str, query: str) -> None:
    model = Recording(name)
    encoder = resolve_dense(model)
    encoder.embed_documents(["tunnel"])
    encoder.embed_query("tunnel")
    assert model.seen == [passage, query]


def test_async_methods_of_a_model_are_awaited() -> None:
    encoder = resolve_dense(Awaited())
    assert encoder.aembed_documents is not None
    assert encoder.aembed_query is not None
    assert asyncio.run(_wait(encoder.aembed_documents(("one", "two")))).tolist() == [[1.0, 0.0], [1.0, 0.0]]
    assert asyncio.run(_wait(encoder.aembed_query("one"))).tolist() == [0.0, 1.0]


def test_an_encoder_stands_for_itself_and_nothing_for_the_bundled_one() -> None:
    encoder = resolve_dense(HashEmbedding())
    assert resolve_dense(encoder) is encoder
    assert resolve_dense(None).name == resolve_dense("fast").name == models.MINILM
    assert resolve_dense("best").name == f"{models.MINILM}+{models.ARCTIC}"
    assert all(resolve_dense(name).name == name for name in (models.MINILM, models.ARCTIC, models.BOTH))


@pytest.mark.parametrize(
    "model",
    [5, object(), [], b"name", SimpleNamespace(embed_documents=len), SimpleNamespace(embed_documents=1, embed_query=2)],
    ids=["number", "object", "list", "bytes", "half of it", "no methods"],
)
def test_anything_else_is_refused_with_what_is_needed(model: Any) -> None:
    with pytest.raises(ConfigError, match=r"embed_documents\(texts\) and embed_query\(text\)"):
        resolve_dense(model)


# --- vectors that can't be stored -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "hint"),
    [
        pytest.param([[1.0, math.nan], [0.0, 1.0]], "NaN or infinity for text 0 of 2", id="NaN"),
        pytest.param([[1.0, 0.0], [0.0, math.inf]], "NaN or infinity for text 1 of 2", id="infinity"),
        pytest.param([[1.0, 0.0], [None, 1.0]], "NaN or infinity for text 1", id="None in a vector"),
        pytest.param([[1.0, 0.0]], "for 2 texts", id="one too few"),
        pytest.param([[1.0, 0.0]] * 3, "for 2 texts", id="one too many"),
        pytest.param([], "for 2 texts", id="no vectors"),
        pytest.param([1.0, 0.0], "for 2 texts", id="numbers"),
        pytest.param([[], []], "for 2 texts", id="empty vectors"),
        pytest.param(None, "for 2 texts", id="None"),
        pytest.param([[[1.0, 0.0]], [[1.0, 0.0]]], "for 2 texts", id="vectors of vectors"),
        pytest.param([[1.0, 0.0, 0.0]] * 2, "3 dimensions where 2 were expected", id="too long"),
        pytest.param([[1.0], [1.0, 2.0]], "not a list of vectors", id="ragged"),
        pytest.param([["a", "b"]] * 2, "not a list of vectors", id="strings"),
        pytest.param({"a": 1}, "not a list of vectors", id="dict"),
        pytest.param(iter([[1.0, 0.0]]), "not a list of vectors", id="iterator"),
    ],
)
def test_bad_vectors_are_an_encoder_error(raw: Any, hint: str) -> None:
    with pytest.raises(EncoderError, match=hint):
        check_dense(raw, 2, 2, "some model")


@pytest.mark.parametrize("vector", [[], None, 5.0, [math.nan], [[1.0, 2.0]], ["a"], "text"], ids=repr)
def test_a_model_that_gives_no_vector_is_found_out_when_it_is_measured(vector: Any) -> None:
    encoder = DenseEncoder("odd", lambda texts: [vector] * len(texts), lambda text: vector)
    with pytest.raises(EncoderError, match="odd"):
        dimension_of(encoder)


def test_a_model_that_fails_when_it_is_measured_says_why() -> None:
    def fail(text: str) -> Any:
        raise RuntimeError("no key")

    with pytest.raises(EncoderError, match="no key"):
        dimension_of(DenseEncoder("broken", lambda texts: [], fail))
    with pytest.raises(EncoderError, match="HashEmbedding"):
        HybridIndex.open(":memory:", dense=HashEmbedding)  # the class, not an object of it


class Turning:
    """Good until it is told otherwise."""

    model_name = "turning"

    def __init__(self) -> None:
        self.bad: Any = None

    def embed_documents(self, texts: list[str]) -> Any:
        if isinstance(self.bad, Exception):
            raise self.bad
        return [[1.0, 0.0] for _ in texts] if self.bad is None else self.bad

    def embed_query(self, text: str) -> list[float]:
        return [1.0, 0.0]


@pytest.mark.parametrize(
    "bad", [[[math.nan, 1.0]], [[1.0]], [[1.0, 0.0]] * 2, [], RuntimeError("out of memory")], ids=repr
)
def test_a_batch_with_bad_vectors_is_not_stored(bad: Any) -> None:
    model = Turning()
    with HybridIndex.open(":memory:", dense=model) as index:
        index.add([Document(text="kept", id="kept")])
        model.bad = bad
        with pytest.raises(EncoderError, match="turning"):
            index.add([Document(text="lost", id="lost")])
        assert index.count() == 1
        model.bad = None

        def documents() -> Iterator[str]:
            yield from ("one", "two")
            model.bad = bad
            yield "three"

        with pytest.raises(PartialAdd) as caught:
            index.add(documents(), batch_size=1)
        assert index.count() == 1 + len(caught.value.written)
        assert len(caught.value.written) >= 1


# --- sparse ---------------------------------------------------------------------------------------


class FakeSplade:
    """What fastembed's learned models return: ids in no particular order."""

    def embed(self, texts: list[str]) -> Iterator[Any]:
        return (SimpleNamespace(indices=np.array([7, 2, 5]), values=np.array([0.1, 0.2, 0.3])) for _ in texts)

    def query_embed(self, text: str) -> Iterator[Any]:
        return self.embed([text])


def test_learned_vectors_are_sorted_by_id() -> None:
    model = LearnedSparse(FakeSplade(), "splade")  # type: ignore[arg-type]
    expected = Sparse([2, 5, 7], [0.2, 0.3, 0.1])
    assert model.embed_query("a") == expected
    assert model.embed_documents(["a", "b"]) == [expected, expected]
    assert model.matched_words("a", ["b", "c"]) == [(), ()]
    assert model.settings == {"model": "splade"}
    assert resolve_sparse(model, None) is model


def test_bm25_by_name_by_language_and_by_value() -> None:
    assert resolve_sparse(None, None).settings == resolve_sparse("bm25", None).settings == BM25().settings
    assert resolve_sparse(None, "german").settings["language"] == "german"
    encoder = BM25("french")
    assert resolve_sparse(encoder, None) is encoder
    with pytest.raises(ConfigError, match="either sparse= or language="):
        resolve_sparse(encoder, "german")
    with pytest.raises(ConfigError, match="matched_words"):
        resolve_sparse(object(), None)
