"""Learning from feedback: judgements are stored, and `learn` fits how much meaning, tags and age count to them.

In order: feedback as rows, then `learn` (what each judged query finds, as numbers; pairs of what should be ahead of
what; the settings that fit them best), then what else is made of feedback. `state` reads back what was learned.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from twofold.documents import Record
from twofold.engine import calls
from twofold.engine.layout import Stored, to_point
from twofold.errors import InvalidQuery
from twofold.flow import Flow, Renew
from twofold.index.opening import check_unchanged
from twofold.index.writing import only
from twofold.memory.config import MemoryConfig
from twofold.memory.items import is_memory_id
from twofold.memory.recall import Recall, adaptive, adapts, learnable, recall
from twofold.memory.scope import Shelf
from twofold.memory.state import Learned, View, learned_row_id
from twofold.ranking.tuning import Pair
from twofold.results import Explanation

log = logging.getLogger("twofold.memory")

Features = npt.NDArray[np.float64]
"""(meaning, words, tags, freshness, everything else) of a memory that a query finds; or many such rows."""
Weights = tuple[float, float, float]
"""Alpha, the weight of tags, and the share of recency."""

JUDGEMENTS_HALF_TRUSTED = 20
"""So many judgements take settings half of the way from the defaults to what fits best."""
RESULTS_SEEN = 20
"""A user who judges one memory has seen about so many others."""
_NEUTRAL_ALPHA = 0.5
_MARGIN_SHARPNESS = 5.0  # for each time that what is useful scores as usual
_ALPHA_GRID = tuple(round(0.05 * step, 2) for step in range(21))
_TAG_WEIGHT_GRID = (0.0, 0.25, 0.5, 1.0, 1.5)
_RECENCY_SHARE_GRID = (0.0, 0.1, 0.2, 0.4)

# --- Feedback ---


class Judgement(NamedTuple):
    """A memory was or wasn't useful for a query."""

    query: str
    memory: str
    useful: bool


def feedback(view: View, query: str, identity: str, useful: bool) -> Flow[None]:
    """Store a judgement. Of several on the same query and memory the last counts."""
    if not isinstance(query, str) or not query.strip():
        raise InvalidQuery(f"feedback is about a query, got {query!r}")
    if not isinstance(useful, bool):  # "no" would count as a yes
        raise InvalidQuery(f"useful must be True or False, got {useful!r}")
    memory = yield from view.memory(identity)
    fields = {"query": query, "memory": memory.id, "useful": useful}
    yield from _put(view, "feedback", view.scope.identity("feedback", [query, memory.id]), fields)


def _put(view: View, shelf: Shelf, row_id: str, fields: dict[str, Any]) -> Flow[None]:
    created = datetime.now(timezone.utc).isoformat()
    record = Record(row_id, text="", metadata={**view.scope.fields(shelf), shelf: fields, "created": created})
    yield from check_unchanged(view.ready)
    yield from calls.upsert(view.ready.collection, [to_point(record, None, None)])


def _judgements(view: View) -> Flow[list[Judgement]]:
    rows = yield from view.rows(view.scope.where(("feedback",)))
    return [judgement for judgement in map(_read, rows) if judgement is not None]


def _read(row: Stored) -> Judgement | None:
    """A judgement; None for a row that something else changed, which is said."""
    fields = row.metadata.get("feedback")
    known = fields if isinstance(fields, Mapping) else {}
    query, memory, useful = (known.get(name) for name in ("query", "memory", "useful"))
    if isinstance(query, str) and isinstance(memory, str) and isinstance(useful, bool):
        return Judgement(query, memory, useful)
    log.warning("the feedback in row %s can't be read, and is left out", row.point)
    return None


# --- `learn` ---


def learn(view: View) -> Flow[Learned | None]:
    """Find the settings that fit the feedback, and keep them. None if there is no feedback to learn from."""
    judgements = yield from _judgements(view)
    pairs: list[tuple[Features, Features, float]] = []
    used = 0
    for query in dict.fromkeys(judgement.query for judgement in judgements):
        yield Renew()
        useful = {each.memory: each.useful for each in judgements if each.query == query}
        request = Recall(query, k=RESULTS_SEEN, alpha=_NEUTRAL_ALPHA, min_score=0.0, explain=True, learned=False)
        hits = yield from recall(view, request)
        rows = {hit.id: _row(hit.explanation, view.config) for hit in hits if hit.explanation}
        pairs += _pairs(rows, useful)
        used += len(useful.keys() & rows.keys())
    if not pairs:
        return None
    config = view.config
    usual = yield from _usual_alpha(view)
    result = fit(pairs, (usual, config.tag_weight, config.recency_share), used, _alpha_range(view, usual))
    result = replace(result, fusion=config.fusion.name)
    yield from _put(view, "learned", learned_row_id(view.scope), result.as_payload())
    view.shared.forget_vocabulary(view.scope.owner)
    return result


def _row(why: Explanation, config: MemoryConfig) -> Features:
    """A memory as numbers, freed from the weights that it was found with."""
    tags = why.tag_boost / (_NEUTRAL_ALPHA * config.tag_weight) if config.tag_weight else 0.0
    share = config.recency_share if config.recency == "soft" and config.recency_decay else 0.0
    fresh = (why.recency_factor - (1 - share)) / share if share else 1.0
    rest = why.popularity_factor * why.importance_factor * why.pinned_factor * why.type_factor
    return np.array([why.semantic_part / _NEUTRAL_ALPHA, why.lexical_part / _NEUTRAL_ALPHA, tags, fresh, rest])


