from __future__ import annotations

from typing import Any

import pytest

from tests.cli.runs import Answer, run
from twofold.cli.demo import QUERIES, memories

MEMORIES = memories()
TEXTS, RELEVANT = list(QUERIES), list(QUERIES.values())


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    found: dict[str, Any] = run("demo", "--json").json
    return found


@pytest.fixture(scope="module", params=[80, 120])
def shown(request: pytest.FixtureRequest) -> tuple[int, Answer]:
    return request.param, run("demo", env={"COLUMNS": str(request.param)})


def ids(told: dict[str, Any], query: str, way: str) -> list[str]:
    asked = next(q for q in told["queries"] if q["query"] == query)
    return [hit["id"] for hit in asked[way]["hits"]]


def test_the_memories_are_sound() -> None:
    assert len({memory.id for memory in MEMORIES}) == len(MEMORIES) >= 40
    assert RELEVANT[0] == {memory.id for memory in MEMORIES if memory.metadata["project"] == "rathole"}
    assert all(relevant <= {memory.id for memory in MEMORIES} for relevant in RELEVANT)
    assert all(len(memory.id or "") <= 20 for memory in MEMORIES), "three side by side fit 80 columns"


def test_hybrid_puts_rathole_first(told: dict[str, Any]) -> None:
    assert ids(told, "rathole project codebase architecture", "hybrid")[0] == "rathole-overview"


def test_hybrid_finds_exact_names_and_messages_first(told: dict[str, Any]) -> None:
    for text in TEXTS[1:3]:
        assert set(ids(told, text, "hybrid")[: len(QUERIES[text])]) == QUERIES[text]


def test_meaning_helps_where_no_word_matches(told: dict[str, Any]) -> None:
    assert ids(told, TEXTS[-1], "bm25") == []
    assert ids(told, TEXTS[-1], "hybrid")[0] in RELEVANT[-1]


def test_words_help_where_meaning_takes_one_identifier_for_another(told: dict[str, Any]) -> None:
    assert ids(told, "migration_032", "dense")[0] != "cachekit-m032"
    assert ids(told, "migration_032", "hybrid")[0] == "cachekit-m032"


def test_json_says_how_each_answer_was_found(told: dict[str, Any]) -> None:
    assert told["memories"] == len(MEMORIES)
    first = told["queries"][0]
    assert list(first) == ["query", "relevant", "dense", "bm25", "hybrid"]
    assert [first[way]["mode"] for way in ("dense", "bm25", "hybrid")] == ["dense", "lexical", "hybrid"]
    assert first["hybrid"]["hits"][0]["explanation"]["fusion"] == "auto"


def test_it_fits_the_screen_and_has_no_colour_when_piped(shown: tuple[int, Answer]) -> None:
    width, answer = shown
    assert answer.code == 0
    assert answer.err == ""
    assert "\x1b" not in answer.out
    assert max(len(line) for line in answer.out.splitlines()) <= width
    assert "1 ● rathole-overview" in answer.out
    assert "why rathole-overview comes first" in answer.out
    assert "…" not in answer.out, "no id is cut"


def test_it_ends_with_what_to_do_next(shown: tuple[int, Answer]) -> None:
    end = shown[1].out.splitlines()[-3:]
    assert 'from twofold import HybridIndex; index = HybridIndex.open("./index")' in end[0]
    assert "twofold add" in end[1]
    assert "twofold search" in end[2]


def test_your_own_query(shown: tuple[int, Answer]) -> None:
    answer = run("demo", "--query", "migration_032")
    assert "why cachekit-m032 comes first" in answer.out
    assert "●" not in answer.out


def test_a_query_without_words_shows_no_words_found() -> None:
    answer = run("demo", "-q", "to be or not to be")
    assert "nothing found" in answer.out
    assert answer.err == ""
