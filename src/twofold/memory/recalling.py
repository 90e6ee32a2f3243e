"""`recall`: what the query names, what it may mean, one search with all signals, and what to note about it."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

from twofold.encoders import bundled
from twofold.encoders.base import Sparse
from twofold.encoders.bm25 import BM25
from twofold.engine import calls
from twofold.engine.filters import compile_filter
from twofold.engine.flow import Flow, Work
from twofold.engine.layout import Stored
from twofold.engine.requests import Ask, Probe
from twofold.errors import EngineError, EngineUnavailable, InvalidQuery
from twofold.filters import Node
from twofold.fusion import Auto, Circumstances, LegName, Strategy
from twofold.fusion.base import shares
from twofold.index.opening import Ready
from twofold.index.queries import Extras, Floor, Query, check_query, check_text
from twofold.index.searching import Searcher
from twofold.memory import alpha as alphas
from twofold.memory import listing, substring, writing
from twofold.memory.alpha import Alpha
from twofold.memory.asked import Recall, conditions
from twofold.memory.config import MemoryConfig
from twofold.memory.items import MemoryHit, MemoryItem, MemoryPage, MemoryResult
from twofold.memory.keeper import Keeper, stemmer
from twofold.memory.layout import Screen, lexical_text, to_item
from twofold.memory.learned import Learned
from twofold.memory.scope import MEMORIES, Scope, Shelf
from twofold.memory.vocabulary import Vocabulary
from twofold.results import Hit, SearchResult
from twofold.signals import Lexicon, Named, Signals, match_tags
from twofold.signals.matching import Stemmer, split, terms
from twofold.signals.typos import Words, corrections
from twofold.text import says_something

log = logging.getLogger("twofold.memory")

_ALONE = 0.9
_MISTYPED = 0.8
# Fewer memories than the root of their number have it: the lexical leg alone might miss them. What is common is found.
_RARE = 0.5
_COMMON = 0.3


def recall(searcher: Searcher, keeper: Keeper, scope: Scope, asked: Recall) -> Flow[MemoryResult]:
    """Answer a recall."""
    began = time.perf_counter()
    config = keeper.config
    reasons: list[str] = []
    check_text(asked.query)
    known = yield from _known(searcher, keeper, scope, reasons)
    learned = known.learned if asked.learned else None
    where = scope.where((asked.shelf,), *conditions(asked, config, known.lexicon))
    to = yield from searcher.circumstances(asked.query, scope.where((asked.shelf,)))
    chosen = _alpha(asked, config, learned, known, searcher.tuned, to)
    meant = yield from _meant(asked, known, searcher, config, scope, reasons)
    signals = _read(asked, known, meant, config, learned, reasons)
    query = _query(asked, keeper, where, chosen)
    screen = Screen()
    extras = Extras(
        signals=signals,
        hint=" ".join(meant.values()),
        named=" ".join(str(named.matches[0].value) for named in signals.named if named.weight >= _RARE),
        hidden=("words",),
        corpus=scope.where((asked.shelf,)) if _crowded(known) else None,
        floor=_floor(asked, chosen, known, signals, to, searcher.ready, config, meant),
        screen=screen,
        words_of=lambda stored: lexical_text(stored.metadata, stored.text),
    )
    watched = log.isEnabledFor(logging.INFO)
    query = replace(query, extras=extras, explain=asked.explain or watched)
    found = yield from searcher.search(query)
    if query.text and query.k and not extras.tally.ranked and config.text_fallback:
        found = yield from substring.search(searcher.ready, query, where, found)
    memories = [screen.items.get(hit.id) or to_item(Stored(hit.id, hit.id, hit.text, hit.metadata)) for hit in found]
    found = replace(found, degraded="; ".join(filter(None, [*reasons, found.degraded])) or None)
    result = _result(found, memories, asked, chosen, signals.named, meant)
    if watched:
        _log(extras.tally.legs, result, time.perf_counter() - began)
    return result


def recall_and_touch(
    searcher: Searcher, keeper: Keeper, scope: Scope, asked: Recall, *, touch: bool
) -> Flow[MemoryResult]:
    """Answer a recall, and count it for what it found."""
    result = yield from recall(searcher, keeper, scope, asked)
    if touch and len(result):
        keeper.touched(scope.user, result.ids)
    return result


def similar(searcher: Searcher, keeper: Keeper, scope: Scope, identity: str, k: int) -> Flow[MemoryResult]:
    """What is nearest in meaning to a memory."""
    if isinstance(k, bool) or not isinstance(k, int) or k < 0:
        raise InvalidQuery(f"k must be a whole number from 0, got {k!r}")
    found = yield from writing.find(searcher.ready, scope, [identity], MEMORIES)
    item = writing.require(found, identity, scope)
    result = yield from recall(searcher, keeper, scope, Recall(item.text, k=k + 1, alpha=1.0, signals=False))
    others = tuple(hit for hit in result if hit.id != identity)[:k]
    return replace(result, hits=others)


def listed(
    searcher: Searcher,
    keeper: Keeper,
    scope: Scope,
    shelves: Sequence[Shelf],
    asked: Recall,
    limit: int,
    after: str | None,
) -> Flow[MemoryPage]:
    """A page of memories, newest first."""
    known = (yield from keeper.vocabulary(searcher, scope)) if asked.tags else None
    wanted = conditions(asked, None, known.lexicon if known else None)
    return (yield from listing.newest_after_touches(searcher, keeper, scope, shelves, wanted, limit, after))


def get(searcher: Searcher, keeper: Keeper, scope: Scope, identity: str) -> Flow[MemoryItem | None]:
    """A memory by id, with every recall counted."""
    yield from keeper.count_up(searcher)
    found = yield from writing.find(searcher.ready, scope, [identity], (*MEMORIES, "log"))
    return writing.readable(found[identity]) if identity in found else None


def _query(asked: Recall, keeper: Keeper, where: Node, chosen: Alpha) -> Query:
    overrides = {
        "alpha": chosen.value,
        "fusion": asked.fusion,
        "depth": asked.depth,
        "min_score": asked.min_score,
    }
    k = keeper.config.k if asked.k is None else asked.k
    text = asked.query
    if isinstance(text, str) and not says_something(text):
        text = ""  # to a model "!" is as near to one text as to another
    return check_query(
        text, k=k, offset=asked.offset, where=where, config=keeper.search, overrides=overrides, explain=False
    )


def _known(searcher: Searcher, keeper: Keeper, scope: Scope, reasons: list[str]) -> Flow[Vocabulary]:
    """What the memories have. An engine that can't tell may still find them."""
    try:
        return (yield from keeper.vocabulary(searcher, scope))
    except EngineUnavailable:
        raise
    except EngineError as error:
        _note(f"the tags and words there are could not be read: {error}", reasons)
        return Vocabulary(Lexicon(stemmer(searcher.ready)), Words(), 0, 0, ())


