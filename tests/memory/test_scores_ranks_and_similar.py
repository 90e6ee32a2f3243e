"""Past executions of agents, found by vector, by words and by both: what ADR-0036 asks for."""

from __future__ import annotations

import pytest
from qdrant_client import models

from tests.memory.scenarios import Model, Store, texts, why
from twofold import Memory, MemoryConfig, MemoryNotFound

EXECUTIONS = [
    "clippy deny warnings fix: removed unused imports in the parser crate.",
    "The task failed because the compiler ran out of memory.",
    "Execution error: the linker could not find libssl.",
    "Updated the notification channel for inactive agents.",
    "Deployed the web frontend to production.",
    "Wrote the migration for the knowledge graph tables.",
]


@pytest.fixture(scope="module")
def memory(store: Store) -> Memory:
    opened = store.open(config=MemoryConfig(touch=False))
    opened.remember_many([{"text": text, "type": "execution"} for text in EXECUTIONS])
    return opened


def test_hnsw_parameters_of_the_collection(store: Store, memory: Memory) -> None:
    assert memory.index.count() >= len(EXECUTIONS)
    vectors = store.client.get_collection("memories").config.params.vectors
    assert isinstance(vectors, dict)
    dense = vectors["dense"]
    assert dense.distance == models.Distance.COSINE
    assert dense.hnsw_config is not None
    assert (dense.hnsw_config.m, dense.hnsw_config.ef_construct) == (16, 200)


def test_bm25_has_its_inverse_document_frequency(store: Store, memory: Memory) -> None:
    assert memory.index.count() >= len(EXECUTIONS)
    sparse = store.client.get_collection("memories").config.params.sparse_vectors
    assert sparse is not None
    assert sparse["bm25"].modifier == models.Modifier.IDF


