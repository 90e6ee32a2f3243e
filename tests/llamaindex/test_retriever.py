"""HybridRetriever: the ranking of the core, as nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from llama_index.core import get_response_synthesizer
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle, TextNode
from llama_index.core.vector_stores import FilterOperator, MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.types import VectorStoreQuery
from llama_index.core.vector_stores.types import VectorStoreQueryMode as Mode

from tests.llamaindex.corpus import NOTES, QUERIES
from twofold import ConfigError, FilterError, HybridIndex, Memory, MemoryConfig
from twofold.llamaindex import HybridRetriever, HybridVectorStore
from twofold.testing import HashEmbedding, fake_memory


@pytest.fixture(scope="module")
def index() -> Iterator[HybridIndex]:
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        index.add(NOTES.values(), ids=list(NOTES), metadatas=[{"letters": len(text)} for text in NOTES.values()])
        yield index


@pytest.fixture
def memory(memory: Memory) -> Memory:
    memory.remember(NOTES["tunnel"], type="note", tags=["rathole"], metadata={"project": "home"})
    memory.remember(NOTES["cake"], type="recipe")
    return memory


@pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
async def test_the_ranking_is_that_of_the_core(index: HybridIndex, awaited: bool) -> None:
    retriever = HybridRetriever(explain=True, index=index, similarity_top_k=5)
    for query in QUERIES:
        nodes = await retriever.aretrieve(query) if awaited else retriever.retrieve(query)
        hits = index.search(query, 5)
        assert [(node.node_id, node.score) for node in nodes] == [(hit.id, hit.relevance) for hit in hits]


def test_nodes_have_text_metadata_and_why(index: HybridIndex) -> None:
    (found,) = HybridRetriever(explain=True, index=index, similarity_top_k=1).retrieve("rathole port")
    hit = index.search("rathole port", 1, explain=True)[0]
    assert found.node.get_content() == NOTES["tunnel"]
    assert found.metadata["letters"] == len(NOTES["tunnel"])
    why = found.metadata["explanation"]
    assert hit.explanation is not None
    assert why["semantic_score"] == hit.explanation.semantic_score
    assert why["lexical_rank"] == 1
    assert why["matched_words"] == ["rathole", "port"]
    assert why["final_score"] == hit.score
    assert (why["mode"], why["degraded"], why["relevance"]) == ("hybrid", None, found.score)
    assert found.score == hit.relevance


def test_models_do_not_see_the_explanation(index: HybridIndex) -> None:
    (found,) = HybridRetriever(explain=True, index=index, similarity_top_k=1).retrieve("rathole port")
    for mode in (MetadataMode.LLM, MetadataMode.EMBED):
        assert found.node.get_content(metadata_mode=mode) == f"letters: {len(NOTES['tunnel'])}\n\n{NOTES['tunnel']}"


def test_without_an_explanation_the_metadata_is_as_it_was_stored(index: HybridIndex) -> None:
    (found,) = HybridRetriever(index=index, similarity_top_k=1).retrieve("rathole port")
    assert found.metadata == {"letters": len(NOTES["tunnel"])}
    (again,) = HybridRetriever(index=index, similarity_top_k=1).retrieve("tunnel")
    assert again.node.hash == found.node.hash  # by which QueryFusionRetriever merges the answers to several queries


def test_own_metadata_is_never_overwritten() -> None:
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        index.add(["rathole"], metadatas=[{"explanation": "mine"}])
        assert HybridRetriever(explain=True, index=index).retrieve("rathole")[0].metadata == {"explanation": "mine"}


OWN: list[dict[str, Any]] = [
    {},
    {"project": "home", "year": 2026},
    {"explanation": "mine", "memory": "mine as well"},
    {"explanation": {"relevance": 1, "mode": "mine"}},
    {"memory": {"type": "mine"}},
]


@pytest.mark.parametrize("serialised", [False, True], ids=["as they are", "through JSON"])
@pytest.mark.parametrize("place", ["index", "memory", "store"])
def test_writing_back_what_was_found_changes_nothing(everybody: Memory, place: str, serialised: bool) -> None:
    texts = [f"tunnel {number}" for number in range(len(OWN))]
    nodes: list[BaseNode] = [
        TextNode(text=text, metadata=own, excluded_llm_metadata_keys=["year", "explanation"])
        for text, own in zip(texts, OWN, strict=True)
    ]
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        store = HybridVectorStore(index=index)
        if place == "index":
            index.add(texts, metadatas=OWN)
        elif place == "store":
            store.add(nodes)
        memory = everybody.for_user(f"writer {serialised}")
        memory.remember_many({"text": text, "metadata": own} for text, own in zip(texts, OWN, strict=True))
        chosen: dict[str, Any] = {"memory": memory} if place == "memory" else {"index": index}
        retriever = HybridRetriever(explain=True, **chosen)
        found = sorted((scored.node for scored in retriever.retrieve("tunnel")), key=lambda node: node.get_content())
        if serialised:
            found = [TextNode.model_validate_json(node.model_dump_json()) for node in found]
        store.add(found)
        again = store.get_nodes(node_ids=[node.node_id for node in found])
        assert [node.metadata for node in again] == OWN
        hidden = ["year", "explanation"] if place == "store" else []
        assert [node.excluded_llm_metadata_keys for node in again] == [hidden] * len(OWN)
        assert not any(node.excluded_embed_metadata_keys for node in again)


def test_a_node_that_was_written_back_is_explained_anew() -> None:
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        index.add(["rathole tunnels"])
        (found,) = HybridRetriever(explain=True, index=index).retrieve("rathole")
        HybridVectorStore(index=index).add([found.node])
        (again,) = HybridRetriever(explain=True, index=index).retrieve("tunnels")
        assert again.metadata["explanation"]["matched_words"] == ["tunnels"]


def test_settings_reach_the_search(index: HybridIndex) -> None:
    long = MetadataFilters(filters=[MetadataFilter(key="letters", value=60, operator=FilterOperator.GTE)])
    for filters in (long, {"letters": {"gte": 60}}):
        retriever = HybridRetriever(
            explain=True, index=index, filters=filters, alpha=0.3, fusion="rrf", min_score=0.001
        )
        hits = index.search("server", filter={"letters": {"gte": 60}}, alpha=0.3, fusion="rrf", min_score=0.001)
        nodes = retriever.retrieve("server")
        assert [(node.node_id, node.score) for node in nodes] == [(hit.id, hit.relevance) for hit in hits]
        assert all(node.metadata["letters"] >= 60 for node in nodes)
    words = HybridRetriever(explain=True, index=index, alpha=0)
    assert [node.node_id for node in words.retrieve("ERR_CONN_RESET")] == ["reset"]
    assert HybridRetriever(explain=True, index=index, min_score=0.99).retrieve("nothing of this kind") == []
    assert (
        HybridRetriever(explain=True, index=index, search_kwargs={"min_semantic": 0.99, "alpha": 1}).retrieve("server")
        == []
    )


@pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
async def test_memories(memory: Memory, awaited: bool) -> None:
    retriever = HybridRetriever(explain=True, memory=memory, similarity_top_k=1)
    bundle = QueryBundle("rathole port")
    (found,) = await retriever.aretrieve(bundle) if awaited else retriever.retrieve(bundle)
    (hit,) = memory.recall("rathole port", 1)
    assert found.node_id == hit.id
    assert found.score == pytest.approx(hit.relevance, rel=1e-3)
    assert found.metadata["project"] == "home"
    assert found.metadata["memory"]["tags"] == ["rathole"]
    assert found.metadata["memory"]["type"] == "note"
    recipes = HybridRetriever(explain=True, memory=memory, filters={"type": "recipe"}).retrieve(
        "apple cake with four eggs"
    )
    assert [node.text for node in recipes] == [NOTES["cake"]]


async def test_a_memory_gives_as_many_as_it_is_configured_to() -> None:
    with fake_memory([f"tunnel {number}" for number in range(12)], config=MemoryConfig(k=3)) as memory:
        retriever = HybridRetriever(explain=True, memory=memory)
        assert len(retriever.retrieve("tunnel")) == len(await retriever.aretrieve("tunnel")) == 3
        retriever.similarity_top_k = 5
        assert len(retriever.retrieve("tunnel")) == 5
        assert len(HybridRetriever(explain=True, memory=memory, similarity_top_k=4).retrieve("tunnel")) == 4


def test_an_index_gives_ten() -> None:
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        index.add([f"tunnel {number}" for number in range(12)])
        assert len(HybridRetriever(explain=True, index=index).retrieve("tunnel")) == 10


def test_another_users_memories_are_not_found(memory: Memory) -> None:
    assert HybridRetriever(explain=True, memory=memory.for_user("bob")).retrieve("rathole port") == []


def test_either_an_index_or_a_memory(index: HybridIndex, memory: Memory) -> None:
    for arguments in ({}, {"index": index, "memory": memory}):
        with pytest.raises(ConfigError, match="either"):
            HybridRetriever(**arguments)  # type: ignore[arg-type]
    with pytest.raises(FilterError):
        HybridRetriever(explain=True, index=index, filters="letters")  # type: ignore[arg-type]


def test_in_a_query_engine(index: HybridIndex) -> None:
    engine = RetrieverQueryEngine(
        retriever=HybridRetriever(explain=True, index=index, similarity_top_k=3),
        response_synthesizer=get_response_synthesizer(llm=MockLLM()),
        node_postprocessors=[SimilarityPostprocessor(similarity_cutoff=0.1)],
    )
    response = engine.query("which port do rathole tunnels use")
    assert response.source_nodes[0].node_id == "tunnel"
    assert NOTES["tunnel"] in str(response)  # the mock repeats its prompt
    assert "semantic_score" not in str(response)


class Longest(BaseNodePostprocessor):
    """Prefers long texts: by scores, or by order alone."""

    scored: bool = True
    broken: bool = False

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if self.broken:
            raise ConnectionError(f"no answer to {query_bundle}")
        for each in nodes:
            each.score = len(each.node.get_content(MetadataMode.EMBED)) / 100 if self.scored else None
        return sorted(nodes, key=lambda each: -len(each.node.get_content()))


@pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
async def test_a_postprocessor_looks_at_the_best_once_more(index: HybridIndex, memory: Memory, awaited: bool) -> None:
    async def ask(place: dict[str, Any], **options: Any) -> list[NodeWithScore]:
        retriever = HybridRetriever(**place, similarity_top_k=5, explain=True, **options)
        return await retriever.aretrieve("rathole port") if awaited else retriever.retrieve("rathole port")

    for place in ({"index": index}, {"memory": memory}):
        usual = await ask(place)
        for scored in (True, False):
            nodes = await ask(place, rerank=Longest(scored=scored), rerank_top=5)
            ids = [each.node_id for each in usual]
            assert {each.node_id for each in nodes} == {*ids}
            lengths = [len(each.text) for each in nodes]
            assert lengths == sorted(lengths, reverse=True)
            why = nodes[0].metadata["explanation"]
            assert why["rank_before"] == 1 + ids.index(nodes[0].node_id)
            assert why["rerank_score"] == (lengths[0] / 100 if scored else None)
            scores = [each.score or 0.0 for each in nodes]
            assert scores == sorted(scores, reverse=True)
        failed = await ask(place, rerank=Longest(broken=True))
        assert [(each.node_id, each.score) for each in failed] == [(each.node_id, each.score) for each in usual]
        assert "the reranker failed" in failed[0].metadata["explanation"]["degraded"]


def test_the_store_of_an_index_can_have_a_postprocessor() -> None:
    with HybridVectorStore(":memory:", embed_model=HashEmbedding(), rerank=Longest()) as store:
        store.add([TextNode(id_=name, text=text) for name, text in NOTES.items()])
        found = store.query(VectorStoreQuery(query_str="rathole port", similarity_top_k=1, mode=Mode.HYBRID))
        assert found.nodes is not None
        assert found.nodes[0].get_content() == max(NOTES.values(), key=len)
