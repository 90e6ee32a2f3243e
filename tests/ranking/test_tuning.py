"""Which fusion is chosen, and how sure that is."""

from __future__ import annotations

import random

import pytest

from twofold.ranking.fusion import Auto, Leg, Rrf
from twofold.ranking.tuning import JudgedQuery, candidates, choose, describe, restore

DEFAULT = Auto()


def _asked(good_leg: str, count: int, noise: float, seed: int = 0) -> list[JudgedQuery]:
    """Queries whose answer one leg ranks first, while the other ranks it anywhere."""
    rng = random.Random(seed)
    made = []
    for number in range(count):
        ids = [f"{number}-{n}" for n in range(20)]
        sure = [(i, 0.9 - 0.02 * place) for place, i in enumerate(ids)]
        vague = [(i, rng.random()) for i in ids]
        if rng.random() < noise:
            sure, vague = vague, sure
        scores = {"dense": sure if good_leg == "dense" else vague, "lexical": sure if good_leg != "dense" else vague}
        legs = (
            Leg("dense", sorted(scores["dense"], key=lambda hit: -hit[1])),
            Leg("lexical", sorted([(i, 20 * s) for i, s in scores["lexical"]], key=lambda hit: -hit[1]), terms=3),
        )
        made.append(JudgedQuery(legs, frozenset({ids[0]})))
    return made


@pytest.mark.parametrize(("good", "lower", "upper"), [("dense", 0.5, 1.0), ("lexical", 0.0, 0.3)])
def test_it_leans_on_the_leg_that_knows(good: str, lower: float, upper: float) -> None:
    found = choose(_asked(good, 120, noise=0.05), DEFAULT)
    assert found.changed
    assert lower <= found.fusion.alpha <= upper
    assert found.after >= found.before
    assert found.sure >= 0.9


def _first_in_one(number: int) -> JudgedQuery:
    """The answer is first in one leg and twelfth in the other; what is fifth in both has better scores in sum."""
    answer, rival = f"{number}-answer", f"{number}-rival"
    first, fifth, twelfth = 0, 4, 11
    ids = {
        better: [
            answer
            if place == (first if better else twelfth)
            else rival
            if place == fifth
            else f"{number}-{better}-{place}"
            for place in range(12)
        ]
        for better in (True, False)
    }
    steps = [0.9 - 0.001 * place - (0.5 if place > fifth else 0.0) for place in range(12)]
    dense, lexical = (list(zip(ids[better], steps, strict=True)) for better in (number % 2 == 0, number % 2 == 1))
    return JudgedQuery((Leg("dense", dense), Leg("lexical", [(i, 20 * s) for i, s in lexical])), frozenset({answer}))


def test_the_k_of_rrf_is_found() -> None:
    found = choose([_first_in_one(number) for number in range(40)], DEFAULT)
    assert isinstance(found.fusion, Rrf)
    assert found.fusion.k == 10
    assert "and k 10" in str(found)


def test_where_nothing_is_better_the_default_stays() -> None:
    same = tuple(Leg(name, [("a", 0.9), ("b", 0.1)]) for name in ("dense", "lexical"))
    found = choose([JudgedQuery(same, frozenset({"a"}))] * 40, DEFAULT)
    assert not found.changed
    assert found.fusion == DEFAULT
    assert "the default stays" in str(found)


def test_a_handful_of_pairs_changes_nothing() -> None:
    assert not choose(_asked("dense", 5, noise=0.0), DEFAULT).changed


def test_few_pairs_go_only_a_part_of_the_way() -> None:
    few, many = (choose(_asked("dense", count, noise=0.02), DEFAULT) for count in (20, 400))
    assert few.changed
    assert many.changed
    assert DEFAULT.alpha < few.fusion.alpha <= many.fusion.alpha


def test_every_candidate_survives_being_kept() -> None:
    for fusion in candidates(DEFAULT):
        kept = restore(describe(fusion))
        assert type(kept) is type(fusion)
        assert kept.weights == pytest.approx(fusion.weights)
        assert not isinstance(fusion, Rrf) or (isinstance(kept, Rrf) and kept.k == fusion.k)
