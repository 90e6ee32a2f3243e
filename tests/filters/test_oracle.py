"""What the engine returns for a filter is what the language says, for any documents and any filter."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import date, datetime, timedelta, timezone
from itertools import cycle
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from qdrant_client import QdrantClient

from tests.filters.oracle import BOUNDS, holds
from twofold import Document, HybridIndex
from twofold.testing import HashEmbedding

OSLO = timezone(timedelta(hours=2))
NOON = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
NUMBERS = [0, 1, -1, 5, 5.0, 2.5, 1.0, -0.0, 2**53, 2**60, float(2**60), 2**63 - 1, -(2**63), 1e300, 1e-300]
WORDS = ["", "a", "b", "5", "True", "red", "red fox", "Red, FOX!", "foxes", "Ærlig år", "migration_032", "32"]
DATES = [date(2024, 5, 1), NOON, NOON.astimezone(OSLO), NOON + timedelta(microseconds=1), datetime(2024, 5, 1)]
DATE_TEXTS = ["2024-05-01T12:00:00Z", "2024-05-01T14:00:00+02:00", "2024-05-01", "2024-05-01T00:00:00"]
HOW: list[dict[str, Any]] = [{}, {"alpha": 0.0}, {"alpha": 1.0}, {"fusion": "weighted"}]
VALUES = [None, True, False, *NUMBERS, *WORDS, *DATES, *DATE_TEXTS]

# Where a value is put, and the field that names the place. "dot.ted" is ted in dot, never a key with a dot.
PLACES: dict[str, Any] = {
    **{
        name: lambda value, name=name: {name: value}
        for name in ("a", "tags", "Big", "with space", "ключ", "x-y", "a[0]", "日本$")
    },
    "dot.ted": lambda value: {"dot": {"ted": value}, "dot.ted": "out of reach"},
    "dot.a b.c-d": lambda value: {"dot": {"a b": {"c-d": value}}},
    "people[].name": lambda value: {"people": [{"name": value}, {"age": 3}, "nobody"]},
    "people": lambda value: {"people": value},
}


def test_a_fraction_is_found_by_what_it_was_stored_as() -> None:
    """The engine reads one in ten back as the float next to it."""
    rng = random.Random(3)
    fractions = [rng.random() * 10 ** rng.randint(-3, 3) for _ in range(300)]
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        index.add([Document(str(i), str(i), {"share": share}) for i, share in enumerate(fractions)])
        for share in fractions:
            assert index.count({"share": share}) == 1
            assert index.count({"share": {"gte": share, "lte": share}}) == 1
            assert index.count({"share": {"in": [share, "none"]}}) == 1


def test_values_of_numpy_filter_as_they_are_stored() -> None:
    metadata = {"n": np.int64(3), "b": np.bool_(True), "f": np.float32(0.5)}
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        index.add([Document("one", "1", metadata)])
        for field, value in metadata.items():
            assert index.count({field: value}) == 1
            assert index.count({field: {"in": [value]}}) == 1
        assert index.count({"n": {"gte": np.int64(3), "lt": np.float64(3.5)}}) == 1
        assert len(index.search("one", k=np.int64(1))) == 1


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Documents and filters over the same few fields and values, so that filters tell documents apart."""
    pool = draw(st.lists(st.sampled_from(VALUES), min_size=3, max_size=6))
    fields = draw(st.lists(st.sampled_from(sorted(PLACES)), min_size=1, max_size=3, unique=True))
    documents = draw(st.lists(_metadata(pool, fields), min_size=8, max_size=12))
    leaves = st.dictionaries(st.sampled_from([*fields, *fields, "absent"]), _conditions(pool), min_size=1, max_size=2)
    filters = st.recursive(leaves, lambda parts: _combined(leaves, parts), max_leaves=4)
    empty: dict[str, Any] = {}
    return documents, [empty, *draw(st.lists(filters, min_size=8, max_size=12))]


