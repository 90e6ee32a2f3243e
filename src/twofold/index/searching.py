"""One query, step by step: encode, ask, fuse, cut, explain; and what to do when a step can't."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace

from qdrant_client import models

from twofold.engine import calls
from twofold.engine.flow import Flow
from twofold.engine.layout import TEXT_KEY, from_point
from twofold.engine.requests import Ask, Probe
from twofold.fusion import Strategy, settle
from twofold.index.encoding import QueryEncoder
from twofold.index.hits import to_hits
from twofold.index.opening import Ready
from twofold.index.plans import ClientPlan, NativePlan, Plan, Row
from twofold.index.queries import Query
from twofold.results import Mode, SearchResult
from twofold.text import clean_query, words

log = logging.getLogger("twofold")

# Fetched beyond what is shown, so that ties at the cut are ordered by id and not by chance.
_SLACK = 4
_GROWTH = 4
_MOST_WORDS = 64


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
        hits = to_hits(page, query, probes, mode, self._ready)
        return SearchResult(hits, mode, "; ".join(reasons) or None, query.text)

    def _fit(self, fusion: Strategy) -> Strategy:
        if fusion not in self._fitted:
            self._fitted[fusion] = fusion.fitted(
                language_known=self._ready.language_known, background=self._ready.dense.background
            )
        return self._fitted[fusion]

    def _rank(self, query: Query, probes: list[Probe], where: models.Filter | None) -> Flow[list[Row]]:
        """All rows of the ranking that the page needs, and a few more."""
        plan = _plan(query, probes, where, self._ready)
        depths = list(_depths(query.config.depth, query.need))
        everything, enough = 2 * depths[-1], query.need + _SLACK
        first = [enough] if len(probes) == 1 and query.fusion.steady else depths
        rows = yield from self._ask(plan, first, enough if len(first) == 1 else everything)
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
        spoken = words(text)
        asked = [word for word in spoken if self._ready.sparse.embed_query(word).indices] or spoken
        asked = asked[:_MOST_WORDS]
        if not asked:
            return []
        any_word = models.Filter(
            should=[models.FieldCondition(key=TEXT_KEY, match=models.MatchText(text=word)) for word in asked]
        )
        both = any_word if where is None else models.Filter(must=[any_word, where])
        found = yield from calls.scroll(self._ready.collection, both, max(query.config.depth, query.need))
        stored = [from_point(point) for point in found]
        shares = [len(set(words(each.text)).intersection(asked)) / len(asked) for each in stored]
        settled = settle(zip(stored, shares, strict=True), lambda each: each.id)
        return [Row(each, share, share) for each, share in settled if share > 0]

    def _log(self, reasons: Sequence[str]) -> None:
        for reason in reasons:
            if reason not in self._said:
                self._said.add(reason)
                said = ("search on %r did less than asked: %s", self._ready.collection, reason)
                log.warning(*said, extra={"degraded": reason})


def _plan(query: Query, probes: list[Probe], where: models.Filter | None, ready: Ready) -> Plan:
    config = query.config
    params = models.SearchParams(hnsw_ef=config.hnsw_ef, exact=config.exact)
    ask = Ask(query.fusion, probes, where, params if ready.engine.indexes else None)
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