def test_effort_at_query_time_is_at_least_64(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with store.open(config=MemoryConfig(depth=10)) as memory:
        memory.remember("clippy")
        memory.recall("clippy")  # from now on known as a word
        asked: list[models.QueryRequest] = []
        real = store.client.query_batch_points

        def watched(*, requests: list[models.QueryRequest], **rest: object) -> object:
            asked.extend(requests)
            return real(requests=requests, **rest)  # type: ignore[arg-type]

        monkeypatch.setattr(store.client, "query_batch_points", watched)
        memory.recall("clippy")
        legs = asked[0].prefetch
        assert isinstance(legs, list)
        dense = next(leg for leg in legs if leg.using == "dense")
        assert dense.params is not None
        assert (dense.params.hnsw_ef or 0) >= 64


def test_hybrid_finds_the_exact_words_of_another_phrase(memory: Memory) -> None:
    assert texts(memory.recall("cargo clippy warnings"))[0] == EXECUTIONS[0]


def test_hybrid_finds_semantic_variants(memory: Memory) -> None:
    assert set(texts(memory.recall("build failure"))) >= {EXECUTIONS[1]}


def test_rank_fusion_with_60_exposes_both_scores_and_both_ranks(memory: Memory) -> None:
    result = memory.recall("the task failed in the linker", fusion="rrf", signals=False, explain=True, k=20)
    both = 0
    for each in why(result):
        parts = [1 / (60 + rank) for rank in (each.semantic_rank, each.lexical_rank) if rank is not None]
        assert each.final_score == pytest.approx(sum(parts), rel=1e-5)
        assert (each.semantic_rank is None) == (each.semantic_score is None)
        assert (each.lexical_rank is None) == (each.lexical_score is None)
        both += len(parts) == 2
    assert both
    by_rank = sorted(why(result), key=lambda each: each.semantic_rank or 0)
    cosines = [each.semantic_score or 0.0 for each in by_rank]
    assert cosines == sorted(cosines, reverse=True)


def test_what_a_leg_did_not_find_gets_nothing_from_it(memory: Memory) -> None:
    result = memory.recall("libssl", fusion="rrf", signals=False, explain=True)
    missing = [each for each in why(result) if each.lexical_rank is None]
    assert missing
    assert all(each.lexical_part == 0 for each in missing)


def test_callers_can_keep_confident_hits_by_the_semantic_score(memory: Memory) -> None:
    result = memory.recall("deploying the frontend to production", explain=True)
    sure = [hit.text for hit in result if hit.explanation and (hit.explanation.semantic_score or 0) >= 0.7]
    assert sure == [EXECUTIONS[4]]


# --- either input may be missing ---------------------------------------------------------------


def test_without_words_meaning_goes_on(memory: Memory) -> None:
    result = memory.recall("what was that about?")
    assert result.mode == "dense"
    assert "no word that the lexical leg indexes" in (result.degraded or "")


def test_without_an_embedding_words_go_on() -> None:
    model = Model()
    quick = Store(dense=model)
    with quick.open() as memory:
        memory.remember_many(EXECUTIONS)
        model.down = True
        result = memory.recall("libssl", explain=True)
        assert result.mode == "lexical"
        assert texts(result) == [EXECUTIONS[2]]
        assert why(result)[0].semantic_rank is None
    quick.close()


def test_without_both_the_result_is_empty(memory: Memory) -> None:
    assert len(memory.recall("")) == 0


# --- nothing is dropped silently ---------------------------------------------------------------


def test_rows_that_cannot_be_read_are_counted_and_reported(store: Store) -> None:
    with store.open() as memory:
        ids = memory.remember_many(EXECUTIONS)
        store.client.delete_payload("memories", keys=["metadata.trust"], points=[ids[0]])
        store.client.set_payload("memories", {"created": 5}, points=[ids[1]], key="metadata")
        result = memory.recall("clippy warnings: the task failed", min_score=0.0)
        assert {problem.id for problem in result.problems} == {ids[0], ids[1]}
        assert set(result.ids) == set(ids[2:])
        assert "'trust' is missing" in next(p.reason for p in result.problems if p.id == ids[0])
        assert {problem.id for problem in memory.stats(verify=True).problems} == {ids[0], ids[1]}


def test_every_readable_row_comes_back(memory: Memory) -> None:
    assert {item.text for item in memory.list()} == set(EXECUTIONS)
    assert memory.stats(verify=True).problems == ()


def test_fields_survive_the_round_trip(store: Store) -> None:
    with store.open(agent="coder") as memory:
        given = {"agent_role": "reviewer", "provider": "local", "cost_cents": 0, "nested": {"list": [1, None, "x"]}}
        stored = memory.remember("An execution.", metadata=given, importance=0.0, pinned=False, category="build")
        item = memory.get(stored)
        assert item is not None
        assert item.metadata == given
        assert (item.importance, item.pinned, item.category, item.agent) == (0.0, False, "build", "coder")
        assert memory.recall("execution", filter={"cost_cents": 0}, min_score=0.0).ids == [stored]


# --- similar items, by vector alone ------------------------------------------------------------


def test_similar_items_are_the_nearest_and_not_the_newest(memory: Memory) -> None:
    failed = next(item for item in memory.list() if item.text == EXECUTIONS[1])
    result = memory.similar(failed.id, k=3)
    assert result.mode == "dense"
    assert failed.id not in result.ids
    assert len(result) == 3
    assert texts(result)[0] == EXECUTIONS[2]
    cosines = [hit.score for hit in result]
    assert cosines == sorted(cosines, reverse=True)


def test_similar_items_of_an_unknown_one_say_so(memory: Memory) -> None:
    with pytest.raises(MemoryNotFound, match="list\\(\\) and recall\\(\\) give the ids"):
        memory.similar("00000000-0000-0000-0000-000000000000")


def test_similar_items_stay_with_the_user(store: Store, memory: Memory) -> None:
    failed = next(item for item in memory.list() if item.text == EXECUTIONS[1])
    with pytest.raises(MemoryNotFound):
        store.open().similar(failed.id)


def test_similar_items_of_a_vector_stay_with_the_user(store: Store, memory: Memory) -> None:
    vector = memory.index.embed_query(EXECUTIONS[1])
    other = store.open()
    other.remember(EXECUTIONS[1])
    result = memory.similar(vector, k=3)
    assert (result.mode, result.degraded) == ("dense", None)
    assert texts(result)[0] == EXECUTIONS[1]
    assert len(result) == 3
    assert texts(other.similar(vector)) == [EXECUTIONS[1]]


def test_a_vector_beside_the_text_and_either_may_be_empty(memory: Memory) -> None:
    vector = memory.index.embed_query(EXECUTIONS[1])
    alone = memory.recall("", vector=vector)
    assert (alone.mode, alone.degraded, alone.alpha) == ("dense", None, 1.0)
    assert texts(alone)[0] == EXECUTIONS[1]
    both = memory.recall("libssl", vector=vector, explain=True)
    assert both.mode == "hybrid"
    assert {EXECUTIONS[1], EXECUTIONS[2]} <= set(texts(both)[:2])
    assert len(memory.recall("")) == 0


def test_words_that_a_field_matched_are_told(store: Store) -> None:
    with store.open(config=MemoryConfig(fields={"type": "keyword", "year": "integer"})) as memory:
        memory.remember("Interstellar: a farmer flies through a wormhole", type="film", metadata={"year": 2014})
        memory.remember("Arrival: a linguist talks to visitors", type="film", metadata={"year": 2016})
        assert why(memory.recall("films of 2014", explain=True))[0].matched_words == ("films", "2014")
