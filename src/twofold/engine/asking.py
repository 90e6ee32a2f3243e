"""The fusion `auto`, with signals if there are any, as a formula that the engine computes by itself."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from qdrant_client import models

from twofold.documents import iso
from twofold.embedded.to_edge.formulas import FixedFormula, FixedProduct, FixedSum
from twofold.encoders.base import Sparse, Vectors
from twofold.engine.client import _CONDITIONS, _vector, to_filter, to_payload
from twofold.engine.layout import DENSE, SPARSE, metadata_key, to_condition
from twofold.engine.quick import trusted
from twofold.engine.requests import Filter
from twofold.filters import AnyOf, Either, Equals
from twofold.ranking.fusion import Auto, Dbsf, LegName, Rrf, Strategy
from twofold.ranking.signals import Match, Named, Recency, Signals, Value

# --- The fusion `auto`, with signals if there are any, as a formula that the engine computes by itself ---

_DAY = 86_400.0
# Put together from values that were checked: to validate them again would take as long as the search.
_sum_of, _product_of = trusted(models.SumExpression), trusted(models.MultExpression)
_absolute, _division, _division_params = (
    trusted(models.AbsExpression),
    trusted(models.DivExpression),
    trusted(models.DivParams),
)
_linear, _decay_params = trusted(models.LinDecayExpression), trusted(models.DecayParamsExpression)
_formula, _fixed_formula = trusted(models.FormulaQuery), trusted(FixedFormula)
_fixed_sum, _fixed_product = trusted(FixedSum), trusted(FixedProduct)
_HALF_LIFE = 0.5
_UPDATED, _COUNT = metadata_key("updated"), metadata_key("access_count")
_IMPORTANCE = metadata_key("importance")


@lru_cache(maxsize=256)
def plain(
    fusion: Auto, background: float, cosines: tuple[int, ...], bm25: tuple[int, ...], terms: int
) -> models.FormulaQuery:
    """The fusion alone. `cosines` and `bm25` are the numbers of the prefetches that bring these scores."""
    meaning, words = _legs(fusion, background, cosines, bm25, terms)
    formula = _sum(_times(fusion.weight("dense"), meaning), _times(fusion.weight("lexical"), words))
    return _fixed_formula(formula=formula, defaults=_defaults(background, cosines, bm25))


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
    now, recency, weights = iso(signals.now), signals.recency, tuple(signals.type_weights.items())
    legs = _weighted_legs(fusion, background, cosines, bm25, terms, tuple(signals.type_alpha.items()))
    base = _sum(legs, _times(tag_weight / len(signals.named), _tags(signals.named))) if signals.named else legs
    factors = _factors(recency, now, signals.popularity, signals.importance, signals.pinned, weights)
    formula: Any = _times(base, factors)
    if recency.active and recency.mode == "blend":
        formula = _sum(formula, _times(recency.share * sum(fusion.weights), _fresh(recency, now)))
    own = {_COUNT: 0, _IMPORTANCE: 0.5, _UPDATED: now}
    return _formula(formula=formula, defaults={**_defaults(background, cosines, bm25), **own})


def _legs(
    fusion: Auto, background: float, cosines: tuple[int, ...], bm25: tuple[int, ...], terms: int
) -> tuple[Any, Any]:
    """Meaning and words, on the scale of `Auto.normalise`."""
    # 1 at a cosine of 1, 0 at the background and below. Older servers have no max, and x + |x| reads x twice.
    meaning = _rising(_best([_score(number) for number in cosines]), zero=background)
    words = _times(1 / fusion.full(terms), _best([_score(number) for number in bm25]))
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


@lru_cache(maxsize=256)
def _weighted_legs(
    fusion: Auto,
    background: float,
    cosines: tuple[int, ...],
    bm25: tuple[int, ...],
    terms: int,
    type_alpha: tuple[tuple[str, float], ...],
) -> models.SumExpression:
    """Both legs with their weights, which may depend on the memory's type."""
    meaning, words = _legs(fusion, background, cosines, bm25, terms)
    total, alphas = sum(fusion.weights), dict(type_alpha) if 0 < fusion.alpha < 1 else {}
    dense = _by_type(fusion.weight("dense"), {kind: total * alpha for kind, alpha in alphas.items()})
    lexical = _by_type(fusion.weight("lexical"), {kind: total * (1 - alpha) for kind, alpha in alphas.items()})
    return _fixed_sum(sum=[_times(dense, meaning), _times(lexical, words)])


def _tags(named: Sequence[Named]) -> models.SumExpression:
    return _sum(*(_times(each.weight, _any_spelling(each.matches)) for each in named))


