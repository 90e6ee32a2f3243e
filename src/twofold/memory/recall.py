"""`recall`, step by step: conditions, alpha, corrections, what the query names, the floor, one search, the result.

First what a recall may be asked for, then how much meaning counts where nobody said, then the last resort, and at the
end the flow itself with its steps in the order in which it takes them.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone
from typing import Any

from twofold.encoders.bm25 import BM25
from twofold.engine import calls
from twofold.engine.layout import Stored, from_point
from twofold.engine.requests import VectorQuery
from twofold.errors import EngineError, EngineUnavailable, FilterError, InvalidQuery
from twofold.filters import All, AnyOf, Between, Node
from twofold.flow import Flow, Work
from twofold.index.opening import Ready
from twofold.index.queries import HINT_WEIGHT, Query, check_query, check_text
from twofold.index.searching import Searcher
from twofold.memory.config import MemoryConfig
from twofold.memory.items import (
    TRUST,
    MemoryHit,
    MemoryResult,
    Screen,
    as_moment,
    as_tags,
    check_trust,
    condition,
    damage,
    lexical_text,
    to_item,
)
from twofold.memory.scope import Scope, Shelf
from twofold.memory.state import Learned, MemoryStore, Vocabulary, stemmer
from twofold.ranking.fusion import (
    PROSE_ALPHA,
    TERMS_EXPONENT,
    Auto,
    Circumstances,
    Leg,
    Strategy,
    Weighted,
    default_alpha,
    shares,
)
from twofold.ranking.names import Lexicon, Stemmer, Words, corrections, fold, match_tags, split, terms
from twofold.ranking.ranker import Floor
from twofold.ranking.signals import Named, Recency, SignalRanker, Signals
from twofold.results import Explanation, Hit, Problem, SearchResult
from twofold.text import says_something

# --- What a recall is asked for, and its conditions as filters ---


@dataclass(frozen=True)
class Recall:
    """What `recall` was asked for."""

    query: str
    k: int | None = None
    offset: int = 0
    types: Sequence[str] | str | None = None
    tags: Sequence[str] | str | None = None
    match: str = "any"
    filter: Mapping[str, Any] | None = None
    alpha: float | None = None
    fusion: Any = None
    depth: int | None = None
    min_score: float | None = None
    since: Any = None
    until: Any = None
    min_trust: str | None = None
    explain: bool = False
    signals: bool = True
    learned: bool = True
    shelf: Shelf = "memory"


def conditions(request: Recall, config: MemoryConfig | None, lexicon: Lexicon | None = None) -> list[Node | None]:
    """What was asked for besides the query, as filters."""
    if request.match not in ("any", "all"):
        raise InvalidQuery(f"match must be 'any' or 'all', got {request.match!r}")
    types = _names(request.types, "types") if request.types is not None else ()
    trust = request.min_trust or (config.min_trust if config else None)
    dated = request.since is not None or request.until is not None
    return [
        AnyOf("type", types) if types else None,
        None if request.tags is None else _tag_filter(request.tags, request.match, lexicon),
        None if request.filter is None else condition(request.filter),
        between("created", request.since, request.until) if dated else None,
        None if trust is None else AnyOf("trust", TRUST[TRUST.index(check_trust(trust, InvalidQuery)) :]),
    ]


def _tag_filter(tags: Sequence[str] | str, match: str, lexicon: Lexicon | None) -> Node | None:
    """One of the tags, or all of them, each in any spelling that the memories have."""
    wanted = [_spellings(tag, lexicon) for tag in _names(tags, "tags")]
    if not wanted:
        return None
    if match == "any":
        return AnyOf("tags", tuple(dict.fromkeys(each for spellings in wanted for each in spellings)))
    return All(tuple(AnyOf("tags", spellings) for spellings in wanted))


def _spellings(tag: str, lexicon: Lexicon | None) -> tuple[str, ...]:
    known = lexicon.spellings("tags", tag) if lexicon is not None else ()
    return tuple(dict.fromkeys([tag, *map(str, known)]))


def _names(given: Sequence[str] | str | None, what: str) -> tuple[str, ...]:
    try:
        return as_tags(given)
    except ValueError as error:
        raise InvalidQuery(f"{what}: {error}") from error


def between(field: str, since: Any, until: Any) -> Node | None:
    """A condition on a date; None if no bound is given."""
    if since is None and until is None:
        return None
    low = None if since is None else moment(since, "since")
    return Between(field, gte=low, lte=None if until is None else latest(until))


def latest(until: Any) -> datetime:
    """The last moment that is meant by "until": a day is over when it ends."""
    last = moment(until, "until")
    return last + timedelta(days=1, microseconds=-1) if _is_day(until) else last


def _is_day(value: Any) -> bool:
    if not isinstance(value, str):
        return not isinstance(value, datetime)
    try:
        date.fromisoformat(value.strip())
    except ValueError:
        return False
    return True


def moment(value: Any, name: str) -> datetime:
    """A bound of a search in time."""
    try:
        return as_moment(value, name)
    except ValueError as error:
        raise FilterError(str(error)) from error


# --- How much meaning counts where nobody said: it depends on the fusion, the language and the number of memories ---

MEASURED = (0.1, 0.45)
"""The least and the greatest alpha that there is a floor for."""
_MOSTLY = 0.5
# (fewer than so many memories, alpha), the last for all others. For `auto` the best alpha was the same at every size
# from 100 to 10,000 texts: it depends on what the texts are, not on how many there are.
_WEIGHTED = ((500.0, 0.5), (5000.0, 0.7), (float("inf"), 0.8))


@dataclass(frozen=True, slots=True)
class Alpha:
    """A share for meaning; None leaves it to the fusion's own weights. `reason` is for people to read."""

    value: float | None
    reason: str


