"""One query, step by step: encode, ask, fuse, cut, explain; and what to do when a step can't."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace

from qdrant_client import models

from twofold.engine import calls
from twofold.engine.flow import Flow, Work
from twofold.engine.layout import TEXT_KEY, Stored, from_point
from twofold.engine.requests import Ask, Effort, Probe
from twofold.fusion import Strategy, settle
from twofold.index.encoding import QueryEncoder
from twofold.index.hits import to_hits
from twofold.index.opening import Ready
from twofold.index.plans import ClientPlan, NativePlan, Plan, Row
from twofold.index.queries import Query
from twofold.results import Mode, SearchResult
from twofold.text import clean_query, plain_matches, words

log = logging.getLogger("twofold")

# Fetched beyond what is shown, so that ties at the cut are ordered by id and not by chance.
_SLACK = 4
_GROWTH = 4
_MOST_WORDS = 64
_REMEMBERED = 256


class Searcher:
    """The search of one open collection. Remembers what it has already logged."""

    def __init__(self, ready: Ready, cache_size: int) -> None:
        self._ready = ready
        self._encoder = QueryEncoder(ready, cache_size)
        self._fitted: dict[Strategy, Strategy] = {}
        self._said: set[str] = set()

    def search(self, query: Query) -> Flow[SearchResult]:
        """Answer a query."""
        text, note = clean_query(query.text, query.config.max_query_chars)
        if not text or query.k == 0:
            return SearchResult((), "hybrid", query=query.text)
        reasons = [note] if note else []
        fusion = self._fit(query.fusion)
        probes = yield from self._encoder.probes(text, fusion, query.config, reasons)
        by_words_alone = fusion.weight("dense") == 0
        if len(probes) == 1:  # all the weight on the only leg there is
            fusion = fusion.with_alpha(1.0 if probes[0].leg == "dense" else 0.0)
        query = replace(query, fusion=fusion)
        where = yield from self._ready.indexes.serve(query.where, create=query.config.auto_index)
        mode = _mode(probes)
        rows = (yield from self._rank(query, probes, where)) if probes else []
        helpless = not probes or (mode == "lexical" and not by_words_alone)
        if helpless and not rows and query.config.text_fallback:
            rows = yield from self._match_text(text, query, where)
            mode = "text"
            reasons.append("neither leg found anything, so the query's words were matched in the text")
        page = _above(rows, query.config.min_score)[query.offset : query.need]
        reasons.extend(self._ready.notes)
        self._log(reasons)
        matched = (yield from self._matched(query.text, page, mode)) if query.explain else None
        hits = to_hits(page, query, [probe.leg for probe in probes], mode, matched)
        return SearchResult(hits, mode, "; ".join(reasons) or None, query.text)

    def _fit(self, fusion: Strategy) -> Strategy:
        fitted = self._fitted.get(fusion)
        if fitted is None:
            if len(self._fitted) >= _REMEMBERED:
                self._fitted.clear()
            fitted = fusion.fitted(language_known=self._ready.language_known, background=self._ready.dense.background)
            self._fitted[fusion] = fitted
        return fitted

    def _rank(self, query: Query, probes: list[Probe], where: models.Filter | None) -> Flow[list[Row]]:
        """All rows of the ranking that the page needs, and a few more."""
        plan = _plan(query, probes, where, self._ready)
        depths = list(_depths(query.config.depth, query.need))
        everything, enough = 2 * depths[-1], query.need + _SLACK
        rows = yield from self._ask(plan, depths, enough if len(depths) == 1 else everything)
        if len(rows) == enough < everything and rows[query.need - 1].tie == rows[-1].tie:
            # The cut goes through a tie longer than the slack: only the whole list tells whose ids come first.
            rows = yield from self._ask(plan, depths, everything)
        return rows

    def _ask(self, plan: Plan, depths: list[int], limit: int) -> Flow[list[Row]]:
        """One batch for all depths; what a deeper one adds comes after what is already there."""
        batches = [plan.requests(depth, limit) for depth in depths]
        answers = iter((yield from calls.query(self._ready.collection, [r for batch in batches for r in batch])))
        rows: dict[str, Row] = {}
        for batch in batches:
            for row in plan.read([next(answers) for _ in batch]):
                rows.setdefault(row.stored.point, row)
        return list(rows.values())

    def _match_text(self, text: str, query: Query, where: models.Filter | None) -> Flow[list[Row]]:
        """The last resort: documents that contain words of the query, most of them first."""
        asked = yield from self._telling_words(text)
        if not asked:
            return []
        each_word: list[models.Condition] = [
            models.FieldCondition(key=TEXT_KEY, match=models.MatchText(text=word)) for word in asked
        ]
        limit = max(query.config.depth, query.need)
        found: dict[str, Stored] = {}
        for wanted in (models.Filter(must=each_word), models.Filter(should=each_word)):  # all the words, then any
            both = wanted if where is None else models.Filter(must=[wanted, where])
            for point in (yield from calls.scroll(self._ready.collection, both, limit)):
                found.setdefault(str(point.id), from_point(point))
        stored = list(found.values())
        shares = [len(set(words(each.text)).intersection(asked)) / len(asked) for each in stored]
        settled = settle(zip(stored, shares, strict=True), lambda each: each.id)
        return [Row(each, share, share) for each, share in settled if share > 0]

    def _telling_words(self, text: str) -> Flow[list[str]]:
        """The words that the lexical leg would count; all of them if there are none, or if it can't tell."""
        spoken, sparse = words(text)[:_MOST_WORDS], self._ready.sparse
        try:
            telling: list[str] = yield Work(lambda: [word for word in spoken if sparse.embed_query(word).indices])
        except Exception:  # it may be the very reason for being here, and has been reported
            return spoken
        return telling or spoken

    def _matched(self, text: str, page: Sequence[Row], mode: Mode) -> Flow[list[tuple[str, ...]]]:
        """For each row the words of the query that it contains."""
        texts = [row.stored.text for row in page]
        if mode == "text":
            return plain_matches(text, texts)
        try:
            found: list[tuple[str, ...]] = yield Work(lambda: self._ready.sparse.matched_words(text, texts))
        except Exception:  # a lexical encoder that fails has been reported; words can be compared without it
            return plain_matches(text, texts)
        return found

    def _log(self, reasons: Sequence[str]) -> None:
        for reason in reasons:
            if reason not in self._said and len(self._said) < _REMEMBERED:
                self._said.add(reason)
                said = ("search on %r did less than asked: %s", self._ready.collection, reason)
                log.warning(*said, extra={"degraded": reason})


def _plan(query: Query, probes: list[Probe], where: models.Filter | None, ready: Ready) -> Plan:
    config = query.config
    effort = Effort(config.hnsw_ef, config.exact) if ready.engine.indexes else None
    ask = Ask(query.fusion, probes, where, effort)
    if config.native and ask.native_query() is not None:
        return NativePlan(ask, query.explain)
    return ClientPlan(ask)


def _depths(depth: int, need: int) -> Iterator[int]:
    """The configured depth, then deeper ones until the page is covered.

    A page within the first depth is always cut from the same ranking, and so is every later
    one, with deeper candidates appended: pages join without gaps or repeats.
    """
    yield depth
    while depth < need:
        depth *= _GROWTH
        yield depth


def _above(rows: list[Row], floor: float | None) -> list[Row]:
    return rows if floor is None else [row for row in rows if row.score >= floor]


def _mode(probes: Sequence[Probe]) -> Mode:
    if len(probes) == 2:
        return "hybrid"
    return probes[0].leg if probes else "text"
