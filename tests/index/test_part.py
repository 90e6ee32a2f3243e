"""A filter that names a part of the collection ranks that part as if it had a collection of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from qdrant_client import models

from tests.faces import Face
from tests.kit.engines import needs
from tests.kit.rest import RestServer
from twofold import BM25, Document, HybridIndex, SearchConfig, embedded_client
from twofold.testing import HashEmbedding

Opener = Callable[..., Face]


@pytest.fixture(autouse=True)
def _counts_in_parts(request: pytest.FixtureRequest) -> None:
    """Older servers count words in the whole collection, and say so."""
    if "open_index" in request.fixturenames:
        needs(request.node.callspec.params["open_index"].rpartition("-")[0], 1, 19)


# Everybody in the meeting speaks of the remote control, nobody elsewhere does: there alone the word tells nothing.
MEETING = [
    "the remote control should be yellow",
    "the remote control needs a battery that lasts",
    "who pays for the remote control and its case",
    "a remote control with a microphone for speech",
]
ELSEWHERE = [f"the budget of school {n} and its lessons" for n in range(40)]
QUERY = "battery of the remote control"


def filled(open_index: Opener, collection: str, *, alone: bool = False, **arguments: Any) -> Face:
    index = open_index(collection, **arguments)
    meeting = [Document(text, id=f"m{n}", metadata={"meeting": "a", "n": n}) for n, text in enumerate(MEETING)]
    others = [Document(text, id=f"e{n}", metadata={"meeting": "b", "n": n}) for n, text in enumerate(ELSEWHERE)]
    index.add(meeting if alone else [*meeting, *others])
    return index


def words(index: Face | HybridIndex, **arguments: Any) -> dict[str, float | None]:
    found = index.search(QUERY, explain=True, **arguments)
    return {hit.id: hit.explanation.lexical_score for hit in found if hit.explanation}


NATIVE = models.Filter(must=models.FieldCondition(key="metadata.meeting", match=models.MatchValue(value="a")))
FILTERS: dict[str, Any] = {
    "named": {"meeting": "a"},
    "named and narrowed": {"meeting": "a", "n": {"gte": 0}},
    "nested": {"and": [{"and": [{"meeting": "a"}]}, {"n": {"lt": 40}}]},
    "native": NATIVE,
}


@pytest.mark.parametrize("native", [True, False], ids=["fused there", "fused here"])
@pytest.mark.parametrize("where", FILTERS.values(), ids=FILTERS)
def test_a_named_part_ranks_as_if_it_were_alone(open_index: Opener, where: Any, native: bool) -> None:
    config = SearchConfig(native=native)
    whole = filled(open_index, "whole", config=config)
    alone = filled(open_index, "alone", alone=True, config=config)
    found, expected = whole.search(QUERY, filter=where), alone.search(QUERY)
    assert found.ids == expected.ids
    assert [hit.score for hit in found] == pytest.approx([hit.score for hit in expected], abs=1e-6)
    assert [hit.relevance for hit in found] == pytest.approx([hit.relevance for hit in expected], abs=1e-6)


def test_explaining_changes_no_score_in_a_part(open_index: Opener) -> None:
    index = filled(open_index, "whole")
    plain, explained = (index.search(QUERY, filter={"meeting": "a"}, explain=explain) for explain in (False, True))
    assert [(hit.id, hit.score) for hit in plain] == [(hit.id, hit.score) for hit in explained]


@pytest.mark.parametrize("where", [{"n": {"lt": 4}}, {"not": {"meeting": "b"}}, {"meeting": ["a", "b"]}], ids=str)
def test_other_filters_only_narrow(open_index: Opener, where: Any) -> None:
    index = filled(open_index, "whole")
    everywhere = words(index, k=50)
    assert words(index, k=4, filter=where)["m1"] == pytest.approx(everywhere["m1"])


def test_a_word_that_the_whole_part_has_counts_for_little_there(open_index: Opener) -> None:
    index = filled(open_index, "whole")
    everywhere, there = words(index, k=50), words(index, filter={"meeting": "a"})
    assert there["m0"] is not None
    assert everywhere["m0"] is not None
    assert there["m0"] < everywhere["m0"] / 5


def test_words_that_count_by_no_rarity_need_no_part(open_index: Opener) -> None:
    class Counted(BM25):
        """Weights as they are, like those of a learned sparse model."""

        needs_idf = False

    index = filled(open_index, "whole", sparse=Counted())
    assert words(index, filter={"meeting": "a"})["m1"] == pytest.approx(words(index, k=50)["m1"])


def test_older_servers_count_over_the_whole_collection() -> None:
    with RestServer(lambda: embedded_client(":memory:"), version="1.18.2") as server:
        index = HybridIndex.open(server.url, dense=HashEmbedding())
        index.add(MEETING, metadatas=[{"meeting": "a"}] * len(MEETING))
        index.add(ELSEWHERE)
        rows = words(index, filter={"meeting": "a"})
        assert sorted(filter(None, rows.values())) == pytest.approx(
            sorted(filter(None, words(index, k=len(MEETING)).values()))
        )
        index.close()
