"""One search, step by step: mend typing errors, encode, fit the fusion, ask, rank, admit, screen, rerank, explain.

`Searcher.search` is the flow, read from the top; what it calls stands below it in the order in which it is called. How
candidates are ranked is the query's `Ranker` (see `ranking/ranker.py`). At the end, searching for hits that differ from
each other.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from twofold.encoders.rerankers import Reranker, resolve_reranker
from twofold.engine import calls
from twofold.engine.layout import Layout, ScoredPoint, Stored, from_point
from twofold.engine.requests import EngineQuery, FusedQuery, VectorQuery
from twofold.errors import EngineError, EngineUnavailable, InvalidQuery
from twofold.filters import All, Either, TextContains
from twofold.flow import Flow, Work
from twofold.index.opening import Ready
from twofold.index.queries import EncodedLeg, Query, QueryEncoder, TypoReader, check_vector
from twofold.ranking.fusion import Auto, Leg, LegName, Strategy, is_number, join_legs, settle
from twofold.ranking.ranker import Candidate, EngineFusion, Ranker, reranked
from twofold.ranking.tuning import restore
from twofold.results import Explanation, Hit, Mode, Problem, SearchResult
from twofold.text import clean_query, plain_matches, words

log = logging.getLogger("twofold")
figures = logging.getLogger("twofold.search")

# Fetched beyond what is shown, so that ties at the cut are ordered by id and not by chance.
_SPARE_ROWS = 4
_DEPTH_GROWTH = 4
EXACT_DEPTH = 30
"""How many candidates of each leg the default fusion looks at, where the depth is greater. It scores each of them by
meaning and by words, so that more of them gain nothing."""
_MAX_FALLBACK_WORDS = 64
_MAX_LOGGED_CHARACTERS = 100
_NOT_FOR_US = (401, 403, 404)
"""A key that is wrong or may not read that, a collection that is gone: other requests fare no better."""
_WHOLE_CORPUS = (
    "how rare a word is was counted in the whole collection instead of this part of it, which takes Qdrant and "
    "qdrant-client 1.19 or newer"
)
_MODES: dict[LegName, Mode] = {"dense": "dense", "lexical": "lexical"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a search: the result, and what was seen on the way."""

    result: SearchResult
    ranked: int = 0
    """How many documents were ranked before any was left out."""
    legs: Sequence[Leg] = ()
    """What each leg brought, where the legs were brought here: to be fused, or to explain the hits."""
    alpha: float | None = None
    """How much meaning really counted, from 0 to 1; None where the words were matched in the text."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """How the engine is asked for one query."""

    query: Query
    ranker: Ranker
    legs: Sequence[EncodedLeg]
    native: EngineFusion | None
    """How the engine fuses; None if we do."""
    exact: bool
    """Both legs score what either of them finds first: then nothing has to be guessed, and few are enough."""


class Searcher:
    """The search of one open collection."""

    def __init__(self, ready: Ready, cache_size: int) -> None:
        self.encoder = QueryEncoder(ready, cache_size)
        self.typos = TypoReader(ready)
        self.adopt(ready)

    def adopt(self, ready: Ready) -> None:
        """The collection's settings have changed."""
        self.ready = ready
        record = ready.schema.record or {}
        self.tuned: Strategy | None = restore(record["tuned"]) if record.get("tuned") else None

    def search(self, query: Query) -> Flow[Outcome]:
        """Answer a query."""
        if query.vector is not None:
            query = replace(query, vector=check_vector(query.vector, self.ready))
        text, note = clean_query(query.text, query.config.max_query_chars)
        if (not text and query.vector is None) or query.k == 0:
            return Outcome(SearchResult((), "hybrid", query=query.text))
        reasons, reranker = [note] if note else [], query.reranker
        if query.where is not None:
            yield from self.ready.indexes.serve(query.where, create=query.config.auto_index)
        text, corrections = yield from self.typos.read(text, query, reasons)
        fusion = self.tuned if self.tuned is not None and query.ranker.fusion == Auto() else query.ranker.fusion
        legs = yield from self.encoder.encode(text, fusion, query, reasons)
        names = list(dict.fromkeys(leg.name for leg in legs))
        mode: Mode = "hybrid" if len(names) == 2 else _MODES[names[0]] if names else "text"
        fitted = fusion if len(names) != 1 else fusion.with_alpha(1.0 if names[0] == "dense" else 0.0)
        ranker, floor = query.ranker.fitted((yield from self.fit(fitted, legs, query))), query.ranker.min_score
        if reranker is not None and floor is not None:  # which is compared with what the reranker says
            ranker = replace(ranker, min_score=0.0)
        candidates, brought = (yield from self._candidates(query, ranker, legs, reasons)) if legs else ([], [])
        words_failed = not legs or (mode == "lexical" and fusion.weight("dense") > 0)
        if words_failed and not candidates and query.config.text_fallback:
            candidates = yield from self._match_text(text, query)
            mode, names = "text", []
            reasons.append("neither leg found anything, so the query's words were matched in the text")
        shown, problems = _shown(candidates, ranker, names, query.need)
        if problems and len(shown) < query.need and legs:  # their places go to those that come next
            candidates, brought = yield from self._candidates(query, ranker, legs, [], spare=query.config.depth)
            shown, problems = _shown(candidates, ranker, names, query.need)
        if reranker is not None and shown:
            relevances = [_relevance(each, ranker, names) for each in shown]
            shown = yield from _look_again(reranker, text, query, shown, relevances, reasons)
            shown = [each for each in shown if _relevance(each, ranker, names) >= (floor or 0.0)]
        page = shown[query.offset : query.end]
        reasons.extend(self.ready.notes)
        if "lexical" in names and (note := (yield from self.ready.sampler.wordless(self.ready))):
            reasons.append(note)
        for reason in reasons:
            self._log(reason)
        matched = (yield from self._matched_words(text, query, page, mode)) if query.explain else None
        hits = _hits(page, ranker, names, mode, matched, corrections)
        result = SearchResult(hits, mode, "; ".join(reasons) or None, query.text, problems, corrections)
        return Outcome(result, len(candidates), brought, None if mode == "text" else ranker.fusion.alpha)

    def answer(self, query: Query) -> Flow[SearchResult]:
        """`search`, told to those who listen to the log "twofold.search" at INFO."""
        if not figures.isEnabledFor(logging.INFO):
            return (yield from self.search(query)).result
        began = time.perf_counter()
        outcome = yield from self.search(replace(query, explain=True))
        log_search(figures, "search", query, outcome, outcome.result, time.perf_counter() - began)
        if query.explain:
            return outcome.result
        return replace(outcome.result, hits=tuple(replace(hit, explanation=None) for hit in outcome.result))

    # --- the fusion for this collection and query ----------------------------------------------

    def fit(self, fusion: Strategy, legs: Sequence[EncodedLeg], query: Query) -> Flow[Strategy]:
        """The default fusion on the scales that meaning and words have for this question in this part."""
        if not isinstance(fusion, Auto) or not legs:
            return fusion
        vector = next((leg.vector for leg in legs if isinstance(leg.vector, np.ndarray)), None)
        calibration = yield from self.ready.sampler.calibration(self.ready, query.part, meaning=vector is not None)
        return calibration.fit(fusion, vector)

    # --- asking the engine ---------------------------------------------------------------------

    def _candidates(
        self, query: Query, ranker: Ranker, legs: Sequence[EncodedLeg], reasons: list[str], spare: int = _SPARE_ROWS
    ) -> Flow[tuple[list[Candidate], Sequence[Leg]]]:
        """All candidates that the page needs, best first, and a few more; and what the legs brought."""
        if query.idf_corpus is not None and self.ready.schema.idf and not self.ready.corpus_idf:
            reasons.append(_WHOLE_CORPUS)
        names = tuple(leg.name for leg in legs)
        terms = next((leg.terms for leg in legs if leg.name == "lexical"), 1)
        native = ranker.native(names, terms) if query.config.native and len(set(names)) == 2 else None
        exact = isinstance(ranker.fusion, Auto) and len(legs) > 1
        plan = _Plan(query, ranker, legs, native, exact)
        try:
            return (yield from self._ask(plan, spare))
        except EngineUnavailable:
            raise
        except EngineError as error:
            if native is None or error.status in _NOT_FOR_US:
                raise
            # Strict mode wants an index for every field of a formula, a cluster can't pass every formula on, and on
            # some engines one row with a text where a signal wants a number fails all of it.
            found = yield from self._ask(replace(plan, native=None), spare)
            reasons.append(f"the engine refused to fuse, so that was done here: {error}")
            return found

    def _ask(self, plan: _Plan, spare: int) -> Flow[tuple[list[Candidate], Sequence[Leg]]]:
        """One batch for all depths: the configured one, then deeper ones until the page is covered.

        What a deeper one adds comes after what is already there. So a page within the first depth is always cut from
        the same ranking, and so is every later one: pages join without gaps or repeats.
        """
        need, most = plan.query.need, plan.query.config.depth
        depths = _depths(min(most, EXACT_DEPTH) if plan.exact else most, need)
        everything, wanted = len(plan.legs) * max(most, depths[-1]), max(need, plan.ranker.looks_at) + spare
        for limit in dict.fromkeys((wanted if len(depths) == 1 else everything, everything)):
            batches = [self._requests(plan, depth, limit) for depth in depths]
            answers = yield from calls.query(self.ready.collection, [each for batch in batches for each in batch])
            candidates: list[Candidate] = []
            brought: Sequence[Leg] = ()
            seen: set[str] = set()
            for number, batch in enumerate(batches):
                start = number * len(batch)
                own = answers[start : start + len(batch)]
                deeper, brought = (
                    (yield from self._fuse(plan, own, limit))
                    if plan.native is None
                    else _read(plan, own, self.ready.layout)
                )
                candidates += [each for each in deeper if each.row.point not in seen] if seen else deeper
                seen = {each.row.point for each in candidates} if len(batches) > 1 else seen
            complete = len(candidates) < wanted or wanted >= everything or (len(candidates) > wanted and not plan.exact)
            if complete or candidates[need - 1].tie != candidates[wanted - 1].tie:
                break
            # The cut goes through a tie longer than the spare rows: only the whole list tells whose ids come first.
            depths = _depths(most, need)
        return candidates, brought

    def _requests(self, plan: _Plan, depth: int, limit: int) -> list[EngineQuery]:
        """One request for each leg, or one in which the engine fuses them.

        To explain the latter, both legs travel in the same batch, ids and scores only.
        """
        query = plan.query
        alone = len(plan.legs) == 1
        if plan.native is None and not plan.exact:  # with nothing to fuse, no more than is shown
            most = min(depth, limit) if alone and plan.ranker.keeps_order else depth
            return [self.leg_request(query, leg, depth, limit=most, payload=alone) for leg in plan.legs]
        legs = [self.leg_request(query, leg, depth) for leg in plan.legs]
        if plan.exact:
            everything, found = sum(leg.limit for leg in legs), tuple(legs)
            legs = [replace(leg, limit=everything, among=found) for leg in legs]
        if plan.native is None:
            return [*legs]
        fused = FusedQuery(tuple(legs), plan.native, limit)
        return [fused, *legs] if query.explain else [fused]

    def leg_request(
        self, query: Query, leg: EncodedLeg, depth: int, *, limit: int | None = None, payload: bool = False
    ) -> VectorQuery:
        """The candidates of one leg, or the first of them; without payload only their ids and scores."""
        # The effort is the same for every page of a ranking: it follows the depth, not how much of it is shown.
        graph = leg.name == "dense" and self.ready.engine.indexes
        return VectorQuery(
            vector=leg.vector,
            limit=min(depth, leg.max_candidates or depth, limit or depth),
            filter=query.where,
            score_threshold=query.config.min_semantic if leg.name == "dense" else query.config.min_lexical,
            hnsw_ef=max(query.config.hnsw_ef or 0, depth) if graph else None,
            exact=graph and query.config.exact,
            idf_corpus=query.idf_corpus if leg.name == "lexical" and self.ready.corpus_idf else None,
            with_payload=payload,
        )

    def _fuse(
        self, plan: _Plan, answers: Sequence[Sequence[ScoredPoint]], limit: int
    ) -> Flow[tuple[list[Candidate], Sequence[Leg]]]:
        """What the legs brought, ranked here. Only what is shown is fetched, and what signals may bring there."""
        found = zip(plan.legs, answers, strict=True)
        legs = join_legs([Leg(leg.name, _by_score(points), leg.terms) for leg, points in found])
        if len(plan.legs) == 1:
            return plan.ranker.rank(
                legs, {str(point.id): from_point(point, self.ready.layout) for point in answers[0]}
            ), legs
        fused = plan.ranker.fusion.fuse(legs)
        least = fused[min(limit, len(fused)) - 1].score if fused else 0.0
        count = sum(each.score >= least for each in fused)
        block = 2 * EXACT_DEPTH if plan.ranker.reads_payload else max(count, 1)
        candidates: list[Candidate] = []
        for start in range(0, count, block):  # signals change the order of so many, and then of the next: pages join
            points = yield from calls.retrieve(
                self.ready.collection, [each.id for each in fused[start : start + block]]
            )
            candidates += plan.ranker.rank(
                legs, {str(point.id): from_point(point, self.ready.layout) for point in points}
            )
        return candidates, legs

    # --- when no leg finds anything ------------------------------------------------------------

    def _match_text(self, text: str, query: Query) -> Flow[list[Candidate]]:
        """The last resort: documents that contain words of the query, most of them first."""
        asked, sparse = words(text)[:_MAX_FALLBACK_WORDS], self.ready.sparse
        # The words that the lexical leg would count; all of them if there are none, or if it can't tell. That it fails
        # may be the very reason for being here, and has been reported.
        with suppress(Exception):
            asked = (yield Work(lambda: [word for word in asked if sparse.embed_query(word).indices])) or asked
        if not asked:
            return []
        each_word = tuple(TextContains(word) for word in asked)
        within = () if query.where is None else (query.where,)
        limit = max(query.config.depth, query.need)
        rows: dict[str, Stored] = {}
        for wanted in (All(each_word), Either(each_word)):  # all the words, then any
            points, _ = yield from calls.scroll(self.ready.collection, All((wanted, *within)), limit=limit)
            for point in points:
                rows.setdefault(str(point.id), from_point(point, self.ready.layout))
        stored = list(rows.values())
        shares = [len(set(words(each.text)).intersection(asked)) / len(asked) for each in stored]
        settled = settle(zip(stored, shares, strict=True), lambda each: each.id)
        least = query.ranker.min_score or 0.0
        return [Candidate(each, share, share) for each, share in settled if share > 0 and share >= least]

    # --- what to say about the hits ------------------------------------------------------------

    def _matched_words(
        self, text: str, query: Query, page: Sequence[Candidate], mode: Mode
    ) -> Flow[list[tuple[str, ...]]]:
        """For each hit the words of the query that it contains."""
        texts = [query.words_of(each.row) if query.words_of else each.row.searched_text for each in page]
        if mode == "text":
            return plain_matches(text, texts)
        try:
            matched: list[tuple[str, ...]] = yield Work(lambda: self.ready.sparse.matched_words(text, texts))
        except Exception:  # a lexical encoder that fails has been reported; words can be compared without it
            return plain_matches(text, texts)
        return matched

    def _log(self, reason: str) -> None:
        if self.ready.told.is_news(reason):
            said = ("search on %r did less than asked: %s", self.ready.collection, reason)
            log.warning(*said, extra={"degraded": reason})


