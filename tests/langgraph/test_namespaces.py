"""list_namespaces: the same on LangGraph's own store and on ours."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.store.base import ListNamespacesOp, MatchCondition, PutOp

from tests.langgraph.stores import Store

TREE = [
    ("a", "b", "c"),
    ("a", "b", "d", "e"),
    ("a", "b", "d", "i"),
    ("a", "b", "f"),
    ("a", "c", "f"),
    ("b", "a", "f"),
    ("users", "ada", "settings"),
    ("users", "bob", "settings", "v2"),
    ("users", "bob", "notes"),
]


@pytest.fixture
def tree(store: Store) -> Store:
    store.batch([PutOp(namespace, key, {"n": 1}, index=False) for namespace in TREE for key in ("one", "two")])
    return store


def chosen(*places: int) -> list[tuple[str, ...]]:
    return sorted(TREE[place] for place in places)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({}, sorted(TREE)),
        ({"prefix": ("a",)}, chosen(0, 1, 2, 3, 4)),
        ({"prefix": ("a", "b")}, chosen(0, 1, 2, 3)),
        ({"prefix": ("a", "b", "c", "d")}, []),
        ({"prefix": ("*", "a")}, chosen(5)),
        ({"prefix": ("users", "*", "settings")}, chosen(6, 7)),
        ({"prefix": ("*",)}, sorted(TREE)),
        ({"prefix": ("nothing",)}, []),
        ({"suffix": ("f",)}, chosen(3, 4, 5)),
        ({"suffix": ("b", "f")}, chosen(3)),
        ({"suffix": ("*", "f")}, chosen(3, 4, 5)),
        ({"suffix": ("settings", "*")}, chosen(7)),
        ({"prefix": ("a",), "suffix": ("f",)}, chosen(3, 4)),
        ({"prefix": ("a", "*"), "suffix": ("f",)}, chosen(3, 4)),
        ({"prefix": ("a", "b", "c"), "suffix": ("a", "b", "c")}, chosen(0)),
        ({"max_depth": 1}, [("a",), ("b",), ("users",)]),
        ({"max_depth": 2, "prefix": ("users",)}, [("users", "ada"), ("users", "bob")]),
        ({"max_depth": 3, "prefix": ("a", "b")}, [("a", "b", "c"), ("a", "b", "d"), ("a", "b", "f")]),
        ({"max_depth": 9}, sorted(TREE)),
        ({"limit": 2}, sorted(TREE)[:2]),
        ({"limit": 3, "offset": 2}, sorted(TREE)[2:5]),
        ({"offset": 100}, []),
        ({"limit": 1, "offset": 1, "max_depth": 1}, [("b",)]),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_patterns(tree: Store, arguments: dict[str, Any], found: list[tuple[str, ...]]) -> None:
    assert tree.namespaces(**arguments) == found


def test_several_patterns_must_all_match(tree: Store) -> None:
    patterns = (
        MatchCondition("prefix", ("a", "*")),
        MatchCondition("prefix", ("*", "b")),
        MatchCondition("suffix", ("f",)),
    )
    assert tree.batch([ListNamespacesOp(match_conditions=patterns)]) == [[("a", "b", "f")]]


def test_beginnings_are_whole_labels(store: Store) -> None:
    for namespace in [("a",), ("ab",), ("a", "x"), ("ab", "x")]:
        store.put(namespace, "k", {"n": 1})
    assert store.namespaces(prefix=("a",)) == [("a",), ("a", "x")]
    assert store.namespaces(suffix=("x",)) == [("a", "x"), ("ab", "x")]
    assert store.namespaces(suffix=("b",)) == []


def test_there_may_be_thousands(store: Store) -> None:
    store.batch([PutOp(("n", f"{n:04}"), "k", {"n": n}, index=False) for n in range(1100)])
    assert len(store.namespaces(limit=5000)) == 1100
    assert store.namespaces(limit=1, offset=1099) == [("n", "1099")]
    assert len(store.namespaces()) == 100
