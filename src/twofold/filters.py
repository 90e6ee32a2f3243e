"""Filters: a small tree of frozen values, free of any engine, and the dict language that it is written in."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import date, datetime
from typing import Any, TypeAlias

from twofold.documents import MAX_DEPTH, MAX_INT, as_moment, without_numpy
from twofold.errors import FilterError
from twofold.text import find_surrogate

# --- The tree ---

Scalar: TypeAlias = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Equals:
    """The field, or one of its elements, is this value."""

    field: str
    value: Scalar | datetime


@dataclass(frozen=True, slots=True)
class AnyOf:
    """The field, or one of its elements, is one of these values; none of none."""

    field: str
    values: tuple[Scalar | datetime, ...]


@dataclass(frozen=True, slots=True)
class Between:
    """The field lies within bounds, all numbers or all dates."""

    field: str
    gt: float | datetime | None = None
    gte: float | datetime | None = None
    lt: float | datetime | None = None
    lte: float | datetime | None = None


@dataclass(frozen=True, slots=True)
class Present:
    """The field is there and holds something (not null, not an empty list)."""

    field: str


@dataclass(frozen=True, slots=True)
class Contains:
    """The field's text contains all of these words."""

    field: str
    text: str


@dataclass(frozen=True, slots=True)
class HasPoint:
    """It is one of these points, by the ids that the engine has for them; none of none."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HasId:
    """It is one of these documents."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HasVector:
    """The point has a vector of this name."""

    name: str


@dataclass(frozen=True, slots=True)
class TextContains:
    """The document's own text contains all of these words."""

    text: str


@dataclass(frozen=True, slots=True)
class Native:
    """A filter in the engine's own form, as a part of one of ours."""

    filter: Any


@dataclass(frozen=True, slots=True)
class All:
    """Every part holds; true if there are none."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """At least one part holds; false if there are none."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold."""

    part: Node


Leaf: TypeAlias = Equals | AnyOf | Between | Present | Contains
"""A condition on a metadata field."""
Node: TypeAlias = Leaf | HasPoint | HasId | HasVector | TextContains | Native | All | Either | Not


def leaves(node: Node) -> list[Leaf]:
    """Every condition on a field, wherever it stands in the tree."""
    if isinstance(node, (All, Either)):
        return [leaf for part in node.parts for leaf in leaves(part)]
    if isinstance(node, Not):
        return leaves(node.part)
    return [node] if isinstance(node, Leaf) else []


def matches_all(node: Node) -> bool:
    """The filter says nothing: it holds for every document, whatever its fields."""
    return _verdict(node) is True


def _verdict(node: Node) -> bool | None:
    """Whether a filter holds for every document (True) or for none (False) by its form alone; None if it depends."""
    if isinstance(node, Not):
        inner = _verdict(node.part)
        return None if inner is None else not inner
    if isinstance(node, (All, Either)):
        deciding = isinstance(node, Either)  # one true part decides an `or`, one false part an `and`
        verdicts = {_verdict(part) for part in node.parts}
        if deciding in verdicts:
            return deciding
        return None if None in verdicts else not deciding
    never = (isinstance(node, AnyOf) and not node.values) or (isinstance(node, (HasPoint, HasId)) and not node.ids)
    return False if never else None


def part_of(node: Node) -> Node | None:
    """What a filter names by a text, as a user or a project, and not by ranges or alternatives; None if nothing."""
    named = tuple(_named(node))
    return All(named) if named else None


def _named(node: Node) -> list[Node]:
    if isinstance(node, All):
        return [named for part in node.parts for named in _named(part)]
    if isinstance(node, Either) and len(node.parts) == 1:
        return _named(node.parts[0])
    if isinstance(node, AnyOf) and len(node.values) == 1:
        return _named(Equals(node.field, node.values[0]))
    return [node] if isinstance(node, Equals) and isinstance(node.value, str) else []


