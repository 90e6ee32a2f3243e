"""What feedback has taught about one user: how much meaning counts, and how much tags and age do."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from twofold.documents import Record
from twofold.engine import calls
from twofold.engine.layout import Stored, to_point
from twofold.errors import InvalidQuery
from twofold.flow import Flow, Renew
from twofold.index.opening import Ready
from twofold.index.searching import Searcher
from twofold.index.writing import only
from twofold.memory import writing
from twofold.memory.config import MemoryConfig
from twofold.memory.items import is_memory_id
from twofold.memory.listing import everything
from twofold.memory.recall import MEASURED, Recall, adaptive, adapts, has_floor, learnable, recall
from twofold.memory.scope import MEMORIES, Scope
from twofold.memory.state import Keeper, Learned, exists, row_id
from twofold.ranking.tuning import Pair
from twofold.results import Explanation

log = logging.getLogger("twofold.memory")

# --- Feedback, and what can be learned from it ---


Row = npt.NDArray[np.float64]
_HALF_TRUSTED = 20
"""So many judgements take settings half of the way from the defaults to what fits best."""
_SEEN = 20
"""A user who judges one memory has seen about so many others."""
_SHARPNESS = 20.0
_ALPHAS = tuple(round(0.05 * step, 2) for step in range(21))
_TAGS = (0.0, 0.25, 0.5, 1.0, 1.5)
_AGES = (0.0, 0.1, 0.2, 0.4)
_HALF = 0.5


@dataclass(frozen=True)
class Judgement:
    """A memory was or wasn't useful for a query."""

    query: str
    memory: str
    useful: bool


def feedback(searcher: Searcher, keeper: Keeper, scope: Scope, judgement: Judgement) -> Flow[None]:
    """Store a judgement. Of several on the same query and memory the last counts."""
    if not isinstance(judgement.query, str) or not judgement.query.strip():
        raise InvalidQuery(f"feedback is about a query, got {judgement.query!r}")
    if not isinstance(judgement.useful, bool):  # "no" would count as a yes
        raise InvalidQuery(f"useful must be True or False, got {judgement.useful!r}")
    found = yield from writing.find(searcher.ready, scope, [judgement.memory], MEMORIES)
    writing.require(found, judgement.memory, scope)
    identity = scope.identity("feedback", [judgement.query, judgement.memory])
    fields = {"query": judgement.query, "memory": judgement.memory, "useful": judgement.useful}
    yield from _put(searcher, identity, {**scope.fields("feedback"), "feedback": fields, **_now()})


def _now() -> dict[str, str]:
    return {"created": datetime.now(timezone.utc).isoformat()}


def _put(searcher: Searcher, identity: str, metadata: dict[str, Any]) -> Flow[None]:
    record = Record(id=identity, text="", metadata=metadata)
    yield from calls.upsert(searcher.ready.collection, [to_point(record, None, None)])


def learn(searcher: Searcher, keeper: Keeper, scope: Scope) -> Flow[Learned | None]:
    """Find the settings that fit the feedback, and keep them. None if there is no feedback to learn from."""
    judgements = yield from _judgements(searcher, scope)
    pairs: list[tuple[Row, Row, float]] = []
    used = 0
    for query in dict.fromkeys(judgement.query for judgement in judgements):
        yield Renew()
        said = {each.memory: each.useful for each in judgements if each.query == query}
        rows_of = yield from _seen(searcher, keeper, scope, query)
        pairs += _pairs(rows_of, said)
        used += len(said.keys() & rows_of.keys())
    if not pairs:
        return None
    config = keeper.config
    usual = yield from _usual_alpha(searcher, keeper, scope)
    result = fit(pairs, (usual, config.tag_weight, config.recency_share), used, _reach(searcher.ready, config, usual))
    result = replace(result, fusion=config.fusion.name)
    metadata = {**scope.fields("learned"), "learned": result.as_payload(), **_now()}
    yield from _put(searcher, row_id(scope), metadata)
    keeper.forget_vocabulary(scope.user)
    return result


def _usual_alpha(searcher: Searcher, keeper: Keeper, scope: Scope) -> Flow[float]:
    """How much meaning counts as long as nothing was learned."""
    fusion = keeper.config.fusion
    if searcher.tuned is not None and adapts(fusion):
        return searcher.tuned.alpha
    known = yield from keeper.vocabulary(searcher, scope)
    usual = adaptive(fusion, known.memories, (yield from searcher.circumstances("", scope.where(("memory",)))))
    return fusion.alpha if usual.value is None else usual.value


def _reach(ready: Ready, config: MemoryConfig, usual: float) -> tuple[float, float]:
    """The least and the greatest alpha that may be learned.

    Where off-topic queries are answered with nothing that has to stay so, and the floor holds for some alphas only.
    """
    low, high = MEASURED
    if not learnable(config.fusion):
        return usual, usual
    return (low, high) if has_floor(config, ready, config.fusion) and low <= usual <= high else (0.0, 1.0)


def judged(searcher: Searcher, scope: Scope) -> Flow[list[Pair]]:
    """What was useful for which query, as pairs to tune an index by. Each looks among the memories of this scope."""
    useful: dict[str, set[str]] = {}
    for each in (yield from _judgements(searcher, scope)):
        if each.useful:
            useful.setdefault(each.query, set()).add(each.memory)
    where = {name: value for name, value in scope.fields("memory").items() if name != "user"}  # the shelf names them
    return [Pair(query, frozenset(ids), where) for query, ids in useful.items()]


