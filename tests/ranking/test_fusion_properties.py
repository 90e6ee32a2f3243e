"""What holds for every strategy, whatever the legs found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.ranking.rankings import IDS, STRATEGIES, dense_legs, lexical_legs
from twofold.ranking.fusion import Auto, Fused, Leg, LegName, Scale, Strategy

every_strategy = pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)


def scores(fused: Sequence[Fused]) -> dict[str, float]:
    return {each.id: each.score for each in fused}


@given(dense=dense_legs, lexical=lexical_legs)
def test_everything_found_is_there_once_best_first_ties_by_id(dense: Leg, lexical: Leg) -> None:
    for strategy in STRATEGIES.values():
        fused = strategy.fuse([dense, lexical])
        assert sorted(each.id for each in fused) == sorted({i for i, _ in (*dense.hits, *lexical.hits)})
        assert [(-each.score, each.id) for each in fused] == sorted((-each.score, each.id) for each in fused)
        assert all(math.isfinite(each.score) for each in fused)


@given(dense=dense_legs, lexical=lexical_legs)
def test_the_order_of_the_legs_changes_nothing(dense: Leg, lexical: Leg) -> None:
    for strategy in STRATEGIES.values():
        assert strategy.fuse([dense, lexical]) == strategy.fuse([lexical, dense])


@given(dense=dense_legs, lexical=lexical_legs)
def test_the_score_is_the_sum_of_the_parts_and_an_absent_leg_adds_nothing(dense: Leg, lexical: Leg) -> None:
    for strategy in STRATEGIES.values():
        by_leg: dict[LegName, dict[str, float]] = {"dense": dict(dense.hits), "lexical": dict(lexical.hits)}
        for each in strategy.fuse([dense, lexical]):
            assert each.score == pytest.approx(sum(each.parts.values()), rel=1e-5, abs=1e-12)
            assert set(each.parts) == {name for name, found in by_leg.items() if each.id in found}


@given(dense=dense_legs, lexical=lexical_legs)
def test_a_part_is_what_the_leg_alone_would_give(dense: Leg, lexical: Leg) -> None:
    for strategy in STRATEGIES.values():
        alone = {str(leg.name): scores(strategy.fuse([leg])) for leg in (dense, lexical)}
        for each in strategy.fuse([dense, lexical]):
            for name, part in each.parts.items():
                assert part == pytest.approx(alone[name][each.id], rel=1e-5, abs=1e-12)


@given(dense=dense_legs, lexical=lexical_legs, data=st.data())
def test_a_better_place_in_a_leg_never_lowers_a_score(dense: Leg, lexical: Leg, data: st.DataObject) -> None:
    leg, other = (dense, lexical) if data.draw(st.booleans()) else (lexical, dense)
    assume(leg.hits)
    found = dict(leg.hits)
    raised = data.draw(st.sampled_from(sorted(found)))
    better = {**found, raised: found[raised] + data.draw(st.sampled_from([0.01, 0.1, 1.0]))}
    # The raised one leaves those with the same score behind it, so that no tie hides a better place.
    ranked = sorted(better.items(), key=lambda hit: (-hit[1], hit[0] != raised, hit[0]))
    for strategy in STRATEGIES.values():
        before = scores(strategy.fuse([leg, other]))[raised]
        after = scores(strategy.fuse([replace(leg, hits=ranked), other]))[raised]
        assert after >= before - 3e-6 * abs(before)


@given(dense=dense_legs, lexical=lexical_legs)
def test_being_found_by_one_more_leg_never_hurts(dense: Leg, lexical: Leg) -> None:
    """Except with dbsf, where a score far below the rest of its leg counts against a document: not clipped."""
    for strategy in STRATEGIES.values():
        if strategy.name == "dbsf":
            continue
        both = scores(strategy.fuse([dense, lexical]))
        for identity, score in scores(strategy.fuse([dense])).items():
            assert both[identity] >= score - 3e-6 * abs(score)


@given(dense=dense_legs, lexical=lexical_legs, factor=st.sampled_from([0.25, 3.0, 1000.0]))
def test_weights_only_scale(dense: Leg, lexical: Leg, factor: float) -> None:
    for strategy in STRATEGIES.values():
        scaled = replace(strategy, weights=(strategy.weights[0] * factor, strategy.weights[1] * factor))
        if isinstance(scaled, Auto) and (scale := scaled.scale):  # it is measured with the weights
            scaled = replace(scaled, scale=Scale(scale.nothing * factor, scale.floor * factor))
        fused, larger = strategy.fuse([dense, lexical]), scaled.fuse([dense, lexical])
        for identity, score in scores(fused).items():
            assert scores(larger)[identity] == pytest.approx(score * factor, rel=3e-6, abs=1e-9)
        relevances = [strategy.relevance(each.score, ["dense", "lexical"]) for each in fused]
        assert relevances == pytest.approx(
            [scaled.relevance(each.score, ["dense", "lexical"]) for each in larger], rel=3e-6, abs=1e-6
        )


@given(dense=dense_legs, lexical=lexical_legs)
def test_alpha_at_its_limits_is_one_leg_alone(dense: Leg, lexical: Leg) -> None:
    for strategy in STRATEGIES.values():
        for alpha, leg, silent in ((1.0, dense, lexical), (0.0, lexical, dense)):
            tuned = strategy.with_alpha(alpha)
            assert tuned.weight(silent.name) == 0
            fused = scores(tuned.fuse([dense, lexical]))
            alone = scores(tuned.fuse([leg]))
            for identity, score in fused.items():
                assert score == pytest.approx(alone.get(identity, 0.0))


@given(alpha=st.floats(0, 1))
def test_alpha_is_the_share_of_the_dense_leg_and_keeps_the_sum(alpha: float) -> None:
    for strategy in STRATEGIES.values():
        tuned = strategy.with_alpha(alpha)
        assert type(tuned) is type(strategy)
        assert tuned.alpha == pytest.approx(alpha, abs=1e-12)
        assert sum(tuned.weights) == pytest.approx(sum(strategy.weights))


@given(dense=dense_legs, lexical=lexical_legs)
def test_relevance_lies_between_0_and_1_and_keeps_the_order(dense: Leg, lexical: Leg) -> None:
    for strategy in STRATEGIES.values():
        fused = strategy.fuse([dense, lexical])
        relevances = [strategy.relevance(each.score, ["dense", "lexical"]) for each in fused]
        assert all(0 <= relevance <= 1 for relevance in relevances)
        assert relevances == sorted(relevances, reverse=True)


@every_strategy
def test_relevance_of_anything_at_all_is_a_share(strategy: Strategy) -> None:
    for score in (-5.0, 0.0, 1e9):
        for found_by in ([], ["dense"], ["lexical"], ["dense", "lexical"]):
            assert 0 <= strategy.relevance(score, found_by) <= 1  # type: ignore[arg-type]
    best = strategy.ceiling() * sum(strategy.weights)
    if isinstance(strategy, Auto) and (scale := strategy.scale):
        marks = {scale.nothing: 0.0, scale.floor: 0.5, best * strategy.alpha: 0.975}
        for score, relevance in marks.items():
            assert strategy.relevance(score, ["dense", "lexical"]) == pytest.approx(relevance, abs=1e-3)
    else:
        assert strategy.relevance(1.0, []) == 0
        assert strategy.relevance(best, ["dense", "lexical"]) == 1


@every_strategy
def test_nothing_found_is_nothing_fused(strategy: Strategy) -> None:
    assert strategy.fuse([]) == []
    assert strategy.fuse([Leg("dense", []), Leg("lexical", [])]) == []


@every_strategy
@pytest.mark.parametrize("score", [0.0, 0.5, 1.0])
def test_a_single_hit_and_equal_hits_have_a_defined_score(strategy: Strategy, score: float) -> None:
    """Where llama-index divides by zero or keeps the raw score."""
    single = strategy.fuse([Leg("dense", [("a", score)]), Leg("lexical", [("a", score)])])
    assert len(single) == 1
    # Below what has nothing to do with the question.
    least = -strategy.mean / strategy.unit if isinstance(strategy, Auto) else 0.0
    assert least * sum(strategy.weights) <= single[0].score <= strategy.ceiling() * sum(strategy.weights) + 1e-6
    equal = [(identity, score) for identity in reversed(IDS)]
    tied = strategy.fuse([Leg("dense", equal), Leg("lexical", equal)])
    assert sorted(each.id for each in tied) == IDS
    if strategy.name != "rrf":  # it looks at places alone
        assert [each.id for each in tied] == IDS
        assert len({each.score for each in tied}) == 1


@every_strategy
def test_fusing_leaves_the_legs_as_they_were(strategy: Strategy) -> None:
    hits = [("b", 0.9), ("a", 0.1)]
    strategy.fuse([Leg("dense", hits), Leg("lexical", hits)])
    assert hits == [("b", 0.9), ("a", 0.1)]
