"""Ties within the noise of 32-bit engines."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ranking.rankings import IDS
from twofold.ranking.fusion import settle

numbers = st.floats(-50, 50, allow_subnormal=False) | st.sampled_from([0.0, 1.0, 0.1, 1 / 61, 9.999999])
rankings = st.lists(st.tuples(st.sampled_from(IDS), numbers), unique_by=lambda pair: pair[0])
close = st.builds(
    lambda base, steps: [(IDS[i], base * (1 + step * 4e-7)) for i, step in enumerate(steps)],
    st.sampled_from([1.0, 0.1, 0.01639344, 0.999999, 9.999999, -0.3]),
    st.lists(st.integers(0, 30), max_size=12),
)
either = rankings | close


@given(either, st.randoms(use_true_random=False))
def test_the_order_of_arrival_changes_nothing(scored: list[tuple[str, float]], chance: random.Random) -> None:
    shuffled = scored[:]
    chance.shuffle(shuffled)
    assert settle(shuffled, str) == settle(scored, str)


@given(either)
def test_nothing_is_lost_and_scores_descend_with_ties_by_id(scored: list[tuple[str, float]]) -> None:
    settled = settle(scored, str)
    assert sorted(identity for identity, _ in settled) == sorted(identity for identity, _ in scored)
    assert settled == sorted(settled, key=lambda pair: (-pair[1], pair[0]))


@given(either)
def test_settling_twice_is_settling_once(scored: list[tuple[str, float]]) -> None:
    """A ranking fused here is settled by fusion and again as rows; one that the engine fused only once."""
    once = settle(scored, str)
    assert settle(once, str) == once


@given(rankings)
def test_a_clearly_better_score_stays_in_front(scored: list[tuple[str, float]]) -> None:
    place = {identity: position for position, (identity, _) in enumerate(settle(scored, str))}
    gap = 3e-6 * len(scored) * max([0.01, *(abs(score) for _, score in scored)])  # ties chain
    for one, high in scored:
        for other, low in scored:
            if high - low > gap:
                assert place[one] < place[other]


@given(rankings)
def test_scores_keep_their_value(scored: list[tuple[str, float]]) -> None:
    before = dict(scored)
    for identity, score in settle(scored, str):
        assert score == pytest.approx(before[identity], rel=3e-6 * len(scored), abs=3e-8 * len(scored))


@pytest.mark.parametrize("score", [1.0, 0.1, 0.0163934, 0.87654321, 12.5, 9.999999, 1.0000005, 0.10000005])
def test_the_noise_of_32_bits_is_no_difference(score: float) -> None:
    """Half a unit in the last place of a 32-bit float is 6e-8 of the score; sums of two have a few of them."""
    for noise in (6e-8, -6e-8, 2.4e-7, -2.4e-7):
        settled = settle([("b", score), ("a", score * (1 + noise))], str)
        assert [identity for identity, _ in settled] == ["a", "b"]
        assert settled[0][1] == settled[1][1]


@pytest.mark.parametrize("score", [1.0, 0.1, 0.0163934, 9.999999])
def test_more_than_noise_is_a_difference(score: float) -> None:
    settled = settle([("a", score), ("b", score * 1.000005)], str)
    assert [identity for identity, _ in settled] == ["b", "a"]
    assert settled[0][1] > settled[1][1]


def test_neighbouring_ranks_of_deep_lists_are_told_apart() -> None:
    """RRF at k = 60 a thousand ranks down: still a relative difference of 1e-3."""
    ranked = [(f"{rank:04}", 1 / (60 + rank)) for rank in range(1000, 0, -1)]
    assert [identity for identity, _ in settle(ranked, str)] == [f"{rank:04}" for rank in range(1, 1001)]


def test_scores_keep_eight_digits() -> None:
    assert settle([("a", 1 / 3), ("b", 200 / 3), ("c", -1 / 3)], str) == [
        ("b", 66.666667),
        ("a", 0.33333333),
        ("c", -0.33333333),
    ]


def test_identity_is_what_ties_are_broken_by() -> None:
    rows = [({"id": "b"}, 1.0), ({"id": "a"}, 1.0), ({"id": "c"}, 2.0)]
    assert [row["id"] for row, _ in settle(rows, lambda row: row["id"])] == ["c", "a", "b"]
