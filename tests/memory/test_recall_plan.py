"""What a recall asks the engine for: a store of one's own is asked otherwise than a client, and answers the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from typing import Any

import pytest

from tests.memory.scenarios import Store, texts
from tests.memory.test_nothing_relevant import EVERYTHING, IN_OTHER_WORDS, MEMORIES, OFF_TOPIC
from twofold import Memory, MemoryConfig
from twofold.engine.edge import EdgeConnection
from twofold.engine.requests import EngineQuery, FusedQuery, VectorQuery
from twofold.flow import Call
from twofold.memory.recall import Recall, build_signals
from twofold.memory.state import Vocabulary
from twofold.ranking.vocabulary import Lexicon

QUIET = MemoryConfig(touch=False, typos=False)


@pytest.fixture(scope="module")
def own() -> Iterator[Memory]:
    with Memory.open(":memory:", user="ada", config=QUIET) as memory:
        memory.remember_many(MEMORIES)
        yield memory


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[EngineQuery]]:
    """The searches that a store of one's own is asked for."""
    batches: list[Sequence[EngineQuery]] = []
    real = EdgeConnection.call

    def watched(self: EdgeConnection, call: Call) -> Any:
        if call.verb == "query":
            batches.append(call.arguments["queries"])
        return real(self, call)

    monkeypatch.setattr(EdgeConnection, "call", watched)
    return batches


def test_a_store_of_ones_own_has_the_same_floor_as_a_client(own: Memory) -> None:
    store = Store()
    with store.open(config=QUIET) as brought:
        brought.remember_many(MEMORIES)
        for query in EVERYTHING:
            assert texts(own.recall(query)) == texts(brought.recall(query)), query
    store.close()


def test_explaining_changes_nothing_about_it(own: Memory) -> None:
    for query in EVERYTHING:
        assert own.recall(query).ids == own.recall(query, explain=True).ids, query


async def test_awaiting_changes_nothing_about_it(own: Memory) -> None:
    for query in EVERYTHING:
        assert own.recall(query).ids == (await own.arecall(query)).ids, query


@pytest.mark.parametrize("query", [*IN_OTHER_WORDS, *OFF_TOPIC])
def test_the_gate_costs_no_request_of_its_own_and_nothing_brings_its_vector(
    own: Memory, asked: list[Sequence[EngineQuery]], query: str
) -> None:
    own.recall("warm up")
    asked.clear()
    own.recall(query)
    ((request,),) = asked
    assert isinstance(request, FusedQuery)
    assert request.legs
    assert not any(getattr(each, "with_dense", False) for each in (request, *request.legs))


def test_the_first_search_asks_unrelated_questions_in_one_batch(asked: list[Sequence[EngineQuery]]) -> None:
    with Memory.open(
        ":memory:", user="ada", config=MemoryConfig(touch=False, near_duplicate=None, typos=False)
    ) as memory:
        memory.remember_many(MEMORIES)
        asked.clear()
        memory.recall("hedgehog")
        questions, search = asked
        assert 24 <= len(questions) <= 48, "by meaning and, where they have words, by words"
        assert all(isinstance(each, VectorQuery) and not each.with_payload for each in questions)
        assert len(search) == 1
        asked.clear()
        memory.recall("hedgehog")
        memory.remember("One more makes no difference: it is less than a tenth.")
        memory.recall("hedgehog")
        assert [len(batch) for batch in asked] == [1, 1]


def test_ages_are_told_once_a_minute_and_nothing_is_younger_than_new() -> None:
    before = datetime.now(timezone.utc)
    known = Vocabulary(Lexicon(str), memories=0, rows=0, fields=())
    first, second = (build_signals(MemoryConfig(), Recall("tunnel"), known, {}, []).now for _ in range(2))
    assert before < first <= second
    assert (first.second, first.microsecond) == (0, 0)
    assert (first - before).total_seconds() <= 60