def log_search(
    to: logging.Logger, verb: str, query: Query, outcome: Outcome, result: SearchResult, seconds: float
) -> None:
    """Once for every search, for those who listen: what each leg brought, and what was handed out."""
    brought = {leg.name: {identity for identity, _ in leg.hits} for leg in outcome.legs}
    dense, lexical = brought.get("dense", set()), brought.get("lexical", set())
    facts: dict[str, object] = {
        "hits": len(result),
        "by_meaning": len(dense),
        "by_words": len(lexical),
        "by_words_only": len(lexical - dense),
        "alpha": outcome.alpha,
        "mode": result.mode,
        "milliseconds": round(seconds * 1000, 2),
        "problems": len(result.problems),
    }
    if query.config.log_queries:
        facts["query"] = query.text[:_MAX_LOGGED_CHARACTERS]
    to.info("%s: %s", verb, ", ".join(f"{name} {value}" for name, value in facts.items()), extra={verb: facts})


def _depths(first: int, need: int) -> list[int]:
    """How many candidates each leg brings, and how many more until they cover the page."""
    depths = [first]
    while depths[-1] < need:
        depths.append(depths[-1] * _DEPTH_GROWTH)
    return depths


def _read(
    plan: _Plan, answers: Sequence[Sequence[ScoredPoint]], layout: Layout
) -> tuple[list[Candidate], Sequence[Leg]]:
    """The engine's ranking, and what the legs brought if that was asked for."""
    points = answers[0]
    fused = [from_point(point, layout) for point in points]
    settled = settle(zip(fused, [point.score for point in points], strict=True), lambda row: row.id)
    if plan.query.explain:
        found = zip(plan.legs, answers[1:], strict=True)
        legs = join_legs([Leg(leg.name, _by_score(points), leg.terms) for leg, points in found])
        shown = {row.point: row for row in fused}
        ranked = {each.row.point: each for each in plan.ranker.rank(legs, shown)}
        explained = [
            ranked.get(row.point, Candidate(row, score, score))._replace(score=score, tie=score)
            for row, score in settled
        ]
        return explained, legs
    return [Candidate(row, score, score) for row, score in settled], ()