def needed_indexes(node: Node) -> dict[str, str]:
    """By field, the kind of payload index that makes this filter fast."""
    return {leaf.field: _index_kind(leaf) for leaf in leaves(node) if not isinstance(leaf, Present)}


def _index_kind(leaf: Leaf) -> str:
    if isinstance(leaf, Contains):
        return "text"
    values = leaf.values or ("",) if isinstance(leaf, AnyOf) else astuple(leaf)[1:]
    value = next(value for value in values if value is not None)
    if isinstance(value, datetime):
        return "datetime"
    if isinstance(value, bool):
        return "bool"
    # A float index holds whole numbers too; an integer index would lose 2.5.
    return "keyword" if isinstance(value, str) else "float"


# --- The dict language ---

_BOUNDS = ("gt", "gte", "lt", "lte")


def parse(condition: object, depth: int = 0) -> Node:
    """Understand a filter dict, so deep within another, or say what is wrong with it."""
    if depth > MAX_DEPTH:
        raise FilterError(f"the filter is nested deeper than {MAX_DEPTH} levels: write it flatter")
    if not isinstance(condition, Mapping):
        raise FilterError(f"a filter is a dict such as {{'year': {{'gte': 2010}}}}, got {type(condition).__name__}")
    parts = [_entry(key, value, depth) for key, value in condition.items()]
    return parts[0] if len(parts) == 1 else All(tuple(parts))


def _entry(key: object, value: Any, depth: int) -> Node:
    if not isinstance(key, str) or not key:
        raise FilterError(f"a filter key is the name of a field, got {key!r}")
    word = key.removeprefix("$")
    if word in ("and", "or"):
        parts = tuple(parse(part, depth + 1) for part in _list(value, key))
        return All(parts) if word == "and" else Either(parts)
    if word == "not":
        return Not(parse(value, depth + 1))
    if key == "$id":  # always with the sign: metadata may well have a field "id"
        return _ids(value)
    if key.startswith("$"):
        raise FilterError(f"unknown operator {key!r}: at this place use and, or, not, $id, or the name of a field")
    if '"' in key or "" in key.split(".") or find_surrogate(key) is not None:
        raise FilterError(f"{key!r} is not the name of a field: write nested ones as 'author.name'")
    return _field(key, value, depth)


def _ids(value: Any) -> HasId:
    ids = [value] if isinstance(value, str) else _list(value, "$id")
    for each in ids:
        if not isinstance(each, str):
            raise FilterError(f"$id takes the ids of documents, which are strings, got {each!r}")
    return HasId(tuple(ids))


def _field(field: str, value: Any, depth: int) -> Node:
    if isinstance(value, Mapping):
        return _operators(field, value, depth)
    return AnyOf(field, _values(field, value, "in")) if _is_list(value) else _equals(field, value)


