"""Search by prefix, by filter and by query: the same on LangGraph's own store and on ours."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timezone
from typing import Any

import numpy as np
import pytest
from langgraph.store.base import PutOp, SearchItem

from tests.langgraph.stores import REFERENCE, Store

PEOPLE: dict[str, dict[str, Any]] = {
    "ada": {"name": "Ada", "age": 36, "tags": ["math", "poet"], "home": {"city": "London", "zip": "W1"}, "ok": True},
    "bob": {"name": "Bob", "age": 5, "tags": ["math"], "home": {"city": "Paris"}, "ok": False, "gone": None},
    "cid": {"name": "Cid", "age": 36.5, "tags": [], "home": {}, "a.b": 1, 'q"t': "x"},
    "dee": {"name": "Dee", "age": -2, "home": {"city": {"name": "London"}}, "nested": {"deep": {"er": 3}}},
}


@pytest.fixture
def people(store: Store) -> Store:
    store.batch([PutOp(("people",), key, value) for key, value in PEOPLE.items()])
    return store


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, "ada bob cid dee"),
        ({"name": "Ada"}, "ada"),
        ({"name": "ada"}, ""),
        ({"age": 36}, "ada"),
        ({"age": 36.0}, "ada"),
        ({"age": 36.5}, "cid"),
        ({"ok": True}, "ada"),
        ({"ok": False}, "bob"),
        ({"ok": None}, "cid dee"),
        ({"gone": None}, "ada bob cid dee"),
        ({"name": "Ada", "age": 36}, "ada"),
        ({"name": "Ada", "age": 5}, ""),
        ({"tags": ["math"]}, "bob"),
        ({"tags": ["math", "poet"]}, "ada"),
        ({"tags": ["poet", "math"]}, ""),
        ({"tags": ("math", "poet")}, "ada"),
        ({"tags": "math"}, ""),
        ({"tags": []}, "cid"),
        ({"home": {"city": "London"}}, "ada"),
        ({"home": {"city": "London", "zip": "W1"}}, "ada"),
        ({"home": {"city": {"name": "London"}}}, "dee"),
        ({"home": {"city": None}}, "cid"),
        ({"home": {}}, "ada bob cid dee"),
        ({"nested": {"deep": {"er": 3}}}, "dee"),
        ({"nested": {"deep": {"er": {"$gte": 3}}}}, "dee"),
        ({"nested": {"deep": {"er": {"$ne": 3}}}}, ""),
        ({"nested": {"deep": {"er": {"$ne": 4}}}}, "dee"),
        ({"a.b": 1}, "cid"),
        ({"a": {"b": 1}}, ""),
        ({'q"t': "x"}, "cid"),
        ({'q"t': {"$ne": "x"}}, "ada bob dee"),
        ({"age": {"$eq": 36}}, "ada"),
        ({"home": {"$eq": {"city": "Paris"}}}, "bob"),
        ({"home": {"$eq": {"city": "London"}}}, ""),
        ({"tags": {"$eq": ["math"]}}, "bob"),
        ({"tags": {"$eq": None}}, "dee"),
        ({"age": {"$ne": 36}}, "bob cid dee"),
        ({"tags": {"$ne": ["math"]}}, "ada cid dee"),
        ({"missing": {"$ne": 1}}, "ada bob cid dee"),
        ({"missing": 1}, ""),
        ({"missing": None}, "ada bob cid dee"),
        ({"ok": {"$ne": None}}, "ada bob"),
        ({"age": {"$gt": 36}}, "cid"),
        ({"age": {"$gte": 36}}, "ada cid"),
        ({"age": {"$lt": 5}}, "dee"),
        ({"age": {"$lte": 5}}, "bob dee"),
        ({"age": {"$gt": 5, "$lt": 36.5}}, "ada"),
        ({"age": {"$gte": "36"}}, "ada cid"),
        ({"age": {"$gt": 100}}, ""),
        ({"age": {"$gte": -2, "$ne": 5}}, "ada cid dee"),
    ],
    ids=repr,
)
def test_filters(people: Store, wanted: dict[str, Any], found: str) -> None:
    assert people.keys(("people",), filter=wanted) == found.split()


@pytest.mark.parametrize("wanted", [{"age": {"$in": [5]}}, {"age": {"$gt": 1, "under": 2}}, {"age": {"$gt": "old"}}])
def test_what_is_not_understood_is_an_error(people: Store, wanted: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        people.search(("people",), filter=wanted)


def test_a_filter_and_a_query_together(people: Store) -> None:
    assert people.keys(("people",), query="Ada London math", filter={"age": {"$gte": 30}}) == ["ada", "cid"]
    assert people.keys(("people",), query="Ada London math", filter={"name": "Bob"}) == ["bob"]


@pytest.mark.parametrize(
    "at", [datetime(2026, 5, 1, 12), datetime(2026, 5, 1, 12, tzinfo=timezone.utc), date(2026, 5, 1)], ids=str
)
def test_a_date_is_found_by_what_was_put(store: Store, at: date) -> None:
    store.put(("d",), "k", {"at": at, "all": [at]}, False)
    store.put(("d",), "other", {"at": datetime(2026, 5, 2), "all": []}, False)
    assert store.keys(("d",), filter={"at": at}) == ["k"]
    assert store.keys(("d",), filter={"all": [at]}) == ["k"]
    assert store.keys(("d",), filter={"at": {"$ne": at}}) == ["other"]


def test_numbers_of_numpy_are_numbers(store: Store) -> None:
    store.put(("n",), "k", {"n": np.int64(5), "f": np.float32(0.5)}, False)
    for wanted in ({"n": np.int64(5)}, {"n": {"$gte": np.int32(5)}}, {"f": np.float32(0.5)}, {"n": 5, "f": 0.5}):
        assert store.keys(("n",), filter=wanted) == ["k"]


def test_numbers_in_texts_can_be_compared(store: Store) -> None:
    for key, amount in {"a": "5", "b": "40", "c": 7, "d": "1e3"}.items():
        store.put(("n",), key, {"amount": amount})
    assert store.keys(("n",), filter={"amount": {"$gt": 6}}) == ["b", "c", "d"]


def test_namespaces_that_begin_alike_do_not_mix(store: Store) -> None:
    for namespace in [("a",), ("ab",), ("a", "b"), ("a", "bc"), ("b", "a"), ("a", "b", "c"), ("A",)]:
        store.put(namespace, "-".join(namespace), {"text": "rathole"})
    assert store.keys(("a",)) == ["a", "a-b", "a-b-c", "a-bc"]
    assert store.keys(("a", "b")) == ["a-b", "a-b-c"]
    assert store.keys(("ab",)) == ["ab"]
    assert store.keys(("b",)) == ["b-a"]
    assert store.keys(("a", "b", "c", "d")) == []
    assert store.keys(()) == sorted(["a", "ab", "a-b", "a-bc", "b-a", "a-b-c", "A"])
    assert store.keys(("a",), query="rathole") == ["a", "a-b", "a-b-c", "a-bc"]


def test_a_star_in_a_search_is_a_label_like_any_other(store: Store) -> None:
    store.put(("a", "b"), "k", {"n": 1})
    assert store.keys(("a", "*")) == []
    assert store.keys(("*",)) == []


def test_pages_join_without_gaps_or_repeats(store: Store) -> None:
    for n in range(25):
        store.put(("n",), f"{n:02}", {"text": f"item {n}"})
    for query in (None, "item"):
        pages = [store.search(("n",), query=query, limit=10, offset=offset) for offset in (0, 10, 20, 30)]
        assert [len(page) for page in pages] == [10, 10, 5, 0]
        assert sorted(item.key for page in pages for item in page) == [f"{n:02}" for n in range(25)]


def test_ten_items_unless_told_otherwise(store: Store) -> None:
    for n in range(12):
        store.put(("n",), str(n), {"text": f"item {n}"})
    assert len(store.search(("n",))) == 10
    assert len(store.search(("n",), query="item")) == 10
    assert store.search(("n",), limit=0) == []


def test_the_nearest_text_comes_first(store: Store) -> None:
    store.put(("docs",), "tunnel", {"text": "rathole tunnels listen on port 2333"})
    store.put(("docs",), "cake", {"text": "chocolate cake needs eggs"})
    store.put(("docs",), "dog", {"text": "the dog sleeps all day"})
    found = store.search(("docs",), query="which port do rathole tunnels use")
    assert found[0].key == "tunnel"
    scores = [item.score or 0.0 for item in found]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] > 0


def test_a_found_item_is_whole(store: Store) -> None:
    store.put(("docs", "x"), "k", {"text": "rathole", "n": [1]})
    put = store.get(("docs", "x"), "k")
    (found,) = store.search(("docs",), query="rathole")
    assert put is not None
    assert isinstance(found, SearchItem)
    assert (found.namespace, found.key, found.value) == (put.namespace, put.key, put.value)
    assert (found.created_at, found.updated_at) == (put.created_at, put.updated_at)
    assert set(found.dict()) == {"namespace", "key", "value", "created_at", "updated_at", "score"}


@pytest.mark.parametrize("query", [None, ""])
def test_without_a_query_there_are_no_scores(people: Store, query: str | None) -> None:
    found = people.search(("people",), query=query)
    assert [item.score for item in found] == [None] * 4


def test_an_empty_store(store: Store) -> None:
    assert store.search((), query="anything") == []
    assert store.search(("a",)) == []
    assert store.namespaces() == []
    assert store.get(("a",), "k") is None


def test_a_changed_text_is_found_by_its_new_words(store: Store) -> None:
    store.put(("d",), "k", {"text": "rathole"})
    store.put(("d",), "other", {"text": "walnut"})
    store.put(("d",), "k", {"text": "chocolate cake"})
    assert store.search(("d",), query="chocolate cake")[0].key == "k"
    assert store.search(("d",), query="rathole walnut")[0].key == "other"


FRUIT: dict[str, dict[str, Any]] = {
    "a": {"title": "walnut", "body": "apple"},
    "b": {"title": "pear plum", "body": "walnut"},
    "c": {"title": "fig", "body": "figs", "meta": {"note": "walnut"}},
    "d": {"title": "date", "body": "dates", "parts": [{"text": "kiwi"}, {"text": "walnut"}]},
    "e": {"title": "lime", "body": "limes", "parts": [{"text": "walnut"}, {"text": "kiwi"}]},
}


@pytest.mark.parametrize(
    ("paths", "query", "best"),
    [
        (["title"], "walnut", "a"),
        (["body"], "walnut", "b"),
        (["meta.note"], "walnut", "c"),
        (["parts[0].text"], "walnut", "e"),
        (["parts[-1].text"], "walnut", "d"),
        (["title", "body"], "pear plum", "b"),
        (["{title,body}"], "pear plum", "b"),
    ],
    ids=str,
)
def test_only_the_named_fields_are_searched(store: Store, paths: list[str], query: str, best: str) -> None:
    for key, value in FRUIT.items():
        store.put(("f",), key, value, paths)
    assert store.search(("f",), query=query)[0].key == best


@pytest.mark.parametrize("kind", [REFERENCE, "embedded-sync"])
def test_the_store_says_which_fields_are_searched_and_a_put_may_say_otherwise(
    opened: Callable[..., Store], kind: str
) -> None:
    store = opened(kind, index=["title"])
    for key, value in FRUIT.items():
        store.put(("f",), key, value)
        store.put(("g",), key, value, ["body"])
    assert store.search(("f",), query="walnut")[0].key == "a"
    assert store.search(("g",), query="walnut")[0].key == "b"


def test_an_item_that_is_not_indexed_is_kept_and_listed(store: Store) -> None:
    store.put(("d",), "hidden", {"text": "rathole rathole"}, False)
    store.put(("d",), "shown", {"text": "rathole tunnel"})
    assert store.search(("d",), query="rathole")[0].key == "shown"
    assert store.keys(("d",)) == ["hidden", "shown"]
    assert store.keys(("d",), filter={"text": "rathole rathole"}) == ["hidden"]
    assert store.value(("d",), "hidden") == {"text": "rathole rathole"}