def _judgements(searcher: Searcher, scope: Scope) -> Flow[list[Judgement]]:
    rows = yield from everything(searcher.ready, scope.where(("feedback",)))
    return [judgement for judgement in map(_read, rows) if judgement is not None]


def unlearn(searcher: Searcher, keeper: Keeper, scope: Scope) -> Flow[bool]:
    """Take back what was learned; the feedback stays. False if nothing was learned."""
    found = yield from exists(searcher.ready, scope)
    if found:
        yield from calls.delete(searcher.ready.collection, only([row_id(scope)]))
        keeper.forget_vocabulary(scope.user)
    return found


def drop_orphans(ready: Ready, scope: Scope) -> Flow[None]:
    """Delete what a user said about memories that are gone: it holds queries, and teaches nothing any more."""
    rows = yield from everything(ready, Scope(scope.user).where(("feedback",)))
    about = {row.point: judgement.memory for row in rows if (judgement := _read(row)) is not None}
    ids = [memory for memory in dict.fromkeys(about.values()) if is_memory_id(memory)]
    points = (yield from calls.retrieve(ready.collection, ids)) if ids else []
    there = {str(point.id) for point in points}
    gone = [row for row, memory in about.items() if memory not in there]
    if gone:
        yield from calls.delete(ready.collection, only(gone))


def _read(row: Stored) -> Judgement | None:
    """A judgement; None for a row that something else changed, which is said."""
    fields = row.metadata.get("feedback")
    known = fields if isinstance(fields, Mapping) else {}
    query, memory, useful = (known.get(name) for name in ("query", "memory", "useful"))
    if isinstance(query, str) and isinstance(memory, str) and isinstance(useful, bool):
        return Judgement(query, memory, useful)
    log.warning("the feedback in row %s can't be read, and is left out", row.point)
    return None


def _seen(searcher: Searcher, keeper: Keeper, scope: Scope, query: str) -> Flow[dict[str, Row]]:
    """What a query finds, as numbers."""
    asked = Recall(query, k=_SEEN, alpha=_HALF, min_score=-1.0, explain=True, learned=False)
    found = yield from recall(searcher, keeper, scope, asked)
    return {hit.id: _row(hit.explanation, keeper.config) for hit in found if hit.explanation}


def _pairs(rows: Mapping[str, Row], said: Mapping[str, bool]) -> list[tuple[Row, Row, float]]:
    """(what should be ahead, what should be behind, how much that says) among what a query finds."""
    good = [rows[i] for i, useful in said.items() if useful and i in rows]
    bad = [rows[i] for i, useful in said.items() if not useful and i in rows]
    rest = [row for i, row in rows.items() if i not in said]
    pairs = [(one, other, 1.0) for one, other in product(good, bad)]
    pairs += [(one, other, 1 / max(len(rest), 1)) for one, other in product(good, rest)]
    pairs += [(one, other, 1 / max(len(rest), 1)) for one, other in product(rest, bad)]
    return pairs


def _row(why: Explanation, config: MemoryConfig) -> Row:
    """(meaning, words, tags, freshness, everything else) of a memory, freed from the weights they were found with."""
    tags = why.tag_boost / (_HALF * config.tag_weight) if config.tag_weight else 0.0
    share = config.recency_share if config.recency == "soft" and config.recency_decay else 0.0
    fresh = (why.recency_factor - (1 - share)) / share if share else 1.0
    rest = why.popularity_factor * why.importance_factor * why.pinned_factor * why.type_factor
    return np.array([why.semantic_part / _HALF, why.lexical_part / _HALF, tags, fresh, rest])


def fit(
    pairs: Sequence[tuple[Row, Row, float]],
    default: tuple[float, float, float],
    judgements: int,
    reach: tuple[float, float] = (0.0, 1.0),
) -> Learned:
    """The best settings of a grid, drawn back towards the defaults; those where it puts nothing in better order."""
    ahead, behind = (np.array([pair[n] for pair in pairs]) for n in (0, 1))
    weights = np.array([pair[2] for pair in pairs])
    best = max(product(_ALPHAS, _TAGS, _AGES), key=lambda s: _fitness(ahead, behind, weights, s, default))
    trust = judgements / (judgements + _HALF_TRUSTED)
    alpha, tags, age = (round(old + trust * (new - old), 4) for old, new in zip(default, best, strict=True))
    moved = (min(max(alpha, reach[0]), reach[1]), tags, age)
    before, after = (_in_order(ahead, behind, weights, settings) for settings in (default, moved))
    kept, share = (moved, after) if after > before else (default, before)
    return Learned(*kept, judgements=judgements, before=before, after=share)


def _scores(rows: Row, settings: tuple[float, float, float]) -> Row:
    alpha, tag_weight, share = settings
    meaning, words, tags, fresh, rest = rows.T
    base = alpha * meaning + (1 - alpha) * (words + tag_weight * tags)
    return np.asarray(base * (1 - share + share * fresh) * rest)


def _fitness(
    ahead: Row, behind: Row, weights: Row, settings: tuple[float, float, float], default: tuple[float, float, float]
) -> float:
    """How likely the judgements are; of equals, what lies nearer to the defaults."""
    margin = _SHARPNESS * (_scores(ahead, settings) - _scores(behind, settings))
    likely = -float(np.average(np.logaddexp(0, -margin), weights=weights))
    return likely - 1e-3 * sum(abs(new - old) for new, old in zip(settings, default, strict=True))


def _in_order(ahead: Row, behind: Row, weights: Row, settings: tuple[float, float, float]) -> float:
    right = _scores(ahead, settings) > _scores(behind, settings)
    return round(float(np.average(right, weights=weights)), 4)