def adapts(fusion: Any) -> bool:
    """The fusion was named, not made with weights of its own."""
    return fusion == "auto" or (isinstance(fusion, Auto) and not fusion.chosen)


def fusion_name(fusion: Any) -> str:
    """What a fusion is called, given by name or as a value."""
    return fusion.name if isinstance(fusion, Strategy) else str(fusion)


def learnable(fusion: Any) -> bool:
    """Alpha is ours to choose: the fusion has no weights that somebody gave it, nor a way of its own to weigh."""
    return adapts(fusion) or _by_size(fusion)


def _by_size(fusion: Any) -> bool:
    return bool(fusion == "weighted" or fusion == Weighted())


def adaptive(fusion: Any, memories: int, circumstances: Circumstances) -> Alpha:
    """What suits a collection like this."""
    if not adapts(fusion):
        if not _by_size(fusion):
            return Alpha(None, "the weights of the fusion")
        value = next(alpha for size, alpha in _WEIGHTED if memories < size)
        return Alpha(value, f"adapted to {memories:,} memories")
    unknown, code = circumstances.unknown_language, circumstances.code
    reason = "what measures best for `auto`, at any number of memories"
    if unknown > _MOSTLY:
        reason = "the dense model doesn't know the collection's language"
    elif unknown:
        reason = f"the dense model doesn't know the language of {unknown:.0%} of what is stored"
    elif code:
        reason = f"{code:.0%} of what is stored is code" + (
            ", and so is the query" if circumstances.asked_in_code else ""
        )
    return Alpha(default_alpha(circumstances), reason)


def score_floor(alpha: Alpha, memories: int, *, unknown_language: float = 0.0, corrected: float = 0.0) -> Floor | None:
    """What off-topic queries stay under; None where it hasn't been measured.

    It grows with the collection: the more words there are the rarer each of them is, and the more texts there are the
    nearer is the nearest. What a rare word counts grows with the logarithm of their number, so the score does too; the
    more meaning counts the less there is of it. A score that words make is no measure for a short memory that says the
    same in other words, so a cosine that unrelated texts seldom have is enough by itself, unless most memories are in a
    language that the model doesn't know: there every cosine is high. `benchmarks/quality/floor.py` measures what it
    keeps and turns away. A question from the same field whose answer isn't there mostly stays above it.

    `corrected` is the share of the query's words that a correction was found for: it scores less by as much, since the
    words that were meant count less, and both they and the mistyped ones are terms.
    """
    if alpha.value is None or not MEASURED[0] <= alpha.value <= MEASURED[1] or not memories:
        return None
    score = (0.055 - 0.05 * max(0.0, alpha.value - PROSE_ALPHA)) * math.log10(memories)
    cosine = None if unknown_language > _MOSTLY else 0.30 + 0.06 * math.log10(max(memories, 100) / 100)
    return Floor(score * (1 - (1 - HINT_WEIGHT) * corrected) / (1 + corrected) ** TERMS_EXPONENT, cosine)


