"""One query, step by step: encode, ask, fuse, cut, explain; and what to do when a step can't."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from qdrant_client import models

from twofold.config import SearchConfig
from twofold.encoders.base import Sparse, Vectors, check_dense
from twofold.encoders.cache import LRU
from twofold.engine import calls
from twofold.engine.filters import compile_filter, needed_indexes
from twofold.engine.flow import Flow, Work
from twofold.engine.layout import TEXT_KEY, from_point
from twofold.engine.requests import Probe, Scope, native_query
from twofold.errors import InvalidQuery
from twofold.filters import Node
from twofold.fusion import LegName, publish
from twofold.index.opening import Ready
from twofold.index.plans import ClientPlan, NativePlan, Plan, Row, ordered
from twofold.results import Explanation, Hit, Mode, SearchResult
from twofold.text import clean_query, words

log = logging.getLogger("twofold")

# Fetched beyond what is shown, so that ties at the cut are ordered by id and not by chance.
_SLACK = 16
_GROWTH = 4


@dataclass(frozen=True)
class Query:
    """A search that has been checked."""

    text: str
    k: int
    offset: int
    where: Node | models.Filter | None
    config: SearchConfig
    explain: bool

    @property
    def need(self) -> int:
        """How many rows of the ranking are needed."""
        return self.offset + self.k


class Searcher:
    """The search of one open collection. Remembers query vectors and what it has already logged."""

    def __init__(self, ready: Ready, cache_size: int) -> None:
        self._ready = ready
        self._vectors: LRU[Vectors] = LRU(cache_size)
        self._indexed = set(ready.schema.indexed)
        self._said: set[str] = set()

    def search(self, query: Query) -> Flow[SearchResult]:
        """Answer a query."""
        text, note = clean_query(query.text, query.config.max_query_chars)
        if not text or query.k == 0:
            return SearchResult((), "hybrid", query=query.text)
        reasons = [note] if note else []
        probes = yield from self._probes(text, query.config, reasons)
        where = yield from self._filter(query)
        rows: list[Row] = []
        if probes:
            rows = yield from self._rank(_adjust(query, probes), probes, where)
        mode: Mode = _mode(probes)
        if not rows and query.config.text_fallback and all(p.leg == "lexical" for p in probes):
            rows = yield from self._match_text(text, query, where)
            mode = "text"
            reasons.append("neither leg found anything, so the query's words were matched in the text")
        reasons.extend(self._ready.notes)
        self._log(reasons)
        hits = _hits(rows, query, probes, mode, self._ready) if rows else ()
        return SearchResult(hits, mode, "; ".join(reasons) or None, query.text)

    def _probes(self, text: str, config: SearchConfig, reasons: list[str]) -> Flow[list[Probe]]:
        """The legs that this query can use. One that was wanted and failed is replaced by the other."""
        wanted = [leg for leg in _LEGS if config.fusion.weight(leg) > 0]
        probes = yield from self._encode(wanted, text, config, reasons)
        if not probes:
            others = [leg for leg in _LEGS if leg not in wanted]
            probes = yield from self._encode(others, text, config, reasons)
        return probes

    def _encode(
        self, legs: Sequence[LegName], text: str, config: SearchConfig, reasons: list[str]
    ) -> Flow[list[Probe]]:
        probes = []
        for leg in legs:
            unusable = self._ready.no_dense if leg == "dense" else self._ready.no_lexical
            if unusable:
                reasons.append(unusable)
                continue
            encode = self._encode_dense if leg == "dense" else self._encode_sparse
            try:
                vector = yield from encode(text)
            except Exception as error:  # whatever a model raises, the other leg goes on
                reasons.append(f"the {leg} encoder failed: {type(error).__name__}: {error}")
                continue
            if isinstance(vector, Sparse) and not vector.indices:
                reasons.append("the query has no word that the lexical leg indexes")
                continue
            probes.append(Probe(leg, vector, config.min_semantic if leg == "dense" else config.min_lexical))
        return probes

    def _encode_dense(self, text: str) -> Flow[Vectors]:
        cached = self._vectors.get(text)
        if cached is not None:
            return cached
        encoder = self._ready.dense
        native = encoder.aembed_query
        raw = yield Work(lambda: encoder.embed_query(text), None if native is None else lambda: native(text))
        vector: Vectors = check_dense(np.asarray(raw)[None, ...], 1, self._ready.dim, encoder.name)[0]
        self._vectors.put(text, vector)
        return vector

    def _encode_sparse(self, text: str) -> Flow[Sparse]:
        vector: Sparse = yield Work(lambda: self._ready.sparse.embed_query(text))
        return vector

    def _filter(self, query: Query) -> Flow[models.Filter | None]:
        if query.where is None or isinstance(query.where, models.Filter):
            return query.where
        if query.config.auto_index and self._ready.engine.indexes:
            for key, kind in needed_indexes(query.where).items():
                if key not in self._indexed:
                    self._indexed.add(key)
                    yield from calls.create_index(self._ready.collection, key, kind, wait=False)
        return compile_filter(query.where)

    def _rank(self, query: Query, probes: list[Probe], where: models.Filter | None) -> Flow[list[Row]]:
        """All rows of the ranking that the page needs, and a few more."""
        plan = _plan(query, probes, where, self._ready)
        depths = list(_depths(query.config.depth, query.need))
        limit = query.need + _SLACK if len(depths) == 1 else 2 * depths[-1]
        rows = yield from self._ask(plan, depths, limit)
        if len(rows) == limit and limit < 2 * depths[-1] and rows[query.need - 1].score == rows[-1].score:
            # The cut goes through a tie longer than the slack: only the whole list tells whose ids come first.
            rows = yield from self._ask(plan, depths, 2 * depths[-1])
        floor = query.config.min_score
        return rows if floor is None else [row for row in rows if row.score >= floor]

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
        asked = words(text)[:64]
        if not asked:
            return []
        any_word = models.Filter(
            should=[models.FieldCondition(key=TEXT_KEY, match=models.MatchText(text=word)) for word in asked]
        )
        both = any_word if where is None else models.Filter(must=[any_word, where])
        limit = max(query.config.depth, query.need)
        found = [from_point(p) for p in (yield from calls.scroll(self._ready.collection, both, limit))]
        shares = [len(set(words(s.text)).intersection(asked)) / len(asked) for s in found]
        floor = query.config.min_score or 0.0
        return ordered(
            Row(stored, publish(share))
            for stored, share in zip(found, shares, strict=True)
            if share > 0 and share >= floor
        )

    def _log(self, reasons: Sequence[str]) -> None:
        for reason in reasons:
            if reason not in self._said:
                self._said.add(reason)
                log.warning("search on %r did less than asked: %s", self._ready.collection, reason)


_LEGS: tuple[LegName, LegName] = ("dense", "lexical")


def _adjust(query: Query, probes: Sequence[Probe]) -> Query:
    """If the only leg left weighs nothing (alpha = 1, but no dense encoder), let it count all the same."""
    fusion = query.config.fusion
    if any(fusion.weight(probe.leg) > 0 for probe in probes):
        return query
    stand_in = fusion.with_alpha(1.0 if probes[0].leg == "dense" else 0.0)
    return replace(query, config=query.config.model_copy(update={"fusion": stand_in}))


def _plan(query: Query, probes: list[Probe], where: models.Filter | None, ready: Ready) -> Plan:
    config = query.config
    params = models.SearchParams(hnsw_ef=config.hnsw_ef, exact=config.exact)
    scope = Scope(where, params if ready.engine.indexes else None)
    if config.native and native_query(config.fusion, probes) is not None:
        return NativePlan(config.fusion, probes, scope, query.explain)
    return ClientPlan(config.fusion, probes, scope)


def _depths(depth: int, need: int) -> Iterator[int]:
    """The configured depth, then deeper ones until the page is covered.

    A page within the first depth is always cut from the same ranking, and so is every later
    one, with deeper candidates appended: pages join without gaps or repeats.
    """
    yield depth
    while depth < need:
        depth *= _GROWTH
        yield depth


def _mode(probes: Sequence[Probe]) -> Mode:
    if len(probes) == 2:
        return "hybrid"
    return probes[0].leg if probes else "text"


def _hits(rows: Sequence[Row], query: Query, probes: Sequence[Probe], mode: Mode, ready: Ready) -> tuple[Hit, ...]:
    page = rows[query.offset : query.need]
    matched: Sequence[tuple[str, ...]] = [()] * len(page)
    if query.explain:
        matched = ready.sparse.matched_words(query.text, [row.stored.text for row in page])
    fusion = _adjust(query, probes).config.fusion if probes else query.config.fusion
    legs = [probe.leg for probe in probes]
    return tuple(
        Hit(
            id=row.stored.id,
            text=row.stored.text,
            score=row.score,
            relevance=row.score if mode == "text" else fusion.relevance(row.score, legs),
            metadata=row.stored.metadata,
            explanation=_explain(row, found, "text" if mode == "text" else fusion.name) if query.explain else None,
        )
        for row, found in zip(page, matched, strict=True)
    )


def _explain(row: Row, matched: tuple[str, ...], fusion: str) -> Explanation:
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
    )


def check_query(
    query: object,
    *,
    k: int,
    offset: int,
    where: Node | models.Filter | None,
    config: SearchConfig,
    overrides: Mapping[str, Any],
    explain: bool,
) -> Query:
    """Arguments of a search, checked; those that are None keep the configured value."""
    if not isinstance(query, str):
        raise InvalidQuery(f"the query must be a string, got {type(query).__name__}")
    for name, value in (("k", k), ("offset", offset)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InvalidQuery(f"{name} must be a whole number from 0, got {value!r}")
    given = {name: value for name, value in overrides.items() if value is not None}
    alpha = given.pop("alpha", None)
    if given:
        config = SearchConfig(**{**dict(config), **given})
    if alpha is not None:
        config = config.model_copy(update={"fusion": config.fusion.with_alpha(alpha)})
    return Query(text=query, k=k, offset=offset, where=where, config=config, explain=explain)
