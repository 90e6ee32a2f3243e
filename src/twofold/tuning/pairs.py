"""What tuning learns from: queries, and the documents that answer them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from twofold.errors import InvalidQuery


@dataclass(frozen=True)
class Pair:
    """A query, the ids of the documents that answer it, and where to look for them."""

    query: str
    relevant: frozenset[str]
    filter: Mapping[str, Any] | None = field(default=None, compare=False)


PairLike: TypeAlias = Pair | tuple[str, str | Iterable[str]] | Mapping[str, Any]
_KEYS = ("relevant", "expected", "ids", "id")


def as_pairs(given: Iterable[PairLike]) -> list[Pair]:
    """Pairs from whatever stands for them, one for each query and filter; one that can't be used says so.

    A query that came twice would be learned from and tried on at once, and would count as two.
    """
    found: dict[str, Pair] = {}
    for place, each in enumerate(given):
        pair = _pair(each, place)
        key = json.dumps([pair.query, pair.filter], sort_keys=True, default=repr)
        known = found.get(key, pair)
        found[key] = replace(known, relevant=known.relevant | pair.relevant)
    if not found:
        raise InvalidQuery("there is nothing to learn from: give pairs such as ('how do I log in', 'doc-17')")
    return list(found.values())


def _pair(given: PairLike, place: int) -> Pair:
    if isinstance(given, Pair):
        return given
    where = None
    if isinstance(given, Mapping):
        answers = next((given[key] for key in _KEYS if key in given), None)
        query, where = given.get("query"), given.get("filter")
    elif isinstance(given, Sequence) and not isinstance(given, str) and len(given) == 2:
        query, answers = given
    else:
        raise InvalidQuery(f"pair {place}: expected (query, id or ids) or a mapping, got {given!r}")
    ids: list[Any] = [answers] if not isinstance(answers, Iterable) or isinstance(answers, str) else list(answers)
    if not isinstance(query, str) or not query.strip() or not ids or not all(isinstance(i, str) for i in ids):
        raise InvalidQuery(f"pair {place}: a query and at least one id, as a string, are needed, got {given!r}")
    return Pair(query, frozenset(ids), where)
