"""A search that has been asked for: its arguments, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from operator import index
from typing import Any

from pydantic import ValidationError
from qdrant_client import models

from twofold.config import SearchConfig
from twofold.encoders.base import Vectors
from twofold.engine.layout import Stored
from twofold.errors import InvalidQuery
from twofold.filters import Node
from twofold.fusion import LegName, Strategy, resolve
from twofold.fusion.base import shares
from twofold.signals import Signals

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
