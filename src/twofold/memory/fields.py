"""Filters over memories: the names that a memory has, and the caller's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from twofold.errors import FilterError
from twofold.filters import Node, parse
from twofold.filters.nodes import All, Either, Not
from twofold.memory.vocabulary import field_path


def condition(given: Mapping[str, Any] | None) -> Node | None:
    """A filter dict as a condition: {"type": "note"} is a memory's own field, {"project": "x"} the caller's."""
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise FilterError(f"a filter is a dict such as {{'type': 'note'}}, got {type(given).__name__}")
    return _placed(parse(given)) if given else None


def _placed(node: Node) -> Node:
    if isinstance(node, All):
        return All(tuple(_placed(part) for part in node.parts))
    if isinstance(node, Either):
        return Either(tuple(_placed(part) for part in node.parts))
    if isinstance(node, Not):
        return Not(_placed(node.part))
    return replace(node, field=field_path(node.field))
