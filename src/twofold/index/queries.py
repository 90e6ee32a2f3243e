"""A search that has been asked for: its arguments, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import index
from typing import Any

import numpy as np
from pydantic import ValidationError
from qdrant_client import models

from twofold.config import SearchConfig
from twofold.encoders.base import LRU, Breaker, Sparse, Vectors, blend, check_dense
from twofold.engine.asking import Probe
from twofold.engine.layout import Stored
from twofold.errors import EncoderError, InvalidQuery, TwofoldError
from twofold.filters import Node
from twofold.flow import Flow, Work
from twofold.index.opening import Ready
from twofold.ranking.fusion import LegName, Strategy, resolve, shares
from twofold.ranking.signals import Signals
from twofold.text import normalise

# --- A search that has been asked for: its arguments, checked ---

_MOST = 1_000_000


@dataclass(frozen=True, slots=True)
class Floor:
    """What a hit must have: this final score, or else this cosine."""

    score: float
    cosine: float | None = None
    """Meaning alone is enough from here on; None if it never is."""


@dataclass
class Tally:
    """What a search came across before anything was left out."""

    ranked: int = 0
    """How many documents were ranked."""
    legs: Mapping[LegName, frozenset[str]] = field(default_factory=dict)
    """What each leg brought, where hits are explained: only then it is brought here."""


@dataclass(frozen=True)
class Extras:
    """What a search takes into account besides the text of the query."""

    signals: Signals
    hint: str = ""
    """Words to look for as well, at less weight: what mistyped ones were meant to be."""
    named: str = ""
    """The words of what the query names. They are looked for by themselves too, so that documents which have them are
    found even where others match the rest of the query better."""
    hidden: tuple[str, ...] = ()
    """Metadata fields that a hit doesn't need."""
    corpus: Node | None = None
    """The documents whose words decide how rare a word is; None for the whole collection."""
    floor: Floor | None = None
    """Hits below it are left out where both legs took part and the query sets no other floor."""
    screen: Callable[[Stored], str | None] = lambda stored: None
    """Why a row can't be handed out, None if it can."""
    words_of: Callable[[Stored], str] = lambda stored: stored.text
    """The text whose words find a document."""
    tally: Tally = field(default_factory=Tally)
    """Filled in by the search."""


@dataclass(frozen=True)
class Query:
    """A search that has been checked."""

    text: str
    k: int
    offset: int
    where: Node | models.Filter | None
    fusion: Strategy
    config: SearchConfig
    """Everything else; its own `fusion` has been replaced by the one above."""
    explain: bool
    extras: Extras | None = None
    vector: Vectors | None = None
    """What the dense leg looks for, instead of the text's own vector."""

    @property
    def need(self) -> int:
        """How many rows of the ranking are needed."""
        return self.offset + self.k


def _overridden(config: SearchConfig, given: Mapping[str, Any]) -> SearchConfig:
    if "fusion" in given:
        given = {**given, "fusion": resolve(given["fusion"])}
    try:
        return _known(config, **given)
    except TypeError:  # something in it can't be looked up, so it isn't known
        return _validated(config, **given)


def _validated(config: SearchConfig, **given: Any) -> SearchConfig:
    try:
        return SearchConfig(**{**dict(config), **given})
    except ValidationError as error:
        wrong = "; ".join(f"{e['loc'][0]}: {e['msg']}, got {e['input']!r}" for e in error.errors())
        raise InvalidQuery(wrong) from error


# Programs ask in few ways, again and again. By type as well: True is equal to 1, but is no depth.
_known = lru_cache(maxsize=256, typed=True)(_validated)


def check_text(query: object) -> str:
    """A text to look for."""
    if not isinstance(query, str):
        raise InvalidQuery(f"the query must be a string, got {type(query).__name__}")
    return query


@lru_cache(maxsize=256)
def _leaning(fusion: Strategy, meaning: float, _: float) -> Strategy:
    return fusion.with_alpha(meaning)


