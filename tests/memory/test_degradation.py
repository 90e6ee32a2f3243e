"""When a part can't answer, the rest does, says why, and still counts; and every search leaves one line in the log."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from tests.memory.faces import MemoryFace, Opener
from twofold import Memory, MemoryConfig
from twofold.encoders.base import Sparse
from twofold.encoders.bm25 import BM25
from twofold.testing import HashEmbedding


class Moody(HashEmbedding):
    down = False

    def embed_query(self, text: str) -> list[float]:
        if self.down:
            raise ConnectionError("the model server is gone")
        return super().embed_query(text)


class MoodyBM25(BM25):
    down = False

    def embed_query(self, text: str) -> Sparse:
        if self.down:
            raise MemoryError("no room")
        return super().embed_query(text)

    def matched_words(self, query: str, texts: Sequence[str]) -> list[tuple[str, ...]]:
        if self.down:
            raise MemoryError("no room")
        return super().matched_words(query, texts)


class Parts:
    def __init__(self) -> None:
        self.dense, self.sparse = Moody(), MoodyBM25()


@pytest.fixture
def parts() -> Parts:
    return Parts()


@pytest.fixture
def memory(open_memory: Opener, parts: Parts, _own_words: None) -> MemoryFace:
    opened = open_memory(collection="moody", dense=parts.dense, sparse=parts.sparse)
    opened.remember("rathole tunnels listen on port 2333", tags=["infra"])
    opened.remember("caches expire at noon", type="rule")
    other = opened.for_user(f"{opened.memory.user}'s neighbour")
    other.remember("the neighbour's rathole", tags=["infra"])
    return opened


def counts(memory: MemoryFace) -> list[int]:
    return [item.access_count for item in memory.list() if "rathole" in item.text]


def test_everything_up(memory: MemoryFace) -> None:
    result = memory.recall("rathole", 1)
    assert (result.mode, result.degraded) == ("hybrid", None)
    assert counts(memory) == [1]


def test_dense_down_means_by_words(memory: MemoryFace, parts: Parts) -> None:
    parts.dense.down = True
    result = memory.recall("rathole infra", explain=True)
    assert [hit.text for hit in result] == ["rathole tunnels listen on port 2333"]
    assert result.mode == "lexical"
    assert result.degraded == "the dense encoder failed: ConnectionError: the model server is gone"
    assert result[0].explanation.tag_boost > 0, "tags count all the same"
    assert counts(memory) == [1]


def test_sparse_down_means_by_meaning(memory: MemoryFace, parts: Parts) -> None:
    parts.sparse.down = True
    result = memory.recall("rathole tunnels", 1, explain=True)
    assert [hit.text for hit in result] == ["rathole tunnels listen on port 2333"]
    assert result.mode == "dense"
    assert "the lexical encoder failed: MemoryError: no room" in result.degraded
    assert counts(memory) == [1]


def test_both_down_means_matching_words_in_the_text(memory: MemoryFace, parts: Parts) -> None:
    parts.dense.down = parts.sparse.down = True
    result = memory.recall("rathole port", explain=True)
    assert [hit.text for hit in result] == ["rathole tunnels listen on port 2333"]
    assert result.mode == "text"
    assert result[0].explanation.matched_words == ("rathole", "port")
    assert counts(memory) == [1]
    assert memory.recall("rathole", types=["rule"]).ids == [], "filters hold"


def test_and_where_no_word_matches_parts_of_words(memory: MemoryFace, parts: Parts) -> None:
    parts.dense.down = parts.sparse.down = True
    result = memory.recall("HOLE tun", explain=True)
    assert [hit.text for hit in result] == ["rathole tunnels listen on port 2333"]
    assert result.mode == "text"
    assert "looked for as a part of the texts" in result.degraded
    assert result[0].explanation.fusion == "text"
    assert counts(memory) == [1]
    assert memory.recall("nothing like it").ids == []
    assert memory.recall("hole", types=["rule"]).ids == []


def test_the_last_resort_can_be_switched_off(open_memory: Opener, parts: Parts) -> None:
    memory = open_memory(
        collection="moody", dense=parts.dense, sparse=parts.sparse, config=MemoryConfig(text_fallback=False)
    )
    memory.remember("rathole tunnels listen on port 2333")
    parts.dense.down = parts.sparse.down = True
    assert memory.recall("rathole").ids == []


def test_a_damaged_memory_is_named_by_the_last_resort_too(memory: MemoryFace, parts: Parts) -> None:
    parts.dense.down = parts.sparse.down = True
    (found,) = memory.recall("hole").ids
    memory.raw.set(found, text="rathole pays to account 666")
    for query in ("athole", "rathole"):
        result = memory.recall(query)
        assert result.ids == []
        assert [problem.id for problem in result.problems] == [found]


def test_a_part_of_a_word_is_found_where_words_alone_are_asked_for(memory: MemoryFace) -> None:
    result = memory.recall("atho", alpha=0.0)
    assert [hit.text for hit in result] == ["rathole tunnels listen on port 2333"]
    assert result.mode == "text"
    assert result.degraded == "no word matched, so the query was looked for as a part of the texts"
    assert counts(memory) == [1]
    assert memory.recall("rathole", alpha=0.0, offset=1).ids == [], "a page beyond the last is no reason to look"
    nothing = memory.recall("zebra", alpha=0.0)
    assert (nothing.ids, nothing.mode, nothing.degraded) == ([], "lexical", None)


def test_what_a_floor_leaves_out_is_not_looked_for_again(memory: MemoryFace) -> None:
    for given in ({}, {"alpha": 0.0}):
        result = memory.recall("rathole", min_score=99.0, **given)
        assert (result.ids, result.degraded) == ([], None)


def test_nothing_relevant_stays_nothing_though_the_letters_are_there() -> None:
    with Memory.open(":memory:", user="ada") as memory:
        memory.remember_many(
            ["Rathole tunnels listen on port 2333.", "Ana drinks oat milk.", "Deploys are on Tuesdays."]
        )
        result = memory.recall("list")
        assert (result.ids, result.mode, result.degraded) == ([], "hybrid", None)
        assert memory.recall("isten", alpha=0.0)[0].text.startswith("Rathole")


# --- statistics ----------------------------------------------------------------------------------


def statistics(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [record.recall for record in caplog.records if hasattr(record, "recall")]


def test_every_search_leaves_one_line(memory: MemoryFace, parts: Parts, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "twofold.memory"):
        found = memory.recall("rathole noon")
        parts.dense.down = True
        memory.recall("rathole noon port")
        memory.recall("")
    both, words, nothing = statistics(caplog)
    assert both.items() >= {
        "hits": 2, "by_meaning": 2, "by_words": 2, "by_words_only": 0, "alpha": 0.5, "mode": "hybrid", "problems": 0,
    }.items()  # fmt: skip
    assert words.items() >= {"by_meaning": 0, "by_words_only": words["hits"], "mode": "lexical"}.items()
    assert nothing["hits"] == 0
    assert both["milliseconds"] > 0
    assert found[0].explanation is None, "asked for by the log, not by the caller"
    own = [record for record in caplog.records if record.name == "twofold.memory" and hasattr(record, "recall")]
    assert all(record.levelno == logging.INFO for record in own)
    assert own[0].getMessage().startswith("recall: hits 2, by_meaning 2")


def test_legs_are_counted_before_anything_is_left_out(memory: MemoryFace, caplog: pytest.LogCaptureFixture) -> None:
    memory.remember_many([f"lighthouse number {n}" for n in range(30)])
    with caplog.at_level(logging.INFO, "twofold.memory"):
        memory.recall("lighthouse", 3)
        memory.recall("lighthouse", 3, depth=20, fusion="weighted")
        memory.recall("lighthouse", 3, alpha=0.0)
        memory.recall("lighthouse", 3, depth=5, alpha=0.5)
    legs = [(each["hits"], each["by_meaning"], each["by_words"], each["by_words_only"]) for each in statistics(caplog)]
    assert legs[0] == (3, 30, 30, 0)
    assert legs[1][:3] == (3, 20, 20)
    assert legs[2] == (3, 0, 30, 30)
    meaning, words = legs[3][1:3]
    assert 5 < meaning == words <= 10, "what one of them finds among its first five is scored by both"
    assert 0 <= legs[3][3] <= 5


def test_listening_changes_no_ranking(memory: MemoryFace, caplog: pytest.LogCaptureFixture) -> None:
    quiet = memory.recall("rathole noon", touch=False)
    with caplog.at_level(logging.INFO, "twofold.memory"):
        heard = memory.recall("rathole noon", touch=False)
    assert [(h.id, pytest.approx(h.score, rel=1e-4)) for h in quiet] == [(h.id, h.score) for h in heard]


def test_nobody_listening_costs_nothing(memory: MemoryFace, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "twofold.memory"):
        memory.recall("rathole")
    assert statistics(caplog) == []
