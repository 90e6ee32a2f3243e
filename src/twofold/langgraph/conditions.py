"""LangGraph's filters as conditions on the facts of an item."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from twofold.errors import FilterError
from twofold.filters import All, Between, Equals, Node, Not
from twofold.langgraph import facts
from twofold.langgraph.facts import Path

FACTS = "facts"
RANGES = "ranges"
_BOUNDS = ("$gt", "$gte", "$lt", "$lte")
_KNOWN = ("$eq", "$ne", *_BOUNDS)


def conditions(wanted: Mapping[str, Any] | None) -> list[Node]:
    """What a filter such as {"type": "note", "score": {"$gte": 3}} asks for; all of it must hold."""
    if wanted is None:
        return []
    if not isinstance(wanted, Mapping):
        raise FilterError(f"a filter is a dict such as {{'type': 'note'}}, got {type(wanted).__name__}")
    for key in wanted:
        if not isinstance(key, str) or key.startswith("$"):
            raise FilterError(
                f"{key!r} is not the name of a field: write operators below one, {{'score': {{'$gt': 3}}}}"
            )
    return [_field((key,), value) for key, value in wanted.items()]


def _field(path: Path, wanted: Any) -> Node:
    if not isinstance(wanted, Mapping):
        return _equals(path, wanted)
    if any(str(key).startswith("$") for key in wanted):
        return All(tuple(_operator(path, name, value) for name, value in wanted.items()))
    inside = [_field((*path, str(key)), value) for key, value in wanted.items()]
    return All((Equals(FACTS, facts.is_object(path)), *inside))


def _operator(path: Path, name: str, value: Any) -> Node:
    if name in _BOUNDS:
        return _bound(path, name, value)
    if name == "$eq":
        return _equals(path, value)
    if name == "$ne":
        return Not(_equals(path, value))
    raise FilterError(f"{_said(path)}: unknown operator {name!r}: use one of {', '.join(_KNOWN)}")


def _equals(path: Path, value: Any) -> Node:
    """Null is the same as not there."""
    if value is None:
        return Not(Equals(FACTS, facts.has(path)))
    _check(path, value)
    return Equals(FACTS, facts.equals(path, value))


def _check(path: Path, value: Any) -> None:
    """Refuse what no item can hold, and an operator within a value: it would be taken for a part of it."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            if str(key).startswith("$"):
                raise FilterError(f"{_said(path)}: {key!r} can't stand inside a list or a value: compare whole values")
            _check(path, part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            _check(path, part)
    elif not (value is None or isinstance(facts.bare(value), (str, int, float, date))):
        raise FilterError(
            f"{_said(path)}: no item holds a {type(value).__name__}: convert it as you did to store it, to a string, a "
            "number or a list"
        )


def _bound(path: Path, name: str, value: Any) -> Node:
    measured = facts.measure(value)
    if measured is None:
        raise FilterError(f"{_said(path)}: {name} needs a number or a date (2026-05-01), got {value!r}")
    kind, number = measured
    return Between(f"{RANGES}.{facts.range_field(kind, path)}", **{name.removeprefix("$"): number})


def _said(path: Path) -> str:
    return repr(".".join(path))
