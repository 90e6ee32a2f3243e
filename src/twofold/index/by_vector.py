"""Searching with a vector that is there already, instead of a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from twofold.encoders.base import Vectors
from twofold.engine.flow import Flow
from twofold.errors import InvalidQuery
from twofold.index.opening import Ready
from twofold.index.queries import Query
from twofold.index.searching import Searcher
from twofold.results import SearchResult


def search(searcher: Searcher, query: Query, vector: Sequence[float] | Vectors) -> Flow[SearchResult]:
    """What is nearest to a vector, by the same path that the vector of a text takes."""
    return (yield from searcher.search(replace(query, vector=checked(vector, searcher.ready))))


def checked(vector: Any, ready: Ready) -> Vectors:
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
