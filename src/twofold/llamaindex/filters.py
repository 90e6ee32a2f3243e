"""LlamaIndex's metadata filters in the filter language of the core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llama_index.core.vector_stores import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

from twofold.errors import FilterError

_PLAIN = {
    FilterOperator.EQ: "eq",
    FilterOperator.NE: "ne",
    FilterOperator.GT: "gt",
    FilterOperator.GTE: "gte",
    FilterOperator.LT: "lt",
    FilterOperator.LTE: "lte",
    FilterOperator.IN: "in",
    FilterOperator.NIN: "nin",
    FilterOperator.ANY: "in",
    FilterOperator.CONTAINS: "eq",
    FilterOperator.TEXT_MATCH: "text",
    FilterOperator.TEXT_MATCH_INSENSITIVE: "text",
}
_LISTS = (FilterOperator.IN, FilterOperator.NIN, FilterOperator.ANY, FilterOperator.ALL)
_WORDS = ("and", "or", "not")


def to_filter(filters: MetadataFilters | Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What a search takes as its filter; one in the core's own language passes through."""
    if filters is None or isinstance(filters, Mapping):
        return None if filters is None else dict(filters)
    if not isinstance(filters, MetadataFilters):
        raise FilterError(
            f"filters are MetadataFilters or a dict such as {{'year': 2014}}, got {type(filters).__name__}"
        )
    return _combined(filters) if filters.filters else None


def _combined(filters: MetadataFilters) -> dict[str, Any]:
    parts = [_combined(each) if isinstance(each, MetadataFilters) else _one(each) for each in filters.filters]
    if filters.condition in (None, FilterCondition.AND):
        return {"and": parts}
    # "not" holds for what none of the filters matches.
    return {"or": parts} if filters.condition == FilterCondition.OR else {"not": {"or": parts}}


def _one(wanted: MetadataFilter) -> dict[str, Any]:
    key, value, operator = wanted.key, wanted.value, wanted.operator
    if key in _WORDS or key.startswith("$"):
        raise FilterError(f"{key!r} can't be filtered on, since it is a word of the filter language: rename the field")
    if operator == FilterOperator.IS_EMPTY:
        return {key: {"exists": False}}
    if (operator in _LISTS) != isinstance(value, list):
        wants = "a list" if operator in _LISTS else "one value, not a list"
        raise FilterError(f"{key!r}: {operator.value!r} takes {wants}, got {value!r}")
    if operator == FilterOperator.ALL:
        return {"and": [{key: {"eq": each}} for each in value]}  # type: ignore[union-attr]
    return {key: {_PLAIN[operator]: value}}
