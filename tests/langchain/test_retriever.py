"""`HybridRetriever` ranks as the core does, says why, and leaves no trace in what is written back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import BaseDocumentCompressor
from langchain_core.documents import Document as Found
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.tools import create_retriever_tool
from pydantic import ValidationError
from qdrant_client import AsyncQdrantClient

from tests.langchain.corpus import DOCUMENTS, QUERIES
from twofold import Fusion, HybridIndex, InvalidQuery, Memory, MemoryConfig, SearchResult
from twofold.langchain import HybridRetriever, HybridVectorStore
from twofold.testing import HashEmbedding, fake_memory


@pytest.fixture(scope="module")
def index() -> Iterator[HybridIndex]:
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        index.add(DOCUMENTS)
        yield index


def ageless() -> Memory:
    """A memory in which a recall gives the same a moment later."""
    config = MemoryConfig(recency_decay=0, touch=False)
    return Memory.open(":memory:", user="ada", dense=HashEmbedding(), config=config)


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    with ageless() as memory:
        for number, document in enumerate(DOCUMENTS):
            kind = "decision" if number % 2 else "note"
            memory.remember(document.text, type=kind, tags=["ops", "port"], metadata=document.metadata, source="wiki")
        yield memory


def pairs(result: SearchResult) -> list[tuple[str, float]]:
    return [(hit.id, hit.score) for hit in result]


def found(documents: list[Found]) -> list[tuple[str, float]]:
    return [(document.id or "", document.metadata["score"]) for document in documents]


async def both(retriever: HybridRetriever, query: str, **overrides: Any) -> list[Found]:
    """What `invoke` gives, and `ainvoke` too."""
    documents = retriever.invoke(query, **overrides)
    assert await retriever.ainvoke(query, **overrides) == documents
    return documents


async def test_an_index_is_ranked_exactly_as_by_itself(index: HybridIndex) -> None:
    for query in QUERIES:
        asked: dict[str, Any] = {"k": 5, "filter": {"year": {"gte": 2021}}, "alpha": 0.6, "fusion": "rrf"}
        assert found(await both(HybridRetriever(explain=True, index=index), query)) == pairs(index.search(query))
        assert found(await both(HybridRetriever(explain=True, index=index, **asked), query)) == pairs(
            index.search(query, **asked)
        )
        assert found(await both(HybridRetriever(explain=True, index=index), query, **asked)) == pairs(
            index.search(query, **asked)
        )


async def test_a_memory_is_ranked_exactly_as_by_itself(memory: Memory) -> None:
    retriever = HybridRetriever(explain=True, memory=memory, search_kwargs={"depth": 100})
    for query in QUERIES:
        asked: dict[str, Any] = {"k": 4, "filter": {"type": "note"}, "alpha": 0.6, "min_score": 0.1}
        assert found(await both(retriever, query)) == pairs(memory.recall(query, 10))
        assert found(await both(retriever, query, **asked)) == pairs(memory.recall(query, **asked))


async def test_a_call_goes_before_the_constructor(index: HybridIndex) -> None:
    strict = HybridRetriever(explain=True, index=index, k=3, filter={"year": 2021}, alpha=0.0, min_score=0.9)
    assert await both(strict, "coffee") == []
    loose = await both(strict, "coffee", k=2, filter=None, alpha=None, min_score=None, fusion=Fusion.rrf())
    assert found(loose) == pairs(index.search("coffee", k=2, fusion="rrf"))
    only = await both(strict, "client", min_score=None, alpha=1.0, filter={"year": 2020})
    assert {document.metadata["year"] for document in only} == {2020}
    assert len(only) == 3


async def test_each_document_says_why_it_is_there(index: HybridIndex) -> None:
    document = (await both(HybridRetriever(explain=True, index=index), "rathole port", k=1))[0]
    why = document.metadata["explanation"]
    assert json.loads(json.dumps(why)) == why
    hit = index.search("rathole port", k=1, explain=True)[0]
    assert hit.explanation is not None
    assert why["semantic_rank"] == why["lexical_rank"] == 1
    assert why["matched_words"] == ["rathole", "port"]
    assert why["lexical_score"] == hit.explanation.lexical_score
    assert why["final_score"] == document.metadata["score"] == hit.score
    assert why["relevance"] == hit.relevance
    assert (why["mode"], why["degraded"]) == ("hybrid", None)
    assert document.id == "doc 4"
    assert document.page_content == hit.text


async def test_a_search_that_could_do_less_says_so() -> None:
    class Down(HashEmbedding):
        def embed_query(self, text: str) -> list[float]:
            if text != "dimension":  # what the index asks when it is opened
                raise ConnectionError("no model")
            return super().embed_query(text)

    with HybridIndex.open(":memory:", dense=Down()) as index:
        index.add(DOCUMENTS)
        why = (await both(HybridRetriever(explain=True, index=index), "rathole"))[0].metadata["explanation"]
    assert why["mode"] == "lexical"
    assert "no model" in why["degraded"]
    assert why["semantic_rank"] is None


async def test_a_memory_tells_what_it_knows_about_itself(memory: Memory) -> None:
    document = (await both(HybridRetriever(explain=True, memory=memory), "rathole port", k=1))[0]
    told = document.metadata["memory"]
    assert json.loads(json.dumps(told)) == told
    assert (told["type"], told["tags"], told["trust"], told["source"]) == ("note", ["ops", "port"], "user", "wiki")
    assert document.metadata["year"] == 2020
    assert set(document.metadata) == {"year", "tags", "score", "explanation", "memory"}
    assert document.metadata["tags"] == ["ops"]  # of the metadata; the memory's own are in `memory`


async def test_memories_are_filtered_by_their_own_fields_and_by_metadata(memory: Memory) -> None:
    retriever = HybridRetriever(
        explain=True, memory=memory, filter={"type": "decision", "year": {"gte": 2021}}, min_score=0.0
    )
    documents = await both(retriever, "clients")
    assert len(documents) > 1
    assert {document.metadata["memory"]["type"] for document in documents} == {"decision"}
    assert min(document.metadata["year"] for document in documents) >= 2021
    assert await both(retriever, "clients", since="2999-01-01") == []
    assert await both(HybridRetriever(explain=True, memory=memory.for_user("eve")), "clients") == []


async def test_without_explanation_metadata_is_as_it_was_stored(index: HybridIndex, memory: Memory) -> None:
    for retriever in (HybridRetriever(index=index), HybridRetriever(memory=memory)):
        assert set((await both(retriever, "rathole"))[0].metadata) == {"year", "tags"}
    assert "score" not in HybridRetriever(explain=True, index=index).invoke("rathole", explain=False)[0].metadata
    retriever = HybridRetriever(index=index)
    assert retriever.invoke("rathole", k=1) == retriever.invoke("rathole tunnels", k=1)  # one, where answers are merged


OWN: list[dict[str, Any]] = [
    {},
    {"year": 2024, "nested": {"a": [1, 2]}},
    {"score": 7, "memory": "64 GB"},
    {"score": 0.5, "explanation": "because", "memory": {"type": "RAM"}},
    {"explanation": {"mode": "x"}},
]


@pytest.mark.parametrize("serialised", [False, True], ids=["as it is", "as JSON"])
@pytest.mark.parametrize("place", ["index", "memory"])
async def test_writing_back_what_was_found_changes_nothing(place: str, serialised: bool) -> None:
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index, ageless() as memory:
        texts = [f"tunnel {number}" for number in range(len(OWN))]
        index.add(texts, metadatas=OWN)
        memory.remember_many({"text": text, "metadata": own} for text, own in zip(texts, OWN, strict=True))
        chosen: dict[str, Any] = {place: {"index": index, "memory": memory}[place]}
        documents = sorted(HybridRetriever(**chosen).invoke("tunnel"), key=lambda document: document.page_content)
    for document, own in zip(documents, OWN, strict=True):
        assert {name: document.metadata[name] for name in own} == own, "one's own fields go first"
    if serialised:
        documents = [Found.model_validate_json(document.model_dump_json()) for document in documents]
    ids = [document.id or "" for document in documents]
    store = HybridVectorStore.from_documents(documents, HashEmbedding())
    assert await store.aadd_documents(documents) == ids
    assert [document.metadata for document in store.get_by_ids(ids)] == OWN
    store.index.close()


async def test_a_memory_gives_as_many_as_it_is_configured_to() -> None:
    with fake_memory([f"tunnel {number}" for number in range(12)], config=MemoryConfig(k=3)) as memory:
        retriever = HybridRetriever(explain=True, memory=memory)
        assert len(retriever.invoke("tunnel")) == len(await retriever.ainvoke("tunnel")) == 3
        assert len(retriever.invoke("tunnel", k=5)) == 5
        assert len(HybridRetriever(explain=True, memory=memory, k=4).invoke("tunnel")) == 4
        assert len(HybridRetriever(explain=True, memory=memory, k=4).invoke("tunnel", k=None)) == 3


async def test_an_index_gives_ten() -> None:
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        index.add([f"tunnel {number}" for number in range(12)])
        retriever = HybridRetriever(explain=True, index=index)
        assert len(retriever.invoke("tunnel")) == len(await retriever.ainvoke("tunnel")) == 10


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({}, "either index= or memory="),
        ({"k": -1}, "greater than or equal to 0"),
        ({"alpha": 2}, "less than or equal to 1"),
        ({"fusion": "best"}, "unknown fusion 'best'"),
    ],
)
def test_wrong_settings_are_refused_at_once(index: HybridIndex, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        HybridRetriever(**{**wrong, **({"index": index} if wrong else {})})


async def test_wrong_overrides_are_refused(index: HybridIndex, memory: Memory) -> None:
    with pytest.raises(ValidationError, match="either index= or memory="):
        HybridRetriever(explain=True, index=index, memory=memory)
    with pytest.raises(InvalidQuery, match="k must be"):
        HybridRetriever(explain=True, index=index).invoke("port", k=-1)
    with pytest.raises(TypeError, match="top_k"):
        await HybridRetriever(explain=True, index=index).ainvoke("port", top_k=3)


class Trace(BaseCallbackHandler):
    """Remembers what a retriever told when it began, and what it found."""

    def __init__(self) -> None:
        self.told: dict[str, Any] = {}
        self.found: list[Found] = []

    def on_retriever_start(
        self, serialized: Any, query: str, *, run_id: UUID, metadata: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        self.told = {"query": query, "name": kwargs.get("name"), **(metadata or {})}

    def on_retriever_end(self, documents: Any, **kwargs: Any) -> None:
        self.found = list(documents)


async def test_traces_say_which_retriever_and_model_it_was(index: HybridIndex, memory: Memory) -> None:
    for retriever in (HybridRetriever(explain=True, index=index), HybridRetriever(explain=True, memory=memory)):
        trace = Trace()
        documents = await retriever.ainvoke("port", {"callbacks": [trace]}, k=2)
        assert trace.told["query"] == "port"
        assert trace.told["name"] == "HybridRetriever"
        assert trace.told["ls_retriever_name"] == "hybrid"
        assert trace.told["ls_vector_store_provider"] == "Qdrant"
        assert trace.told["ls_embedding_model"] == "HashEmbedding:hash-64"
        assert trace.found == documents


async def test_on_an_async_client_it_is_awaited() -> None:
    client = AsyncQdrantClient(":memory:")
    retriever = HybridRetriever(index=HybridIndex.open(client, dense=HashEmbedding()))
    assert await retriever.ainvoke("port") == []
    assert retriever.index is not None
    await retriever.index.aadd(DOCUMENTS)
    documents = await retriever.abatch(["rathole port", "ERR_CONN_RESET"])
    assert [batch[0].id for batch in documents] == ["doc 4", "doc 2"]
    await client.close()


async def test_in_a_chain_and_as_a_tool(index: HybridIndex) -> None:
    retriever = HybridRetriever(explain=True, index=index, k=1)
    prompt = ChatPromptTemplate.from_template("{context} | {question}")
    texts = RunnableLambda(lambda documents: documents[0].page_content)
    chain = (
        {"context": retriever | texts, "question": RunnablePassthrough()}
        | prompt
        | RunnableLambda(lambda value: value.to_string())
        | StrOutputParser()
    )
    expected = "Human: Rathole tunnels listen on port 2333 | rathole?"
    assert chain.invoke("rathole?") == await chain.ainvoke("rathole?") == expected
    tool = create_retriever_tool(retriever, "docs", "Finds documents.", response_format="content_and_artifact")
    message = await tool.ainvoke({"name": "docs", "args": {"query": "rathole"}, "id": "1", "type": "tool_call"})
    assert message.artifact[0].id == "doc 4"


class Longest(BaseDocumentCompressor):
    """Prefers long texts, keeps three, and gives copies with a score, as those of hosted rerankers do."""

    broken: bool = False

    def compress_documents(self, documents: Sequence[Found], query: str, callbacks: Any = None) -> list[Found]:
        if self.broken:
            raise ConnectionError(f"no answer to {query}")
        best = sorted(documents, key=lambda each: -len(each.page_content))[:3]
        scores = [len(each.page_content) / 100 for each in best]
        return [
            Found(page_content=each.page_content, metadata={**each.metadata, "relevance_score": score})
            for each, score in zip(best, scores, strict=True)
        ]


async def test_a_compressor_looks_at_the_best_once_more(index: HybridIndex, memory: Memory) -> None:
    for place in ({"index": index}, {"memory": memory}):
        usual = await both(HybridRetriever(k=12, explain=True, **place), "which port")
        documents = await both(HybridRetriever(k=12, rerank=Longest(), explain=True, **place), "which port")
        longest = sorted(usual, key=lambda each: -len(each.page_content))[:3]
        assert [each.id for each in documents[:3]] == [each.id for each in longest]
        rest = [each.id for each in usual if each not in longest]
        assert [each.id for each in documents[3:]] == rest, "what it leaves out follows, and nothing is lost"
        why = documents[0].metadata["explanation"]
        assert why["rerank_score"] == documents[0].metadata["score"] == len(longest[0].page_content) / 100
        assert why["rank_before"] == 1 + [each.id for each in usual].index(longest[0].id)
        assert {*documents[0].metadata} == {*usual[0].metadata}, "the compressor leaves no trace"
        broken = HybridRetriever(k=12, rerank=Longest(broken=True), explain=True, **place)
        failed = await both(broken, "which port")
        assert found(failed) == found(usual)
        assert "ConnectionError: no answer to which port" in failed[0].metadata["explanation"]["degraded"]


async def test_the_store_takes_a_reranker_too(index: HybridIndex) -> None:
    store = HybridVectorStore(index)
    (best,) = store.similarity_search("which port", 1, rerank=Longest())
    assert best.page_content == max((each.text for each in DOCUMENTS), key=len)
    ((_, score),) = await store.asimilarity_search_with_score("which port", 1, rerank=Longest())
    assert score == len(best.page_content) / 100
