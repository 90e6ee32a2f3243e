"""The same for the adapters: errors of ours, or those that the framework raises of its own accord."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from pydantic import ValidationError

from tests.arguments.junk import offences
from twofold import HybridIndex, TwofoldError
from twofold.testing import HashEmbedding

MODEL = HashEmbedding()
ALLOWED = (TwofoldError, ValidationError)


@pytest.fixture
def index() -> Iterator[HybridIndex]:
    with HybridIndex.open(":memory:", dense=MODEL) as index:
        index.add(["tunnels listen on port 2333", "cake"], ids=["t", "c"])
        yield index


def taking(method: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """A method, known to take these arguments by name."""

    def call(**given: Any) -> Any:
        return method(**given)

    parameters = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return call


@pytest.mark.parametrize(
    ("method", "right", "names"),
    [
        ("add_texts", {"texts": ["a"]}, ["texts", "metadatas", "ids"]),
        ("add_documents", {"documents": []}, ["documents", "ids"]),
        ("delete", {"ids": ["c"]}, ["ids", "filter"]),
        ("similarity_search", {"query": "tunnels"}, ["query", "k", "filter", "alpha"]),
        ("similarity_search_by_vector", {"embedding": MODEL.embed_query("tunnels")}, ["embedding", "k", "filter"]),
        ("max_marginal_relevance_search", {"query": "tunnels"}, ["query", "k", "fetch_k", "lambda_mult", "filter"]),
    ],
)
def test_langchain(index: HybridIndex, method: str, right: dict[str, Any], names: list[str]) -> None:
    pytest.importorskip("langchain_core")
    from twofold.langchain import HybridVectorStore

    store = HybridVectorStore(index)
    assert offences(taking(getattr(store, method), names), right, allowed=ALLOWED) == []


def test_langchain_by_ids(index: HybridIndex) -> None:
    pytest.importorskip("langchain_core")
    from twofold.langchain import HybridVectorStore

    store = HybridVectorStore(index)
    assert offences(lambda ids: store.get_by_ids(ids), {}, allowed=ALLOWED) == []


@pytest.mark.parametrize(
    ("method", "names"),
    [
        ("add", ["nodes"]),
        ("delete", ["ref_doc_id"]),
        ("delete_nodes", ["node_ids", "filters"]),
        ("get_nodes", ["node_ids", "filters"]),
        ("query", ["query"]),
    ],
)
def test_llamaindex(method: str, names: list[str]) -> None:
    pytest.importorskip("llama_index.core")
    from twofold.llamaindex import HybridVectorStore

    with HybridVectorStore(location=":memory:", embed_model=MODEL) as store:
        assert offences(taking(getattr(store, method), names), {}, allowed=ALLOWED) == []


def test_what_a_llamaindex_query_holds() -> None:
    pytest.importorskip("llama_index.core")
    from llama_index.core.vector_stores import VectorStoreQuery
    from llama_index.core.vector_stores.types import VectorStoreQueryMode

    from twofold.llamaindex import HybridVectorStore

    names = ["query_embedding", "similarity_top_k", "filters", "alpha", "sparse_top_k", "hybrid_top_k"]
    with HybridVectorStore(location=":memory:", embed_model=MODEL) as store:

        def ask(**given: Any) -> None:
            store.query(VectorStoreQuery(query_str="tunnels", mode=VectorStoreQueryMode.HYBRID, **given))

        assert offences(taking(ask, names), {}, allowed=ALLOWED) == []


def test_operations_of_langgraph() -> None:
    """As a batch has them: the methods of LangGraph check some arguments before they get there."""
    pytest.importorskip("langgraph")
    from langgraph.store.base import GetOp, InvalidNamespaceError, ListNamespacesOp, PutOp, SearchOp

    from twofold.langgraph import QdrantStore

    operations: list[tuple[Any, dict[str, Any], list[str]]] = [
        (PutOp, {"namespace": ("a",), "key": "k", "value": {"text": "x"}}, ["namespace", "key", "value", "ttl"]),
        (GetOp, {"namespace": ("a",), "key": "k"}, ["namespace", "key"]),
        (SearchOp, {"namespace_prefix": ("a",)}, ["namespace_prefix", "filter", "limit", "offset", "query"]),
        (ListNamespacesOp, {}, ["max_depth", "limit", "offset"]),
    ]
    with QdrantStore(":memory:", dense=MODEL) as store:
        for operation, right, names in operations:

            def carry_out(operation: Any = operation, **given: Any) -> None:
                store.batch([operation(**given)])

            allowed = (*ALLOWED, InvalidNamespaceError)
            assert offences(taking(carry_out, names), right, allowed=allowed) == [], operation
        assert offences(taking(store.batch, ["ops"]), {}, allowed=ALLOWED) == []