def _meant(
    asked: Recall, known: Vocabulary, searcher: Searcher, config: MemoryConfig, scope: Scope, reasons: list[str]
) -> Flow[dict[str, str]]:
    """What words that no memory has may mean."""
    if not config.typos or asked.shelf != "memory":
        return {}
    try:
        meant = corrections(asked.query, known.words, stemmer(searcher.ready))
    except Exception as error:  # a stemmer of somebody else's, say: no reason to find nothing
        _unread(error, reasons)
        return {}
    there = (yield from _there(searcher.ready, scope, list(meant))) if meant else set()
    return {word: other for word, other in meant.items() if word not in there}


def _there(ready: Ready, scope: Scope, words: Sequence[str]) -> Flow[set[str]]:
    """Which words some memory has after all: of a long text not every word is kept for comparing."""
    if not isinstance(ready.sparse, BM25):  # a model that knows related words finds something for every word
        return set()
    embed, where = ready.sparse.embed_query, compile_filter(scope.where(("memory",)))
    try:
        vectors: list[Sparse] = yield Work(lambda: [embed(word) for word in words])
    except Exception:  # the search will meet it too, and report it
        return set()
    asks = [Ask(Auto(), [Probe("lexical", vector)], where, None) for vector in vectors]
    found = yield from calls.query(ready.collection, [ask.leg(ask.probes[0], 1, payload=False) for ask in asks])
    return {word for word, points in zip(words, found, strict=True) if points}


