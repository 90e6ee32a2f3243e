"""Strategies by name and by value, and arguments that make none."""

from __future__ import annotations

import math
from typing import Any

import pytest

from twofold import Fusion, InvalidQuery
from twofold.ranking.fusion import Auto, Average, Dbsf, Rrf, Strategy, Weighted, resolve

NAN = math.nan


@pytest.mark.parametrize(
    ("name", "kind"), {"auto": Auto, "rrf": Rrf, "dbsf": Dbsf, "weighted": Weighted, "average": Average}.items()
)
def test_a_name_stands_for_the_defaults(name: str, kind: type[Strategy]) -> None:
    assert resolve(name) == kind()
    assert resolve(name).name == name
    built: Strategy = getattr(Fusion, name)()
    assert type(built) is kind
    assert built.weights == pytest.approx(resolve(name).weights)  # 1 - 0.7 is not quite 0.3


def test_a_value_stands_for_itself() -> None:
    strategy = Fusion.rrf(k=3)
    assert resolve(strategy) is strategy


@pytest.mark.parametrize("fusion", ["", "RRF", "rff", None, 5, [], {}, Rrf, ("rrf",)], ids=repr)
def test_anything_else_is_refused_with_the_list_of_names(fusion: Any) -> None:
    with pytest.raises(InvalidQuery, match="auto, rrf, dbsf, weighted, average"):
        resolve(fusion)


@pytest.mark.parametrize("alpha", [-0.1, 1.1, NAN, math.inf, True, "0.5", [0.5], 10**400], ids=lambda a: repr(a)[:9])
def test_alpha_lies_between_0_and_1(alpha: Any) -> None:
    for build in (Fusion.auto, Fusion.weighted, Fusion.rrf().with_alpha, Fusion.auto().with_alpha):
        with pytest.raises(InvalidQuery, match="alpha must be between 0"):
            build(alpha)


def test_weighted_needs_an_alpha() -> None:
    with pytest.raises(InvalidQuery, match="alpha must be between 0"):
        Fusion.weighted(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "weights",
    [
        (0, 0), (-1, 2), (NAN, 1), (1, math.inf), (1e308, 1e308),  # no sum to speak of
        (), (1,), (1, 1, 1), 5, None, "11", ("1", "1"), (True, 1), (None, 1), {"dense": 1, "lexical": 1},
    ],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("build", [Fusion.rrf, Fusion.dbsf], ids=["rrf", "dbsf"])
def test_weights_are_two_numbers(build: Any, weights: Any) -> None:
    with pytest.raises(InvalidQuery, match="weights"):
        build(weights=weights)


@pytest.mark.parametrize("weights", [(0, 1), (1, 0), (1e-9, 1e9), [1, 2]], ids=repr)
def test_one_weight_may_be_zero(weights: Any) -> None:
    assert Fusion.dbsf(weights=weights).weights == tuple(weights)


@pytest.mark.parametrize("k", [-1, 1.5, 60.0, NAN, True, "60", None], ids=repr)
def test_k_is_a_whole_number(k: Any) -> None:
    with pytest.raises(InvalidQuery, match="k must be a whole number"):
        Fusion.rrf(k=k)


def test_strategies_are_values() -> None:
    assert Fusion.rrf(k=5) == Fusion.rrf(k=5) != Fusion.rrf(k=6)
    assert len({Fusion.auto(), Fusion.auto(), Fusion.auto(0.4)}) == 2
    with pytest.raises(AttributeError):
        Fusion.rrf().k = 3  # type: ignore[misc]
