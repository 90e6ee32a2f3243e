"""Where ours differs from LangGraph's own in-memory store, each on purpose. The same list is in docs/langgraph.md."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, time, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from langgraph.store.base import InvalidNamespaceError, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from tests.langgraph.stores import Store
from twofold import FilterError, InvalidDocument, InvalidQuery


def test_created_at_stays_when_an_item_changes(ours: Store, reference: Store) -> None:
    """It says when the item was first created; the reference says when it was last changed."""
    kept = {}
    for store in (ours, reference):
        store.put(("a",), "k", {"n": 1})
        before = store.get(("a",), "k")
        store.put(("a",), "k", {"n": 2})
        after = store.get(("a",), "k")
        assert before is not None
        assert after is not None
        kept[store] = before.created_at == after.created_at
    assert kept == {ours: True, reference: False}


def test_a_namespace_is_gone_with_its_last_item(ours: Store, reference: Store) -> None:
    """The reference keeps it, and makes one for each namespace that somebody looked into."""
    for store in (ours, reference):
        store.put(("a",), "k", {"n": 1})
        store.delete(("a",), "k")
        store.get(("b",), "k")
    assert ours.namespaces() == []
    assert reference.namespaces() == [("a",), ("b",)]


def test_without_a_query_the_newest_comes_first(ours: Store, reference: Store) -> None:
    """As in LangGraph's database stores; the reference gives the oldest."""
    for store in (ours, reference):
        for n in range(5):
            store.put(("n",), str(n), {"n": n})
        store.put(("n",), "1", {"n": "changed"})
    assert [item.key for item in ours.search(("n",), limit=3)] == ["1", "4", "3"]
    assert [item.key for item in reference.search(("n",), limit=3)] == ["0", "1", "2"]


def test_a_batch_keeps_its_order(ours: Store) -> None:
    ours.batch([PutOp(("n",), str(n), {"n": n}) for n in range(20)])
    assert [item.key for item in ours.search(("n",), limit=20)] == [str(n) for n in reversed(range(20))]


def test_a_query_finds_only_what_is_searched(ours: Store, reference: Store) -> None:
    """The reference fills a page up with items that have nothing to be searched by."""
    for store in (ours, reference):
        store.put(("d",), "found", {"text": "rathole"})
        store.put(("d",), "not indexed", {"text": "rathole"}, False)
    assert [item.key for item in ours.search(("d",), query="rathole")] == ["found"]
    assert [item.key for item in reference.search(("d",), query="rathole")] == ["found", "not indexed"]


def test_words_count_as_well_as_meaning(ours: Store, reference: Store) -> None:
    """A name in a long text, and short texts that are nearer to the query as a whole."""
    for store in (ours, reference):
        store.put(("d",), "named", {"text": "many long words about other things, among which ERR_42 is mentioned"})
        for n in range(60):
            store.put(("d",), f"near {n}", {"text": f"what is that {n}"})
    query = "that ERR_42"
    assert ours.search(("d",), query=query)[0].key == "named"
    assert reference.search(("d",), query=query)[0].key != "named"


def test_an_item_that_is_no_longer_indexed_is_not_found(ours: Store, reference: Store) -> None:
    """The reference goes on finding it by the text it had before."""
    for store in (ours, reference):
        store.put(("d",), "k", {"text": "rathole"})
        store.put(("d",), "k", {"text": "secret"}, False)
    assert ours.search(("d",), query="rathole") == []
    assert [item.score is not None for item in reference.search(("d",), query="rathole")] == [True]


def test_equal_texts_in_one_batch_are_no_problem(ours: Store, reference: Store) -> None:
    ops = [PutOp(("d",), key, {"text": "the same"}) for key in ("one", "two")]
    ours.batch(ops)
    assert ours.keys(("d",), query="same") == ["one", "two"]
    with pytest.raises(ValueError, match="does not match"):
        reference.batch(ops)


def test_the_whole_value_can_be_named_in_a_put(ours: Store, reference: Store) -> None:
    """The reference takes "$" for the name of a field there."""
    for store in (ours, reference):
        store.put(("d",), "k", {"text": "rathole"}, ["$"])
    assert [item.score is not None for item in ours.search(("d",), query="rathole")] == [True]
    assert [item.score is not None for item in reference.search(("d",), query="rathole")] == [False]