def _read(
    asked: Recall,
    known: Vocabulary,
    meant: Mapping[str, str],
    config: MemoryConfig,
    learned: Learned | None,
    reasons: list[str],
) -> Signals:
    """What the query names, and how the signals count."""
    on = asked.signals and not _meaning_only(asked, config)
    named: tuple[Named, ...] = ()
    try:
        if on and asked.tags is None and config.tag_weight:
            named = _named(asked.query, meant, known)
    except Exception as error:  # as above
        _unread(error, reasons)
    return build_signals(config, learned, named, on=on, typed=asked.alpha is None)


def _meaning_only(asked: Recall, config: MemoryConfig) -> bool:
    """Somebody asked for pure vector search. That is the order of the cosines, and nothing else."""
    return (config.alpha if asked.alpha is None else asked.alpha) == 1


def _named(query: str, meant: Mapping[str, str], known: Vocabulary) -> tuple[Named, ...]:
    """What the query names, and at less weight what it would name without its slips."""
    named = match_tags(query, known.lexicon, known.memories)
    if not meant:
        return named
    corrected = " ".join(meant.get(word, word) for word in terms(query))
    seen = {each.matches for each in named}
    more = [each for each in match_tags(corrected, known.lexicon, known.memories) if each.matches not in seen]
    return (*named, *(replace(each, weight=_MISTYPED * each.weight) for each in more))


def _unread(error: Exception, reasons: list[str]) -> None:
    _note(f"the query's words could not be compared with tags: {type(error).__name__}: {error}", reasons)


def _note(reason: str, reasons: list[str]) -> None:
    reasons.append(reason)
    log.warning("recall did less than asked: %s", reason, extra={"degraded": reason})


def build_signals(
    config: MemoryConfig, learned: Learned | None, named: tuple[Named, ...], *, on: bool = True, typed: bool = True
) -> Signals:
    """The signals as configured, or all of them neutral."""
    now = _this_minute()
    age = config.age
    if not on:
        neutral = replace(age, decay=0.0)
        return Signals(now, tag_weight=0.0, recency=neutral, popularity=0.0, importance=0.0, pinned=0.0)
    if learned is not None and "recency_share" not in config.model_fields_set:
        age = replace(age, share=learned.recency_share)
    own_tags = learned is not None and "tag_weight" not in config.model_fields_set
    return Signals(
        now=now,
        named=named,
        tag_weight=learned.tag_weight if learned is not None and own_tags else config.tag_weight,
        recency=age,
        popularity=config.popularity,
        importance=config.importance,
        pinned=config.pinned,
        type_weights=config.type_weights,
        type_alpha=config.type_alpha if typed else {},
    )


def _this_minute() -> datetime:
    """The end of it, before which everything was written. Within a minute ages are the same, and told once."""
    return datetime.now(timezone.utc).replace(second=0, microsecond=0) + timedelta(minutes=1)


def _floor(
    asked: Recall,
    chosen: Alpha,
    known: Vocabulary,
    signals: Signals,
    to: Circumstances,
    ready: Ready,
    config: MemoryConfig,
    meant: Mapping[str, str],
) -> Floor | None:
    if not has_floor(config, ready, _fusion(asked, config)):
        return None
    corrected = alphas.share_corrected(asked.query, meant, stemmer(ready))
    least = alphas.floor(chosen, known.memories, strange=to.strange, corrected=corrected)
    if least is None or chosen.value is None:
        return None
    return replace(least, score=least.score + (1 - chosen.value) * _in_common(asked.query, signals, stemmer(ready)))


