"""Two runs, question by question: is it more than luck?"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from twofold.eval import Dataset, EvaluationError, Question, Run, compare, evaluate
from twofold.eval.scoring import Answer, Found


def run_with(scores: list[float], name: str = "run", k: int = 10) -> Run:
    questions = [Question(f"q{i}", f"question {i}", {"a": 1.0}) for i in range(len(scores))]
    answers = tuple(Answer(question, (Found("a"),), 0.001) for question in questions)
    return Run(name, k, answers, {"ndcg": np.array(scores)})


def exact_p(differences: list[float]) -> float:
    """All arrangements, one by one."""
    seen = abs(sum(differences))
    sums = [
        abs(sum(s * d for s, d in zip(signs, differences, strict=True)))
        for signs in product((1, -1), repeat=len(differences))
    ]
    return sum(total >= seen - 1e-9 for total in sums) / len(sums)


def test_p_agrees_with_all_arrangements() -> None:
    rng = np.random.default_rng(1)
    for shift in (0.0, 0.1, 0.3):
        before, after = rng.random(11), rng.random(11) + shift
        found = compare(run_with(before.tolist()), run_with(after.tolist()))
        assert found.p == pytest.approx(exact_p((after - before).tolist()), abs=0.015)


def test_p_agrees_with_ranx() -> None:
    from ranx.statistical_tests import fisher_randomization_test

    rng = np.random.default_rng(2)
    before = rng.random(40)
    after = np.clip(before + rng.normal(0.05, 0.2, 40), 0, 1)
    theirs, _ = fisher_randomization_test(before, after, 1000)
    assert compare(run_with(before.tolist()), run_with(after.tolist())).p == pytest.approx(theirs, abs=0.05)


def test_the_interval_holds_the_truth_about_19_times_in_20() -> None:
    rng = np.random.default_rng(3)
    held = 0
    for seed in range(200):
        differences = rng.normal(0.1, 0.3, 60)
        found = compare(run_with([0.0] * 60), run_with(differences.tolist()), rounds=400, seed=seed)
        held += found.low <= 0.1 <= found.high
    assert 0.88 <= held / 200 <= 0.99


def test_equal_runs_differ_by_nothing() -> None:
    found = compare(run_with([0.5, 1.0]), run_with([0.5, 1.0]))
    assert (found.difference, found.low, found.high, found.p) == (0.0, 0.0, 0.0, 1.0)
    assert not found.significant
    assert not found.wins
    assert not found.losses


def test_a_clear_difference_is_significant_and_p_never_zero() -> None:
    found = compare(run_with([0.0] * 30, "old"), run_with([1.0] * 30, "new"))
    assert found.significant
    assert 0 < found.p < 0.001
    assert str(found).startswith("new vs old: nDCG@10 +1.000")


def test_wins_and_losses_are_ordered_by_size() -> None:
    found = compare(run_with([0.5, 0.5, 0.5, 0.5]), run_with([1.0, 0.6, 0.5, 0.0]))
    assert [change.question.id for change in found.wins] == ["q0", "q1"]
    assert [change.question.id for change in found.losses] == ["q3"]


def test_the_same_seed_gives_the_same_figures() -> None:
    one, other = run_with([0.1, 0.2, 0.3]), run_with([0.3, 0.1, 0.9])
    assert compare(one, other).p == compare(one, other).p
    assert compare(one, other).low == compare(one, other).low


def test_swapping_the_runs_turns_the_sign() -> None:
    one, other = run_with([0.1, 0.2, 0.3, 0.9]), run_with([0.3, 0.1, 0.9, 0.8])
    assert compare(one, other).difference == -compare(other, one).difference
    assert compare(one, other).p == compare(other, one).p


def test_only_the_same_questions_at_the_same_k_compare() -> None:
    with pytest.raises(EvaluationError, match="different questions"):
        compare(run_with([0.1]), run_with([0.1, 0.2]))
    with pytest.raises(EvaluationError, match="k=10"):
        compare(run_with([0.1]), run_with([0.1], k=5))


def test_questions_that_expect_nothing_are_left_out() -> None:
    data = Dataset("two", (Question("q1", "x", {"a": 1.0}), Question("q2", "y", {})))
    found = compare(evaluate(lambda q: [], data), evaluate(lambda q: ["a"], data))
    assert [change.question.id for change in found.changes] == ["q1"]
    assert found.difference == 1.0
    nothing = evaluate(lambda q: [], Dataset("none", (Question("q2", "y", {}),)))
    with pytest.raises(EvaluationError, match="no question of these runs has an answer"):
        compare(nothing, nothing)
