"""Each strategy against its formula, worked out by hand, and against the engine's own implementation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from qdrant_client import models
from qdrant_client.hybrid.fusion import distribution_based_score_fusion, reciprocal_rank_fusion

from tests.ranking.rankings import dense_legs, lexical_legs
from twofold.ranking.fusion import TYPICAL_SPREAD, WORD_WEIGHT, Auto, Fusion, Leg, Strategy

AUTO = Auto((0.4, 0.6), mean=0.1, spread=0.05, unit=0.2, words=0.8)
DENSE = Leg("dense", [("a", 0.9), ("b", 0.6), ("c", -0.2)])
LEXICAL = Leg("lexical", [("c", 12.0), ("a", 3.0), ("d", 2.0)], terms=4)


def scores(strategy: Strategy, legs: Sequence[Leg]) -> dict[str, float]:
    return {each.id: each.score for each in strategy.fuse(legs)}


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (Fusion.rrf(), {"a": 1 / 61 + 1 / 62, "c": 1 / 63 + 1 / 61, "b": 1 / 62, "d": 1 / 63}),
        (Fusion.rrf(k=0), {"a": 1 + 1 / 2, "c": 1 / 3 + 1, "b": 1 / 2, "d": 1 / 3}),
        (
            Fusion.rrf(k=10, weights=(3, 0.5)),
            {"a": 3 / 11 + 0.5 / 12, "b": 3 / 12, "c": 3 / 13 + 0.5 / 11, "d": 0.5 / 13},
        ),
        (
            Fusion.weighted(),
            {"a": 0.7 * 0.9 + 0.3 * 3 / 12, "b": 0.7 * 0.6, "c": 0.3 * 1.0, "d": 0.3 * 2 / 12},
        ),
        (Fusion.weighted(0.2), {"a": 0.2 * 0.9 + 0.8 * 0.25, "b": 0.2 * 0.6, "c": 0.8, "d": 0.8 / 6}),
        (
            Fusion.average(),
            {"a": 0.5 * 1 + 0.5 * 0.1, "b": 0.5 * 0.8 / 1.1, "c": 0.5 * 0 + 0.5 * 1, "d": 0.0},
        ),
        (  # as nobody measured it: the cosine in tenths, and half of BM25 by √terms
            Fusion.auto(0.4),
            {
                "a": 0.4 * 9 + 0.6 * 0.45 * 3 / 2,
                "b": 0.4 * 6,
                "c": 0.4 * -2 + 0.6 * 0.45 * 12 / 2,
                "d": 0.6 * 0.45 * 2 / 2,
            },
        ),
        (  # (cosine - mean) / unit, and spread / unit · words · bm25 / √terms
            AUTO,
            {
                "a": 0.4 * 0.8 / 0.2 + 0.6 * 0.25 * 0.8 * 3 / 2,
                "b": 0.4 * 0.5 / 0.2,
                "c": 0.4 * -0.3 / 0.2 + 0.6 * 0.25 * 0.8 * 12 / 2,
                "d": 0.6 * 0.25 * 0.8 * 2 / 2,
            },
        ),
        (Fusion.auto(1.0), {"a": 9.0, "b": 6.0, "c": -2.0, "d": 0.0}),
    ],
    ids=lambda value: value.name if isinstance(value, Strategy) else "",
)
def test_by_hand(strategy: Strategy, expected: dict[str, float]) -> None:
    found = scores(strategy, [DENSE, LEXICAL])
    assert found == pytest.approx(expected, rel=1e-6)
    assert list(found) == sorted(expected, key=lambda identity: (-expected[identity], identity))


def test_dbsf_by_hand() -> None:
    """Scores 1, 2, 3: mean 2, sample deviation 1, so -1 to 5 becomes 0 to 1."""
    found = scores(Fusion.dbsf(), [Leg("lexical", [("a", 3.0), ("b", 2.0), ("c", 1.0)])])
    assert found == pytest.approx({"a": 4 / 6, "b": 0.5, "c": 2 / 6})


def test_a_document_that_a_leg_lacks_gets_nothing_from_it_not_the_best_place() -> None:
    found = Fusion.rrf().fuse([Leg("dense", [("a", 0.9)]), Leg("lexical", [("b", 9.0), ("a", 1.0)])])
    assert [each.id for each in found] == ["a", "b"]
    assert [each.score for each in found] == pytest.approx([1 / 61 + 1 / 62, 1 / 61], rel=1e-6)


def test_equal_up_to_the_rounding_of_32_bits_is_equal() -> None:
    """Two equal texts whose cosines differ in the last digit are no spread to normalise by."""
    noisy = Leg("dense", [("a", 0.87654321), ("b", 0.87654318)])
    assert scores(Fusion.dbsf(), [noisy]) == {"a": 0.5, "b": 0.5}
    assert scores(Fusion.average(), [noisy]) == {"a": 0.5, "b": 0.5}


def test_nothing_is_clipped_so_what_is_far_from_the_question_is_told_apart() -> None:
    far = Leg("dense", [("z", 0.05), ("b", 0.0), ("a", -0.3)])
    assert list(scores(AUTO, [far])) == ["z", "b", "a"]
    assert all(score < 0 for score in scores(AUTO, [far]).values())


def test_a_score_depends_on_nothing_else_that_was_found() -> None:
    for auto in (AUTO, Fusion.auto(0.4)):
        assert scores(auto, [Leg("dense", DENSE.hits[:1])])["a"] == scores(auto, [DENSE])["a"]
        assert auto.steady


def test_an_alpha_that_was_chosen_is_known_as_such() -> None:
    assert not Fusion.auto().chosen
    assert Fusion.auto().alpha == 0.5
    for chosen in (Fusion.auto(0.4), Fusion.auto().with_alpha(0.4)):
        assert isinstance(chosen, Auto)
        assert chosen.chosen
        assert chosen.weights == pytest.approx((0.4, 0.6))
    assert Fusion.auto(0.5) != Fusion.auto(), "what is tuned replaces only what nobody chose"


def test_words_count_in_proportion_to_their_score_and_by_the_root_of_the_terms() -> None:
    auto = Auto()
    for terms in (0, 1, 4, 100):
        one = auto.word_factor(terms)
        assert auto.normalise(Leg("lexical", [("a", 2.0), ("b", 1.0)], terms)) == [2 * one, one]
        assert one == pytest.approx(WORD_WEIGHT / math.sqrt(max(terms, 1)))
    vague = Auto(spread=TYPICAL_SPREAD / 2)
    assert vague.word_factor(1) == pytest.approx(WORD_WEIGHT / 2), "a question that is equally near to all"


# --- the engine's own -----------------------------------------------------------------------------


def points(leg: Leg) -> list[models.ScoredPoint]:
    """Fresh ones every time: the client's fusion changes the points it is given."""
    return [models.ScoredPoint(id=identity, version=0, score=score) for identity, score in leg.hits]