def _in_common(query: str, signals: Signals, stem: Stemmer) -> float:
    """What is gained by having what many memories have, as far as the query is about something else.

    "rules of chess" names the memories of the type `rule`, and isn't about any of them.
    """
    common = [named for named in signals.named if named.weight < _COMMON]
    if not common:
        return 0.0
    asked = {found for word in split(query) if (found := stem(word)) is not None}
    named = {stem(word) for each in signals.named for word in split(str(each.matches[0].value))}
    elsewhere = len(asked - named) / max(1, len(asked))
    return elsewhere * signals.tag_share * sum(each.weight for each in common) / len(signals.named)


def has_floor(config: MemoryConfig, ready: Ready, fusion: Any) -> bool:
    """A floor is wanted, and it was measured for this model and fusion; for which alphas, `alphas.floor` knows."""
    measured = not config.type_alpha and ready.dense.name == bundled.NAME and alphas.adapts(fusion)
    return config.min_score == "auto" and measured


def _fusion(asked: Recall, config: MemoryConfig) -> Any:
    return config.fusion if asked.fusion is None else asked.fusion


def _crowded(known: Vocabulary) -> bool:
    """Others have enough rows here to distort how rare this user's words are."""
    return known.memories < _ALONE * (known.memories + known.others)


def _alpha(
    asked: Recall,
    config: MemoryConfig,
    learned: Learned | None,
    known: Vocabulary,
    tuned: Strategy | None,
    to: Circumstances,
) -> Alpha:
    """How much meaning counts in this recall."""
    if asked.alpha is not None:
        shares(asked.alpha)
        return Alpha(asked.alpha, "given with the call")
    if config.alpha is not None:
        return Alpha(config.alpha, config.alpha_reason)
    fusion = _fusion(asked, config)
    if learned is not None and alphas.learnable(fusion) and alphas.name(fusion) == learned.fusion:
        return Alpha(learned.alpha, learned.reason)
    if tuned is not None and alphas.adapts(fusion):
        return Alpha(None, "tuned on pairs for this collection")
    return alphas.adaptive(fusion, known.memories, to)


def _result(
    found: SearchResult,
    memories: Sequence[MemoryItem],
    asked: Recall,
    chosen: Alpha,
    named: tuple[Named, ...],
    meant: dict[str, str],
) -> MemoryResult:
    return MemoryResult(
        hits=tuple(_hit(hit, memory, asked.explain, chosen) for hit, memory in zip(found, memories, strict=True)),
        mode=found.mode,
        degraded=found.degraded,
        query=found.query,
        problems=found.problems,
        alpha=chosen.value,
        alpha_reason=chosen.reason,
        tags=tuple(dict.fromkeys(str(match.value) for each in named for match in each.matches)),
        corrections=meant,
    )


def _hit(hit: Hit, memory: MemoryItem, explain: bool, chosen: Alpha) -> MemoryHit:
    why = replace(hit.explanation, alpha_reason=chosen.reason) if explain and hit.explanation else None
    return MemoryHit(hit.id, hit.text, hit.score, hit.relevance, memory.metadata, why, memory)


def _log(legs: Mapping[LegName, frozenset[str]], result: MemoryResult, seconds: float) -> None:
    """Once for every search, for those who listen: what each leg brought, and what was handed out."""
    dense, lexical = (legs.get(leg, frozenset()) for leg in ("dense", "lexical"))
    facts = {
        "hits": len(result),
        "by_meaning": len(dense),
        "by_words": len(lexical),
        "by_words_only": len(lexical - dense),
        "alpha": result.alpha,
        "mode": result.mode,
        "milliseconds": round(seconds * 1000, 2),
        "problems": len(result.problems),
    }
    log.info("recall: %s", ", ".join(f"{name} {value}" for name, value in facts.items()), extra={"recall": facts})
