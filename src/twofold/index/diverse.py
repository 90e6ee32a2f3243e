"""Searching with a vector that is there already, instead of a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from twofold.documents import point_id
from twofold.encoders.base import Vectors
from twofold.engine import calls
from twofold.errors import InvalidQuery
from twofold.flow import Flow
from twofold.index.opening import Ready
from twofold.index.queries import Query
from twofold.index.searching import Searcher
from twofold.ranking.fusion import is_number
from twofold.results import SearchResult

# --- Searching with a vector that is there already, instead of a text ---


def search_by_vector(searcher: Searcher, query: Query, vector: Sequence[float] | Vectors) -> Flow[SearchResult]:
    """What is nearest to a vector, by the same path that the vector of a text takes."""
    return (yield from searcher.search(replace(query, vector=checked_vector(vector, searcher.ready))))


def checked_vector(vector: Any, ready: Ready) -> Vectors:
    """A vector that can be compared with those of the collection, or what is wrong with it."""
    try:
        array = np.asarray(vector, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InvalidQuery(f"a vector is a list of numbers, got {type(vector).__name__}: {error}") from error
    if array.shape != (ready.dim,):
        raise InvalidQuery(
            f"the vector has shape {array.shape}, and those of the collection have {ready.dim} dimensions: make it "
            f"with the model that the collection was written with, {ready.dense.name}"
        )
    if not np.isfinite(array).all():
        raise InvalidQuery("the vector holds NaN or infinity, which can't be compared: give finite numbers")
    return array


# --- Hits that are relevant and differ from each other: maximal marginal relevance ---

_NOISE = 1.5e-6  # engines compute in 32 bits: closer than this, values are equal
Numbers = npt.NDArray[np.float64]


def search_diverse(
    searcher: Searcher, query: Query, vector: Sequence[float] | None, candidates: int, diversity: float
) -> Flow[SearchResult]:
    """Choose among the best candidates of a search by text, or by vector if one is given."""
    wide = _widened(query, candidates, diversity)
    if vector is None:
        found = yield from searcher.search(wide)
    else:
        found = yield from search_by_vector(searcher, wide, vector)
    units = yield from _units(searcher.ready, found.ids)
    relevance = _shares(found) if vector is None else units @ _unit(checked_vector(vector, searcher.ready))
    chosen = choose(relevance, units, query.k, diversity)
    return replace(found, hits=tuple(found.hits[place] for place in chosen))


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
        place = int(np.flatnonzero(value >= value.max() - _NOISE)[0])
        similar = units @ units[place]
        nearest = np.maximum(nearest, similar) if chosen else similar
        free[place] = False
        chosen.append(place)
    return chosen


def _widened(query: Query, candidates: int, diversity: float) -> Query:
    if isinstance(candidates, bool) or not isinstance(candidates, int) or candidates < 1:
        raise InvalidQuery(f"candidates must be a whole number from 1, got {candidates!r}")
    if not is_number(diversity) or not 0 <= diversity <= 1:
        raise InvalidQuery(f"diversity must be between 0 (relevance only) and 1 (difference only), got {diversity!r}")
    return replace(query, k=max(candidates, query.k) if query.k else 0)


def _shares(found: SearchResult) -> Numbers:
    """How relevant the hits are, compared with the best: 1 for it, so that cosines are on the same scale."""
    best = max((hit.relevance for hit in found), default=0.0)
    return np.array([hit.relevance / best if best else 0.0 for hit in found], dtype=np.float64)


def _units(ready: Ready, ids: Sequence[str]) -> Flow[Numbers]:
    """The dense vectors of documents, each of length 1; zeros for one without."""
    points = [point_id(identity) for identity in ids]
    known = {} if ready.no_dense or not points else (yield from calls.dense_vectors(ready.collection, points))
    nothing = np.zeros(ready.dim)
    rows = [_unit(known[point]) if point in known else nothing for point in points]
    return np.array(rows, dtype=np.float64).reshape(len(points), ready.dim)


def _unit(vector: Vectors | Sequence[float]) -> Numbers:
    array = np.asarray(vector, dtype=np.float64)
    length = float(np.linalg.norm(array))
    return array / length if length else array
