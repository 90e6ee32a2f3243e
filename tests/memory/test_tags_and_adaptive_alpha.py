"""Tags, age and adaptive weights over an assistant's project memories: what the hybrid search requirements ask for."""

from __future__ import annotations

import logging
import math
from datetime import datetime, timedelta, timezone

import pytest

from tests.memory.scenarios import Model, Store, texts, why
from twofold import ConfigError, Fusion, Memory, MemoryConfig
from twofold.memory import recall

RATHOLE = [
    "Rathole tunnel setup: the server listens on port 2333 behind nginx and forwards to the homelab.",
    "The rathole client restarts with systemd; its tokens are kept in /etc/rathole.toml.",
    "Heartbeats every 30 seconds, otherwise the provider's firewall drops the idle tunnel.",
]
OTHERS = [
    ("Architecture in layers: api, services and stores, each a package of its own.", "cachekit"),
    ("Project structure: one module for eviction, one for serialisation, one for the backends.", "cachekit"),
    ("Architecture decision: the project keeps hot keys in memory and the rest in Redis.", "cachekit"),
    ("Overview of the codebase: tokeniser, inverted index and query parser, all in one file.", "litesearch"),
    ("The architecture of the project follows SQLite: one file, no server, a stable format.", "litesearch"),
    ("Refactored the project so that the codebase has no cyclic imports any more.", "litesearch"),
]
QUERY = "rathole project codebase architecture"


def projects(memory: Memory) -> Memory:
    """The memories of the documented failure: the project is in the tags, and not in every text."""
    memory.remember_many([{"text": text, "tags": ["rathole", "infra"]} for text in RATHOLE])
    memory.remember_many([{"text": text, "tags": [tag]} for text, tag in OTHERS])
    return memory


@pytest.fixture(scope="module")
def memory(store: Store) -> Memory:
    return projects(store.open(config=MemoryConfig(touch=False)))


# --- requirements 1 and 2: tags that the query names -------------------------------------------


def test_the_documented_failure_case_is_solved(memory: Memory) -> None:
    result = memory.recall(QUERY)
    assert set(texts(result)[:3]) == set(RATHOLE)
    assert result.tags == ("rathole",)


def test_pure_vector_search_shows_the_failure(memory: Memory) -> None:
    result = memory.recall(QUERY, alpha=1.0)
    assert result.mode == "dense"
    assert not set(texts(result)[:2]) & set(RATHOLE)
    assert texts(result)[-1] in RATHOLE


def test_a_tag_boosts_whatever_the_vector_says(memory: Memory) -> None:
    hits = {hit.text: hit for hit in memory.recall(QUERY, explain=True)}
    last = hits[RATHOLE[2]].explanation
    assert last is not None
    assert last.matched_tags == ("rathole",)
    assert last.tag_boost > 0
    assert last.semantic_part < last.tag_boost


def test_tags_join_by_reciprocal_rank_too(memory: Memory) -> None:
    result = memory.recall(QUERY, fusion="rrf", explain=True)
    assert set(texts(result)[:3]) == set(RATHOLE)
    for each in why(result):
        assert (each.tag_boost > 0) == (each.matched_tags == ("rathole",))
        assert each.tag_boost <= 1 / 61


def test_the_list_of_tags_is_one_more_list_of_ranks(memory: Memory) -> None:
    result = memory.recall("rathole and infra: project codebase architecture", fusion="rrf", explain=True, min_score=0)
    tagged = [each for each in why(result) if each.matched_tags]
    ranks = sorted(1 / each.tag_boost - 60 for each in tagged)
    assert ranks == pytest.approx([1, 2, 3], rel=1e-4), "w / (60 + rank), with the weight of words"
    for each in why(result):
        ranked = [1 / (60 + rank) for rank in (each.semantic_rank, each.lexical_rank) if rank is not None]
        assert each.semantic_part + each.lexical_part == pytest.approx(math.fsum(ranked), rel=1e-4)
        factors = each.recency_factor * each.popularity_factor * each.importance_factor
        assert each.final_score == pytest.approx((math.fsum(ranked) + each.tag_boost) * factors, rel=1e-4)


