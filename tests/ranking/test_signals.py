"""The arithmetic of the signals: bounded, monotone, neutral where it should be."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.filters import AnyOf, Equals, Not
from twofold.ranking.expressions import Absolute, Clipped, FieldValue, Freshness, LegScore, Quotient, evaluate, holds
from twofold.ranking.signals import Named, Recency, Signals, leg_factors

NOW = datetime(2026, 2, 21, tzinfo=timezone.utc)
shares = st.floats(0, 1)
decays = st.floats(0, 10)
days = st.floats(0, 5000)
modes: Any = st.sampled_from(["soft", "full", "blend"])
recencies = st.builds(Recency, modes, decays, shares)


def ago(age: float) -> datetime:
    return NOW - timedelta(days=age)


def of(age: float, **fields: Any) -> dict[str, Any]:
    return {"type": "note", "updated": ago(age).isoformat(), **fields}


@given(recencies, days, days, st.floats(0, 1), st.floats(0, 1))
def test_older_never_scores_higher(recency: Recency, one: float, more: float, dense: float, words: float) -> None:
    signals = Signals(NOW, recency=recency)
    parts = {"dense": dense, "lexical": words}
    newer, older = (signals.weigh(parts, of(age), 0.35, 1.0)[0] for age in (one, one + more))
    assert older <= newer + 1e-12


@given(recencies, days)
def test_freshness_is_a_share(recency: Recency, age: float) -> None:
    factors = Signals(NOW, recency=recency).factors
    for factor in (factors.shown["recency_factor"], factors.added):
        assert 0 <= evaluate(factor, of(age)) <= 1
        assert evaluate(factor, of(age)) <= evaluate(factor, of(age, pinned=True)) + 1e-12
        assert evaluate(factor, of(age, pinned=True)) == pytest.approx(evaluate(factor, of(0)), abs=1e-12)
        assert evaluate(factor, {}) == pytest.approx(evaluate(factor, of(0)), abs=1e-12)


@given(recencies, days, st.floats(0, 1))
def test_with_age_no_score_exceeds_the_best_there_can_be(recency: Recency, age: float, score: float) -> None:
    signals = Signals(NOW, recency=recency, popularity=0, importance=0, pinned=0)
    assert signals.weigh({"dense": score}, of(age), 0.35, 1.0)[0] <= 1 + 1e-9


def test_the_three_ways_to_count_age() -> None:
    fresh = math.exp(-0.01 * 100)
    scores = {
        mode: Signals(NOW, recency=Recency(mode, 0.01, 0.3), popularity=0, importance=0).weigh(
            {"dense": 0.5}, of(100), 0.35, 1.0
        )[0]
        for mode in ("soft", "full", "blend")
    }
    assert scores["soft"] == pytest.approx(0.5 * (0.7 + 0.3 * fresh))
    assert scores["full"] == pytest.approx(0.5 * fresh)
    assert scores["blend"] == pytest.approx(0.7 * 0.5 + 0.3 * fresh)


@given(modes, days)
def test_no_decay_is_no_age(mode: Any, age: float) -> None:
    signals = Signals(NOW, recency=Recency(mode, 0.0, 0.5), popularity=0, importance=0)
    assert signals.weigh({"dense": 0.5}, of(age), 0.35, 1.0)[0] == pytest.approx(0.5)


@given(st.floats(0, 2), st.integers(0, 10**9), st.integers(0, 10**9))
def test_popularity_is_bounded_and_grows(weight: float, count: int, more: int) -> None:
    popularity = Signals(NOW, popularity=weight).factors.shown["popularity_factor"]
    few, many = (evaluate(popularity, {"access_count": number}) for number in (count, count + more))
    assert 1 - 1e-9 <= few <= many + 1e-9 <= 1 + weight + 2e-9
    assert evaluate(popularity, {"access_count": 0}) == evaluate(popularity, {}) == pytest.approx(1)
    assert evaluate(popularity, {"access_count": 10}) == pytest.approx(1 + weight / 2)


@given(shares, shares, shares)
def test_importance_is_bounded_and_grows(weight: float, one: float, other: float) -> None:
    importance = Signals(NOW, importance=weight).factors.shown["importance_factor"]
    low, high = (evaluate(importance, {"importance": each}) for each in sorted((one, other)))
    assert 1 - weight - 1e-9 <= low <= high + 1e-9 <= 1 + weight + 2e-9
    assert evaluate(importance, {"importance": 0.5}) == evaluate(importance, {}) == pytest.approx(1)


@given(st.floats(0, 1), st.integers(0, 1000), shares, days, st.booleans())
def test_switched_off_signals_change_nothing(score: float, count: int, weight: float, age: float, pin: bool) -> None:
    off = Signals(NOW, tag_weight=0, recency=Recency(decay=0), popularity=0, importance=0, pinned=0)
    row = of(age, access_count=count, importance=weight, pinned=pin)
    weighed = off.weigh({"dense": score}, row, 0.35, 1.0)
    assert weighed[0] == pytest.approx(score)
    assert evaluate(off.factors.product, row) == 1


def test_pinned_never_fades_and_rises() -> None:
    signals = Signals(NOW, popularity=0, importance=0, recency=Recency("full"), pinned=0.2)
    assert signals.weigh({"dense": 0.5}, of(4000, pinned=True), 0.35, 1.0)[0] == pytest.approx(0.6)
    assert signals.weigh({"dense": 0.5}, of(4000), 0.35, 1.0)[0] < 1e-9


NAMED = tuple(Named((Equals("tags", tag), Equals("tags", tag.upper()))) for tag in ("a", "b", "c", "d"))


@given(st.integers(0, 4), st.lists(st.sampled_from("abcdxyzABCDX"), max_size=7))
def test_the_tag_score_is_the_share_that_is_there(named: int, tags: list[str]) -> None:
    signals = Signals(NOW, NAMED[:named])
    score = evaluate(signals.tags, {"tags": tags})
    assert score == (len(set("abcd"[:named]) & {tag.lower() for tag in tags}) / named if named else 0)
    assert 0 <= score <= 1


def test_three_named_tags_count_half_as_much_again() -> None:
    assert [Signals(NOW, NAMED[:n], tag_weight=0.2).tag_share for n in range(5)] == pytest.approx(
        [0, 0.2, 0.2, 0.3, 0.3]
    )


@given(st.floats(0.01, 0.99), shares, shares, shares)
def test_a_type_of_its_own_alpha(alpha: float, own: float, dense: float, words: float) -> None:
    signals = Signals(NOW, type_alpha={"movie": own}, popularity=0, importance=0, recency=Recency(decay=0))
    parts = {"dense": alpha * dense, "lexical": (1 - alpha) * words}
    movie = signals.weigh(parts, {"type": "movie"}, alpha, 1.0)[0]
    assert movie == pytest.approx(own * dense + (1 - own) * words)
    assert signals.weigh(parts, {"type": "note"}, alpha, 1.0)[0] == pytest.approx(sum(parts.values()))


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_a_leg_alone_keeps_its_weight_for_every_type(alpha: float) -> None:
    assert leg_factors(alpha, (("movie", 0.3),)) == {"dense": 1.0, "lexical": 1.0}


anything = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5) | st.just([1])


@given(st.dictionaries(st.sampled_from(["type", "updated", "access_count", "importance", "pinned"]), anything))
def test_fields_that_make_no_sense_count_as_ordinary(row: dict[str, Any]) -> None:
    for recency in (Recency("soft"), Recency("full"), Recency("blend")):
        signals = Signals(NOW, recency=recency, type_weights={"movie": 2.0}, type_alpha={"movie": 0.3})
        assert math.isfinite(signals.weigh({"dense": 0.5}, row, 0.35, 1.0)[0])
    numbers = [name for name in ("importance", "access_count") if type(row.get(name)) is int]
    sensible = {name: row[name] for name in row if name in (*numbers, "type", "pinned")}
    assert evaluate(Signals(NOW).factors.product, row) == evaluate(Signals(NOW).factors.product, sensible)


def test_every_expression_has_a_value_here_and_legs_have_none() -> None:
    assert evaluate(FieldValue("n", 3.0), {"n": True}) == evaluate(FieldValue("n", 3.0), {"n": "2"}) == 3
    assert evaluate(Absolute(FieldValue("n", 0.0)), {"n": -2}) == 2
    assert evaluate(Quotient(1.0, FieldValue("n", 1.0)), {"n": 4}) == 0.25
    assert [evaluate(Clipped(n), {}) for n in (-3.0, 0.0, 0.75, 1.0, 7.0)] == [0, 0, 0.75, 1, 1]
    fresh = Freshness("on", NOW.isoformat(), half_life_seconds=86_400)
    assert evaluate(fresh, {"on": ago(1).isoformat()}) == evaluate(fresh, {"on": ago(-1).isoformat()}) == 0.5
    assert evaluate(fresh, {"on": ago(1).replace(tzinfo=None).isoformat()}) == 0.5, "a date without a zone is UTC"
    assert evaluate(fresh, {"on": "yesterday"}) == evaluate(fresh, {}) == 1
    with pytest.raises(TypeError, match="metadata"):
        evaluate(LegScore(0), {})
    with pytest.raises(TypeError, match="values of fields"):
        holds(Not(Equals("a", 1)), {})


def test_a_match_looks_into_lists_and_nested_fields() -> None:
    assert holds(Equals("metadata.film.year", 2014), {"metadata": {"film": {"year": 2014}}})
    assert holds(Equals("metadata.years", 2014), {"metadata": {"years": [2013, 2014]}})
    assert not holds(Equals("metadata.film.year", 2014), {"metadata": {"film": 2014}})
    assert not holds(Equals("metadata.seen", 1), {"metadata": {"seen": True}})
    assert not holds(Equals("tags", "a"), {})
    assert holds(AnyOf("tags", ("a", "b")), {"tags": ["x", "b"]})
    assert not holds(AnyOf("tags", ()), {"tags": ["x", "b"]})