def _by_score(points: Sequence[ScoredPoint]) -> list[tuple[str, float]]:
    """What a leg found, best first and ties by id: engines order them by where they happen to be stored."""
    # As text, since the embedded engine's UUIDs take longer to hash than to write out, and each is looked up often.
    return settle([(str(point.id), point.score) for point in points], str)


def _shown(
    candidates: Sequence[Candidate], ranker: Ranker, legs: Sequence[LegName], need: int
) -> tuple[list[Candidate], tuple[Problem, ...]]:
    """Those that are admitted and can be handed out, as far as they are needed, and what is wrong with the others."""
    shown: list[Candidate] = []
    problems: list[Problem] = []
    for candidate in ranker.admit(candidates, legs) if legs else candidates:
        if len(shown) == need:
            break
        problem = ranker.screen(candidate.row)
        if problem is None:
            shown.append(candidate)
        else:
            problems.append(Problem(candidate.row.id, problem))
    return shown, tuple(problems)


def _look_again(
    reranker: Reranker | str,
    text: str,
    query: Query,
    shown: list[Candidate],
    relevances: Sequence[float],
    reasons: list[str],
) -> Flow[list[Candidate]]:
    """What a reranker makes of the best; if it fails, what there was before it."""
    loaded: Reranker = (yield Work(lambda: resolve_reranker(reranker))) if isinstance(reranker, str) else reranker
    documents = [each.row.as_document() for each in shown[: query.config.rerank_top]]
    try:
        order = yield from loaded.rerank(text, documents, query.config.rerank_timeout)
    except Exception as error:  # whatever a model raises, there is a ranking
        reasons.append(f"the reranker failed, so the ranking before it stands: {type(error).__name__}: {error}")
        return shown
    return reranked(shown, relevances, order)