@pytest.mark.parametrize("weights", [(1.0, 1.0), (1.0, 0.5)])
def test_three_tags_weigh_half_as_much_again_in_reciprocal_rank(quick: Store, weights: tuple[float, float]) -> None:
    with quick.open() as memory:
        memory.remember("A memory with everything.", tags=["alpha", "beta", "gamma"])
        memory.remember_many([f"Another memory, number {number}." for number in range(10)])
        for query, share in (("alpha beta", 1.0), ("alpha beta gamma", 1.5)):
            best = why(memory.recall(query, fusion=Fusion.rrf(weights=weights), explain=True))[0]
            assert best.tag_boost == pytest.approx(share * weights[1] / 61, rel=1e-4)


def test_the_failure_case_is_solved_for_a_mistyped_tag_too(memory: Memory) -> None:
    result = memory.recall("rathoel project codebase architecture", explain=True)
    assert set(texts(result)[:3]) == set(RATHOLE)
    assert result.tags == ("rathole",)
    assert result.corrections == {"rathoel": "rathole"}
    right = why(memory.recall(QUERY, explain=True))[0]
    assert 0 < why(result)[0].tag_boost < right.tag_boost, "what was probably meant counts less than what was written"


def test_stop_words_are_no_tags(quick: Store) -> None:
    with quick.open() as memory:
        memory.remember("First memory.", tags=["the", "is", "for"])
        memory.remember("Second memory.", tags=["for-the-win"])
        assert memory.recall("what is the best for the team?").tags == ()
        assert memory.recall("for the win").tags == ("for-the-win",)


def test_query_words_are_split_at_punctuation(quick: Store) -> None:
    with quick.open() as memory:
        memory.remember("A memory.", tags=["rathole", "ci-cd"])
        assert memory.recall("(rathole)? CI/CD!").tags == ("rathole", "ci-cd")


def test_when_no_keyword_is_a_tag_nothing_gets_worse(memory: Memory) -> None:
    query = "where are tokens kept?"
    with_tags, without = memory.recall(query), memory.recall(query, tags=[])
    assert with_tags.tags == ()
    assert with_tags.ids == without.ids
    assert [hit.score for hit in with_tags] == pytest.approx([hit.score for hit in without], rel=1e-4)


# --- requirement 3 and 4: on by default, and how to opt out ------------------------------------


def test_an_empty_list_of_tags_switches_extraction_off(memory: Memory) -> None:
    result = memory.recall(QUERY, tags=[], explain=True, min_score=0.0)
    assert result.mode == "hybrid"
    assert result.tags == ()
    assert all(each.tag_boost == 0 for each in why(result))
    assert any(each.lexical_rank is not None for each in why(result))


def test_given_tags_filter(memory: Memory) -> None:
    assert {hit.memory.tags for hit in memory.recall(QUERY, tags=["litesearch"])} == {("litesearch",)}
    assert len(memory.recall(QUERY, tags=["rathole", "litesearch"], match="all", min_score=0.0)) == 0
    assert len(memory.recall(QUERY, tags=["rathole", "infra"], match="all", min_score=0.0)) == 3


def test_alpha_one_is_meaning_only(memory: Memory) -> None:
    result = memory.recall(QUERY, alpha=1.0, explain=True)
    ranks = [each.semantic_rank for each in why(result)]
    assert ranks == list(range(1, len(ranks) + 1))
    assert all((each.lexical_part, each.tag_boost) == (0, 0) for each in why(result))


FLOORS = ["The server room is on floor two", "The server room is on floor three of the building"]