def _any_spelling(matches: Sequence[Match]) -> models.Condition:
    """1 for what has one of these, or several: a sum would count each of them."""
    values: dict[str, list[Value]] = {}
    for match in matches:
        values.setdefault(match.field, []).append(match.value)
    node = Either(tuple(AnyOf(field, tuple(of_field)) for field, of_field in values.items()))
    condition: models.Condition = to_condition(node, _CONDITIONS)
    return condition


@lru_cache(maxsize=64)
def _factors(
    recency: Recency,
    now: str,
    popularity: float,
    importance: float,
    pinned: float,
    type_weights: tuple[tuple[str, float], ...],
) -> models.MultExpression:
    """The product of all factors but those that are 1 for every memory."""
    factors = [
        *_lasting(recency, now, pinned),
        *([_popularity(popularity)] if popularity else []),
        *([_importance(importance)] if importance else []),
        *([_by_type(1.0, dict(type_weights))] if type_weights else []),
    ]
    return _fixed_product(mult=factors or [1.0])


def _lasting(recency: Recency, now: str, pinned: float) -> list[Any]:
    """Age and being pinned, in one: what is pinned doesn't age."""
    if recency.active and recency.mode != "blend":
        aged = _sum(recency.kept, _times(1 - recency.kept, _age(recency, now)))
        return [_unless_pinned(aged, 1 + pinned)]
    return [*([recency.kept] if recency.active else []), *([_unless_pinned(1.0, 1 + pinned)] if pinned else [])]


def _fresh(recency: Recency, now: str) -> Any:
    return _unless_pinned(_age(recency, now), 1.0)


def _unless_pinned(value: Any, pinned: float) -> Any:
    """A value, and another for what is pinned. A condition takes the engine longer than all arithmetic: ask it once."""
    return _sum(value, _times(to_condition(Equals("pinned", True), _CONDITIONS), _sum(pinned, _times(-1.0, value))))


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
    """1 + weight · count / (count + 10), with one look at the count. A damaged one must not divide by 0."""
    count = _absolute(abs=_COUNT)
    return _sum(1 + weight, _division(div=_division_params(left=-10.0 * weight, right=_sum(count, 10.0))))


def _importance(weight: float) -> Any:
    # From 0 to 1 as it is. A damaged one must not make the score infinite.
    return _sum(1 - weight, _times(2 * weight, _rising(_IMPORTANCE, zero=0.0)))


def _rising(x: Any, zero: float) -> models.LinDecayExpression:
    """A straight line from 0 at `zero` to 1 at 1, and 0 below. It falls again beyond 1, where x doesn't come."""
    half = _decay_params(x=x, target=1.0, scale=(1 - zero) / 2, midpoint=0.5)
    return _linear(lin_decay=half)


def _by_type(usual: float, own: Mapping[str, float]) -> Any:
    """A number that is another for some types."""
    return (
        _sum(
            usual,
            *(_times(other - usual, to_condition(Equals("type", kind), _CONDITIONS)) for kind, other in own.items()),
        )
        if own
        else usual
    )


def _sum(*terms: Any) -> models.SumExpression:
    return _sum_of(sum=list(terms))


def _times(*factors: Any) -> models.MultExpression:
    return _product_of(mult=list(factors))


# --- Search requests: one for each leg, or one in which the engine fuses both ---

_request = trusted(models.QueryRequest)
_prefetch = trusted(models.Prefetch)
_params = trusted(models.SearchParams)
_filter, _has_id = trusted(models.Filter), trusted(models.HasIdCondition)


@dataclass(frozen=True, slots=True)
class Probe:
    """One leg of a query: its vector, and the raw score below which a candidate doesn't count."""

    leg: LegName
    vector: Vectors | Sparse
    floor: float | None = None
    most: int | None = None
    """Bring no more candidates than this, whatever the depth."""

    @property
    def terms(self) -> int:
        """The number of different terms in a sparse query."""
        return self.vector.terms if isinstance(self.vector, Sparse) else 1

    def vector_query(self) -> dict[str, Any]:
        """What says, in a request or a prefetch, which vector is asked for."""
        if isinstance(self.vector, Sparse):
            return {"query": _vector(self.vector), "using": SPARSE}
        return {"query": self.vector.tolist(), "using": DENSE}


def newest_found(probe: Probe, where: Filter | None, depth: int, key: str, limit: int) -> models.QueryRequest:
    """What a leg finds, however well it matches, those with the latest date first."""
    leg = _prefetch(**probe.vector_query(), filter=to_filter(where), limit=depth)
    order = models.OrderBy(key=key, direction=models.Direction.DESC)
    return _request(prefetch=[leg], query=models.OrderByQuery(order_by=order), limit=limit, with_payload=True)