def _relevance(candidate: Candidate, ranker: Ranker, legs: Sequence[LegName]) -> float:
    """From 0 to 1; without legs, the words were matched in the text, and the score is a share of them."""
    if candidate.look is not None or not legs:
        return min(max(candidate.score, 0.0), 1.0)
    return ranker.fusion.relevance(candidate.score, legs)


def _hits(
    page: Sequence[Candidate],
    ranker: Ranker,
    legs: list[LegName],
    mode: Mode,
    matched: list[tuple[str, ...]] | None,
    corrections: Mapping[str, str],
) -> tuple[Hit, ...]:
    """One page of a ranking; explained if the matched words of each candidate are given."""
    hits = []
    for place, candidate in enumerate(page):
        row, score = candidate.row, candidate.score
        why: Explanation | None = None
        if matched is not None and mode == "text":
            why = Explanation(
                "text", None, None, 0.0, None, None, 0.0, matched[place], score, alpha=ranker.fusion.alpha
            )
        elif matched is not None:
            why = ranker.explain(candidate, matched[place])
        if why is not None and candidate.look is not None:
            why = replace(why, **candidate.look._asdict())
        if why is not None and corrections:
            why = replace(why, corrections=corrections)
        relevance = _relevance(candidate, ranker, legs)
        hits.append(Hit(row.id, row.text, score, relevance, row.metadata, why, row.title))
    return tuple(hits)


