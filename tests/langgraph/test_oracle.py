"""Any filter over any values finds what LangGraph's own store finds, where the two mean the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.store.base import PutOp

from tests.langgraph.stores import REFERENCE, Store

KEYS = st.sampled_from(["a", "b", "a.b", "a[0]", "", 'q"'])
# No booleans and no numbers in texts where a range is asked for: those are among the listed differences.
SCALARS = st.one_of(st.none(), st.integers(-3, 3), st.sampled_from([0.5, -1.0, 2.0]), st.sampled_from(["x", "y", ""]))
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(SCALARS, max_size=2) | st.dictionaries(KEYS, inner, max_size=2), max_leaves=4
)
ITEMS = st.lists(st.dictionaries(KEYS, VALUES, max_size=3), min_size=1, max_size=6)
EXACT = st.fixed_dictionaries({}, optional={"$eq": VALUES, "$ne": VALUES}).filter(bool)
FILTERS = st.dictionaries(KEYS, st.one_of(VALUES, EXACT, st.dictionaries(KEYS, EXACT, max_size=2)), max_size=2)
BOUNDS = st.dictionaries(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), st.integers(-3, 3), min_size=1)


def put(store: Store, values: list[dict[str, Any]]) -> None:
    store.clear()
    store.batch([PutOp(("n",), str(n), value, index=False) for n, value in enumerate(values)])


@settings(max_examples=60)
@given(values=ITEMS, wanted=st.lists(FILTERS, min_size=3, max_size=8))
def test_equality(stores: Callable[[str], Store], values: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    ours, reference = stores("embedded-sync"), stores(REFERENCE)
    for store in (ours, reference):
        put(store, values)
    for each in wanted:
        assert ours.keys(filter=each) == reference.keys(filter=each), each


@settings(max_examples=30)
@given(numbers=st.lists(st.integers(-3, 3) | st.sampled_from([0.5, -1.5, "1", "2.5"]), min_size=1), bounds=BOUNDS)
def test_ranges(stores: Callable[[str], Store], numbers: list[Any], bounds: dict[str, Any]) -> None:
    ours, reference = stores("embedded-sync"), stores(REFERENCE)
    for store in (ours, reference):
        put(store, [{"x": {"y": number}} for number in numbers])
    wanted = {"x": {"y": bounds}}
    assert ours.keys(filter=wanted, limit=100) == reference.keys(filter=wanted, limit=100)
