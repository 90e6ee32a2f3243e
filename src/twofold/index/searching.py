"""The rows of a ranking as hits."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from twofold.engine import calls
from twofold.engine.asking import Ask, Effort, Probe
from twofold.engine.layout import Stored, from_point, part_of
from twofold.engine.requests import Filter, PayloadWithout
from twofold.errors import EngineError, EngineUnavailable
from twofold.filters import All, Either, Native, Node, TextContains
from twofold.flow import Flow, Work
from twofold.index.nature import Makeup
from twofold.index.opening import Ready
from twofold.index.plans import ClientPlan, NativePlan, Place, Plan, Row
from twofold.index.queries import Floor, Query, QueryEncoder, Tally
from twofold.ranking.fusion import Auto, Circumstances, LegName, Strategy, settle, share
from twofold.ranking.tuning import Calibration, restore
from twofold.results import Explanation, Hit, Mode, Problem, SearchResult
from twofold.text import clean_query, has_code, plain_matches, words

# --- The rows of a ranking as hits ---


def to_hits(
    page: Sequence[Row],
    fusion: Strategy,
    legs: Sequence[LegName],
    mode: Mode,
    matched: Sequence[tuple[str, ...]] | None,
) -> tuple[Hit, ...]:
    """One page of a ranking; explained if the matched words of each row are given."""
    name = "text" if mode == "text" else fusion.name
    explanations: Sequence[Explanation | None] = [None] * len(page)
    if matched is not None:
        explanations = [_explain(row, found, name, fusion.alpha) for row, found in zip(page, matched, strict=True)]
    best = 1.0 if mode == "text" else fusion.best(legs)
    return tuple([_hit(row, best, explanation) for row, explanation in zip(page, explanations, strict=True)])


def _hit(row: Row, best: float, explanation: Explanation | None) -> Hit:
    stored, score = row.stored, row.score
    return Hit(stored.id, stored.text, score, share(score, best), stored.metadata, explanation)


def _explain(row: Row, matched: tuple[str, ...], fusion: str, alpha: float) -> Explanation:
    dense, lexical = row.places.get("dense"), row.places.get("lexical")
    return Explanation(
        fusion=fusion,
        semantic_score=dense.score if dense else None,
        semantic_rank=dense.rank if dense else None,
        semantic_part=row.parts.get("dense", 0.0),
        lexical_score=lexical.score if lexical else None,
        lexical_rank=lexical.rank if lexical else None,
        lexical_part=row.parts.get("lexical", 0.0),
        matched_words=matched,
        final_score=row.score,
        tag_boost=row.parts.get("tags", 0.0),
        matched_tags=tuple(str(match.value) for match in row.matches),
        recency_factor=row.factors.recency,
        popularity_factor=row.factors.popularity,
        importance_factor=row.factors.importance,
        pinned_factor=row.factors.pinned,
        type_factor=row.factors.type,
        alpha=alpha,
    )


# --- One query, step by step: encode, ask, fuse, cut, explain; and what to do when a step can't ---

log = logging.getLogger("twofold")

# Fetched beyond what is shown, so that ties at the cut are ordered by id and not by chance.
_SLACK = 4
_GROWTH = 4
_MOST_WORDS = 64
_REMEMBERED = 256


class Searcher:
    """The search of one open collection. Remembers what it has already logged."""

    def __init__(self, ready: Ready, cache_size: int) -> None:
        self.encoder = QueryEncoder(ready, cache_size)
        self._fitted: dict[tuple[Strategy, Circumstances], Strategy] = {}
        self.tuned: Strategy | None = None
        self.calibration: Calibration | None = None
        self.adopt(ready)
        self._said: set[str] = set()

    def search(self, query: Query) -> Flow[SearchResult]:
        """Answer a query."""
        text, note = clean_query(query.text, query.config.max_query_chars)
        if (not text and query.vector is None) or query.k == 0:
            return SearchResult((), "hybrid", query=query.text)
        reasons = [note] if note else []
        fusion = yield from self._fit(query.fusion, text)
        probes = yield from self.encoder.probes(text, fusion, query, reasons)
        by_words_alone, words_weight = fusion.weight("dense") == 0, fusion.weight("lexical")
        legs = list(dict.fromkeys(probe.leg for probe in probes))
        if len(legs) == 1:  # all the weight on the only leg there is
            fusion = fusion.with_alpha(1.0 if legs[0] == "dense" else 0.0)
        where = yield from self.ready.indexes.serve(query.where, create=query.config.auto_index)
        mode = _mode(legs)
        ask = self._asking(query, fusion, probes, where, words_weight)
        rows = (yield from self._rank(query, ask)) if probes else []
        helpless = not probes or (mode == "lexical" and not by_words_alone)
        if helpless and not rows and query.config.text_fallback:
            rows = yield from self._match_text(text, query, where)
            mode = "text"
            reasons.append("neither leg found anything, so the query's words were matched in the text")
        if query.extras:
            query.extras.tally.ranked = len(rows)
        floor = _floor(query, mode)
        fit, problems = _screened(_above(rows, floor), query)
        if problems and len(fit) < query.need and probes:  # their places go to those that come next
            rows = yield from self._rank(query, ask, spare=query.config.depth)
            fit, problems = _screened(_above(rows, floor), query)
        page = fit[query.offset : query.need]
        reasons.extend(self.ready.notes)
        self._log(reasons)
        matched = (yield from self._matched(query, page, mode)) if query.explain else None
        hits = to_hits(page, fusion, legs, mode, matched)
        return SearchResult(hits, mode, "; ".join(reasons) or None, query.text, problems)

    def _fit(self, fusion: Strategy, text: str) -> Flow[Strategy]:
        """The fusion for this collection and query: what was tuned for it goes before the default."""
        if self.tuned is not None and fusion == Auto():
            fusion = self.tuned
        to = yield from self._relevant_to(fusion, text)
        fitted = self._fitted.get((fusion, to))
        if fitted is None:
            if len(self._fitted) >= _REMEMBERED:
                self._fitted.clear()
            fitted = self._fitted[fusion, to] = fusion.fitted(to)
        return fitted

    def _relevant_to(self, fusion: Strategy, text: str) -> Flow[Circumstances]:
        if not isinstance(fusion, Auto):
            return Circumstances()
        if fusion.chosen:
            return Circumstances(background=(yield from self._background()))
        return (yield from self.circumstances(text))

    def circumstances(self, text: str, within: Node | None = None) -> Flow[Circumstances]:
        """What the default fusion depends on, for a query with this text to the collection or to a part of it."""
        makeup = yield from self.ready.nature.look(within)
        background = yield from self._background()
        code = makeup.code
        return Circumstances(self._strange(makeup), background, code, code > 0 and has_code(text))

    def _background(self) -> Flow[float | None]:
        """The cosine of unrelated texts: measured for the model, calibrated for the collection, or seen there."""
        if self.ready.dense.background is not None or self.ready.no_dense:
            return self.ready.dense.background
        if self.calibration is not None:
            return self.calibration.background
        return (yield from self.ready.nature.background())

    def _strange(self, makeup: Makeup) -> float:
        """How much of the collection is in languages that the dense model doesn't know, as far as can be told."""
        seen, dense = self.calibration, self.ready.dense
        if not self.ready.language_known or (seen is not None and seen.leans_on_words(dense.background)):
            return 1.0
        return makeup.strange_to(dense.languages)

    def adopt(self, ready: Ready) -> None:
        """The collection's settings have changed."""
        self.ready = ready
        record = ready.schema.record or {}
        self.tuned = restore(record["tuned"]) if record.get("tuned") else None
        self.calibration = Calibration.from_payload(record["calibrated"]) if record.get("calibrated") else None
        self._fitted = {}

    def asking(self, query: Query) -> Flow[Ask | None]:
        """How the engine would be asked; None for a query that finds nothing whatever is asked."""
        text, _ = clean_query(query.text, query.config.max_query_chars)
        if not text:
            return None
        fusion = yield from self._fit(query.fusion, text)
        probes = yield from self.encoder.probes(text, fusion, query, [])
        where = yield from self.ready.indexes.serve(query.where, create=query.config.auto_index)
        return self._asking(query, fusion, probes, where, 0.0)

    def _asking(
        self, query: Query, fusion: Strategy, probes: list[Probe], where: Filter | None, words_weight: float
    ) -> Ask:
        """The search as the engine is asked, with what the query's circumstances add."""
        config, extras = query.config, query.extras
        effort = Effort(config.hnsw_ef, config.exact) if self.ready.engine.indexes else None
        if extras is None:
            return Ask(fusion, probes, where, effort, corpus=part_of(where) if self.ready.corpus_idf else None)
        corpus = extras.corpus if extras.corpus and self.ready.corpus_idf else None
        tag_weight = extras.signals.tag_share * words_weight
        floor = _floor(query, "hybrid")
        enough, sure = (floor.score, floor.cosine) if floor else (0.0, None)
        return Ask(
            fusion,
            probes,
            where,
            effort,
            extras.signals,
            tag_weight,
            corpus,
            _payload(extras.hidden),
            enough,
            sure,
        )

    def _rank(self, query: Query, ask: Ask, spare: int = _SLACK) -> Flow[list[Row]]:
        """All rows of the ranking that the page needs, and a few more."""
        how = ask.native_query() if query.config.native else None
        if how is None:
            return (yield from self._ranked(query, ask, ClientPlan(ask), spare))
        try:
            plan = NativePlan(ask, how, query.explain, self.ready.engine.at_hand)
            return (yield from self._ranked(query, ask, plan, spare))
        except EngineUnavailable:
            raise
        except EngineError:
            if ask.signals is None:
                raise
            # On some engines one row with a text where a signal wants a number fails the whole formula.
            return (yield from self._ranked(query, ask, ClientPlan(ask), spare))

    def _ranked(self, query: Query, ask: Ask, plan: Plan, spare: int) -> Flow[list[Row]]:
        depths = list(_depths(query.config.depth, query.need))
        everything, enough = len(ask.probes) * depths[-1], query.need + spare
        tally = query.extras.tally if query.extras and query.explain else None
        rows = yield from self._ask(plan, depths, enough if len(depths) == 1 else everything, tally)
        if len(rows) == enough < everything and rows[query.need - 1].tie == rows[-1].tie:
            # The cut goes through a tie longer than the slack: only the whole list tells whose ids come first.
            rows = yield from self._ask(plan, depths, everything, tally)
        return (yield from self._judged(rows, ask)) if isinstance(plan, NativePlan) and plan.judged_after else rows

    def _ask(self, plan: Plan, depths: list[int], limit: int, tally: Tally | None) -> Flow[list[Row]]:
        """One batch for all depths; what a deeper one adds comes after what is already there."""
        batches = [plan.requests(depth, limit) for depth in depths]
        found = yield from calls.query(self.ready.collection, [r for batch in batches for r in batch])
        if tally is not None:
            tally.legs = plan.brought(found[-len(batches[-1]) :])  # the deepest
        if len(batches) == 1:
            return plan.read(found)
        answers = iter(found)
        rows: dict[str, Row] = {}
        for batch in batches:
            for row in plan.read([next(answers) for _ in batch]):
                rows.setdefault(row.stored.point, row)
        return list(rows.values())

    def _judged(self, rows: list[Row], ask: Ask) -> Flow[list[Row]]:
        """The rows; those with a low score know how near in meaning they are, where that is a reason to stay."""
        low = [row.stored.point for row in rows if row.score < ask.enough]
        if not low:
            return rows
        found = yield from calls.query(self.ready.collection, [ask.near(low)])
        near: dict[str, dict[LegName, Place]] = {str(each.id): {"dense": Place(each.score, 0)} for each in found[0]}
        return [row._replace(places=near.get(row.stored.point, row.places)) for row in rows]

    def _match_text(self, text: str, query: Query, where: Filter | None) -> Flow[list[Row]]:
        """The last resort: documents that contain words of the query, most of them first."""
        asked = yield from self._telling_words(text)
        if not asked:
            return []
        each_word = tuple(TextContains(word) for word in asked)
        own: tuple[Node, ...] = () if where is None else (where if isinstance(where, Node) else Native(where),)
        limit = max(query.config.depth, query.need)
        found: dict[str, Stored] = {}
        for wanted in (All(each_word), Either(each_word)):  # all the words, then any
            points, _ = yield from calls.scroll(self.ready.collection, All((wanted, *own)), limit=limit)
            for point in points:
                found.setdefault(str(point.id), from_point(point))
        stored = list(found.values())
        shares = [len(set(words(each.text)).intersection(asked)) / len(asked) for each in stored]
        settled = settle(zip(stored, shares, strict=True), lambda each: each.id)
        return [Row(each, share, share) for each, share in settled if share > 0]

    def _telling_words(self, text: str) -> Flow[list[str]]:
        """The words that the lexical leg would count; all of them if there are none, or if it can't tell."""
        spoken, sparse = words(text)[:_MOST_WORDS], self.ready.sparse
        try:
            telling: list[str] = yield Work(lambda: [word for word in spoken if sparse.embed_query(word).indices])
        except Exception:  # it may be the very reason for being here, and has been reported
            return spoken
        return telling or spoken

    def _matched(self, query: Query, page: Sequence[Row], mode: Mode) -> Flow[list[tuple[str, ...]]]:
        """For each row the words of the query that it contains."""
        words_of = query.extras.words_of if query.extras else None
        texts = [words_of(row.stored) if words_of else row.stored.text for row in page]
        text = f"{query.text} {query.extras.hint}" if query.extras and query.extras.hint else query.text
        if mode == "text":
            return plain_matches(text, texts)
        try:
            found: list[tuple[str, ...]] = yield Work(lambda: self.ready.sparse.matched_words(text, texts))
        except Exception:  # a lexical encoder that fails has been reported; words can be compared without it
            return plain_matches(text, texts)
        return found

    def _log(self, reasons: Sequence[str]) -> None:
        for reason in reasons:
            if reason not in self._said and len(self._said) < _REMEMBERED:
                self._said.add(reason)
                said = ("search on %r did less than asked: %s", self.ready.collection, reason)
                log.warning(*said, extra={"degraded": reason})