# --- Hits that are relevant and differ from each other: maximal marginal relevance ---

_VALUE_NOISE = 1.5e-6  # engines compute in 32 bits: closer than this, values are equal
Numbers = npt.NDArray[np.float64]


def search_diverse(searcher: Searcher, query: Query, candidates: int, diversity: float) -> Flow[SearchResult]:
    """Choose among the best candidates of a search by text, or by vector if one is given."""
    if isinstance(candidates, bool) or not isinstance(candidates, int) or candidates < 1:
        raise InvalidQuery(f"candidates must be a whole number from 1, got {candidates!r}")
    if not is_number(diversity) or not 0 <= diversity <= 1:
        raise InvalidQuery(f"diversity must be between 0 (relevance only) and 1 (difference only), got {diversity!r}")
    wide = replace(query, k=max(candidates, query.k) if query.k else 0)
    result = (yield from searcher.search(wide)).result
    units = yield from _units(searcher.ready, result.ids)
    if query.vector is None:  # compared with the best, so that cosines are on the same scale
        shares = np.array([hit.relevance for hit in result], dtype=np.float64)
        relevance = shares / (shares.max(initial=0.0) or 1.0)
    else:
        relevance = units @ _unit(check_vector(query.vector, searcher.ready))
    chosen = choose(relevance, units, query.k, diversity)
    return replace(result, hits=tuple(result.hits[place] for place in chosen))


