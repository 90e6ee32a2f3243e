"""LangChain's own conformance suite, whole, on the embedded engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import BaseTool
from langchain_core.vectorstores import VectorStore
from langchain_tests.integration_tests import (
    RetrieversIntegrationTests,
    ToolsIntegrationTests,
    VectorStoreIntegrationTests,
)
from langchain_tests.unit_tests import ToolsUnitTests

from twofold import HybridIndex, Memory
from twofold.langchain import HybridRetriever, HybridVectorStore, memory_tools
from twofold.testing import HashEmbedding

TEXTS = [
    "Rathole tunnels listen on port 2333",
    "The proxy port is 8080",
    "Ports above 1024 need no root",
    "Cats sleep most of the day",
]


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    with Memory.open(":memory:", user="ada", dense=HashEmbedding()) as memory:
        yield memory


class TestVectorStoreInMemory(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self) -> Iterator[VectorStore]:
        store = HybridVectorStore.from_texts([], self.get_embeddings())
        yield store
        store.index.close()


class TestVectorStoreInAFolder(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, tmp_path: Path) -> Iterator[VectorStore]:
        store = HybridVectorStore.from_texts([], self.get_embeddings(), location=tmp_path / "store")
        yield store
        store.index.close()


class TestRetrieverOverAnIndex(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _index(self) -> Iterator[None]:
        with HybridIndex.open(":memory:", dense=HashEmbedding()) as self.index:
            self.index.add(TEXTS)
            yield

    @property
    def retriever_constructor(self) -> type[HybridRetriever]:
        return HybridRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"index": self.index}

    @property
    def retriever_query_example(self) -> str:
        return "which port?"


class TestRetrieverOverAMemory(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _memory(self, memory: Memory) -> None:
        self.memory = memory.for_user("bob")
        self.memory.remember_many(TEXTS)

    @property
    def retriever_constructor(self) -> type[HybridRetriever]:
        return HybridRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"memory": self.memory}

    @property
    def retriever_query_example(self) -> str:
        return TEXTS[0]  # a question that nothing answers would get nothing


KNOWN = "the id of a memory that is there"
CALLS: dict[str, dict[str, Any]] = {
    "memory_search": {"query": "which port?", "max_results": 3, "types": ["note"], "tags": None},
    "retrieve_memory": {"query": "which port?"},
    "memory_save": {"text": "Ada likes tea", "tags": ["drinks"]},
    "memory_update": {"id": KNOWN, "text": "Rathole listens on 2444"},
    "memory_forget": {"ids": [KNOWN]},
    "memory_list": {"max_results": 2, "since": "2020-01-01"},
    "memory_feedback": {"query": "which port?", "id": KNOWN, "useful": True},
}


class EachTool:
    """Every tool in turn, of a memory that holds something."""

    @pytest.fixture(autouse=True, params=CALLS)
    def _call(self, request: pytest.FixtureRequest, memory: Memory) -> None:
        self.memory, self.name = memory, request.param
        memory.forget(everything=True)
        known = memory.remember(TEXTS[0]).id
        self.arguments = json.loads(json.dumps(CALLS[self.name]).replace(KNOWN, known))

    @property
    def tool_constructor(self) -> BaseTool:
        return {tool.name: tool for tool in memory_tools(self.memory, aliases=True)}[self.name]

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return dict(self.arguments)


class TestToolsUnit(EachTool, ToolsUnitTests):
    pass


class TestTools(EachTool, ToolsIntegrationTests):
    pass


def test_every_tool_is_tried(memory: Memory) -> None:
    assert {tool.name for tool in memory_tools(memory, aliases=True)} == set(CALLS)
