"""One table says what fields a memory has: the item, the methods, the payload, filters and adapters agree with it."""

from __future__ import annotations

import inspect
from dataclasses import fields
from datetime import datetime, timezone
from typing import Any, get_args

import pytest

from tests.memory.faces import Opener
from twofold import InvalidDocument, Memory, MemoryItem
from twofold.memory import FIELDS, SHOWN, accepted_by
from twofold.memory.items import COUNT, INDEXES, MAX_EXACT_INTEGER, Method, field_path


def test_a_memory_has_the_fields_of_the_table() -> None:
    assert {"id", "text", *FIELDS} == {each.name for each in fields(MemoryItem)}


@pytest.mark.parametrize("name", [name for name, each in FIELDS.items() if not each.required])
def test_what_a_row_lacks_has_the_default_of_the_table(name: str) -> None:
    assert getattr(MemoryItem("", ""), name) == FIELDS[name].default


@pytest.mark.parametrize("method", get_args(Method))
def test_methods_take_the_fields_that_the_table_says(method: Any) -> None:
    takes = set(inspect.signature(getattr(Memory, method)).parameters)
    own = {"session"} if method == "remember_turns" else set()  # whose turns they are, not a field of them
    assert (takes & set(FIELDS)) - own == set(accepted_by(method))


def test_every_field_is_stored_and_read_back(open_here: Opener) -> None:
    memory = open_here()
    given = {
        "type": "fact", "category": "infra", "tags": ["a"], "metadata": {"own": 1}, "source": "file", "trust": "agent",
        "pinned": True, "importance": 0.75, "created": datetime(2026, 1, 2, tzinfo=timezone.utc),
    }  # fmt: skip
    assert set(given) == set(accepted_by("remember"))
    identity = memory.remember("the tunnel", **given)
    stored = memory.raw.rows()[identity]["metadata"]
    item = memory.get(identity)
    assert {name: getattr(item, name) for name in given} == {**given, "tags": ("a",)}
    assert set(stored) - {"shelf"} == {name for name in FIELDS if getattr(item, name) is not None}


def test_filters_and_indexes_know_the_fields() -> None:
    own = set(FIELDS) - {"project"}
    assert {field_path(name) for name in own} == own
    assert field_path("project") == "metadata.project", "what callers call a project is theirs"
    assert set(INDEXES) - {"shelf"} == {name for name, each in FIELDS.items() if each.index}
    assert set(SHOWN) < set(FIELDS)


@pytest.mark.parametrize("value", [True, -1, 1.5, "3", MAX_EXACT_INTEGER + 1])
def test_a_count_is_a_whole_number(value: object) -> None:
    assert COUNT.check(3, "order") == 3
    with pytest.raises(InvalidDocument, match="order must be a whole number from 0"):
        COUNT.check(value, "order")
