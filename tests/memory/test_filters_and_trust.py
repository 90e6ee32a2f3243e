"""A coding agent's memories of functions, errors and repositories: what the hybrid search report asks for."""

from __future__ import annotations

import logging
import math
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from tests.memory.scenarios import Store, texts, why
from twofold import Memory, MemoryConfig
from twofold.ranking.signals import RecencyMode

MEMORIES: list[dict[str, Any]] = [
    {"text": "checkRateLimit validates how often a client sends requests.", "type": "pattern", "source": "repo/api",
     "tags": ["api"], "trust": "agent"},
    {"text": "API throttling protects the service from abuse.", "type": "pattern", "source": "repo/api",
     "trust": "user"},
    {"text": "Requests are validated before they reach the handlers.", "type": "decision", "source": "repo/api"},
    {"text": "executeTask in agent/run.ts starts a job and waits for its result.", "source": "repo/agent"},
    {"text": "Running jobs are listed on the dashboard.", "source": "repo/agent", "trust": "web"},
    {"text": "TypeError: Cannot read property 'id' of undefined, because the session had expired.", "type": "error",
     "tags": ["login"], "source": "repo/web"},
    {"text": "Generic error messages are shown to users in a red box.", "type": "decision", "source": "repo/web"},
    {"text": "ReferenceError: config is not defined, since the import was missing.", "type": "error",
     "source": "repo/web"},
    {"text": "The encore.ts migration added the search_vector column.", "category": "database", "source": "repo/api"},
    {"text": "Prisma changes the database schema step by step.", "category": "database", "source": "repo/api"},
]  # fmt: skip


@pytest.fixture(scope="module")
def memory(store: Store) -> Memory:
    opened = store.open(config=MemoryConfig(touch=False))
    opened.remember_many(MEMORIES)
    return opened


# --- exact names -------------------------------------------------------------------------------


@pytest.mark.parametrize("fusion", ["auto", "weighted", "rrf", "dbsf", "average"])
@pytest.mark.parametrize(("query", "start"), [
    ("checkRateLimit function", "checkRateLimit"), ("executeTask function", "executeTask"),
    ("TypeError: Cannot read property", "TypeError"), ("encore.ts migration", "The encore.ts migration"),
    ("rate limit", "checkRateLimit"),
])  # fmt: skip
def test_exact_function_names_and_error_messages_come_first(
    memory: Memory, query: str, start: str, fusion: str
) -> None:
    assert texts(memory.recall(query, fusion=fusion))[0].startswith(start)


def test_a_keyword_match_goes_before_what_only_means_the_same(memory: Memory) -> None:
    found = texts(memory.recall("checkRateLimit API throttling", min_score=0.0))
    assert found.index(MEMORIES[0]["text"]) < 2
    assert found.index(MEMORIES[1]["text"]) < 2
    assert texts(memory.recall("checkRateLimit", min_score=0.0))[0] == MEMORIES[0]["text"]


# --- the formula -------------------------------------------------------------------------------


def test_six_tenths_meaning_over_max_normalised_words(memory: Memory) -> None:
    result = memory.recall("checkRateLimit function", fusion="weighted", alpha=0.6, signals=False, explain=True)
    best = max(each.lexical_score or 0.0 for each in why(result))
    for each in why(result):
        words = (each.lexical_score or 0.0) / best
        assert each.final_score == pytest.approx(0.6 * max(0.0, each.semantic_score or 0.0) + 0.4 * words, rel=1e-4)
    assert why(result)[0].lexical_part == pytest.approx(0.4)


def test_text_counts_more_than_category_and_category_more_than_tags(quick: Store) -> None:
    with quick.open() as memory:
        memory.remember("Filler words stand here, and zeppelin.")
        memory.remember("Filler words stand here, and balloon.", category="zeppelin")
        memory.remember("Filler words stand here, and aircraft.", tags=["zeppelin"])
        result = memory.recall("zeppelin", alpha=0.0, tags=[], explain=True)
        scores = [each.lexical_score or 0.0 for each in why(result)]
        assert [hit.text.split()[-1] for hit in result] == ["zeppelin.", "balloon.", "aircraft."]
        assert scores[0] > scores[1] > scores[2] > 0


def test_decayed_score_is_seven_tenths_relevance_and_three_tenths_freshness(store: Store) -> None:
    config = MemoryConfig(recency="blend", recency_share=0.3, min_score=None)
    with store.open(config=config) as memory:
        old = datetime.now(timezone.utc) - timedelta(days=50)
        text = "executeTask starts a job."
        memory.remember_many([{"text": text, "created": old}, {"text": "executeTask ends a job."}])
        faded, fresh = sorted(why(memory.recall(text, explain=True)), key=lambda each: each.freshness)
        for each in (faded, fresh):
            relevance = each.semantic_part + each.lexical_part + each.tag_boost
            assert each.final_score == pytest.approx(0.7 * relevance + each.freshness, rel=1e-4)
        assert fresh.freshness == pytest.approx(0.3 * 2 * faded.semantic_part, rel=1e-3), "of what the text itself gets"
        assert faded.freshness == pytest.approx(math.exp(-0.5) * fresh.freshness, rel=1e-3)
        assert "being fresh adds" in str(fresh)