@given(dense=dense_legs, lexical=lexical_legs, k=st.integers(0, 100))
def test_rrf_is_the_engines_at_k_plus_1(dense: Leg, lexical: Leg, k: int) -> None:
    theirs = reciprocal_rank_fusion([points(dense), points(lexical)], limit=100, ranking_constant_k=k + 1)
    ours = scores(Fusion.rrf(k=k), [dense, lexical])
    assert ours == pytest.approx({str(point.id): point.score for point in theirs}, rel=3e-6)


@given(dense=dense_legs, lexical=lexical_legs)
def test_dbsf_is_the_engines(dense: Leg, lexical: Leg) -> None:
    theirs = distribution_based_score_fusion([points(dense), points(lexical)], limit=100)
    # Of equal scores the client computes a variance that is not always 0 in floats.
    assume(all(len({score for _, score in leg.hits}) != 1 for leg in (dense, lexical)))
    ours = scores(Fusion.dbsf(), [dense, lexical])
    assert ours == pytest.approx({str(point.id): point.score for point in theirs}, rel=3e-6, abs=1e-9)


def test_dbsf_of_equal_scores_is_the_engines() -> None:
    equal = Leg("dense", [("a", 0.5), ("b", 0.5)])
    theirs = distribution_based_score_fusion([points(equal)], limit=9)
    assert [point.score for point in theirs] == [0.5, 0.5]
    assert scores(Fusion.dbsf(), [equal]) == {"a": 0.5, "b": 0.5}


def test_weighted_rrf_is_the_textbooks_not_the_engines() -> None:
    """So it is never left to the engine: the two differ even where the weights are equal."""
    theirs = reciprocal_rank_fusion([points(DENSE)], limit=9, ranking_constant_k=61, weights=[0.5])
    ours = scores(Fusion.rrf(weights=(0.5, 0.5)), [DENSE])
    assert ours["a"] == pytest.approx(0.5 / 61)
    assert theirs[0].score == pytest.approx(1 / (1 / 0.5 + 60))
    assert not math.isclose(ours["a"], theirs[0].score, rel_tol=0.01)
