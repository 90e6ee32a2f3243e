"""The seam for ranking: what a search takes from a ranker, and the stage after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from twofold import Document, HybridIndex
from twofold.index.queries import check_query
from twofold.ranking.fusion import Auto, Average, Leg, LegName, Rrf, Scale, Strategy, Weighted
from twofold.ranking.ranker import Candidate, Place, Ranker
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
LEGS = [Leg("dense", [("a", 0.9), ("b", 0.5), ("c", 0.1)]), Leg("lexical", [("b", 9.0), ("d", 4.0)])]


def test_two_legs_are_ordered_by_score_and_one_leg_keeps_its_order() -> None:
    ranker = Ranker(Auto(mean=0.6))
    assert [each.row.id for each in ranker.rank(LEGS, ROWS)] == ["b", "a", "d", "c"]
    alone = ranker.fitted(ranker.fusion.with_alpha(1.0)).rank(LEGS[:1], ROWS)
    assert [(each.row.id, each.tie) for each in alone] == [("a", 0.9), ("b", 0.5), ("c", 0.1)]
    assert [each.score for each in alone] == pytest.approx([3.0, -1.0, -5.0]), "below the mean, and still told apart"


CROSSED = [Leg("dense", [("b", 0.9), ("a", 0.5)]), Leg("lexical", [("a", 8.0), ("b", 4.0)])]
FAR = [Leg("dense", [("b", -0.1), ("a", -0.4)]), Leg("lexical", [])]


@pytest.mark.parametrize(("fusion", "legs"), [(Rrf(), CROSSED), (Average(), CROSSED), (Weighted(), FAR)])
def test_of_equal_scores_the_nearer_comes_first_and_then_the_id(fusion: Strategy, legs: list[Leg]) -> None:
    near, far = Ranker(fusion).rank(legs, ROWS)
    assert near.score == far.score
    assert (near.row.id, far.row.id) == ("b", "a")


def test_of_equal_scores_those_that_meaning_did_not_bring_come_last_by_id() -> None:
    words = Leg("lexical", [("b", 8.0), ("a", 8.0), ("d", 4.0)])
    found = Ranker(Weighted()).rank([Leg("dense", [("d", 0.3 / 0.7 / 2)]), words], ROWS)
    assert len({each.score for each in found}) == 1
    assert [each.row.id for each in found] == ["d", "a", "b"]


def test_only_what_has_a_row_is_ranked_with_the_places_among_all() -> None:
    (only,) = Ranker(Rrf()).rank(LEGS, {"d": ROWS["d"]})
    assert only.places == {"lexical": Place(4.0, 2)}
    assert only.parts == {"lexical": pytest.approx(1 / 62)}


def test_what_is_admitted_is_relevant_enough_whatever_its_score() -> None:
    fusion = Auto(scale=Scale(nothing=1.0, floor=2.0))
    candidates = [Candidate(ROWS[each], score, score) for each, score in (("a", 4.0), ("b", 2.0), ("c", 1.5))]
    assert list(Ranker(fusion).admit(candidates, ["dense", "lexical"])) == candidates
    for least, ids in ((0.0, "abc"), (0.25, "abc"), (0.5, "ab"), (0.8, "a"), (0.999, "")):
        admitted = Ranker(fusion, min_score=least).admit(candidates, ["dense", "lexical"])
        assert [each.row.id for each in admitted] == [*ids]


@dataclass(frozen=True)
class Backwards(Ranker):
    """A ranker of one's own: the worst comes first, cats can't be handed out."""

    def native(self, *_: Any) -> None:
        return None

    def rank(self, legs: Sequence[Leg], rows: Mapping[str, Any]) -> list[Candidate]:
        return super().rank(legs, rows)[::-1]

    def screen(self, row: Any) -> str | None:
        return "a cat" if "cat" in row.text else None

    def admit(self, candidates: Sequence[Candidate], legs: Sequence[LegName]) -> Sequence[Candidate]:
        return candidates[:-1]


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
    assert len(found) == 2
    assert index.search("port", k=1, fusion="weighted").ids[0] not in found.ids, "the best is not admitted"
    assert {hit.explanation.fusion for hit in found} == {"weighted"}