@pytest.mark.parametrize("fusion", ["auto", "weighted", "rrf", "dbsf", "average"])
@pytest.mark.parametrize("mode", ["soft", "full", "blend"])
def test_parts_factors_and_freshness_add_up_to_the_score(store: Store, mode: RecencyMode, fusion: str) -> None:
    config = MemoryConfig(recency=mode, recency_share=0.3, touch=False, type_weights={"error": 0.5}, min_score=None)
    with store.open(config=config) as memory:
        ages = [datetime.now(timezone.utc) - timedelta(days=40 * n) for n in range(len(MEMORIES))]
        memory.remember_many([
            {**each, "created": age, "pinned": n % 4 == 1, "importance": n / 10}
            for n, (each, age) in enumerate(zip(MEMORIES, ages, strict=True))
        ])  # fmt: skip
        for query in ("login session TypeError", "how often may a client call?", "checkRateLimit"):
            result = memory.recall(query, fusion=fusion, explain=True)
            assert len(result) == len(MEMORIES)
            for hit, each in zip(result, why(result), strict=True):
                factors = each.recency_factor * each.popularity_factor * each.importance_factor * each.pinned_factor
                parts = (each.semantic_part + each.lexical_part + each.tag_boost) * factors * each.type_factor
                assert hit.score == pytest.approx(parts + each.freshness, rel=1e-4, abs=1e-5)
                assert (each.freshness > 0) == (mode == "blend")
            plain = memory.recall(query, fusion=fusion)
            assert plain.ids == result.ids
            assert [hit.score for hit in plain] == pytest.approx([hit.score for hit in result], rel=1e-4, abs=1e-5)


def test_pinned_memories_do_not_fade(store: Store) -> None:
    with store.open(config=MemoryConfig(recency="full")) as memory:
        old = datetime.now(timezone.utc) - timedelta(days=300)
        memory.remember("The release checklist lives in the wiki of team one.", created=old)
        memory.remember("The release checklist lives in the wiki of team two.", created=old, pinned=True)
        result = memory.recall("release checklist", explain=True, min_score=0.0)
        assert result[0].memory.pinned
        assert [each.recency_factor for each in why(result)] == pytest.approx([1.0, math.exp(-3)], rel=1e-3)
        assert why(result)[0].pinned_factor > 1


# --- keyword-only hits -------------------------------------------------------------------------


def test_what_only_words_find_is_there(quick: Store) -> None:
    with quick.open(config=MemoryConfig(depth=5)) as memory:
        memory.remember_many([f"alpha beta gamma delta epsilon {n}" for n in range(30)])
        target = memory.remember("a completely different text which also mentions alpha once, at length, and zz9plural")
        result = memory.recall("alpha beta gamma delta epsilon zz9plural", explain=True, k=30)
        found = {hit.id: each for hit, each in zip(result, why(result), strict=True)}
        assert found[target].lexical_rank is not None
        assert found[target].semantic_score is not None, "what one leg finds is scored by both"


