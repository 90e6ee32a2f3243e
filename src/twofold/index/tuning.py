"""Fitting the fusion to the collection: `tune` from pairs, `calibrate` without. Kept with the collection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from twofold.documents import point_id
from twofold.encoders.base import Sparse, check_dense
from twofold.engine import calls
from twofold.engine.layout import DENSE, RECORD_KEY, SPARSE, from_point
from twofold.errors import CollectionMismatch, ConfigError, EncoderError, InvalidQuery
from twofold.filters import HasPoint
from twofold.flow import Flow, Renew, Work
from twofold.index.queries import check_query
from twofold.index.searching import Searcher
from twofold.index.writing import Advance
from twofold.ranking.fusion import Auto, Leg
from twofold.ranking.tuning import (
    TEXTS_NEEDED,
    Calibration,
    JudgedQuery,
    Pair,
    Tuning,
    calibrate,
    choose,
    describe,
    found_by_words,
    piece_of,
)
from twofold.text import clean_query

_CALIBRATED_TEXTS = 200
_BATCH_SIZE = 32
_BOTH_LEGS = 0.5
"""An alpha that asks both legs, whatever is tuned already: a leg of no weight would not be asked."""


def tune(searcher: Searcher, config: Any, pairs: Sequence[Pair], progress: Advance) -> Flow[Tuning]:
    """Find the fusion that answers the pairs best, and keep it if it is surely better than the default."""
    if config.fusion != Auto():  # it goes before what is tuned, which nobody would notice
        raise ConfigError(
            f"this index is opened with the fusion {config.fusion.name}, which goes before anything tuned: open it "
            "without a fusion to tune it"
        )
    asked = []
    for start in range(0, len(pairs), _BATCH_SIZE):
        yield Renew()
        batch = pairs[start : start + _BATCH_SIZE]
        asked += yield from _ask(searcher, config, batch)
        progress(len(batch))
    if not any(leg.hits for each in asked for leg in each.legs):
        raise InvalidQuery("none of the queries found anything: are they about this collection?")
    unknown = yield from _unknown(searcher, pairs)
    default = Auto().fitted((yield from searcher.circumstances("")))
    chosen: Tuning = yield Work(lambda: choose(asked, default))
    found = replace(chosen, unknown=unknown)
    kept = {**describe(found.fusion), "pairs": found.pairs} if found.changed else None
    yield from _keep(searcher, tuned=kept)
    return found


def _unknown(searcher: Searcher, pairs: Sequence[Pair]) -> Flow[int]:
    """How many of the expected ids are not there. If all of them are not, nothing can be learned."""
    expected = {point_id(identity): identity for pair in pairs for identity in sorted(pair.relevant)}
    there = yield from calls.count(searcher.ready.collection, HasPoint(tuple(expected)))
    if not there:
        raise InvalidQuery(
            f"none of the expected ids is in the collection ({next(iter(expected.values()))!r}, for one): give the ids "
            "that the documents were added with"
        )
    return len(expected) - there


def untune(searcher: Searcher) -> Flow[bool]:
    """Go back to the defaults. False if nothing was tuned or calibrated."""
    record = searcher.ready.schema.record or {}
    if record.get("tuned") is None and record.get("calibrated") is None:
        return False
    yield from _keep(searcher, tuned=None, calibrated=None)
    return True


def calibrate_collection(searcher: Searcher) -> Flow[Calibration]:
    """See from the collection itself how far meaning can be trusted, and keep that."""
    if searcher.ready.no_dense:
        raise CollectionMismatch(f"{searcher.ready.no_dense}: there is no model to calibrate")
    rows, _ = yield from calls.scroll(searcher.ready.collection, None, limit=_CALIBRATED_TEXTS, vectors=(DENSE, SPARSE))
    told = [(piece_of(from_point(row).text), row.vector) for row in rows if isinstance(row.vector, dict)]
    usable = [(piece, vectors) for piece, vectors in told if piece is not None and vectors.get(DENSE) is not None]
    if len(usable) < TEXTS_NEEDED:
        raise InvalidQuery(
            f"calibrate looks at {TEXTS_NEEDED} texts of four words or more (eight letters, in a script without "
            f"spaces), and there are {len(usable)} here"
        )
    pieces = yield from _encode(searcher, [piece for piece, _ in usable])
    seen = calibrate(pieces, np.asarray([vectors[DENSE] for _, vectors in usable], dtype=np.float32))
    seen = replace(seen, found_by_words=(yield from _by_words(searcher, usable)))
    yield from _keep(searcher, calibrated=seen.as_payload())
    return seen


def _by_words(searcher: Searcher, usable: Sequence[tuple[str, Any]]) -> Flow[float | None]:
    """How often words find the text of a piece; None where they aren't stored or can't be told."""
    sparse, kept = searcher.ready.sparse, [vectors.get(SPARSE) for _, vectors in usable]
    if None in kept:
        return None
    texts = [Sparse(each.indices, each.values) for each in kept if each is not None]
    try:
        asked = yield Work(lambda: [sparse.embed_query(piece) for piece, _ in usable])
    except Exception:  # searches say so themselves; what meaning does can be seen without it
        return None
    share: float = yield Work(lambda: found_by_words(asked, texts, idf=sparse.needs_idf))
    return share


def _encode(searcher: Searcher, pieces: Sequence[str]) -> Flow[Any]:
    encoder = searcher.ready.dense
    try:
        raw = yield Work(lambda: [encoder.embed_query(piece) for piece in pieces])
    except Exception as error:
        raise EncoderError(f"{encoder.name} failed on a piece of a stored text: {error}") from error
    return check_dense(np.asarray(raw), len(pieces), searcher.ready.dim, encoder.name)


def _ask(searcher: Searcher, config: Any, pairs: Sequence[Pair]) -> Flow[list[JudgedQuery]]:
    """What both legs find for each query, ids and scores only, in one request."""
    requests, legs_of, defaults = [], [], []
    for pair in pairs:
        query = check_query(pair.query, config, k=1, where=pair.filter, alpha=_BOTH_LEGS)
        text, _ = clean_query(query.text, config.max_query_chars)
        fusion = yield from searcher.fit(query.ranker.fusion, text)
        encoded = (yield from searcher.encoder.encode(text, fusion, query, [])) if text else []
        yield from searcher.ready.indexes.serve(query.where, create=config.auto_index)
        legs_of.append(encoded)
        requests += [searcher.leg_request(query, leg, config.depth) for leg in encoded]
        defaults.append(Auto().fitted((yield from searcher.circumstances(pair.query))))
    answers = iter((yield from calls.query(searcher.ready.collection, requests)) if requests else ())
    found = []
    for pair, encoded, default in zip(pairs, legs_of, defaults, strict=True):
        legs = [Leg(leg.name, [(str(hit.id), hit.score) for hit in next(answers)], leg.terms) for leg in encoded]
        relevant = frozenset(point_id(identity) for identity in pair.relevant)
        found.append(JudgedQuery(tuple(legs), relevant, default))
    return found


def _keep(searcher: Searcher, **changes: Any) -> Flow[None]:
    """Write into the collection's record, and use it from now on."""
    ready = searcher.ready
    if ready.schema.record is None:
        raise CollectionMismatch(ready.read_only or "the collection has no record to keep settings in: open it once")
    record = {name: value for name, value in {**ready.schema.record, **changes}.items() if value is not None}
    yield from calls.set_metadata(ready.collection, {RECORD_KEY: record})
    searcher.adopt(replace(ready, schema=replace(ready.schema, record=record)))
