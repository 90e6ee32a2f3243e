"""Put, get and delete: the same on LangGraph's own store and on ours."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from langgraph.store.base import GetOp, InvalidNamespaceError, ListNamespacesOp, PutOp, SearchOp

from tests.langgraph.stores import Store

ODD = ["a b", "ü", "*", "?", "%", "_", '"', "'", "\\", "/", ":", "[", "]", '["a"]', "$", "#", "\n", "a,b", "😀", " "]


def test_an_item_comes_back_as_it_was_put(store: Store) -> None:
    before = datetime.now(timezone.utc)
    store.put(("users", "ada"), "prefs", {"theme": "dark", "size": 12})
    item = store.get(("users", "ada"), "prefs")
    assert item is not None
    assert (item.namespace, item.key, item.value) == (("users", "ada"), "prefs", {"theme": "dark", "size": 12})
    assert before - timedelta(seconds=1) <= item.created_at <= datetime.now(timezone.utc) + timedelta(seconds=1)
    assert item.created_at.tzinfo is not None


def test_what_is_not_there_is_none(store: Store) -> None:
    store.put(("a",), "k", {"x": 1})
    assert store.get(("a",), "other") is None
    assert store.get(("b",), "k") is None
    assert store.get(("a", "k"), "k") is None


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"text": ""},
        {"none": None, "yes": True, "no": False, "int": 5, "float": 2.5, "whole": 3.0, "negative": -1},
        {"list": [1, "two", None, [3], {"four": 4}], "empty": [], "object": {}},
        {"deep": {"er": {"and": {"deeper": [{"still": "going"}]}}}},
        {"a.b": 1, 'quo"te': 2, "$dollar": 3, "": 4, "ü": 5, "with space": 6, "[0]": 7, "x[]": 8},
        {"text": "São Paulo 😀 \n\t 'quoted' \"twice\" <tag> {{x}}"},
        {"large": 2**53 + 1, "small": 1e-300, "big": 1e300, "least": -(2**63)},
        {"long": "word " * 20_000},
        {"id": "x", "text": "y", "metadata": {"z": 1}, "facts": ["?"], "namespace": "n", "key": "k", "value": {"v": 1}},
    ],
    ids=["empty", "blank", "scalars", "lists", "deep", "odd-keys", "odd-text", "numbers", "long", "our-own-names"],
)
def test_values_survive(store: Store, value: dict[str, Any]) -> None:
    store.put(("v",), "k", value)
    assert store.value(("v",), "k") == value
    assert [item.value for item in store.search(("v",))] == [value]


def test_a_second_put_replaces_the_value(store: Store) -> None:
    store.put(("a",), "k", {"old": 1, "kept": 2})
    store.put(("a",), "k", {"new": 3})
    assert store.value(("a",), "k") == {"new": 3}
    assert store.keys(("a",)) == ["k"]
    assert store.keys(("a",), filter={"old": 1}) == []


def test_a_later_put_moves_updated_at(store: Store) -> None:
    store.put(("a",), "k", {"n": 1})
    first = store.get(("a",), "k")
    store.put(("a",), "k", {"n": 2})
    second = store.get(("a",), "k")
    assert first is not None
    assert second is not None
    assert second.updated_at > first.updated_at


def test_the_same_key_in_two_namespaces_is_two_items(store: Store) -> None:
    store.put(("a",), "k", {"n": 1})
    store.put(("b",), "k", {"n": 2})
    store.delete(("a",), "k")
    assert store.value(("a",), "k") is None
    assert store.value(("b",), "k") == {"n": 2}


def test_delete_takes_an_item_out_of_everything(store: Store) -> None:
    store.put(("a",), "k", {"text": "rathole"})
    store.put(("a",), "other", {"text": "tunnel"})
    store.delete(("a",), "k")
    assert store.get(("a",), "k") is None
    assert store.keys(("a",)) == ["other"]
    assert "k" not in store.keys(("a",), query="rathole")


def test_deleting_what_is_not_there_does_nothing(store: Store) -> None:
    store.put(("a",), "k", {"n": 1})
    store.delete(("a",), "other")
    store.delete(("nowhere",), "k")
    assert store.keys() == ["k"]


def test_putting_none_deletes(store: Store) -> None:
    store.put(("a",), "k", {"n": 1})
    store.batch([PutOp(("a",), "k", None)])
    assert store.get(("a",), "k") is None


def test_keys_are_texts(store: Store) -> None:
    store.call("put", ("a",), 7, {"n": 1})
    assert store.value(("a",), "7") == {"n": 1}


@pytest.mark.parametrize("key", [*ODD, "a.b", "", "k" * 2000], ids=lambda key: repr(key[:9]))
def test_any_key_will_do(store: Store, key: str) -> None:
    store.put(("a",), key, {"n": 1})
    store.put(("a",), "plain", {"n": 2})
    assert store.value(("a",), key) == {"n": 1}
    store.delete(("a",), key)
    assert store.keys(("a",)) == ["plain"]


def test_labels_with_odd_characters_stay_apart(store: Store) -> None:
    for place in ((), ("top",)):
        store.batch([PutOp((*place, label), "k", {"label": label}) for label in ODD])
    for label in ODD:
        assert [item.value["label"] for item in store.search((label,))] == [label]
        assert [item.value["label"] for item in store.search(("top", label))] == [label]
        assert store.value(("top", label), "k") == {"label": label}
    assert store.namespaces(prefix=("top",)) == sorted(("top", label) for label in ODD)


@pytest.mark.parametrize("namespace", [("a", ""), ("a.b",), ("a\x00",), (1,)], ids=repr)
def test_labels_that_are_none_are_refused_everywhere(store: Store, namespace: Any) -> None:
    for call in (
        lambda: store.put(namespace, "k", {"n": 1}),
        lambda: store.get(namespace, "k"),
        lambda: store.delete(namespace, "k"),
        lambda: store.search(namespace),
        lambda: store.namespaces(prefix=namespace),
    ):
        with pytest.raises(InvalidNamespaceError):
            call()
    assert store.search(()) == []


@pytest.mark.parametrize("namespace", [(), ("langgraph",), ("langgraph", "x")], ids=repr)
def test_nothing_is_stored_at_the_root_or_in_the_reserved_namespace(store: Store, namespace: tuple[str, ...]) -> None:
    with pytest.raises(InvalidNamespaceError):
        store.put(namespace, "k", {"n": 1})
    if namespace:  # `put` keeps it for LangGraph itself, whose own stores take it in a batch
        store.batch([PutOp(namespace, "k", {"n": 1})])
        assert store.value(namespace, "k") == {"n": 1}


def test_a_batch_answers_in_its_order(store: Store) -> None:
    store.put(("a",), "one", {"n": 1})
    results = store.batch(
        [
            GetOp(("a",), "missing"),
            PutOp(("a",), "two", {"n": 2}),
            SearchOp(("a",)),
            GetOp(("a",), "one"),
            ListNamespacesOp(),
            PutOp(("a",), "one", None),
        ]
    )
    missing, put, found, one, namespaces, deleted = results
    assert (missing, put, deleted) == (None, None, None)
    assert [item.key for item in found] == ["one"]  # type: ignore[union-attr]
    assert one.value == {"n": 1}  # type: ignore[union-attr]
    assert namespaces == [("a",)]
    assert store.keys() == ["two"]


def test_of_several_puts_of_one_item_the_last_counts(store: Store) -> None:
    store.batch([PutOp(("a",), "k", {"n": 1}), PutOp(("a",), "k", None), PutOp(("a",), "k", {"n": 3})])
    assert store.value(("a",), "k") == {"n": 3}
    store.batch([PutOp(("a",), "k", {"n": 4}), PutOp(("a",), "k", None)])
    assert store.get(("a",), "k") is None


def test_a_batch_of_nothing(store: Store) -> None:
    assert store.batch([]) == []


def test_a_batch_may_be_any_iterable(store: Store) -> None:
    store.batch(PutOp(("a",), str(n), {"n": n}) for n in range(150))
    assert len(store.search(("a",), limit=1000)) == 150
    assert [item.value["n"] for item in store.batch(GetOp(("a",), str(n)) for n in range(150))] == list(range(150))  # type: ignore[union-attr]


def test_an_operation_that_is_none_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="oper"):
        store.batch([("a", "k")])  # type: ignore[list-item]