def share_corrected(query: str, meant: Mapping[str, str], stem: Stemmer) -> float:
    """Of the words that count in a query, the share that a correction was found for."""
    if not meant:
        return 0.0
    counting = {found for word in split(query) if (found := stem(word)) is not None}
    return min(1.0, len(meant) / max(1, len(counting)))


# --- The last resort: the query as it stands, looked for in the texts ---

_PAGE_SIZE = 256


def search_as_substring(ready: Ready, query: Query, where: Node, found: SearchResult) -> Flow[SearchResult]:
    """Every memory that contains the query, the newest first; what was found before, if there is none."""
    wanted = fold(query.text.strip())
    rows: list[Stored] = []
    offset: Any = None
    while True:
        points, offset = yield from calls.scroll(ready.collection, where, limit=_PAGE_SIZE, offset=offset)
        rows += [stored for stored in map(from_point, points) if wanted in fold(stored.text)]
        if offset is None:
            break
    if not rows:
        return found
    rows.sort(key=lambda stored: str(stored.metadata.get("updated", "")), reverse=True)
    damages = {stored.id: damage(stored) for stored in rows}
    fit = [stored for stored in rows if damages[stored.id] is None][query.offset : query.need]
    why = Explanation("text", None, None, 0.0, None, None, 0.0, (), 1.0) if query.explain else None
    reason = "no word matched, so the query was looked for as a part of the texts"
    return replace(
        found,
        mode="text",
        hits=tuple(Hit(stored.id, stored.text, 1.0, 1.0, stored.metadata, why) for stored in fit),
        degraded="; ".join(filter(None, [found.degraded, reason])),
        problems=tuple(Problem(identity, said) for identity, said in damages.items() if said is not None),
    )


# --- `recall` ---

log = logging.getLogger("twofold.memory")

# Where a user has less than this share of the rows, the others' words distort how rare theirs are.
_OWN_SHARE = 0.9
_MISTYPED_WEIGHT = 0.8
# Fewer memories than the root of their number have it: the lexical leg alone might miss them. What is common is found.
_RARE_WEIGHT = 0.5
_COMMON_WEIGHT = 0.3


def recall(
    searcher: Searcher, store: MemoryStore, scope: Scope, request: Recall, *, touch: bool = False
) -> Flow[MemoryResult]:
    """Answer a recall, and count it for what it found if `touch` says so."""
    began = time.perf_counter()
    config, reasons = store.config, list[str]()
    check_text(request.query)
    vocabulary = yield from _vocabulary(searcher, store, scope, reasons)
    learned = vocabulary.learned if request.learned else None
    shelf = scope.where((request.shelf,))
    where = scope.where((request.shelf,), *conditions(request, config, vocabulary.lexicon))
    circumstances = yield from searcher.circumstances(request.query, shelf)
    fusion = config.fusion if request.fusion is None else request.fusion
    alpha = _alpha(request, config, fusion, learned, vocabulary, searcher.tuned, circumstances)
    corrected = yield from _corrections(request, vocabulary, searcher, config, scope, reasons)
    signals = _signals(request, vocabulary, corrected, config, learned, reasons)
    floor = None
    if has_floor(config, searcher.ready, fusion):
        floor = _floor(request.query, alpha, vocabulary, signals, circumstances, corrected, stemmer(searcher.ready))
    screen, watched = Screen(), log.isEnabledFor(logging.INFO)
    query = _query(request, store, where, alpha)
    query = replace(
        query,
        explain=request.explain or watched,
        ranker=SignalRanker(query.ranker.fusion, query.config.min_score, signals, floor, screen),
        hint=" ".join(corrected.values()),
        names=" ".join(str(named.matches[0].value) for named in signals.named if named.weight >= _RARE_WEIGHT),
        hidden_fields=("words",),
        idf_corpus=shelf if vocabulary.memories < _OWN_SHARE * (vocabulary.memories + vocabulary.others) else None,
        words_of=lambda stored: lexical_text(stored.metadata, stored.text),
    )
    outcome = yield from searcher.search(query)
    found = outcome.result
    if query.text and query.k and not outcome.ranked and config.text_fallback:
        found = yield from search_as_substring(searcher.ready, query, where, found)
    found = replace(found, degraded="; ".join(filter(None, [*reasons, found.degraded])) or None)
    result = _result(found, screen, request, alpha, signals.named, corrected)
    if watched:
        _log(outcome.legs, result, time.perf_counter() - began)
    if touch and result.hits:
        store.touched(scope.user, [hit.id for hit in result.hits])
    return result