def _metadata(pool: list[Any], fields: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    scalars = st.sampled_from(pool)
    values = scalars | st.lists(scalars | st.lists(scalars, max_size=2), max_size=3)
    placed = st.dictionaries(st.sampled_from(fields), values, min_size=len(fields) - 1, max_size=3)
    return placed.map(lambda chosen: _joined([PLACES[field](value) for field, value in chosen.items()]))


def _joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """The parts as one: the fields of a dict that several have stand side by side."""
    result: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            both = isinstance(value, dict) and isinstance(result.get(key), dict)
            result[key] = {**result[key], **value} if both else value
    return result


def _conditions(pool: list[Any]) -> st.SearchStrategy[Any]:
    some = [value for value in pool if value is not None]
    # Whole numbers that a float can hold: what happens to the others is a test of its own.
    numbers = [n for n in some if type(n) in (int, float) and n != 2**63 - 1] or [1]
    dates = [d for d in some if d in DATE_TEXTS or isinstance(d, date)] or ["2024-05-01T12:00:00Z"]
    words = [w for w in some if isinstance(w, str) and w.strip()] + ["fox red", "!!"]
    scalars, lists = st.sampled_from(pool), st.lists(st.sampled_from(some or [1]), max_size=3)
    single = st.one_of(
        st.dictionaries(st.sampled_from(["eq", "ne"]), scalars, min_size=1, max_size=2),
        st.dictionaries(st.sampled_from(["in", "nin"]), lists, min_size=1, max_size=2),
        st.builds(lambda value: {"exists": value}, st.booleans()),
        st.builds(lambda value: {"text": value}, st.sampled_from(words)),
        st.dictionaries(st.sampled_from(sorted(BOUNDS)), st.sampled_from(numbers), min_size=1, max_size=2),
        st.dictionaries(st.sampled_from(sorted(BOUNDS)), st.sampled_from(dates), min_size=1, max_size=2),
    )
    operators = st.builds(_operators, single, single, st.booleans(), st.sampled_from(["", "$"])).filter(_one_kind)
    return scalars | lists | operators | st.builds(lambda inner: {"not": inner}, scalars | lists | operators)


def _operators(one: Mapping[str, Any], other: Mapping[str, Any], both: bool, sign: str) -> dict[str, Any]:
    return {f"{sign}{name}": value for name, value in ({**other, **one} if both else one).items()}


def _one_kind(operators: Mapping[str, Any]) -> bool:
    """Bounds of one field are all numbers or all dates."""
    found = [value for name, value in operators.items() if name.removeprefix("$") in BOUNDS]
    return len({isinstance(value, (str, date)) for value in found}) < 2


def _combined(
    leaves: st.SearchStrategy[dict[str, Any]], parts: st.SearchStrategy[dict[str, Any]]
) -> st.SearchStrategy[dict[str, Any]]:
    joints = st.sampled_from(["and", "or", "$and", "$or"])
    joined = st.builds(lambda word, inner: {word: inner}, joints, st.lists(parts, max_size=3))
    negated = st.builds(lambda word, inner: {word: inner}, st.sampled_from(["not", "$not"]), parts)
    return joined | negated | st.builds(lambda leaf, rest: {**leaf, **rest}, leaves, joined)


def test_every_filter_returns_what_it_says_and_nothing_else() -> None:
    """Counted, and searched with both legs and with each alone: a leg with a wider filter would show here."""
    engine = QdrantClient(":memory:")  # one for all: making one takes longer than an example
    examples, telling = 0, 0

    @settings(max_examples=60, derandomize=True)
    @given(cases())
    def check(case: tuple[list[dict[str, Any]], list[dict[str, Any]]]) -> None:
        nonlocal examples, telling
        stored, filters = case
        examples += 1
        index = HybridIndex.open(engine, f"c{examples}", dense=HashEmbedding(8))
        ids = index.add([Document(text=f"memory {i}", id=str(i), metadata=each) for i, each in enumerate(stored)])
        metadata = {document.id: document.metadata for document in index.get(ids) if document}
        for condition, how in zip(filters, cycle(HOW)):
            expected = sorted(str(i) for i, each in metadata.items() if holds(condition, each))
            telling += 0 < len(expected) < len(ids)
            assert index.count(condition) == len(expected), condition
            found = index.search("memory", len(ids), filter=condition, **how)
            assert sorted(found.ids) == expected, (condition, how)
        engine.delete_collection(f"c{examples}")

    check()
    assert telling > 100, "hardly any filter told documents apart: the generators are off"