def test_several_fields_are_one_text(ours: Store, reference: Store) -> None:
    """The reference keeps a vector for each, and takes the best: one field that fits is enough for the full score."""
    scores = {}
    for store in (ours, reference):
        store.put(("d",), "one", {"a": "rathole", "b": "many other words that have nothing to do with it"}, ["a", "b"])
        store.put(("d",), "two", {"a": "rathole tunnel", "b": "rathole port"}, ["a", "b"])
        scores[store] = {item.key: item.score or 0.0 for item in store.search(("d",), query="rathole")}
    assert scores[ours]["two"] > scores[ours]["one"]
    assert scores[reference]["one"] == pytest.approx(1)
    assert scores[reference]["two"] < 1


def test_search_needs_no_configuration(opened: Callable[..., Store]) -> None:
    """Without one the reference ignores the query."""
    store, bare = opened(), InMemoryStore()
    for each in (store.store, bare):
        each.put(("d",), "cake", {"text": "chocolate cake"})
        each.put(("d",), "tunnel", {"text": "rathole tunnel"})
    assert store.store.search(("d",), query="rathole", limit=1)[0].key == "tunnel"
    assert bare.search(("d",), query="rathole", limit=1)[0].key == "cake"


def test_true_is_not_one(ours: Store, reference: Store) -> None:
    for store in (ours, reference):
        store.put(("b",), "bool", {"x": True})
        store.put(("b",), "int", {"x": 1})
    assert ours.keys(("b",), filter={"x": 1}) == ["int"]
    assert ours.keys(("b",), filter={"x": True}) == ["bool"]
    assert reference.keys(("b",), filter={"x": 1}) == ["bool", "int"]


def test_what_is_no_number_is_left_out_of_a_range(ours: Store, reference: Store) -> None:
    """One item without a number makes the reference fail for all of them."""
    for store in (ours, reference):
        store.put(("r",), "number", {"x": 7})
        store.put(("r",), "text", {"x": "many"})
        store.put(("r",), "missing", {"y": 1})
    assert ours.keys(("r",), filter={"x": {"$gt": 5}}) == ["number"]
    assert ours.keys(("r",), filter={"x": {"$lt": 5}}) == []
    with pytest.raises((TypeError, ValueError)):
        reference.keys(("r",), filter={"x": {"$gt": 5}})


@pytest.mark.parametrize("bound", ["2026-03-01", datetime(2026, 3, 1, tzinfo=timezone.utc)], ids=["text", "datetime"])
def test_dates_can_be_compared(ours: Store, reference: Store, bound: Any) -> None:
    dates = {"jan": "2026-01-31", "march": "2026-03-01T00:00:00+00:00", "apr": "2026-04-01T12:00:00Z", "old": 20260501}
    for store in (ours, reference):
        for key, at in dates.items():
            store.put(("d",), key, {"at": at})
    assert ours.keys(("d",), filter={"at": {"$gte": bound}}) == ["apr", "march"]
    assert ours.keys(("d",), filter={"at": {"$lt": bound}}) == ["jan"]
    with pytest.raises((TypeError, ValueError)):
        reference.keys(("d",), filter={"at": {"$gte": bound}})


def test_an_infinite_bound_is_an_error(ours: Store, reference: Store) -> None:
    for store in (ours, reference):
        store.put(("r",), "k", {"x": 7})
    with pytest.raises(FilterError, match="needs a number"):
        ours.search(("r",), filter={"x": {"$lt": float("inf")}})
    assert reference.keys(("r",), filter={"x": {"$lt": float("inf")}}) == ["k"]


def test_a_query_of_spaces_finds_nothing(ours: Store, reference: Store) -> None:
    for store in (ours, reference):
        store.put(("q",), "k", {"text": "rathole"})
    assert ours.search(("q",), query="   ") == []
    assert reference.keys(("q",), query="   ") == ["k"]


@pytest.mark.parametrize("query", [None, "rathole"])
def test_a_page_has_an_end(ours: Store, reference: Store, query: str | None) -> None:
    for store in (ours, reference):
        store.put(("q",), "k", {"text": "rathole"})
    with pytest.raises(InvalidQuery, match=r"limit|k must"):
        ours.search(("q",), query=query, limit=10_000_000)
    assert reference.keys(("q",), query=query, limit=10_000_000) == ["k"]


@pytest.mark.parametrize("value", [Decimal(5), UUID(int=5), {5}, b"5", time(5)], ids=repr)
def test_what_no_item_can_hold_is_an_error_in_a_filter(ours: Store, reference: Store, value: Any) -> None:
    for store in (ours, reference):
        store.put(("f",), "k", {"x": 5})
    for wanted in (value, {"$eq": value}, {"$ne": value}, {"$gt": value}, [value]):
        with pytest.raises(FilterError, match=r"convert it|needs a number"):
            ours.search(("f",), filter={"x": wanted})
    assert reference.keys(("f",), filter={"x": value}) == (["k"] if value == 5 else [])