def _vocabulary(searcher: Searcher, store: MemoryStore, scope: Scope, reasons: list[str]) -> Flow[Vocabulary]:
    """What the memories have. An engine that can't tell may still find them."""
    try:
        return (yield from store.vocabulary(searcher, scope))
    except EngineUnavailable:
        raise
    except EngineError as error:
        _degraded(f"the tags and words there are could not be read: {error}", reasons)
        return Vocabulary(Lexicon(stemmer(searcher.ready)), Words(), 0, 0, ())


def _degraded(reason: str, reasons: list[str]) -> None:
    reasons.append(reason)
    log.warning("recall did less than asked: %s", reason, extra={"degraded": reason})


def _alpha(
    request: Recall,
    config: MemoryConfig,
    fusion: Any,
    learned: Learned | None,
    vocabulary: Vocabulary,
    tuned: Strategy | None,
    circumstances: Circumstances,
) -> Alpha:
    """How much meaning counts in this recall."""
    if request.alpha is not None:
        shares(request.alpha)
        return Alpha(request.alpha, "given with the call")
    if config.alpha is not None:
        return Alpha(config.alpha, config.alpha_reason)
    if learned is not None and learnable(fusion) and fusion_name(fusion) == learned.fusion:
        return Alpha(learned.alpha, learned.reason)
    if tuned is not None and adapts(fusion):
        return Alpha(None, "tuned on pairs for this collection")
    return adaptive(fusion, vocabulary.memories, circumstances)


def _corrections(
    request: Recall,
    vocabulary: Vocabulary,
    searcher: Searcher,
    config: MemoryConfig,
    scope: Scope,
    reasons: list[str],
) -> Flow[dict[str, str]]:
    """What words that no memory has may mean."""
    if not config.typos or request.shelf != "memory":
        return {}
    try:
        found = corrections(request.query, vocabulary.words, stemmer(searcher.ready))
    except Exception as error:  # a stemmer of somebody else's, say: no reason to find nothing
        _degraded(_incomparable(error), reasons)
        return {}
    there = (yield from _words_there(searcher.ready, scope, list(found))) if found else set()
    return {word: other for word, other in found.items() if word not in there}


def _incomparable(error: Exception) -> str:
    return f"the query's words could not be compared with tags: {type(error).__name__}: {error}"


def _words_there(ready: Ready, scope: Scope, words: Sequence[str]) -> Flow[set[str]]:
    """Which words some memory has after all: of a long text not every word is kept for comparing."""
    if not isinstance(ready.sparse, BM25):  # a model that knows related words finds something for every word
        return set()
    embed, where = ready.sparse.embed_query, scope.where(("memory",))
    try:
        vectors: list[Any] = yield Work(lambda: [embed(word) for word in words])
    except Exception:  # the search will meet it too, and report it
        return set()
    found = yield from calls.query(ready.collection, [VectorQuery(vector, 1, where) for vector in vectors])
    return {word for word, points in zip(words, found, strict=True) if points}


def _signals(
    request: Recall,
    vocabulary: Vocabulary,
    corrected: Mapping[str, str],
    config: MemoryConfig,
    learned: Learned | None,
    reasons: list[str],
) -> Signals:
    """What the query names, and how the signals count."""
    # An alpha of 1 is pure vector search: the order of the cosines, and nothing else.
    meaning_only = (config.alpha if request.alpha is None else request.alpha) == 1
    on = request.signals and not meaning_only
    named: tuple[Named, ...] = ()
    try:
        if on and request.tags is None and config.tag_weight:
            named = _named(request.query, corrected, vocabulary)
    except Exception as error:  # as above
        _degraded(_incomparable(error), reasons)
    return build_signals(config, learned, named, on=on, typed=request.alpha is None)