@dataclass(frozen=True, slots=True)
class Effort:
    """How hard the dense leg searches its graph."""

    hnsw_ef: int | None
    exact: bool

    def at(self, depth: int) -> models.SearchParams:
        """The same for every page of a ranking: it follows the depth, not how much of it is shown."""
        return _effort(max(self.hnsw_ef or 0, depth), self.exact)


@dataclass(frozen=True, slots=True)
class Ask:
    """One search, as the engine is asked: both legs with the same filter, depth and effort."""

    fusion: Strategy
    probes: Sequence[Probe]
    filter: Filter | None
    effort: Effort | None
    signals: Signals | None = None
    tag_weight: float = 0.0
    """What having everything that the query names adds."""
    corpus: Filter | None = None
    """The documents whose words decide how rare a word is; None for the whole collection."""
    payload: Any = True
    """What of a hit's payload to bring along."""
    enough: float = 0.0
    """From this score on a hit stays, however near it is."""
    sure: float | None = None
    """Tell also which candidates have at least this cosine."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "filter", to_filter(self.filter))  # once for all legs
        object.__setattr__(self, "corpus", to_filter(self.corpus))

    def leg(self, probe: Probe, depth: int, *, payload: bool, limit: int | None = None) -> models.QueryRequest:
        """The candidates of one leg, or the first of them; without payload only their ids and scores."""
        fields = self._leg(probe, depth)
        return _request(**{**fields, "limit": min(fields["limit"], limit or depth)}, with_payload=payload)

    def fused(self, how: Any, depth: int, limit: int, *, vectors: bool = False) -> models.QueryRequest:
        """Both legs as prefetches with fusion at the root, the only place where it spans all shards."""
        legs = [_prefetch(**self._leg(probe, depth)) for probe in self.probes]
        wanted = [DENSE] if vectors else False
        return _request(
            prefetch=legs, query=how, limit=limit, with_payload=to_payload(self.payload), with_vector=wanted
        )

    def near(self, points: Sequence[str]) -> models.QueryRequest:
        """Those of the points that are near enough to be sure of: a search among so few takes next to no time."""
        dense = next(probe for probe in self.probes if probe.leg == "dense")
        ids = [int(point) if point.isdecimal() else point for point in points]  # not everybody uses UUIDs
        return _request(
            **dense.vector_query(),
            filter=_filter(must=[_has_id(has_id=ids)]),
            params=_params(exact=True) if self.effort else None,
            score_threshold=self.sure,
            limit=len(points),
            with_payload=False,
        )

    def _leg(self, probe: Probe, depth: int) -> dict[str, Any]:
        return {
            **probe.vector_query(),
            "score_threshold": probe.floor,
            "filter": self.filter,
            "params": self._params(probe, depth),
            "limit": depth if probe.most is None else min(depth, probe.most),
        }

    def _params(self, probe: Probe, depth: int) -> models.SearchParams | None:
        if probe.leg == "dense":
            return self.effort.at(depth) if self.effort else None
        corpus = to_filter(self.corpus)
        return None if corpus is None else _params(idf=models.IdfCorpusParams(corpus=corpus))

    def native_query(self) -> Any:
        """The engine's query that computes exactly this fusion, or None if it has none."""
        cosines, bm25 = self._places("dense"), self._places("lexical")
        if not cosines or not bm25:
            return None
        if isinstance(self.fusion, Auto) and self.fusion.background is not None:
            shape = (self.fusion, self.fusion.background, cosines, bm25, self.probes[bm25[0]].terms)
            return plain(*shape) if self.signals is None else signalled(*shape, self.signals, self.tag_weight)
        return self._rank_fusion() if self.signals is None else None

    def _places(self, leg: LegName) -> tuple[int, ...]:
        return tuple([place for place, probe in enumerate(self.probes) if probe.leg == leg])

    def _rank_fusion(self) -> Any:
        equal = self.fusion.weights == (1.0, 1.0)
        if isinstance(self.fusion, Rrf) and equal:
            # The engine computes 1 / (rank + k - 1); its weighted form is another function than Σ w / (k + rank).
            return _rrf(self.fusion.k + 1)
        if isinstance(self.fusion, Dbsf) and equal:
            return _DBSF
        return None


@lru_cache(maxsize=64)
def _effort(hnsw_ef: int, exact: bool) -> models.SearchParams:
    return _params(hnsw_ef=hnsw_ef, exact=exact)


@lru_cache(maxsize=64)
def _rrf(k: int) -> models.RrfQuery:
    return models.RrfQuery(rrf=models.Rrf(k=k))


_DBSF = models.FusionQuery(fusion=models.Fusion.DBSF)
