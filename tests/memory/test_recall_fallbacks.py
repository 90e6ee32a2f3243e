"""A brain of memories and knowledge that survives a model that is down and rows from before: what ADR 095 asks for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from qdrant_client import models

from tests.memory.scenarios import Model, Store
from twofold import Fusion, Memory, MemoryConfig

MEMORIES: list[dict[str, Any]] = [
    {"text": "Moved the cache to another machine, the old one ran out of memory.", "tags": ["infrastructure change"]},
    {"text": "migration_032 adds the column search_vec to brain.memories."},
    {"text": "Ran kubectl apply -f redis.yaml on the staging cluster."},
    {"text": "The Redis migration went through on Saturday without downtime."},
    {"text": "Ana prefers to be called by phone in the morning."},
]
FACTS = [
    "kubectl apply creates or updates resources from a file.",
    "Redis keeps its data in memory and can write it to disk.",
    "A GIN index makes full-text search quick in PostgreSQL.",
]


@pytest.fixture(scope="module")
def memory(store: Store) -> Memory:
    opened = store.open("ada", config=MemoryConfig(touch=False))
    opened.remember_many(MEMORIES)
    return opened


@pytest.fixture(scope="module")
def knowledge(memory: Memory) -> Memory:
    beside = memory.knowledge()
    beside.remember_many(FACTS)
    return beside


# --- one search over memories, the same over knowledge -----------------------------------------


@pytest.mark.parametrize(("query", "part"), [
    ("Redis migration", "The Redis migration"), ("kubectl apply", "kubectl apply -f"),
    ("migration_032", "migration_032"), ("redis.yaml", "redis.yaml"),
])  # fmt: skip
def test_commands_and_identifiers_are_found_by_their_exact_terms(memory: Memory, query: str, part: str) -> None:
    assert part in memory.recall(query)[0].text


def test_a_paraphrase_is_found_by_its_meaning(memory: Memory) -> None:
    assert memory.recall("how does she like to be contacted?")[0].text.startswith("Ana prefers")


def test_weighted_rank_fusion_over_memories_and_over_knowledge(memory: Memory, knowledge: Memory) -> None:
    strategy = Fusion.rrf(k=60, weights=(1.0, 2.0))
    for where in (memory, knowledge):
        result = where.recall("Redis in memory", fusion=strategy, signals=False, explain=True, k=20)
        assert len(result)
        for hit in result:
            why = hit.explanation
            assert why is not None
            meaning = 1 / (60 + why.semantic_rank) if why.semantic_rank else 0.0
            words = 2 / (60 + why.lexical_rank) if why.lexical_rank else 0.0
            assert hit.score == pytest.approx(meaning + words, rel=1e-5)


def test_both_legs_add_up_and_beat_the_best_of_one(memory: Memory) -> None:
    result = memory.recall("Redis migration", fusion="rrf", signals=False, explain=True)
    both = [hit for hit in result if hit.explanation and hit.explanation.lexical_rank and hit.explanation.semantic_rank]
    one = [hit for hit in result if hit not in both]
    assert both
    assert one
    assert min(hit.score for hit in both) > max(hit.score for hit in one)


def test_knowledge_and_memories_are_kept_apart(memory: Memory, knowledge: Memory) -> None:
    assert "GIN index" in knowledge.recall("full-text search in PostgreSQL")[0].text
    assert not any("GIN index" in hit.text for hit in memory.recall("GIN index full-text search"))
    assert {hit.memory.type for hit in knowledge.recall("Redis")} == {"fact"}
    assert knowledge.config.recency_decay == 0
    assert knowledge.config.popularity == 0


# --- when a part is missing --------------------------------------------------------------------


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def fragile(quick: Store, model: Model) -> Iterator[Memory]:
    with quick.open(dense=model) as opened:
        opened.remember_many(MEMORIES)
        model.down = True
        yield opened


def test_without_an_embedding_recall_goes_by_keywords(fragile: Memory) -> None:
    result = fragile.recall("kubectl apply")
    assert result.mode == "lexical"
    assert "the embedding service is down" in (result.degraded or "")
    assert "kubectl apply" in result[0].text


def test_the_chain_ends_with_a_look_into_the_texts(fragile: Memory) -> None:
    result = fragile.recall("ownti")
    assert result.mode == "text"
    assert [hit.text for hit in result] == ["The Redis migration went through on Saturday without downtime."]
    assert "looked for as a part of the texts" in (result.degraded or "")


def test_the_look_into_the_texts_stays_with_the_user(fragile: Memory) -> None:
    assert len(fragile.for_user("bob").recall("ownti")) == 0


def test_what_is_found_without_a_model_is_touched_too(fragile: Memory) -> None:
    found = fragile.recall("kubectl apply")[0]
    item = fragile.get(found.id)
    assert item is not None
    assert item.access_count == 1


@pytest.fixture
def legacy(store: Store) -> Iterator[tuple[Memory, str]]:
    """Memories of which one is as it was before there were sparse vectors."""
    with store.open() as opened:
        ids = opened.remember_many(MEMORIES)
        store.client.delete_vectors("memories", vectors=["bm25"], points=[ids[4]])
        yield opened, ids[4]


def test_rows_without_a_sparse_vector_are_found_by_vector(legacy: tuple[Memory, str]) -> None:
    memory, old = legacy
    hit = memory.recall("how does she like to be contacted?", explain=True)[0]
    assert hit.id == old
    assert hit.explanation is not None
    assert hit.explanation.lexical_rank is None
    assert hit.explanation.semantic_rank == 1
    by_letters = memory.recall("phone", alpha=0.0)
    assert (by_letters.ids, by_letters.mode) == ([old], "text"), "no leg by words knows it, so its text is looked at"


def test_rows_without_a_sparse_vector_are_counted(legacy: tuple[Memory, str]) -> None:
    memory, _ = legacy
    assert memory.stats().without_words == 1
    assert memory.stats().without_meaning == 0


def test_rows_from_before_are_filled_in_when_they_are_written_again(legacy: tuple[Memory, str]) -> None:
    memory, old = legacy
    memory.update(old, importance=0.6)
    assert memory.stats().without_words == 0
    by_words = memory.recall("phone", alpha=0.0)
    assert (by_words.ids, by_words.mode) == ([old], "lexical")


# --- what recall notes down --------------------------------------------------------------------


def test_recalled_items_are_touched(quick: Store) -> None:
    with quick.open() as memory:
        first, second = memory.remember_many(["Redis listens on port 6379.", "Ana likes tea."])
        memory.recall("Redis port", min_score=0.01, k=1)
        memory.recall("Redis port", min_score=0.01, k=1)
        touched, other = memory.get(first), memory.get(second)
        assert touched is not None
        assert other is not None
        assert touched.access_count == 2
        assert touched.last_accessed is not None
        assert (other.access_count, other.last_accessed) == (0, None)


# --- hostile queries ---------------------------------------------------------------------------

HOSTILE = [
    "!", ":*", "&", "|", "'", '"', "\\", "redis & !", "redis:*", "((redis", "'; DROP TABLE brain.memories; --", "<->",
    "redis | | |", "%", "_", "* * *", "\x00", "\u202eredis", "🔥", "redis" * 20_000, "a " * 20_000, "\n\t\r",
    "{{7*7}}", "${jndi:ldap://x}", "../../etc/passwd", "AND OR NOT", "metadata.shelf:memory:bob", "٣", "ﬁ",
]  # fmt: skip


@pytest.fixture(scope="module")
def bob(memory: Memory) -> Memory:
    """Somebody else with the same words, and with those that hostile queries are made of."""
    opened = memory.for_user("bob")
    opened.remember_many([*MEMORIES, *(query[:1000] for query in HOSTILE if query.strip())])
    return opened


@pytest.mark.parametrize("query", HOSTILE, ids=range(len(HOSTILE)))
def test_query_strings_do_no_harm(memory: Memory, bob: Memory, query: str) -> None:
    result = memory.recall(query)
    own, his = memory.stats().memories, bob.stats().memories
    for found in (result, *(memory.recall(query, 50, alpha=alpha, min_score=0.0) for alpha in (0.0, 0.5, 1.0))):
        assert all(hit.memory.user == "ada" for hit in found)
        assert {hit.text for hit in found} <= {memory["text"] for memory in MEMORIES}
    assert all(hit.memory.user == "bob" for hit in bob.recall(query, 50, min_score=0.0))
    assert (memory.stats().memories, bob.stats().memories) == (own, his)
    if "redis" in query and len(query) < 100:
        assert "redis" in result[0].text.lower()


@pytest.mark.parametrize("query", ["!", ":*", "<->", "''", "?!…", "\x00", "\u202e"])
def test_punctuation_alone_finds_nothing(memory: Memory, query: str) -> None:
    for alpha in (None, 0.0, 1.0):
        assert len(memory.recall(query, alpha=alpha)) == 0


# --- every write counts at once ----------------------------------------------------------------


@pytest.mark.parametrize("kind", ["memories", "knowledge"])
def test_the_index_is_current_after_every_write(store: Store, kind: str) -> None:
    with store.open(kind=kind) as memory:
        memory.remember_many(FACTS)
        stored = memory.remember("The backup runs on host walrus.")
        assert memory.recall("walrus", alpha=0.0).ids == [stored]
        memory.update(stored, text="The backup runs on host penguin.", tags=["nightly"])
        assert len(memory.recall("walrus", alpha=0.0)) == 0
        assert memory.recall("penguin", alpha=0.0).ids == [stored]
        assert memory.recall("nightly").tags == ("nightly",)
        assert memory.recall("pinguin").corrections == {"pinguin": "penguin"}
        memory.forget(stored)
        assert len(memory.recall("penguin", alpha=0.0)) == 0
        assert memory.recall("nightly").tags == ()


def test_writes_of_a_batch_can_be_searched_at_once(quick: Store) -> None:
    with quick.open() as memory:
        memory.remember_many([f"Server number {number} is called host{number}x." for number in range(100)])
        stored = quick.client.count("memories", models.Filter(must_not=[models.HasVectorCondition(has_vector="bm25")]))
        assert stored.count == 0
        assert "host73x" in memory.recall("host73x", k=1)[0].text