def _depths(depth: int, need: int) -> Iterator[int]:
    """The configured depth, then deeper ones until the page is covered.

    A page within the first depth is always cut from the same ranking, and so is every later
    one, with deeper candidates appended: pages join without gaps or repeats.
    """
    yield depth
    while depth < need:
        depth *= _GROWTH
        yield depth


def _above(rows: list[Row], floor: Floor | None) -> list[Row]:
    return rows if floor is None else [row for row in rows if row.score >= floor.score or _near(row, floor)]


def _near(row: Row, floor: Floor) -> bool:
    place = row.places.get("dense")
    return place is not None and floor.cosine is not None and place.score >= floor.cosine


@lru_cache(maxsize=16)
def _payload(hidden: tuple[str, ...]) -> Any:
    """Everything but what nobody looks at in a hit."""
    return PayloadWithout(hidden) if hidden else True


def _floor(query: Query, mode: Mode) -> Floor | None:
    if query.config.min_score is not None:
        return Floor(query.config.min_score)
    return query.extras.floor if query.extras and mode == "hybrid" else None


def _screened(rows: list[Row], query: Query) -> tuple[list[Row], tuple[Problem, ...]]:
    """The rows that can be handed out, as far as they are needed, and what is wrong with those that can't."""
    if query.extras is None:
        return rows, ()
    fit: list[Row] = []
    problems: list[Problem] = []
    for row in rows:
        if len(fit) == query.need:
            break
        wrong = query.extras.screen(row.stored)
        if wrong is None:
            fit.append(row)
        else:
            problems.append(Problem(row.stored.id, wrong))
    return fit, tuple(problems)


def _mode(legs: Sequence[LegName]) -> Mode:
    if len(legs) == 2:
        return "hybrid"
    if not legs:
        return "text"
    return "dense" if legs[0] == "dense" else "lexical"
