"""The fusion `auto`, with signals if there are any, as a formula that the engine computes by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from qdrant_client import models

from twofold.documents import iso
from twofold.engine.layout import metadata_key
from twofold.engine.quick import trusted
from twofold.fusion import Auto
from twofold.signals import Match, Recency, Signals

_DAY = 86_400.0
# Put together from values that were checked: to validate them again would take as long as the search.
_sum_of, _product_of = trusted(models.SumExpression), trusted(models.MultExpression)
_absolute, _division, _division_params = (
    trusted(models.AbsExpression),
    trusted(models.DivExpression),
    trusted(models.DivParams),
)
_formula, _field_condition, _match = (
    trusted(models.FormulaQuery),
    trusted(models.FieldCondition),
    trusted(models.MatchValue),
)
_HALF_LIFE = 0.5
_TYPE, _UPDATED, _COUNT = metadata_key("type"), metadata_key("updated"), metadata_key("access_count")
_IMPORTANCE, _PINNED = metadata_key("importance"), metadata_key("pinned")


@lru_cache(maxsize=256)
def plain(
    fusion: Auto, background: float, cosines: tuple[int, ...], bm25: tuple[int, ...], terms: int
) -> models.FormulaQuery:
    """The fusion alone. `cosines` and `bm25` are the numbers of the prefetches that bring these scores."""
    meaning, words = _legs(fusion, background, cosines, bm25, terms)
    formula = _sum(_times(fusion.weight("dense"), meaning), _times(fusion.weight("lexical"), words))
    return models.FormulaQuery(formula=formula, defaults=_defaults(background, cosines, bm25))


def signalled(
    fusion: Auto,
    background: float,
    cosines: tuple[int, ...],
    bm25: tuple[int, ...],
    terms: int,
    signals: Signals,
    tag_weight: float,
) -> models.FormulaQuery:
    """The fusion with signals: what `Signals` computes, in the engine's words."""
    meaning, words = _legs(fusion, background, cosines, bm25, terms)
    tags = _times(tag_weight, _tag_score(signals.matches))
    base = _sum(_weighted(fusion, "dense", signals, meaning), _weighted(fusion, "lexical", signals, words), tags)
    formula: Any = _times(base, *_factors(signals))
    if signals.recency.active and signals.recency.mode == "blend":
        formula = _sum(formula, _times(signals.recency.share * sum(fusion.weights), _fresh(signals)))
    own = {_COUNT: 0, _IMPORTANCE: 0.5, _UPDATED: iso(signals.now)}
    return _formula(formula=formula, defaults={**_defaults(background, cosines, bm25), **own})


def _legs(
    fusion: Auto, background: float, cosines: tuple[int, ...], bm25: tuple[int, ...], terms: int
) -> tuple[Any, Any]:
    """Meaning and words, each from 0 to 1."""
    above = _sum(_best([_score(number) for number in cosines]), -background)
    # max(0, x) = (x + |x|) / 2: older servers have no max.
    meaning = _times(1 / (2 * (1 - background)), _sum(above, _absolute(abs=above)))
    score = _best([_score(number) for number in bm25])
    words = _division(div=_division_params(left=score, right=_sum(score, fusion.half(terms))))
    return meaning, words


def _best(scores: Sequence[Any]) -> Any:
    """The greater of two scores, or the only one."""
    if len(scores) == 1:
        return scores[0]
    one, other = scores
    apart = _absolute(abs=_sum(one, _times(-1.0, other)))
    return _times(0.5, _sum(one, other, apart))


def _defaults(background: float, cosines: tuple[int, ...], bm25: tuple[int, ...]) -> dict[str, Any]:
    return {**{_score(number): background for number in cosines}, **{_score(number): 0.0 for number in bm25}}


def _score(number: int) -> str:
    return f"$score[{number}]"


def _weighted(fusion: Auto, leg: Any, signals: Signals, value: Any) -> Any:
    """A leg with its weight, which may depend on the memory's type."""
    weight = fusion.weight(leg)
    if not signals.type_alpha or not 0 < fusion.alpha < 1:
        return _times(weight, value)
    total = sum(fusion.weights)
    own = [(kind, total * (alpha if leg == "dense" else 1 - alpha)) for kind, alpha in signals.type_alpha.items()]
    return _times(_sum(weight, *(_times(other - weight, _is(_TYPE, kind)) for kind, other in own)), value)


def _tag_score(matches: Sequence[Match]) -> Any:
    if not matches:
        return 0.0
    conditions = [_times(match.weight, _is(metadata_key(match.field), match.value)) for match in matches]
    return _times(1 / len(matches), _sum(*conditions))


def _factors(signals: Signals) -> list[Any]:
    """Every factor that isn't 1 for all."""
    return [
        *_recency(signals),
        *([_popularity(signals.popularity)] if signals.popularity else []),
        *([_importance(signals.importance)] if signals.importance else []),
        *([_sum(1.0, _times(signals.pinned, _is(_PINNED, True)))] if signals.pinned else []),
        *([_by_type(signals)] if signals.type_weights else []),
    ]


def _recency(signals: Signals) -> list[Any]:
    recency = signals.recency
    if not recency.active:
        return []
    if recency.mode == "blend":
        return [recency.kept]
    return [_sum(recency.kept, _times(1 - recency.kept, _fresh(signals)))]


def _fresh(signals: Signals) -> Any:
    """1 if pinned, and otherwise what age leaves of it."""
    age = _age(signals.recency, iso(signals.now))
    return _sum(age, _times(_is(_PINNED, True), _sum(1.0, _times(-1.0, age))))


def _age(recency: Recency, now: str) -> models.ExpDecayExpression:
    return models.ExpDecayExpression(
        exp_decay=models.DecayParamsExpression(
            x=models.DatetimeKeyExpression(datetime_key=_UPDATED),
            target=models.DatetimeExpression(datetime=now),
            scale=-math.log(_HALF_LIFE) / recency.decay * _DAY,
            midpoint=_HALF_LIFE,
        )
    )


def _popularity(weight: float) -> Any:
    recalled = _division(div=_division_params(left=_COUNT, right=_sum(_COUNT, 10.0)))
    return _sum(1.0, _times(weight, recalled))


def _importance(weight: float) -> Any:
    return _sum(1 - weight, _times(2 * weight, _IMPORTANCE))


def _by_type(signals: Signals) -> Any:
    return _sum(1.0, *(_times(factor - 1, _is(_TYPE, kind)) for kind, factor in signals.type_weights.items()))


def _is(key: str, value: Any) -> models.FieldCondition:
    """1 where the field has this value, or has it among others; 0 elsewhere."""
    if isinstance(value, float):
        return models.FieldCondition(key=key, range=models.Range(gte=value, lte=value))
    return _field_condition(key=key, match=_match(value=value))


def _sum(*terms: Any) -> models.SumExpression:
    return _sum_of(sum=list(terms))


def _times(*factors: Any) -> models.MultExpression:
    return _product_of(mult=list(factors))
