"""Namespaces: which are allowed, how they lie in a collection, and which match a pattern."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from langgraph.store.base import InvalidNamespaceError, ListNamespacesOp, MatchCondition

from twofold.engine import calls
from twofold.engine.layout import metadata_key
from twofold.errors import InvalidQuery
from twofold.filters import All, Equals, Node
from twofold.flow import Flow
from twofold.index.opening import Ready

PATH = "path"
PREFIXES = "prefixes"
_ANY = "*"
_AT_FIRST = 1024


def check_labels(namespace: Sequence[Any]) -> None:
    """The rules of LangGraph's own methods, for operations that come in a batch too."""
    for label in namespace:
        if not isinstance(label, str):
            raise InvalidNamespaceError(f"{label!r} in {namespace!r} is a {type(label).__name__}: labels are strings")
        if not label or "." in label or "\x00" in label:
            raise InvalidNamespaceError(
                f"{label!r} in {namespace!r} can't be a label: it must have characters, but no '.' and no NUL"
            )


def check_namespace(namespace: Sequence[Any]) -> None:
    """A namespace that something is stored in."""
    if not namespace:
        raise InvalidNamespaceError("an item needs a namespace: give at least one label")
    check_labels(namespace)
    if namespace[0] == "langgraph":
        raise InvalidNamespaceError(f'the first label of {namespace!r} is "langgraph", which is reserved: take another')


def written(namespace: Iterable[str]) -> str:
    """A namespace as one text. JSON, so that no two are written alike, whatever is in their labels."""
    return json.dumps(list(namespace))


def prefixes(namespace: Sequence[str]) -> list[str]:
    """A namespace and all that it lies in; the empty one too, which marks a row as an item of a store."""
    return [written(namespace[:depth]) for depth in range(len(namespace) + 1)]


def within(prefix: Sequence[str]) -> Node:
    """The condition for everything in a namespace and below."""
    return Equals(PREFIXES, written(prefix))


def listed(ready: Ready, op: ListNamespacesOp, alive: Sequence[Node]) -> Flow[list[tuple[str, ...]]]:
    """The namespaces that have items, sorted."""
    for name, value in (("limit", op.limit), ("offset", op.offset), ("max_depth", op.max_depth or 0)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InvalidQuery(f"{name} must be a whole number from 0, got {value!r}")
    patterns = op.match_conditions or ()
    where = All((_narrowed(patterns), *alive))
    found = yield from _all_paths(ready, where)
    fitting = {path[: op.max_depth] for path in found if all(_matches(path, pattern) for pattern in patterns)}
    return sorted(fitting)[op.offset : op.offset + op.limit]


def _all_paths(ready: Ready, where: Node) -> Flow[list[tuple[str, ...]]]:
    """Every namespace once. More are asked for until there are fewer than were asked for."""
    limit = _AT_FIRST
    while True:
        counts = yield from calls.facet(ready.collection, metadata_key(PATH), where, limit)
        if len(counts) < limit:
            return [tuple(json.loads(path)) for path in counts]
        limit *= 8


def _narrowed(patterns: Sequence[MatchCondition]) -> Node:
    """What the engine can do of the patterns: a beginning without wildcards."""
    plain = [p.path for p in patterns if p.match_type == "prefix" and _ANY not in p.path]
    return within(max(plain, key=len, default=()))


def _matches(namespace: tuple[str, ...], pattern: MatchCondition) -> bool:
    wanted, there = list(pattern.path), list(namespace)
    if pattern.match_type == "suffix":
        wanted, there = wanted[::-1], there[::-1]
    elif pattern.match_type != "prefix":
        raise InvalidQuery(f"a namespace is matched by 'prefix' or 'suffix', got {pattern.match_type!r}")
    return len(wanted) <= len(there) and all(want in (_ANY, have) for want, have in zip(wanted, there, strict=False))