def _operators(field: str, operators: Mapping[Any, Any], depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise FilterError(f"{field!r}: the filter is nested deeper than {MAX_DEPTH} levels: write it flatter")
    if not operators:
        raise FilterError(f"{field!r}: an empty dict says nothing: give an operator such as {{'eq': …}}")
    named = {str(key).removeprefix("$"): value for key, value in operators.items()}
    if len(named) != len(operators):
        raise FilterError(f"{field!r}: the same operator is given twice, with and without $")
    known = [*_OPERATORS, *_BOUNDS, "not"]
    for name in named:
        if name not in known:
            raise FilterError(
                f"{field!r}: unknown operator {name!r}: use one of {', '.join(known)}; a nested field is written "
                f"'{field}.{name}'"
            )
    bounds = {name: value for name, value in named.items() if name in _BOUNDS}
    parts: list[Node] = [_OPERATORS[name](field, value) for name, value in named.items() if name in _OPERATORS]
    if bounds:
        parts.append(_between(field, bounds))
    if "not" in named:
        parts.append(Not(_field(field, named["not"], depth + 1)))
    return parts[0] if len(parts) == 1 else All(tuple(parts))


def _between(field: str, bounds: Mapping[str, Any]) -> Between:
    found = {name: _bound(field, name, value) for name, value in bounds.items()}
    if len({isinstance(value, datetime) for value in found.values()}) > 1:
        raise FilterError(f"{field!r}: bounds must be all numbers or all dates, got {dict(bounds)!r}")
    return Between(field, **found)


def _bound(field: str, name: str, value: Any) -> float | datetime:
    value = without_numpy(value)
    if isinstance(value, date):
        return as_moment(value)
    if isinstance(value, str):
        try:
            return as_moment(datetime.fromisoformat(value.strip().replace("Z", "+00:00")))
        except ValueError:
            raise FilterError(
                f"{field!r}: {name} needs a number or a date (2024-05-01, 2024-05-01T12:00:00Z), got {value!r}"
            ) from None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise FilterError(f"{field!r}: {name} needs a number or a date, got {type(value).__name__}")
    return _inward(field, name, value)


def _inward(field: str, name: str, value: float) -> float:
    """A bound as the float that the engine takes; an int that is none becomes the next one that doesn't widen."""
    number, lower = float(_finite(field, value)), name in ("gt", "gte")
    widens = number < value if lower else number > value
    return math.nextafter(number, math.inf if lower else -math.inf) if widens else number


def _present(field: str, value: Any) -> Node:
    if not isinstance(value, bool):
        raise FilterError(f"{field!r}: exists takes True or False, got {value!r}")
    return Present(field) if value else Not(Present(field))


def _contains(field: str, value: Any) -> Node:
    if not isinstance(value, str) or not value.strip():
        raise FilterError(f"{field!r}: text takes the words to look for, got {value!r}")
    return Contains(field, _storable(field, value))


def _equals(field: str, value: Any) -> Node:
    return Not(Present(field)) if value is None else Equals(field, _scalar(field, value, "eq"))


def _differs(field: str, value: Any) -> Node:
    return Present(field) if value is None else Not(Equals(field, _scalar(field, value, "ne")))


_OPERATORS: dict[str, Callable[[str, Any], Node]] = {
    "eq": _equals,
    "ne": _differs,
    "in": lambda field, value: AnyOf(field, _values(field, value, "in")),
    "nin": lambda field, value: Not(AnyOf(field, _values(field, value, "nin"))),
    "exists": _present,
    "text": _contains,
}


def _values(field: str, values: Any, operator: str) -> tuple[Scalar | datetime, ...]:
    return tuple(_scalar(field, value, operator) for value in _list(values, f"{field}: {operator}"))


def _scalar(field: str, value: Any, operator: str) -> Scalar | datetime:
    value = without_numpy(value)
    if isinstance(value, date):
        return as_moment(value)
    if isinstance(value, str):
        return _storable(field, value)
    if isinstance(value, (int, float)):
        return _finite(field, value)
    if _is_list(value):
        raise FilterError(f"{field!r}: {operator} takes one value, got a list: use 'in'")
    raise FilterError(f"{field!r}: {operator} takes a string, number, bool or date, got {type(value).__name__}")


def _list(value: Any, where: str) -> list[Any]:
    if not _is_list(value):
        raise FilterError(f"{where!r} takes a list, got {type(value).__name__}")
    return list(value)


def _is_list(value: Any) -> bool:
    return isinstance(value, (Sequence, set, frozenset)) and not isinstance(value, (str, bytes, bytearray, memoryview))


def _finite(field: str, value: float) -> float:
    if isinstance(value, int) and not -MAX_INT <= value < MAX_INT:
        raise FilterError(f"{field!r}: a whole number beyond 64 bits can't be compared: no stored number is that large")
    if not math.isfinite(value):
        raise FilterError(f"{field!r}: {value} can't be compared: give a finite number")
    return value


def _storable(field: str, value: str) -> str:
    if find_surrogate(value) is not None:
        raise FilterError(f"{field!r}: the value has half a character (a lone surrogate): no stored text has that")
    return value