def test_keyword_only_hits_cost_no_requests_of_their_own(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with store.open(config=MemoryConfig(touch=False)) as memory:
        memory.remember_many(MEMORIES)
        memory.recall("checkRateLimit TypeError executeTask encore.ts")  # from now on known as words
        calls: list[str] = []
        for name in ("query_batch_points", "query_points", "retrieve", "scroll", "count", "facet"):
            real = getattr(store.client, name)

            def watched(*args: Any, _name: str = name, _real: Any = real, **rest: Any) -> Any:
                calls.append(_name)
                return _real(*args, **rest)

            monkeypatch.setattr(store.client, name, watched)
        for fusion in ("auto", "weighted", "rrf"):
            for explain in (False, True):
                memory.recall("checkRateLimit TypeError executeTask encore.ts", fusion=fusion, explain=explain)
        # What is fused here takes both rankings without their rows, and then the rows of the best.
        assert calls == ["query_batch_points"] * 2 + ["query_batch_points", "retrieve"] * 4


# --- filters -----------------------------------------------------------------------------------


def test_filter_by_type(memory: Memory) -> None:
    assert {hit.memory.type for hit in memory.recall("error in a session", types=["error"])} == {"error"}


def test_filter_by_source(memory: Memory) -> None:
    found = memory.recall("checkRateLimit and errors", filter={"source": "repo/web"}, min_score=0.0)
    assert {hit.memory.source for hit in found} == {"repo/web"}


def test_filter_by_tags(memory: Memory) -> None:
    assert texts(memory.recall("requests and errors", tags=["login"], min_score=0.0)) == [MEMORIES[5]["text"]]


def test_superseded_memories_are_not_recalled(store: Store) -> None:
    with store.open() as memory:
        old = memory.remember("The API allows 100 requests a minute.")
        new = memory.remember("The API allows 250 requests a minute.", supersedes=old)
        assert memory.recall("how many requests a minute?", min_score=0.0).ids == [new]
        assert memory.recall("100", alpha=0.0, min_score=0.0).ids == []
        item = memory.get(old)
        assert item is not None
        assert item.superseded_by == new


@pytest.mark.parametrize(("least", "kept"), [("web", 10), ("agent", 9), ("user", 8), ("system", 0)])
def test_filter_by_trust(memory: Memory, least: str, kept: int) -> None:
    assert len(memory.recall("requests and jobs", min_trust=least, min_score=0.0, k=20)) == kept


def test_minimum_relevance(memory: Memory) -> None:
    query = "TypeError: Cannot read property"
    everything = memory.recall(query, min_score=0.0)
    result = memory.recall(query, min_score=0.9)
    assert texts(result) == [MEMORIES[5]["text"]]
    assert result[0].relevance >= 0.9 > everything[1].relevance


def test_filters_hold_for_what_only_words_find_too(memory: Memory) -> None:
    assert MEMORIES[0]["text"] not in texts(memory.recall("checkRateLimit", types=["error"], min_score=0.0))
    assert MEMORIES[0]["text"] not in texts(memory.recall("checkRateLimit", min_trust="user", min_score=0.0))


# --- integrity ---------------------------------------------------------------------------------


def test_the_content_hash_is_checked_on_read(store: Store) -> None:
    with store.open() as memory:
        changed, kept = memory.remember_many(["Pay invoices to account 111.", "Invoices are paid on Mondays."])
        store.client.set_payload("memories", {"text": "Pay invoices to account 666."}, points=[changed])
        result = memory.recall("where are invoices paid to?")
        assert result.ids == [kept]
        assert [problem.id for problem in result.problems] == [changed]
        assert "not the one that was stored" in result.problems[0].reason
        assert [problem.id for problem in memory.stats(verify=True).problems] == [changed]
        assert [problem.id for problem in memory.list().problems] == [changed]


def test_rows_that_lack_the_sparse_vector_are_counted(store: Store) -> None:
    with store.open() as memory:
        ids = memory.remember_many([each["text"] for each in MEMORIES])
        store.client.delete_vectors("memories", vectors=["bm25"], points=[str(i) for i in ids[:3]])
        assert memory.stats().without_words == 3
        assert memory.stats().memories == len(MEMORIES)


# --- what is noted about a search --------------------------------------------------------------


def test_statistics_of_a_search_are_logged(memory: Memory, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="twofold.memory"):
        result = memory.recall("checkRateLimit", min_score=0.0)
    facts = next(record.recall for record in caplog.records if hasattr(record, "recall"))
    assert facts["hits"] == len(result) == 10
    assert facts["by_meaning"] == 10
    assert facts["by_words"] == 1
    assert facts["by_words_only"] == 0
    assert facts["alpha"] == 0.5
    assert facts["mode"] == "hybrid"
    assert facts["milliseconds"] > 0


def test_logging_changes_no_answer(memory: Memory, caplog: pytest.LogCaptureFixture) -> None:
    quiet = memory.recall("errors of the session")
    with caplog.at_level(logging.INFO, logger="twofold.memory"):
        heard = memory.recall("errors of the session")
    assert heard.ids == quiet.ids
    assert all(hit.explanation is None for hit in heard)


@pytest.mark.parametrize("query", ["", " ", "\n\t"])
def test_an_empty_query_gives_no_rows(memory: Memory, query: str) -> None:
    for fusion in ("auto", "weighted", "rrf"):
        result = memory.recall(query, fusion=fusion)
        assert len(result) == 0
        assert result.degraded is None


# --- words are stemmed, in Norwegian too -------------------------------------------------------


def test_stored_words_are_stemmed(memory: Memory) -> None:
    for query in ("migrations", "migrating", "encore migrate"):
        assert texts(memory.recall(query, alpha=0.0))[0].startswith("The encore.ts migration"), query


@pytest.fixture(scope="module")
def norwegian(store: Store) -> Memory:
    memory = store.open(collection="minner", language="norwegian", config=MemoryConfig(touch=False))
    memory.remember_many([
        "Møtet med kunden ble flyttet til torsdag.",
        "Søket kombinerer nøkkelord og vektorer.",
        "Båten ligger ved brygga i Ålesund.",
        "Husk å kjøpe brød og melk på fredag.",
    ])  # fmt: skip
    return memory


@pytest.mark.parametrize(("query", "start"), [
    ("møter", "Møtet"), ("kundene", "Møtet"), ("vektor", "Søket"), ("båter", "Båten"), ("Alesund", "Båten"),
    ("nøkkelordene", "Søket"),
])  # fmt: skip
def test_norwegian_memories_are_found_by_other_forms_and_without_accents(
    norwegian: Memory, query: str, start: str
) -> None:
    assert texts(norwegian.recall(query))[0].startswith(start)