def test_objects_in_a_list_are_compared_in_full(ours: Store, reference: Store) -> None:
    """The reference takes those for equal that have more fields than the filter names."""
    for store in (ours, reference):
        store.put(("l",), "k", {"parts": [{"a": 1, "b": 2}]})
    assert ours.keys(("l",), filter={"parts": [{"a": 1, "b": 2}]}) == ["k"]
    assert ours.keys(("l",), filter={"parts": [{"a": 1}]}) == []
    assert reference.keys(("l",), filter={"parts": [{"a": 1}]}) == ["k"]


@pytest.mark.parametrize(
    "wanted", [{"$or": [{"a": 1}]}, {"$gt": 3}, {"a": [{"$gt": 1}]}, {"a": {"$eq": {"$gt": 1}}}, ["a"]], ids=repr
)
def test_operators_in_the_wrong_place_are_errors(ours: Store, wanted: Any) -> None:
    """The reference takes some of them for names of fields, and finds nothing."""
    ours.put(("a",), "k", {"a": 1})
    with pytest.raises(FilterError):
        ours.search(("a",), filter=wanted)


def test_values_are_json(ours: Store, reference: Store) -> None:
    """As in a database: a tuple becomes a list, a date its text, and what JSON can't hold is refused."""
    moment = datetime(2026, 2, 21, tzinfo=timezone.utc)
    for store in (ours, reference):
        store.put(("v",), "k", {"pair": (1, 2), "at": moment}, False)
    assert ours.value(("v",), "k") == {"pair": [1, 2], "at": "2026-02-21T00:00:00+00:00"}
    assert reference.value(("v",), "k") == {"pair": (1, 2), "at": moment}
    deep: Any = []
    for _ in range(40):
        deep = [deep]
    for bad in (object(), float("nan"), 2**64, {1: "x"}, {1, 2}, "half \ud800", deep):
        reference.put(("v",), "bad", {"x": bad}, False)
        with pytest.raises(InvalidDocument):
            ours.put(("v",), "k", {"x": bad})
    with pytest.raises(InvalidDocument):
        ours.put(("v",), "k", "text")
    assert ours.value(("v",), "k") == {"pair": [1, 2], "at": "2026-02-21T00:00:00+00:00"}


def test_a_value_that_is_changed_later_is_not_changed_in_the_store(ours: Store, reference: Store) -> None:
    for store in (ours, reference):
        tags = ["one"]
        store.put(("v",), "k", {"tags": tags})
        tags.append("two")
    assert ours.value(("v",), "k") == {"tags": ["one"]}
    assert reference.value(("v",), "k") == {"tags": ["one", "two"]}


@pytest.mark.parametrize("namespace", [(), ("a.b",), ("",), (1,)], ids=repr)
def test_operations_in_a_batch_are_checked_too(ours: Store, reference: Store, namespace: Any) -> None:
    with pytest.raises(InvalidNamespaceError):
        ours.batch([PutOp(("fine",), "k", {"n": 1}), PutOp(namespace, "k", {"n": 2})])
    assert ours.search(()) == []
    reference.batch([PutOp(("fine",), "k", {"n": 1}), PutOp(namespace, "k", {"n": 2})])


def test_a_batch_with_something_that_cannot_be_stored_stores_nothing(ours: Store) -> None:
    ours.put(("a",), "old", {"n": 0})
    with pytest.raises(InvalidDocument):
        ours.batch([PutOp(("a",), "new", {"n": 1}), PutOp(("a",), "bad", {"n": object()}), PutOp(("a",), "old", None)])
    assert ours.keys() == ["old"]


@pytest.mark.parametrize("page", [{"limit": -1}, {"offset": -1}, {"limit": 2.5}, {"limit": "3"}], ids=repr)
def test_pages_that_are_none_are_errors(ours: Store, page: dict[str, Any]) -> None:
    ours.put(("a",), "k", {"text": "rathole"})
    for query in (None, "rathole"):
        with pytest.raises(InvalidQuery):
            ours.batch([SearchOp(("a",), query=query, **page)])
    with pytest.raises(InvalidQuery):
        ours.namespaces(**page)


@pytest.mark.parametrize("index", ["text", [1], 7], ids=repr)
def test_fields_that_are_no_paths_are_errors(ours: Store, index: Any) -> None:
    with pytest.raises(InvalidDocument, match="list of paths"):
        ours.put(("a",), "k", {"text": "rathole"}, index)
