"""Fitting the fusion to the collection: `tune` from pairs, kept with it; `calibrate` without, as searches do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from twofold.encoders.rerankers import as_reranker
from twofold.engine import calls
from twofold.errors import CollectionMismatch, ConfigError, InvalidQuery
from twofold.filters import HasPoint
from twofold.flow import Flow, Renew, Work
from twofold.index.opening import keep_record
from twofold.index.queries import check_query
from twofold.index.searching import Searcher
from twofold.index.writing import Advance
from twofold.ranking.calibration import Calibration
from twofold.ranking.fusion import Auto, Leg
from twofold.ranking.tuning import NDCG_DEPTH, JudgedQuery, Pair, RerankTrial, Tuning, choose, describe, try_reranker
from twofold.text import clean_query

_BATCH_SIZE = 32
_BOTH_LEGS = 0.5
"""An alpha that asks both legs, whatever is tuned already: a leg of no weight would not be asked."""


def tune(searcher: Searcher, config: Any, pairs: Sequence[Pair], rerank: Any, progress: Advance) -> Flow[Tuning]:
    """Find the fusion that answers the pairs best, and keep it if it is surely better than the default."""
    if config.fusion != Auto():  # it goes before what is tuned, which nobody would notice
        raise ConfigError(
            f"this index is opened with the fusion {config.fusion.name}, which goes before anything tuned: open it "
            "without a fusion to tune it"
        )
    tried = as_reranker(config.rerank if rerank is None else rerank)
    asked = []
    for start in range(0, len(pairs), _BATCH_SIZE):
        yield Renew()
        batch = pairs[start : start + _BATCH_SIZE]
        asked += yield from _ask(searcher, config, batch)
        progress(len(batch))
    if not any(leg.hits for each in asked for leg in each.legs):
        raise InvalidQuery("none of the queries found anything: are they about this collection?")
    unknown = yield from _unknown(searcher, pairs)
    chosen: Tuning = yield Work(lambda: choose(asked, Auto()))
    found = replace(chosen, unknown=unknown)
    kept = {**describe(found.fusion), "pairs": found.pairs} if found.changed else None
    yield from keep_settings(searcher, tuned=kept)
    return found if tried is None else replace(found, rerank=(yield from _try_reranker(searcher, config, pairs, tried)))


def _try_reranker(searcher: Searcher, config: Any, pairs: Sequence[Pair], rerank: Any) -> Flow[RerankTrial]:
    """What searches find with and without it."""
    rankings, failed = [], 0
    for pair in pairs:
        yield Renew()
        found = []
        for looks in (False, rerank):
            query = check_query(pair.query, config, k=NDCG_DEPTH, where=pair.filter, explain=True, rerank=looks)
            found.append((yield from searcher.search(query)).result)
        failed += any(hit.explanation is not None and hit.explanation.rank_before is None for hit in found[1])
        rankings.append((pair, found[0].ids, found[1].ids))
    return try_reranker(rankings, failed)


def _unknown(searcher: Searcher, pairs: Sequence[Pair]) -> Flow[int]:
    """How many of the expected ids are not there. If all of them are not, nothing can be learned."""
    expected = {searcher.ready.layout.point(identity): identity for pair in pairs for identity in sorted(pair.relevant)}
    there = yield from calls.count(searcher.ready.collection, HasPoint(tuple(expected)))
    if not there:
        raise InvalidQuery(
            f"none of the expected ids is in the collection ({next(iter(expected.values()))!r}, for one): give the ids "
            "that the documents were added with"
        )
    return len(expected) - there


def untune(searcher: Searcher) -> Flow[bool]:
    """Go back to the defaults. False if nothing was tuned."""
    if (searcher.ready.schema.record or {}).get("tuned") is None:
        return False
    yield from keep_settings(searcher, tuned=None)
    return True


def calibrate_collection(searcher: Searcher) -> Flow[Calibration]:
    """See from the collection itself what scores mean there, now instead of when much has changed."""
    return (yield from searcher.ready.sampler.calibration(searcher.ready, None, anew=True))


def _ask(searcher: Searcher, config: Any, pairs: Sequence[Pair]) -> Flow[list[JudgedQuery]]:
    """What both legs find for each query, ids and scores only, in one request."""
    requests, legs_of, fitted = [], [], []
    for pair in pairs:
        query = check_query(pair.query, config, k=1, where=pair.filter, alpha=_BOTH_LEGS)
        text, _ = clean_query(query.text, config.max_query_chars)
        encoded = (yield from searcher.encoder.encode(text, query.ranker.fusion, query, [])) if text else []
        yield from searcher.ready.indexes.serve(query.where, create=config.auto_index)
        legs_of.append(encoded)
        requests += [searcher.leg_request(query, leg, config.depth) for leg in encoded]
        fitted.append((yield from searcher.fit(Auto(), encoded, query)))
    answers = iter((yield from calls.query(searcher.ready.collection, requests)) if requests else ())
    found = []
    for pair, encoded, fusion in zip(pairs, legs_of, fitted, strict=True):
        legs = [Leg(leg.name, [(str(hit.id), hit.score) for hit in next(answers)], leg.terms) for leg in encoded]
        relevant = frozenset(searcher.ready.layout.point(identity) for identity in pair.relevant)
        found.append(JudgedQuery(tuple(legs), relevant, fusion))
    return found


def keep_settings(searcher: Searcher, **changes: Any) -> Flow[None]:
    """Write into the collection's record, and use it from now on."""
    ready = searcher.ready
    if ready.schema.record is None:
        raise CollectionMismatch(ready.read_only or "the collection has no record to keep settings in: open it once")
    record = {name: value for name, value in {**ready.schema.record, **changes}.items() if value is not None}
    yield from keep_record(ready, record)
    searcher.adopt(replace(ready, schema=ready.schema.with_record(record)))