@pytest.mark.parametrize("way", ["call", "configuration", "environment"])
def test_alpha_one_is_the_order_of_the_cosines_whatever_the_signals_say(
    store: Store, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way == "environment":
        monkeypatch.setenv("TWOFOLD_ALPHA", "1")
    config = MemoryConfig(alpha=1.0) if way == "configuration" else None
    with store.open(config=config) as memory:
        memory.remember(FLOORS[0], created="2019-01-01")
        memory.remember(FLOORS[1], pinned=True, importance=1.0, tags=["server", "floor", "two"])
        given = {"alpha": 1.0} if way == "call" else {}
        result = memory.recall("server room on floor two", explain=True, **given)  # type: ignore[arg-type]
        assert texts(result) == FLOORS
        assert [each.semantic_rank for each in why(result)] == [1, 2]
        assert result.tags == ()
        assert {each.pinned_factor * each.importance_factor * each.recency_factor for each in why(result)} == {1.0}
        nearly = memory.recall("server room on floor two", alpha=0.99, explain=True)
        assert why(nearly)[0].pinned_factor > 1, "everything short of it has its signals"


def test_alpha_zero_is_words_and_tags_only(memory: Memory) -> None:
    result = memory.recall(QUERY, alpha=0.0, explain=True)
    assert result.mode == "lexical"
    assert set(texts(result)[:3]) == set(RATHOLE)
    assert all(each.semantic_part == 0 and each.semantic_rank is None for each in why(result))


@pytest.mark.parametrize("variable", ["TWOFOLD_ALPHA", "MCP_MEMORY_HYBRID_ALPHA"])
def test_the_environment_reverts_to_pure_vector_search(
    store: Store, memory: Memory, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "1.0")
    opened = store.open(memory.user)
    result = opened.recall(QUERY)
    assert (result.mode, result.alpha) == ("dense", 1.0)
    assert texts(result) == texts(memory.recall(QUERY, alpha=1.0))
    assert opened.recall(QUERY, alpha=0.2).alpha == 0.2
    assert store.open(config=MemoryConfig(alpha=0.4)).recall(QUERY).alpha == 0.4


def test_a_wrong_environment_says_which_variable(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_MEMORY_HYBRID_ALPHA", "much")
    with pytest.raises(ConfigError, match="MCP_MEMORY_HYBRID_ALPHA is 'much'"):
        store.open()


# --- requirement 5: weights that adapt ---------------------------------------------------------


@pytest.fixture(scope="module")
def crowd(quick: Store) -> Memory:
    """Grows from test to test: 499 memories to begin with."""
    memory = quick.open(config=MemoryConfig(near_duplicate=None, typos=False))
    memory.remember_many([f"note {number}" for number in range(499)])
    return memory


def test_weighted_fusion_leans_to_meaning_as_memories_grow(crowd: Memory) -> None:
    assert crowd.recall("note 7", fusion="weighted").alpha == 0.5
    crowd.remember("note 499")
    assert crowd.recall("note 7", fusion="weighted").alpha == 0.7
    crowd.remember_many([f"note {number}" for number in range(500, 4999)])
    assert crowd.recall("note 7", fusion="weighted").alpha == 0.7
    crowd.remember("note 4999")
    result = crowd.recall("note 7", fusion="weighted")
    assert result.alpha == 0.8
    assert result.alpha_reason == "adapted to 5,000 memories"
    assert crowd.recall("note 7").alpha == 0.5


def test_the_default_fusion_keeps_its_alpha_at_any_size(memory: Memory, crowd: Memory) -> None:
    assert memory.recall(QUERY).alpha == 0.5
    assert crowd.recall("note 7").alpha == 0.5


@pytest.mark.parametrize(
    ("model", "said"), [("fast", "meaning and words count alike"), ("best", "meaning counts, and words 0.75 of that")]
)
def test_how_much_words_count_is_said_as_it_is(model: str, said: str) -> None:
    memory = Memory.open(":memory:", user="ada", dense=model)
    memory.remember("Rathole listens on port 2333")
    result = memory.recall("rathole port", explain=True)
    assert (result.alpha, result.alpha_reason) == (0.5, f"{said}, each on the scale that it has here")
    assert result[0].explanation is not None
    assert result.alpha_reason in str(result[0].explanation)
    memory.close()


def test_three_matched_tags_count_half_as_much_again(quick: Store) -> None:
    with quick.open() as memory:
        memory.remember("A memory with everything.", tags=["alpha", "beta", "gamma"])
        memory.remember_many([f"Another memory, number {number}." for number in range(10)])
        two = why(memory.recall("alpha beta", explain=True))[0]
        three = why(memory.recall("alpha beta gamma", explain=True))[0]
        assert len(two.matched_tags) == 2
        assert len(three.matched_tags) == 3
        assert three.tag_boost == pytest.approx(1.5 * two.tag_boost, rel=1e-4)


def test_an_explicit_alpha_goes_before_what_adapts(crowd: Memory) -> None:
    result = crowd.recall("note 7", fusion="weighted", alpha=0.1)
    assert (result.alpha, result.alpha_reason) == (0.1, "given with the call")


# --- requirement 6: several signals ------------------------------------------------------------


def days_ago(days: float) -> datetime:
    return datetime.now(timezone.utc) - timedelta(days=days)


AGES = (0, 70, 365)


def aged(memory: Memory) -> Memory:
    memory.remember_many([
        {"text": f"Standup notes of team {age}: the release is on track.", "created": days_ago(age)} for age in AGES
    ])  # fmt: skip
    return memory


def test_recency_factor_is_exp_of_minus_decay_times_days(store: Store) -> None:
    with aged(store.open(config=MemoryConfig(recency="full"))) as memory:
        result = memory.recall("standup notes: is the release on track?", explain=True, min_score=0.0)
        factors = {hit.text.split()[4].rstrip(":"): each.recency_factor
                   for hit, each in zip(result, why(result), strict=True)}  # fmt: skip
        for age in AGES:
            assert factors[str(age)] == pytest.approx(math.exp(-0.01 * age), rel=1e-3)
        assert texts(result)[0].split()[4] == "0:"


def test_recency_takes_a_tenth_at_most_by_default(store: Store) -> None:
    with aged(store.open()) as memory:
        oldest = min(each.recency_factor for each in why(memory.recall("standup notes release", explain=True)))
        assert oldest == pytest.approx(0.9 + 0.1 * math.exp(-3.65), rel=1e-3)


@pytest.mark.parametrize("variable", ["TWOFOLD_RECENCY_DECAY", "MCP_MEMORY_RECENCY_DECAY"])
def test_recency_is_switched_off_by_the_environment(
    store: Store, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "0")
    with aged(store.open(config=MemoryConfig(recency="full"))) as memory:
        assert {each.recency_factor for each in why(memory.recall("standup notes release", explain=True))} == {1.0}


def test_decay_rate_from_the_environment(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_MEMORY_RECENCY_DECAY", "0.1")
    assert store.open().config.recency_decay == 0.1


def test_score_breakdown(memory: Memory) -> None:
    each = why(memory.recall("rathole tunnel port", explain=True))[0]
    assert each.semantic_score is not None
    assert -1 <= each.semantic_score <= 1
    base = each.semantic_part + each.lexical_part + each.tag_boost
    factors = each.recency_factor * each.popularity_factor * each.importance_factor * each.pinned_factor
    assert each.final_score == pytest.approx(base * factors * each.type_factor, rel=1e-3)
    assert each.alpha_reason


def test_minimum_similarity_applies_to_the_final_score(memory: Memory) -> None:
    full = memory.recall(QUERY, min_score=0.0)
    cut = (full[2].relevance + full[3].relevance) / 2
    result = memory.recall(QUERY, min_score=cut)
    assert result.ids == full.ids[:3]
    raw = memory.recall(QUERY, alpha=1.0, min_score=0.0, explain=True)
    rathole = [each for hit, each in zip(raw, why(raw), strict=True) if hit.text in RATHOLE]
    assert any((each.semantic_score or 0) < cut for each in rathole), "by similarity alone it would have been left out"


# --- reliability -------------------------------------------------------------------------------


def test_failing_tag_extraction_does_not_break_recall(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> object:
        raise RuntimeError("the lexicon is broken")

    monkeypatch.setattr(recall, "match_tags", fail)
    with caplog.at_level(logging.WARNING, logger="twofold"):
        result = memory.recall("where are tokens kept?")
    assert texts(result)[0] == RATHOLE[1]
    assert "the lexicon is broken" in (result.degraded or "")
    assert "the lexicon is broken" in caplog.text


def test_what_mode_was_used_is_logged(memory: Memory, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="twofold.memory"):
        memory.recall(QUERY)
        memory.recall(QUERY, alpha=1.0)
    assert [record.recall["mode"] for record in caplog.records if hasattr(record, "recall")] == ["hybrid", "dense"]


def test_a_fallback_is_logged(quick: Store, caplog: pytest.LogCaptureFixture) -> None:
    model = Model()
    with quick.open(dense=model) as memory:
        memory.remember("Tokens are rotated every month.")
        model.down = True
        with caplog.at_level(logging.WARNING, logger="twofold"):
            assert memory.recall("tokens").mode == "lexical"
        assert "the embedding service is down" in caplog.text
