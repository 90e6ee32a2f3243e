"""What a score means in a collection: the scale, what it is measured by, and what doesn't change it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.ranking.calibration import Calibration, Numbers, Probe, calibrate, unit, unrelated_questions
from twofold.ranking.fusion import TYPICAL_SPREAD, WORD_WEIGHT, Auto, Leg, Scale

DIM = 32
BOTH: Any = ["dense", "lexical"]


def vectors(count: int, seed: int) -> Numbers:
    drawn = np.random.default_rng(seed).normal(size=(count, DIM))
    return np.array([unit(each) for each in drawn])


def ask(question: Numbers, texts: Numbers, shift: float = 0.0, lexical: float = 0.0) -> Probe:
    """What a question finds by meaning, and how many points of BM25 the nearest has besides."""
    cosines = np.sort(texts @ question + shift)[::-1][:20]
    words = np.zeros(len(cosines))
    words[0] = lexical
    return Probe(question, cosines, words, 4)


def measured(count: int = 100, seed: int = 0) -> tuple[Calibration, Numbers]:
    texts = vectors(count, seed)
    probes = [ask(each, texts) for each in vectors(24, seed + 1)]
    return calibrate(texts, probes, texts=count, total=count, words_per_text=100, unknown_language=0), texts


# --- the scale -----------------------------------------------------------------------------------

scales = st.builds(lambda nothing, step: Scale(nothing, nothing + step), st.floats(-5, 5), st.floats(0.05, 10))


@given(scales, st.floats(-20, 40), st.floats(0, 20), st.floats(-5, 30))
def test_relevance_is_a_share_that_never_falls_with_the_score(
    scale: Scale, score: float, more: float, best: float
) -> None:
    low, high = scale.relevance(score, best), scale.relevance(score + more, best)
    assert 0 <= low <= high + 1e-12 <= 1 + 1e-12


@given(scales, st.floats(1, 30))
def test_the_marks_of_the_scale(scale: Scale, beyond: float) -> None:
    best = scale.floor + beyond * (scale.floor - scale.nothing)
    assert scale.relevance(scale.nothing, best) == 0
    assert scale.relevance(scale.nothing - 7, best) == 0
    assert scale.relevance(scale.floor, best) == pytest.approx(0.5)
    assert scale.relevance((scale.nothing + scale.floor) / 2, best) == pytest.approx(0.25)
    assert scale.relevance(best, best) == pytest.approx(0.975, abs=1e-3)
    assert scale.relevance(np.nextafter(scale.floor, -9), best) == pytest.approx(0.5, abs=1e-6), "without a jump"


def test_the_text_itself_is_about_1_and_unrelated_questions_get_about_0() -> None:
    calibration, texts = measured()
    for alpha in (0.3, 0.5, 1.0):
        fusion = Auto((alpha, 1 - alpha))
        for place in range(20):
            fitted = calibration.fit(fusion, texts[place])
            (verbatim,) = fitted.fuse([Leg("dense", [("a", 1.0)])])
            assert fitted.relevance(verbatim.score, BOTH) >= 0.95
        best = []
        for question in vectors(100, 77):
            fitted = calibration.fit(fusion, question)
            (nearest,) = fitted.fuse([Leg("dense", [("a", float((texts @ question).max()))])])
            best.append(fitted.relevance(nearest.score, BOTH))
        assert np.mean(best) < 0.25
        assert np.mean([each < 0.5 for each in best]) >= 0.9


def test_the_scale_is_what_unrelated_questions_get_and_deviations_above() -> None:
    calibration, _ = measured()
    scale = calibration.fit(Auto(), None).scale
    assert scale is not None
    best = []
    for probe in calibration.probes:
        fitted = calibration.fit(Auto(), probe.vector)
        best.append(0.5 * (probe.cosines.max() - fitted.mean) / fitted.unit)
    assert scale.nothing == pytest.approx(np.mean(best))
    assert scale.floor == pytest.approx(np.mean(best) + 2.0 * np.std(best))


def test_questions_that_find_nothing_at_all_are_counted_too() -> None:
    """Words alone: of 24 questions two share a word with a text. What they found is not what they all get."""
    nothing = Probe(None, np.array([]), np.array([]), 3)
    found = Probe(None, np.array([np.nan]), np.array([4.0]), 4)
    alone = Auto((0.0, 1.0))
    for probes, expected in (([nothing] * 24, 0.0), ([nothing] * 22 + [found] * 2, 2 * (WORD_WEIGHT * 4 / 2) / 24)):
        seen = calibrate(None, probes, texts=9, total=100, words_per_text=100, unknown_language=0)
        scale = seen.fit(alone, None).scale
        assert scale is not None
        assert scale.nothing == pytest.approx(expected)
        assert scale.floor > scale.nothing


# --- what it is measured by ----------------------------------------------------------------------


def test_mean_and_spread_are_those_of_unrelated_questions_and_texts() -> None:
    calibration, texts = measured()
    cosines = texts @ np.array([probe.vector for probe in calibration.probes]).T
    assert calibration.mean == pytest.approx(cosines.mean())
    assert calibration.spread == pytest.approx(cosines.std())
    fitted = calibration.fit(Auto(), texts[0])
    assert fitted.unit == calibration.spread
    own = texts @ texts[0]
    assert abs(fitted.mean - own.mean()) < abs(calibration.mean - own.mean()), "this question's own"


def test_without_a_sample_the_usual_values_stay() -> None:
    for sample in (None,):
        seen = calibrate(sample, [], texts=0, total=100, words_per_text=100, unknown_language=0)
        fitted = seen.fit(Auto(), vectors(1, 5)[0])
        assert fitted.spread == pytest.approx(TYPICAL_SPREAD)
        assert (fitted.mean, fitted.unit, fitted.words) == (0.0, TYPICAL_SPREAD, WORD_WEIGHT)
        assert fitted.scale is None
    calibration, _ = measured()
    by_words = calibration.fit(Auto(), None)
    assert by_words.mean == calibration.mean
    assert by_words.spread == pytest.approx(calibration.spread)


@pytest.mark.parametrize("count", [1, 5, 20, 200])
def test_few_texts_are_drawn_towards_what_other_questions_get(count: int) -> None:
    calibration, texts = measured(count)
    question = unit(texts[0] + 0.5 * texts.mean(axis=0))
    cosines = texts @ question
    fitted = calibration.fit(Auto(), question)
    trust = count / (count + 20)
    assert fitted.mean == pytest.approx(calibration.mean + trust * (cosines.mean() - calibration.mean))
    assert fitted.spread**2 == pytest.approx(calibration.spread**2 + trust * (cosines.var() - calibration.spread**2))
    assert fitted.spread > 0, "one text, asked for itself, has no spread of its own"


def test_texts_that_are_all_the_same_divide_by_nothing() -> None:
    same = np.repeat(vectors(1, 0), 50, axis=0)
    seen = calibrate(same, [ask(same[0], same)] * 24, texts=50, total=50, words_per_text=3, unknown_language=0)
    fitted = seen.fit(Auto(), same[0])
    assert np.isfinite([fitted.ceiling(), *fitted.normalise(Leg("dense", [("a", 1.0)]))]).all()


@pytest.mark.parametrize(("words", "unknown", "times"), [(100, 0, 1), (1600, 0, 2), (6.25, 0, 0.5), (100, 1, 2)])
def test_words_count_by_the_length_of_the_texts_and_by_their_language(
    words: float, unknown: float, times: float
) -> None:
    seen = calibrate(None, [], texts=1, total=100, words_per_text=words, unknown_language=unknown)
    assert seen.words == pytest.approx(WORD_WEIGHT * times)
    better = calibrate(None, [], texts=1, total=100, words_per_text=words, unknown_language=unknown, word_weight=0.5)
    assert better.words == pytest.approx(WORD_WEIGHT * times * (1 if unknown else 0.5)), "in languages that it knows"


def test_where_no_word_can_be_rare_words_count_more() -> None:
    few, many, more = (
        calibrate(None, [], texts=n, total=n, words_per_text=100, unknown_language=0).words for n in (5, 100, 10_000)
    )
    assert few > 2 * many
    assert many == more == pytest.approx(WORD_WEIGHT)


# --- what changes no ranking ---------------------------------------------------------------------


@given(
    shift=st.floats(-0.5, 0.5),
    seed=st.integers(0, 50),
    alpha=st.floats(0.1, 0.9),
    lexical=st.dictionaries(st.integers(0, 29), st.floats(0.1, 30), max_size=8),
)
def test_a_constant_added_to_all_cosines_changes_no_score(
    shift: float, seed: int, alpha: float, lexical: dict[int, float]
) -> None:
    """As a component that all vectors have in common adds it: to those of texts and to those of questions."""
    texts, questions, question = vectors(30, seed), vectors(24, seed + 100), vectors(1, seed + 200)[0]
    common, sign = np.sqrt(abs(shift)), 1.0 if shift >= 0 else -1.0

    def longer(rows: Numbers, value: float) -> Numbers:
        return np.column_stack([rows, np.full(len(rows), value)])

    found, relevances = [], []
    for moved in (0.0, 1.0):
        stored = longer(texts, moved * common)
        probes = [ask(unit(each), stored) for each in longer(questions, moved * sign * common)]
        own = unit(longer(question[None], moved * sign * common)[0])
        seen = calibrate(stored, probes, texts=30, total=30, words_per_text=40, unknown_language=0)
        fitted = seen.fit(Auto((alpha, 1 - alpha)), own)
        dense = Leg("dense", [(f"{place:02}", float(each)) for place, each in enumerate(stored @ own)])
        words = Leg("lexical", [(f"{place:02}", score) for place, score in lexical.items()], terms=3)
        fused = fitted.fuse([dense, words])
        found.append({each.id: each.score for each in fused})
        assert fitted.scale is not None
        relevances.append(fitted.scale.relevance(fused[0].score, best=9.0))
    assert found[1] == pytest.approx(found[0], rel=1e-4, abs=1e-5)
    assert relevances[1] == pytest.approx(relevances[0], abs=1e-4)


# --- the questions -------------------------------------------------------------------------------


@pytest.mark.parametrize("language", ["english", "german", "portuguese", "norwegian", "chinese"])
def test_there_are_two_dozen_questions_in_a_language(language: str) -> None:
    questions = unrelated_questions(language)
    assert len(questions) == len(set(questions)) == 24
    assert language == "english" or questions != unrelated_questions("english")


def test_a_language_without_questions_is_asked_in_english() -> None:
    assert unrelated_questions("klingon") == unrelated_questions("english")


def test_it_can_be_read() -> None:
    calibration, _ = measured()
    said = str(calibration)
    assert "100 of 100 texts and 24 questions" in said
    assert "answers from" in said
    assert "answers from" not in str(Calibration(0, 0))
