"""`recall`, step by step: conditions, alpha, corrections, what the query names, the floor, one search, the result.

First what a recall may be asked for, then the flow, then its steps in the order in which it takes them. `learning` and
`listing` use some of the steps too.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone
from functools import partial
from typing import Any

from twofold.engine.layout import Stored
from twofold.errors import EngineError, EngineUnavailable, FilterError, InvalidQuery
from twofold.filters import All, AnyOf, Between, Node
from twofold.flow import Flow
from twofold.index.queries import Query, check_flag, check_query, check_text
from twofold.index.searching import log_search
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
    lexical_text,
)
from twofold.memory.state import View, Vocabulary, stemmer
from twofold.ranking.expressions import holds
from twofold.ranking.fusion import Auto, Strategy, Weighted, resolve, shares
from twofold.ranking.signals import Named, Recency, SignalRanker, Signals
from twofold.ranking.vocabulary import Lexicon, Stemmer, fold, match_tags, split, terms
from twofold.results import Explanation, Hit, Problem, SearchResult
from twofold.text import clean_query, says_something

log = logging.getLogger("twofold.memory")


@dataclass(frozen=True)
class Recall:
    """The request: what `recall` was called with."""

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
    vector: Any = None
    explain: bool = False
    signals: bool = True
    rerank: Any = None
    rerank_top: int | None = None
    learned: bool = True
    touch: bool | None = False
    """Count the recall for what it found; None as configured."""


# Where a user has less than this share of the rows, the others' words distort how rare theirs are.
_OWN_SHARE = 0.9
# Fewer memories than the root of their number have it: the lexical leg alone might miss them. What is common is found.
_RARE_WEIGHT = 0.5


def recall(view: View, request: Recall) -> Flow[MemoryResult]:
    """Answer a recall, and count it for what it found if the request says so."""
    began, config, reasons = time.perf_counter(), view.config, list[str]()
    check_text(request.query)
    for name in ("explain", "signals", "touch"):
        check_flag(name, getattr(request, name))
    vocabulary = yield from _vocabulary(view, reasons)
    if not request.learned:
        vocabulary = replace(vocabulary, learned=None)
    shelf = view.reach.where(("memory",))
    where = view.reach.where(("memory",), *conditions(request, config.min_trust, vocabulary.lexicon))
    fusion = config.fusion if request.fusion is None else resolve(request.fusion)
    alpha = _alpha(view, request, fusion, vocabulary)
    corrected = yield from _corrections(view, request.query, shelf, reasons)
    signals = build_signals(config, request, vocabulary, corrected, reasons)
    gate = config.min_score == "auto" and not config.type_alpha
    for reason in filter(view.ready.told.is_news, reasons):
        log.warning("recall did less than asked: %s", reason, extra={"degraded": reason})
    surplus = _surplus(request.query, signals, vocabulary.lexicon.stem)
    every_word = _every_word(request.query, corrected, vocabulary.lexicon.stem)
    screen, watched = Screen(), log.isEnabledFor(logging.INFO)
    query = check_query(
        request.query if says_something(request.query) else "",  # to a model "!" is as near to one text as to another
        view.store.search,
        k=config.k if request.k is None else request.k,
        offset=request.offset,
        where=where,
        explain=request.explain or watched,
        vector=request.vector,
        whole_corpus=True,
        alpha=alpha.value,
        fusion=request.fusion,
        depth=request.depth,
        min_score=request.min_score,
        rerank=request.rerank,
        rerank_top=request.rerank_top,
    )
    query = replace(
        query,
        ranker=SignalRanker(query.ranker.fusion, query.config.min_score, signals, gate, surplus, every_word, screen),
        corrections=corrected,
        names=" ".join(str(named.matches[0].value) for named in signals.named if named.weight >= _RARE_WEIGHT),
        idf_corpus=shelf if vocabulary.memories < _OWN_SHARE * (vocabulary.rows + view.shared.added) else None,
        part=shelf,
        words_of=partial(_words_that_find, signals.named),
    )
    outcome = yield from view.searcher.search(query)
    result = outcome.result
    if query.text and query.k and not outcome.ranked and config.text_fallback:
        result = yield from _search_as_substring(view, query, where, result, screen)
    result = replace(result, degraded="; ".join(filter(None, [*reasons, result.degraded])) or None)
    memories = _memories(result, screen, request.explain, alpha, signals.named)
    if watched:
        log_search(log, "recall", query, outcome, memories, time.perf_counter() - began)
    if memories.hits and (config.touch if request.touch is None else request.touch):
        view.touch([hit.memory for hit in memories])
    return memories


def _vocabulary(view: View, reasons: list[str]) -> Flow[Vocabulary]:
    """What the memories have. An engine that can't tell may still find them."""
    try:
        return (yield from view.vocabulary())
    except EngineUnavailable:
        raise
    except EngineError as error:
        reasons.append(f"the tags and words there are could not be read: {error}")
        return Vocabulary(Lexicon(stemmer(view.ready)), memories=0, rows=-view.shared.added, fields=())


# --- The conditions of a request, as filters ---


