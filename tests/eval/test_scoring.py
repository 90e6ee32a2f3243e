"""Metrics agree with a plain implementation on random rankings, and with ranx's own front door."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.eval import oracle
from twofold.eval import EvaluationError
from twofold.eval.scoring import METRICS, label, score

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
