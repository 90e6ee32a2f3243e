"""The seam for ranking: what a search takes from a ranker, and the stage after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from twofold import Document, HybridIndex
from twofold.index.queries import check_query
from twofold.ranking.fusion import Auto, Leg, Rrf, Weighted
from twofold.ranking.ranker import Candidate, Floor, Place, Ranker
from twofold.results import Mode
from twofold.testing import HashEmbedding

TEXTS = {"a": "the tunnel listens on a port", "b": "a port for ships", "c": "cats drink tea", "d": "the port of call"}


@dataclass(frozen=True)
class Row:
    id: str
    text: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def point(self) -> str:
        return self.id


ROWS = {each: Row(each) for each in "abcd"}
LEGS = [Leg("dense", [("a", 0.9), ("b", 0.5), ("c", 0.1)]), Leg("lexical", [("b", 8.0), ("d", 4.0)])]


def test_two_legs_are_ordered_by_score_and_one_leg_keeps_its_order() -> None:
    ranker = Ranker(Auto(background=0.6))
    assert [each.row.id for each in ranker.rank(LEGS, ROWS)] == ["a", "b", "d", "c"]
    alone = ranker.on_one_leg("dense").rank(LEGS[:1], ROWS)
    assert [(each.row.id, each.tie) for each in alone] == [("a", 0.9), ("b", 0.5), ("c", 0.1)]
    assert alone[1].score == alone[2].score == 0, "both below the background, and told apart by their cosines"


def test_only_what_has_a_row_is_ranked_with_the_places_among_all() -> None:
    (only,) = Ranker(Rrf()).rank(LEGS, {"d": ROWS["d"]})
    assert only.places == {"lexical": Place(4.0, 2)}
    assert only.parts == {"lexical": pytest.approx(1 / 62)}


def test_a_floor_gives_a_second_chance_by_cosine() -> None:
    low = Candidate(ROWS["a"], 0.1, 0.1)
    near = low._replace(places={"dense": Place(0.5, 1)})
    assert Floor(0.1).lets_through(low)
    assert not Floor(0.2).lets_through(near)
    assert not Floor(0.2, cosine=0.4).lets_through(low)
    assert Floor(0.2, cosine=0.4).lets_through(near)
    assert not Floor(0.2, cosine=0.6).lets_through(near)


@dataclass(frozen=True)
class Backwards(Ranker):
    """A ranker of one's own: the worst comes first, cats can't be handed out."""

    def native(self, *_: Any) -> None:
        return None

    def rank(self, legs: Sequence[Leg], rows: Mapping[str, Any]) -> list[Candidate]:
        return super().rank(legs, rows)[::-1]

    def screen(self, row: Any) -> str | None:
        return "a cat" if "cat" in row.text else None

    def floor(self, mode: Mode) -> Floor | None:
        return Floor(-1.0)


class Shortest:
    """Reranks by the length of the text."""

    def rerank(self, query: str, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        assert query == "port"
        return sorted(candidates, key=lambda each: len(each.row.text))


@pytest.fixture
def index() -> Any:
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        index.add([Document(text, identity) for identity, text in TEXTS.items()])
        yield index


def search(index: HybridIndex, **changes: Any) -> Any:
    from twofold import SearchConfig

    query = check_query("port", SearchConfig(), k=3, explain=True)
    return index.perform(lambda searcher: searcher.search(replace(query, **changes))).result


def test_a_search_takes_ranking_screening_and_explaining_from_its_ranker(index: HybridIndex) -> None:
    usual = index.search("port", k=4)
    assert "c" in usual.ids
    ranker: Ranker = Backwards(Weighted())
    found = search(index, ranker=ranker)
    assert [problem.reason for problem in found.problems] == ["a cat"]
    assert [hit.score for hit in found] == sorted(hit.score for hit in found)
    assert {hit.explanation.fusion for hit in found} == {"weighted"}


def test_a_reranker_has_the_last_word_about_the_order(index: HybridIndex) -> None:
    found = search(index, reranker=Shortest())
    assert [len(hit.text) for hit in found] == sorted(len(hit.text) for hit in found)
    assert sorted(found.ids) == sorted(search(index).ids)