def conditions(request: Recall, min_trust: str | None, lexicon: Lexicon | None) -> list[Node | None]:
    """What was asked for besides the query, as filters. Tags match in any spelling that the memories have."""
    if not isinstance(request.match, str) or request.match not in ("any", "all"):
        raise InvalidQuery(f"match must be 'any' or 'all', got {request.match!r}")
    types = () if request.types is None else as_tags(request.types, "types", InvalidQuery)
    asked = request.min_trust
    trust = min_trust if asked is None or (isinstance(asked, str) and not asked) else asked
    return [
        AnyOf("type", types) if types else None,
        None if request.tags is None else _tag_filter(request.tags, request.match, lexicon),
        condition(request.filter),
        created_between(request.since, request.until),
        None if trust is None else AnyOf("trust", TRUST[TRUST.index(check_trust(trust, InvalidQuery)) :]),
    ]


def _tag_filter(tags: Sequence[str] | str, match: str, lexicon: Lexicon | None) -> Node | None:
    wanted = []
    for tag in as_tags(tags, "tags", InvalidQuery):
        known = lexicon.spellings("tags", tag) if lexicon is not None else ()
        wanted.append(tuple(dict.fromkeys([tag, *map(str, known)])))
    if match == "all":
        return All(tuple(AnyOf("tags", spellings) for spellings in wanted)) if wanted else None
    every = tuple(dict.fromkeys(each for spellings in wanted for each in spellings))
    return AnyOf("tags", every) if every else None


def created_between(since: Any, until: Any) -> Node | None:
    """A condition on the date of a memory; None if no bound is given. A day as `until` counts to its end."""
    if since is None and until is None:
        return None
    first = None if since is None else as_moment(since, "since", FilterError)
    last = None if until is None else as_moment(until, "until", FilterError)
    if last is not None and _is_day(until):
        last += timedelta(days=1, microseconds=-1)
    return Between("created", gte=first, lte=last)


def _is_day(value: Any) -> bool:
    try:
        return bool(date.fromisoformat(value.strip())) if isinstance(value, str) else not isinstance(value, datetime)
    except ValueError:
        return False


# --- How much meaning counts where nobody said ---

# (fewer than so many memories, alpha), the last for all others.
_WEIGHTED = ((500.0, 0.5), (5000.0, 0.7), (float("inf"), 0.8))


@dataclass(frozen=True, slots=True)
class Alpha:
    """A share for meaning; None leaves it to the fusion's own weights. `reason` is for people to read."""

    value: float | None
    reason: str


def _alpha(view: View, request: Recall, fusion: Strategy, vocabulary: Vocabulary) -> Alpha:
    """How much meaning counts in this recall."""
    learned = vocabulary.learned
    if request.vector is not None and not request.query.strip():
        return Alpha(1.0, "there is a vector and no text")
    if request.alpha is not None:
        shares(request.alpha)
        return Alpha(request.alpha, "given with the call")
    if view.config.alpha is not None:
        return Alpha(view.config.alpha, view.config.alpha_reason)
    if learned is not None and learnable(fusion) and fusion.name == learned.fusion:
        return Alpha(learned.alpha, learned.reason)
    if view.searcher.tuned is not None and adapts(fusion):
        return Alpha(None, "tuned on pairs for this collection")
    return adaptive(fusion, vocabulary.memories, view.ready.dense.word_weight)


def adapts(fusion: Strategy) -> bool:
    """It is `auto` without weights that somebody gave it."""
    return isinstance(fusion, Auto) and not fusion.chosen


def learnable(fusion: Strategy) -> bool:
    """Alpha is ours to choose: the fusion has no weights that somebody gave it, nor a way of its own to weigh."""
    return adapts(fusion) or fusion == Weighted()


def adaptive(fusion: Strategy, memories: int, word_weight: float = 1.0) -> Alpha:
    """What suits a collection like this, with a model beside which words count so much."""
    if adapts(fusion):
        count = "and words count alike" if word_weight == 1 else f"counts, and words {word_weight:g} of that"
        return Alpha(fusion.alpha, f"meaning {count}, each on the scale that it has here")
    if fusion != Weighted():
        return Alpha(None, "the weights of the fusion")
    value = next(alpha for size, alpha in _WEIGHTED if memories < size)
    return Alpha(value, f"adapted to {memories:,} memories")


# --- What the query means and names, and how the signals count ---

_MISTYPED_WEIGHT = 0.9
_NOT_COMPARED = "the query's words could not be compared with tags"


def _corrections(view: View, query: str, shelf: Node, reasons: list[str]) -> Flow[dict[str, str]]:
    """What words that no memory has may mean."""
    if not view.config.typos:
        return {}
    text, _ = clean_query(query, view.store.search.max_query_chars)
    return (yield from view.searcher.typos.corrections(text, shelf, reasons, _words_of))


