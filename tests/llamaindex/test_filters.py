"""Metadata filters: every operator and condition, compared with what LlamaIndex's own store does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    SimpleVectorStore,
    VectorStoreQuery,
)

from tests.llamaindex.corpus import vector
from twofold import FilterError
from twofold.llamaindex import HybridVectorStore
from twofold.testing import HashEmbedding

ROWS: dict[str, dict[str, Any]] = {
    "a": {"year": 2014, "genre": "drama", "tags": ["new", "long"], "note": "a quiet film about tea", "score": 7.5},
    "b": {"year": 1999, "genre": "comedy", "tags": ["old"], "note": "a loud film", "score": 6.0},
    "c": {"year": 2020, "genre": "drama", "tags": ["new"], "note": "Tea and more tea", "score": 9.25},
    "d": {"year": 2014, "genre": "horror", "tags": ["old", "long", "loud"], "note": "no tea at all"},
}


def nodes() -> list[TextNode]:
    return [TextNode(id_=key, text=key, metadata=row, embedding=vector(key)) for key, row in ROWS.items()]


@pytest.fixture(scope="module")
def ours() -> Iterator[HybridVectorStore]:
    with HybridVectorStore(embed_model=HashEmbedding()) as store:
        store.add(nodes())
        yield store


@pytest.fixture(scope="module")
def theirs() -> SimpleVectorStore:
    store = SimpleVectorStore()
    store.add(nodes())
    return store


def one(key: str, operator: FilterOperator, value: Any) -> MetadataFilters:
    return MetadataFilters(filters=[MetadataFilter(key=key, operator=operator, value=value)])


def found(store: Any, filters: MetadataFilters) -> list[str]:
    query = VectorStoreQuery(query_embedding=vector("a b c d"), similarity_top_k=10, filters=filters)
    return sorted(store.query(query).ids or [])


@pytest.mark.parametrize(
    ("key", "operator", "value", "expected"),
    [
        ("year", FilterOperator.EQ, 2014, "ad"),
        ("genre", FilterOperator.EQ, "drama", "ac"),
        ("score", FilterOperator.EQ, 6, "b"),
        ("genre", FilterOperator.NE, "drama", "bd"),
        ("score", FilterOperator.NE, 6.0, "acd"),
        ("year", FilterOperator.GT, 2014, "c"),
        ("year", FilterOperator.GTE, 2014, "acd"),
        ("year", FilterOperator.LT, 2014, "b"),
        ("year", FilterOperator.LTE, 2014, "abd"),
        ("score", FilterOperator.GT, 7, "ac"),
        ("genre", FilterOperator.IN, ["drama", "horror"], "acd"),
        ("year", FilterOperator.IN, [1999, 2020], "bc"),
        ("genre", FilterOperator.NIN, ["drama", "horror"], "b"),
        ("score", FilterOperator.NIN, [6.0], "acd"),
        ("tags", FilterOperator.ANY, ["long", "loud"], "ad"),
        ("tags", FilterOperator.ALL, ["old", "long"], "d"),
        ("tags", FilterOperator.ALL, ["new"], "ac"),
        ("tags", FilterOperator.CONTAINS, "old", "bd"),
        ("note", FilterOperator.TEXT_MATCH, "film", "ab"),
        ("note", FilterOperator.TEXT_MATCH_INSENSITIVE, "TEA", "acd"),
        ("score", FilterOperator.IS_EMPTY, None, "d"),
        ("missing", FilterOperator.IS_EMPTY, None, "abcd"),
        ("missing", FilterOperator.EQ, 1, ""),
        ("missing", FilterOperator.NE, 1, "abcd"),
    ],
    ids=str,
)
def test_operators(
    ours: HybridVectorStore, theirs: SimpleVectorStore, key: str, operator: FilterOperator, value: Any, expected: str
) -> None:
    filters = one(key, operator, value)
    assert found(ours, filters) == list(expected)
    assert found(theirs, filters) == list(expected)
    assert sorted(node.node_id for node in ours.get_nodes(filters=filters)) == list(expected)


DRAMA = MetadataFilter(key="genre", value="drama")
OF_2014 = MetadataFilter(key="year", value=2014)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [(FilterCondition.AND, "a"), (FilterCondition.OR, "acd"), (FilterCondition.NOT, "b"), (None, "a")],
    ids=str,
)
def test_conditions(
    ours: HybridVectorStore, theirs: SimpleVectorStore, condition: FilterCondition | None, expected: str
) -> None:
    filters = MetadataFilters(filters=[DRAMA, OF_2014], condition=condition)
    assert found(ours, filters) == found(theirs, filters) == list(expected)


def test_filters_within_filters(ours: HybridVectorStore) -> None:
    """LlamaIndex's own store refuses them."""
    either = MetadataFilters(filters=[DRAMA, OF_2014], condition=FilterCondition.OR)
    new = MetadataFilter(key="tags", value="new", operator=FilterOperator.CONTAINS)
    neither = MetadataFilters(filters=[new, MetadataFilters(filters=[OF_2014])], condition=FilterCondition.NOT)
    assert found(ours, MetadataFilters(filters=[either, new])) == ["a", "c"]
    assert found(ours, neither) == ["b"]
    assert found(ours, MetadataFilters(filters=[either, neither])) == []


@pytest.mark.parametrize("condition", list(FilterCondition))
def test_no_filters_filter_nothing(
    ours: HybridVectorStore, theirs: SimpleVectorStore, condition: FilterCondition
) -> None:
    filters = MetadataFilters(filters=[], condition=condition)
    assert found(ours, filters) == found(theirs, filters) == list("abcd")


@pytest.mark.parametrize(
    ("key", "operator", "value"),
    [
        ("tags", FilterOperator.EQ, ["old"]),
        ("year", FilterOperator.IN, 2014),
        ("year", FilterOperator.GT, "many"),
        ("note", FilterOperator.TEXT_MATCH, 5),
        ("or", FilterOperator.EQ, 1),
        ("$and", FilterOperator.EQ, 1),
        ('quo"te', FilterOperator.EQ, 1),
    ],
    ids=str,
)
def test_what_cannot_be_filtered_is_an_error(
    ours: HybridVectorStore, key: str, operator: FilterOperator, value: Any
) -> None:
    with pytest.raises(FilterError):
        found(ours, one(key, operator, value))


def test_dates_can_be_compared() -> None:
    with HybridVectorStore(embed_model=HashEmbedding()) as store:
        for key, day in {"x": "2026-01-31", "y": "2026-04-01"}.items():
            store.add([TextNode(id_=key, text=key, metadata={"day": day}, embedding=vector(key))])
        assert found(store, one("day", FilterOperator.GTE, "2026-03-01")) == ["y"]