def _whole(name: str, value: Any) -> int:
    """A number of hits; numpy's whole numbers count as such."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or not 0 <= value <= _MOST:
        raise InvalidQuery(f"{name} must be a whole number from 0 to {_MOST:,}, got {value!r}")
    return index(value)


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
    query = check_text(query)
    k, offset = _whole("k", k), _whole("offset", offset)
    given = {name: value for name, value in overrides.items() if value is not None}
    alpha = given.pop("alpha", None)
    if given:
        config = _overridden(config, given)
    fusion = config.fusion if alpha is None else _leaning(config.fusion, *shares(alpha))
    return Query(text=query, k=k, offset=offset, where=where, fusion=fusion, config=config, explain=explain)


# --- A query's text as vectors, one for each leg that can be used; why not, where one can't ---

HINTED = 0.6
"""What a word that was probably meant weighs, where one that was written weighs 1."""
_NAMED = 50
_LEGS: tuple[LegName, LegName] = ("dense", "lexical")


class QueryEncoder:
    """Encodes queries for one open collection, and remembers the vectors of the last ones."""

    def __init__(self, ready: Ready, cache_size: int) -> None:
        self._ready = ready
        self._vectors: LRU[Vectors] = LRU(cache_size)
        self._breaker = Breaker()

    def probes(self, text: str, fusion: Strategy, query: Query, reasons: list[str]) -> Flow[list[Probe]]:
        """The legs that this query can use. If all that were wanted fail, the other stands in."""
        wanted = [leg for leg in _LEGS if fusion.weight(leg) > 0]
        probes = yield from self._encode(wanted, text, query, reasons)
        if not probes:
            others = [leg for leg in _LEGS if leg not in wanted]
            probes = yield from self._encode(others, text, query, reasons)
        return [*probes, *(yield from self._named(probes, query))]

    def _named(self, probes: Sequence[Probe], query: Query) -> Flow[list[Probe]]:
        """The lexical leg once more, for the words of what the query names alone."""
        words = [probe for probe in probes if probe.leg == "lexical"]
        if not words or query.extras is None or not query.extras.named:
            return []
        vector = yield from self._encode_sparse(query.extras.named, "")
        return [replace(words[0], vector=vector, most=_NAMED)] if vector.indices else []

    def _encode(self, legs: Sequence[LegName], text: str, query: Query, reasons: list[str]) -> Flow[list[Probe]]:
        probes = []
        config, hint = query.config, query.extras.hint if query.extras else ""
        for leg in legs:
            unusable = self._ready.no_dense if leg == "dense" else self._ready.no_lexical
            if unusable:
                reasons.append(unusable)
                continue
            try:
                vector = yield from (
                    self._encode_dense(text, query.vector) if leg == "dense" else self._encode_sparse(text, hint)
                )
            except Exception as error:  # whatever a model raises, the other leg goes on
                reasons.append(f"the {leg} encoder failed: {type(error).__name__}: {error}")
                continue
            if isinstance(vector, Sparse) and not vector.indices:
                reasons.append("the query has no word that the lexical leg indexes")
                continue
            probes.append(Probe(leg, vector, config.min_semantic if leg == "dense" else config.min_lexical))
        return probes

    def embed_query(self, text: str) -> Flow[list[float]]:
        """The dense vector that a search for this text compares with."""
        cleaned = normalise(check_text(text))
        try:
            vector = yield from self._encode_dense(cleaned, None)
        except TwofoldError:
            raise
        except Exception as error:
            raise EncoderError(f"{self._ready.dense.name} failed on a query: {error}") from error
        numbers: list[float] = vector.tolist()
        return numbers

    def _encode_dense(self, text: str, given: Vectors | None) -> Flow[Vectors]:
        cached = self._vectors.get(text) if given is None else given
        if cached is not None:
            return cached
        encoder = self._ready.dense
        native = encoder.aembed_query
        self._breaker.check()
        try:
            raw = yield Work(lambda: encoder.embed_query(text), None if native is None else lambda: native(text))
            vector: Vectors = check_dense(np.asarray(raw)[None, ...], 1, self._ready.dim, encoder.name)[0]
        except Exception:
            self._breaker.failed()
            raise
        self._breaker.worked()
        self._vectors.put(text, vector)
        return vector

    def _encode_sparse(self, text: str, hint: str) -> Flow[Sparse]:
        embed = self._ready.sparse.embed_query
        vector: Sparse = yield Work(lambda: blend([(embed(text), 1.0), (embed(hint), HINTED)]) if hint else embed(text))
        return vector
