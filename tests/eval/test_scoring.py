"""Metrics agree with a plain implementation and with ranx's own front door; two runs differ by more than luck."""

from __future__ import annotations

import math
import random
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.eval import oracle
from twofold.eval import Dataset, EvaluationError, Question, Run, compare, evaluate
from twofold.eval.scoring import METRICS, Answer, Found, label, score

IDS = [f"d{i}" for i in range(15)]
RELEVANT = st.dictionaries(st.sampled_from(IDS), st.integers(1, 4).map(float), max_size=8)
RANKED = st.lists(st.sampled_from(IDS), unique=True, max_size=15)


@settings(max_examples=150)
@given(questions=st.lists(st.tuples(RELEVANT, RANKED), min_size=1, max_size=12), k=st.integers(1, 12))
def test_agrees_with_the_textbook(questions: list[tuple[dict[str, float], list[str]]], k: int) -> None:
    relevant, ranked = [r for r, _ in questions], [i for _, i in questions]
    found = score(relevant, ranked, k)
    for place, (right, ids) in enumerate(questions):
        expected = oracle.all_of(right, ids, k) if right else dict.fromkeys(METRICS, math.nan)
        for metric in METRICS:
            assert found[metric][place] == pytest.approx(expected[metric], nan_ok=True), (metric, right, ids)


def test_agrees_with_ranx_by_its_own_front_door() -> None:
    import ranx

    rng = random.Random(5)
    qrels = {f"q{i}": {d: rng.randint(1, 3) for d in rng.sample(IDS, 3)} for i in range(30)}
    runs = {q: rng.sample(IDS, 10) for q in qrels}
    front = ranx.evaluate(
        {q: dict(sorted(r.items(), key=lambda p: -p[1])) for q, r in qrels.items()},
        {q: {d: 10.0 - rank for rank, d in enumerate(ids)} for q, ids in runs.items()},
        [f"{metric}@5" for metric in METRICS],
    )
    ours = score([{d: float(g) for d, g in r.items()} for r in qrels.values()], list(runs.values()), 5)
    assert {f"{m}@5": pytest.approx(values.mean()) for m, values in ours.items()} == front


def test_a_question_with_no_result_counts_as_zero() -> None:
    found = score([{"a": 1.0}, {"b": 1.0}], [["a"], []], 10)
    assert [values.tolist() for values in found.values()] == [[1.0, 0.0]] * len(METRICS)


def test_only_the_first_k_count() -> None:
    assert score([{"z": 1.0}], [["x", "y", "z"]], 2, ["hit_rate"])["hit_rate"].tolist() == [0.0]
    assert score([{"z": 1.0}], [["x", "y", "z"]], 3, ["hit_rate"])["hit_rate"].tolist() == [1.0]


def test_no_question_with_an_answer_gives_no_figure() -> None:
    assert math.isnan(score([{}], [["a"]], 10)["ndcg"][0])


def test_other_metrics_of_ranx_work_and_unknown_ones_say_so() -> None:
    assert score([{"a": 1.0}], [["a", "b"]], 2, ["precision"])["precision"].tolist() == [0.5]
    with pytest.raises(EvaluationError, match="bogus"):
        score([{"a": 1.0}], [["a"]], 2, ["bogus"])


def test_labels_read_well() -> None:
    assert [label(metric, 10) for metric in METRICS] == ["hit rate@10", "MRR@10", "nDCG@10", "recall@10"]


def test_compiling_elsewhere_is_left_alone() -> None:
    import numba

    score([{"a": 1.0}], [["a"]], 1)
    config: Any = numba.config
    assert not config.DISABLE_JIT


# Two runs, question by question


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


def test_a_single_question_proves_nothing() -> None:
    found = compare(run_with([0.5]), run_with([1.0]))
    assert (found.difference, found.low, found.high, found.p) == (0.5, 0.5, 0.5, 1.0)


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
