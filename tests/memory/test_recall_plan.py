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
from twofold.filters import HasPoint
from twofold.flow import Call
from twofold.memory.recall import Recall, build_signals
from twofold.memory.state import Vocabulary
from twofold.ranking.vocabulary import Lexicon, Words

QUIET = MemoryConfig(touch=False)


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
def test_what_scores_low_is_looked_at_once_more_and_nothing_brings_its_vector(
    own: Memory, asked: list[Sequence[EngineQuery]], query: str
) -> None:
    own.recall(query)
    first, *more = (request for batch in asked for request in batch)
    assert isinstance(first, FusedQuery)
    assert first.legs
    assert not any(request.with_dense for request in (first, *first.legs, *more))
    assert len(more) <= 1
    for request in more:
        assert isinstance(request, VectorQuery)
        assert isinstance(request.filter, HasPoint)
        assert 0 < len(request.filter.ids) <= len(MEMORIES)
        assert request.limit == len(request.filter.ids)


def test_ages_are_told_once_a_minute_and_nothing_is_younger_than_new() -> None:
    before = datetime.now(timezone.utc)
    known = Vocabulary(Lexicon(str), Words(), memories=0, rows=0, fields=())
    first, second = (build_signals(MemoryConfig(), Recall("tunnel"), known, {}, []).now for _ in range(2))
    assert before < first <= second
    assert (first.second, first.microsecond) == (0, 0)
    assert (first - before).total_seconds() <= 60