def _named(query: str, corrected: Mapping[str, str], vocabulary: Vocabulary) -> tuple[Named, ...]:
    """What the query names, and at less weight what it would name without its slips."""
    named = match_tags(query, vocabulary.lexicon, vocabulary.memories)
    if not corrected:
        return named
    right = " ".join(corrected.get(word, word) for word in terms(query))
    seen = {each.matches for each in named}
    more = [each for each in match_tags(right, vocabulary.lexicon, vocabulary.memories) if each.matches not in seen]
    return (*named, *(replace(each, weight=_MISTYPED_WEIGHT * each.weight) for each in more))


def build_signals(
    config: MemoryConfig, learned: Learned | None, named: tuple[Named, ...], *, on: bool = True, typed: bool = True
) -> Signals:
    """The signals as configured, or all of them neutral.

    Now is the end of this minute, before which everything was written: within it ages are the same, and told once.
    """
    now = datetime.now(timezone.utc).replace(second=0, microsecond=0) + timedelta(minutes=1)
    age = Recency(config.recency, config.recency_decay, config.recency_share)
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


def has_floor(config: MemoryConfig, ready: Ready, fusion: Any) -> bool:
    """A floor is wanted, and it was measured for this model and fusion; for which alphas, `score_floor` knows."""
    measured = not config.type_alpha and ready.has_bundled_model and adapts(fusion)
    return config.min_score == "auto" and measured


def _floor(
    query: str,
    alpha: Alpha,
    vocabulary: Vocabulary,
    signals: Signals,
    circumstances: Circumstances,
    corrected: Mapping[str, str],
    stem: Stemmer,
) -> Floor | None:
    """What off-topic queries stay under, higher by what is gained from names that many memories have."""
    share = share_corrected(query, corrected, stem) if corrected else 0.0
    unknown = circumstances.unknown_language
    least = score_floor(alpha, vocabulary.memories, unknown_language=unknown, corrected=share)
    if least is None or alpha.value is None:
        return None
    common = [named for named in signals.named if named.weight < _COMMON_WEIGHT]
    if not common:
        return least
    # "rules of chess" names the memories of the type `rule`, and isn't about any of them: what they gain by that
    # doesn't count, as far as the query is about something else.
    words = {found for word in split(query) if (found := stem(word)) is not None}
    named = {stem(word) for each in signals.named for word in split(str(each.matches[0].value))}
    elsewhere = len(words - named) / max(1, len(words))
    gained = elsewhere * signals.tag_share * sum(each.weight for each in common) / len(signals.named)
    return replace(least, score=least.score + (1 - alpha.value) * gained)


def _query(request: Recall, store: MemoryStore, where: Node, alpha: Alpha) -> Query:
    k = store.config.k if request.k is None else request.k
    text = request.query if says_something(request.query) else ""  # to a model "!" is as near to one text as to another
    return check_query(
        text,
        store.search,
        k=k,
        offset=request.offset,
        where=where,
        whole_corpus=True,
        alpha=alpha.value,
        fusion=request.fusion,
        depth=request.depth,
        min_score=request.min_score,
    )


def _result(
    found: SearchResult,
    screen: Screen,
    request: Recall,
    alpha: Alpha,
    named: tuple[Named, ...],
    corrected: dict[str, str],
) -> MemoryResult:
    hits = []
    for hit in found.hits:
        memory = screen.items.get(hit.id) or to_item(Stored(hit.id, hit.id, hit.text, hit.metadata))
        why = replace(hit.explanation, alpha_reason=alpha.reason) if request.explain and hit.explanation else None
        hits.append(MemoryHit(hit.id, hit.text, hit.score, hit.relevance, memory.metadata, why, memory))
    return MemoryResult(
        hits=tuple(hits),
        mode=found.mode,
        degraded=found.degraded,
        query=found.query,
        problems=found.problems,
        alpha=alpha.value,
        alpha_reason=alpha.reason,
        tags=tuple(dict.fromkeys(str(match.value) for each in named for match in each.matches)),
        corrections=corrected,
    )


def _log(legs: Sequence[Leg], result: MemoryResult, seconds: float) -> None:
    """Once for every search, for those who listen: what each leg brought, and what was handed out."""
    brought = {leg.name: {identity for identity, _ in leg.hits} for leg in legs}
    dense, lexical = brought.get("dense", set()), brought.get("lexical", set())
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