def _words_of(stored: Stored) -> str:
    return lexical_text(stored.metadata, stored.text)


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
    config: MemoryConfig, request: Recall, vocabulary: Vocabulary, corrected: Mapping[str, str], reasons: list[str]
) -> Signals:
    """The signals as configured, or all of them neutral. What was learned goes before a default, not before a setting.

    Now is the end of this minute, before which everything was written: within it ages are the same, and told once.
    """
    now = datetime.now(timezone.utc).replace(second=0, microsecond=0) + timedelta(minutes=1)
    age = Recency(config.recency, config.recency_decay, config.recency_share)
    # An alpha of 1 is pure vector search: the order of the cosines, and nothing else.
    if not request.signals or (config.alpha if request.alpha is None else request.alpha) == 1:
        neutral = replace(age, decay=0.0)
        return Signals(now, tag_weight=0.0, recency=neutral, popularity=0.0, importance=0.0, pinned=0.0)
    named: tuple[Named, ...] = ()
    try:
        if request.tags is None and config.tag_weight:
            named = _named(request.query, corrected, vocabulary)
    except Exception as error:  # as above
        reasons.append(f"{_NOT_COMPARED}: {type(error).__name__}: {error}")
    tag_weight, learned = config.tag_weight, vocabulary.learned
    if learned is not None:
        age = age if "recency_share" in config.model_fields_set else replace(age, share=learned.recency_share)
        tag_weight = tag_weight if "tag_weight" in config.model_fields_set else learned.tag_weight
    return Signals(
        now=now,
        named=named,
        tag_weight=tag_weight,
        recency=age,
        popularity=config.popularity,
        importance=config.importance,
        pinned=config.pinned,
        type_weights=config.type_weights,
        type_alpha=config.type_alpha if request.alpha is None else {},
    )


# --- What the gate for off-topic queries leaves out of account ---

_COMMON_WEIGHT = 0.3


def _surplus(query: str, signals: Signals, stem: Stemmer) -> float:
    """The share of the tags' weight that comes from names which many memories have.

    "rules of chess" names the memories of the type `rule`, and isn't about any of them: what they gain by that doesn't
    count, as far as the query is about something else.
    """
    common = [named for named in signals.named if named.weight < _COMMON_WEIGHT]
    if not common:
        return 0.0
    words = {known for word in split(query) if (known := stem(word)) is not None}
    named = {stem(word) for each in signals.named for word in split(str(each.matches[0].value))}
    elsewhere = len(words - named) / max(1, len(words))
    return elsewhere * sum(each.weight for each in common) / len(signals.named)


def _every_word(query: str, corrected: Mapping[str, str], stem: Stemmer) -> Callable[[Stored], bool]:
    """Whether a memory has all words of a query that is nothing but words: "car", "hedgehog port", not "my name?".

    Who asks so looks for the word, and not for what is near to it.
    """

    def has_all(stored: Stored) -> bool:
        try:
            asked = {stem(corrected.get(word, word)) for word in split(query)}
            there = {stem(word) for word in split(lexical_text(stored.metadata, stored.text))}
        except Exception:  # somebody else's stemmer, or a damaged row: then the score decides
            return False
        return bool(asked) and None not in asked and asked <= there

    return has_all


def _words_that_find(named: Sequence[Named], stored: Stored) -> str:
    """The words of a memory's text, category and tags, and of those of its fields that the query names."""
    fields = (str(match.value) for each in named for match in each.matches if holds(match, stored.metadata))
    return " ".join([lexical_text(stored.metadata, stored.text), *fields])


# --- The search, the last resort where it finds nothing, and the result ---


def _search_as_substring(
    view: View, query: Query, where: Node, nothing: SearchResult, screen: Screen
) -> Flow[SearchResult]:
    """Every memory that contains the query as it stands, the newest first; if there is none, `nothing`."""
    wanted = fold(query.text.strip())
    rows = yield from view.rows(where, keep=lambda stored: wanted in fold(stored.text))
    if not rows:
        return nothing
    rows.sort(key=lambda stored: str(stored.metadata.get("updated", "")), reverse=True)
    damages = {stored.id: screen(stored) for stored in rows}
    fit = [stored for stored in rows if damages[stored.id] is None][query.offset : query.end]
    why = Explanation("text", None, None, 0.0, None, None, 0.0, (), 1.0) if query.explain else None
    reason = "no word matched, so the query was looked for as a part of the texts"
    return replace(
        nothing,
        mode="text",
        hits=tuple(Hit(stored.id, stored.text, 1.0, 1.0, stored.metadata, why) for stored in fit),
        degraded="; ".join(filter(None, [nothing.degraded, reason])),
        problems=tuple(Problem(identity, said) for identity, said in damages.items() if said is not None),
    )


def _memories(
    result: SearchResult, screen: Screen, explain: bool, alpha: Alpha, named: Sequence[Named]
) -> MemoryResult:
    """What was found, as memories: the screen has read each of them."""
    hits = []
    for hit in result.hits:
        memory = screen.items[hit.id]
        why = replace(hit.explanation, alpha_reason=alpha.reason) if explain and hit.explanation else None
        hits.append(MemoryHit(hit.id, hit.text, hit.score, hit.relevance, memory.metadata, why, memory=memory))
    return MemoryResult(
        **{**vars(result), "hits": tuple(hits)},
        alpha=alpha.value,
        alpha_reason=alpha.reason,
        tags=tuple(dict.fromkeys(str(match.value) for each in named for match in each.matches)),
    )
