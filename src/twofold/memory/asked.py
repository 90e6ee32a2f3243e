"""What a recall is asked for, and its conditions as filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from twofold.errors import FilterError, InvalidQuery
from twofold.filters import Node
from twofold.filters.nodes import All, AnyOf, Between
from twofold.memory.config import MemoryConfig, check_trust
from twofold.memory.fields import condition
from twofold.memory.items import TRUST
from twofold.memory.layout import as_moment, as_tags
from twofold.memory.scope import Shelf
from twofold.signals import Lexicon


@dataclass(frozen=True)
class Recall:
    """What `recall` was asked for."""

    query: str
    k: int | None = None
    offset: int = 0
    types: Sequence[str] | str | None = None
    tags: Sequence[str] | str | None = None
    match: str = "any"
    filter: Mapping[str, Any] | None = None
    alpha: float | None = None
    fusion: Any = None
    depth: int | None = None
    min_score: float | None = None
    since: Any = None
    until: Any = None
    min_trust: str | None = None
    explain: bool = False
    signals: bool = True
    learned: bool = True
    shelf: Shelf = "memory"


def conditions(asked: Recall, config: MemoryConfig | None, lexicon: Lexicon | None = None) -> list[Node | None]:
    """What was asked for besides the query, as filters."""
    trust = asked.min_trust or (config.min_trust if config else None)
    types = _names(asked.types, "types")
    return [
        AnyOf("type", types) if types else None,
        _tag_filter(asked.tags, asked.match, lexicon),
        condition(asked.filter),
        between("created", asked.since, asked.until),
        None if trust is None else AnyOf("trust", TRUST[TRUST.index(check_trust(trust, InvalidQuery)) :]),
    ]


def _tag_filter(tags: Sequence[str] | str | None, match: str, lexicon: Lexicon | None) -> Node | None:
    """One of the tags, or all of them, each in any spelling that the memories have."""
    if match not in ("any", "all"):
        raise InvalidQuery(f"match must be 'any' or 'all', got {match!r}")
    wanted = [_spellings(tag, lexicon) for tag in _names(tags, "tags")]
    if not wanted:
        return None
    if match == "any":
        return AnyOf("tags", tuple(dict.fromkeys(each for spellings in wanted for each in spellings)))
    return All(tuple(AnyOf("tags", spellings) for spellings in wanted))


def _spellings(tag: str, lexicon: Lexicon | None) -> tuple[str, ...]:
    known = lexicon.spellings("tags", tag) if lexicon is not None else ()
    return tuple(dict.fromkeys([tag, *map(str, known)]))


def _names(given: Sequence[str] | str | None, what: str) -> tuple[str, ...]:
    try:
        return as_tags(given)
    except ValueError as error:
        raise InvalidQuery(f"{what}: {error}") from error


def between(field: str, since: Any, until: Any) -> Node | None:
    """A condition on a date; None if no bound is given."""
    if since is None and until is None:
        return None
    low = None if since is None else moment(since, "since")
    return Between(field, gte=low, lte=None if until is None else latest(until))


def latest(until: Any) -> datetime:
    """The last moment that is meant by "until": a day is over when it ends."""
    last = moment(until, "until")
    return last + timedelta(days=1, microseconds=-1) if _is_day(until) else last


def _is_day(value: Any) -> bool:
    if not isinstance(value, str):
        return not isinstance(value, datetime)
    try:
        date.fromisoformat(value.strip())
    except ValueError:
        return False
    return True


def moment(value: Any, name: str) -> datetime:
    """A bound of a search in time."""
    try:
        return as_moment(value, name)
    except ValueError as error:
        raise FilterError(str(error)) from error