def _pairs(rows: Mapping[str, Features], useful: Mapping[str, bool]) -> list[tuple[Features, Features, float]]:
    """(what should be ahead, what should be behind, how much that says) among what a query finds."""
    good = [rows[i] for i, said in useful.items() if said and i in rows]
    bad = [rows[i] for i, said in useful.items() if not said and i in rows]
    rest = [row for i, row in rows.items() if i not in useful]
    less = 1 / max(len(rest), 1)
    each = ((good, bad, 1.0), (good, rest, less), (rest, bad, less))
    return [(one, other, weight) for ahead, behind, weight in each for one, other in product(ahead, behind)]


def _usual_alpha(view: View) -> Flow[float]:
    """How much meaning counts as long as nothing was learned."""
    fusion, tuned = view.config.fusion, view.searcher.tuned
    if tuned is not None and adapts(fusion):
        return tuned.alpha
    vocabulary = yield from view.vocabulary()
    usual = adaptive(fusion, vocabulary.memories).value
    return fusion.alpha if usual is None else usual


def _alpha_range(view: View, usual: float) -> tuple[float, float]:
    """The least and the greatest alpha that may be learned."""
    return (0.0, 1.0) if learnable(view.config.fusion) else (usual, usual)


def fit(
    pairs: Sequence[tuple[Features, Features, float]],
    default: Weights,
    judgements: int,
    alpha_range: tuple[float, float] = (0.0, 1.0),
) -> Learned:
    """The best settings of a grid, drawn back towards the defaults; those where it puts nothing in better order."""
    ahead, behind = (np.array([pair[n] for pair in pairs]) for n in (0, 1))
    weights = np.array([pair[2] for pair in pairs])
    grid = product(_ALPHA_GRID, _TAG_WEIGHT_GRID, _RECENCY_SHARE_GRID)
    best = max(grid, key=lambda settings: _fitness(ahead, behind, weights, settings, default))
    trust = judgements / (judgements + JUDGEMENTS_HALF_TRUSTED)
    alpha, tags, age = (round(old + trust * (new - old), 4) for old, new in zip(default, best, strict=True))
    moved = (min(max(alpha, alpha_range[0]), alpha_range[1]), tags, age)
    before, after = (_in_order(ahead, behind, weights, settings) for settings in (default, moved))
    kept, share = (moved, after) if after > before else (default, before)
    return Learned(*kept, judgements=judgements, before=before, after=share)


def _scores(rows: Features, settings: Weights) -> Features:
    alpha, tag_weight, share = settings
    meaning, words, tags, fresh, rest = rows.T
    base = alpha * meaning + (1 - alpha) * (words + tag_weight * tags)
    return np.asarray(base * (1 - share + share * fresh) * rest)


def _fitness(ahead: Features, behind: Features, weights: Features, settings: Weights, default: Weights) -> float:
    """How likely the judgements are; of equals, what lies nearer to the defaults."""
    usual = float(np.abs(_scores(ahead, default)).mean()) or 1.0  # every fusion has a scale of its own
    margin = _MARGIN_SHARPNESS / usual * (_scores(ahead, settings) - _scores(behind, settings))
    likely = -float(np.average(np.logaddexp(0, -margin), weights=weights))
    return likely - 1e-3 * sum(abs(new - old) for new, old in zip(settings, default, strict=True))


def _in_order(ahead: Features, behind: Features, weights: Features, settings: Weights) -> float:
    right = _scores(ahead, settings) > _scores(behind, settings)
    return round(float(np.average(right, weights=weights)), 4)


# --- What else is made of feedback, and taking back what was learned ---


def judged(view: View) -> Flow[list[Pair]]:
    """What was useful for which query, as pairs to tune an index by. Each looks among the memories in reach."""
    useful: dict[str, set[str]] = {}
    for each in (yield from _judgements(view)):
        if each.useful:
            useful.setdefault(each.query, set()).add(each.memory)
    where = view.reach.as_filter()
    return [Pair(query, frozenset(ids), where) for query, ids in useful.items()]


def unlearn(view: View) -> Flow[bool]:
    """Take back what was learned; the feedback stays. False if nothing was learned."""
    row_id = learned_row_id(view.scope)
    rows = yield from view.find([row_id], ("learned",))
    if rows:
        yield from calls.delete(view.ready.collection, only([row_id]))
        view.shared.forget_vocabulary(view.scope.owner)
    return bool(rows)


def drop_orphans(view: View) -> Flow[None]:
    """Delete what a user said about memories that are gone: it holds queries, and teaches nothing any more."""
    rows = yield from view.rows(view.scope.whole.where(("feedback",)))
    about = {row.point: judgement.memory for row in rows if (judgement := _read(row)) is not None}
    ids = [memory for memory in dict.fromkeys(about.values()) if is_memory_id(memory)]
    points = (yield from calls.retrieve(view.ready.collection, ids)) if ids else []
    there = {str(point.id) for point in points}
    gone = [row for row, memory in about.items() if memory not in there]
    if gone:
        yield from calls.delete(view.ready.collection, only(gone))
