"""A filter, understood: a small tree of frozen values, free of any engine."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

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


Node: TypeAlias = Equals | AnyOf | Between | Present | Contains | All | Either | Not
Leaf: TypeAlias = Equals | AnyOf | Between | Present | Contains


def leaves(node: Node) -> list[Leaf]:
    """Every condition on a field, wherever it stands in the tree."""
    if isinstance(node, (All, Either)):
        return [leaf for part in node.parts for leaf in leaves(part)]
    if isinstance(node, Not):
        return leaves(node.part)
    return [node]


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
    return False if isinstance(node, AnyOf) and not node.values else None