def choose(relevance: Numbers, units: Numbers, k: int, diversity: float) -> list[int]:
    """The places of k candidates, chosen one after the other. Each time it is the one with the greatest value of this.

        (1 - diversity) · relevance - diversity · cosine with the most similar one chosen before

    Rows of `units` have length 1, or 0 where a candidate has no vector. Of equal ones the first is taken.
    """
    nearest = np.zeros(len(relevance))
    free = np.ones(len(relevance), dtype=bool)
    chosen: list[int] = []
    while len(chosen) < min(k, len(relevance)):
        value = np.where(free, (1 - diversity) * relevance - diversity * nearest, -np.inf)
        place = int(np.flatnonzero(value >= value.max() - _VALUE_NOISE)[0])
        similar = units @ units[place]
        nearest = np.maximum(nearest, similar) if chosen else similar
        free[place] = False
        chosen.append(place)
    return chosen


def _units(ready: Ready, ids: Sequence[str]) -> Flow[Numbers]:
    """The dense vectors of documents, each of length 1; zeros for one without."""
    points = [ready.layout.point(identity) for identity in ids]
    known = (
        {} if ready.no_dense or not points else (yield from calls.dense_vectors(ready.collection, points, ready.layout))
    )
    nothing = np.zeros(ready.dim)
    rows = [_unit(known[point]) if point in known else nothing for point in points]
    return np.array(rows, dtype=np.float64).reshape(len(points), ready.dim)


def _unit(vector: npt.ArrayLike) -> Numbers:
    array = np.asarray(vector, dtype=np.float64)
    length = float(np.linalg.norm(array))
    return array / length if length else array
