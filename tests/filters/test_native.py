"""A filter of the engine's own goes through as it is, and any filter reaches both legs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from qdrant_client import QdrantClient, models

from twofold import Document, HybridIndex
from twofold.testing import HashEmbedding


class Spy:
    """A client that keeps what it is asked."""

    def __init__(self) -> None:
        self.client = QdrantClient(":memory:")
        self.requests: list[models.QueryRequest] = []
        self.counted: list[Any] = []
        query, count = self.client.query_batch_points, self.client.count

        def query_batch_points(collection_name: str, requests: Any, **rest: Any) -> Any:
            self.requests += requests
            return query(collection_name, requests, **rest)

        def counting(collection_name: str, count_filter: Any = None, **rest: Any) -> Any:
            self.counted.append(count_filter)
            return count(collection_name, count_filter, **rest)

        self.client.query_batch_points = query_batch_points  # type: ignore[method-assign, assignment]
        self.client.count = counting  # type: ignore[method-assign, assignment]

    def filters_by_vector(self) -> list[tuple[str | None, Any]]:
        """(vector, filter) of every request or prefetch that searches the whole collection."""
        return [(each.using, each.filter) for request in self.requests for each in _sources(request)]


def _sources(request: Any) -> Iterator[Any]:
    if not request.prefetch:
        yield request
    for prefetch in request.prefetch or ():
        yield from _sources(prefetch)


@pytest.fixture
def spy() -> Spy:
    return Spy()


def filled(spy: Spy) -> HybridIndex:
    index = HybridIndex.open(spy.client, dense=HashEmbedding())
    index.add([Document(text=f"memory {i}", id=str(i), metadata={"x": i % 3}) for i in range(9)])
    return index


NATIVE = models.Filter(
    must=[models.FieldCondition(key="metadata.x", match=models.MatchAny(any=[1, 2]))],
    must_not=[models.FieldCondition(key="metadata.x", range=models.Range(gte=2))],
    min_should=models.MinShould(
        conditions=[models.FieldCondition(key="text", match=models.MatchText(text="memory"))], min_count=1
    ),
)


@pytest.mark.parametrize("fusion", ["auto", "rrf", "dbsf", "weighted", "average"])
@pytest.mark.parametrize("explain", [False, True], ids=["bare", "explained"])
@pytest.mark.parametrize("condition", [NATIVE, {"x": 1}], ids=["native", "dict"])
def test_both_legs_get_the_same_filter(spy: Spy, fusion: str, explain: bool, condition: Any) -> None:
    index = filled(spy)
    index.search("memory", 9, filter=condition, fusion=fusion)  # the first one looks at what is there, too
    spy.requests.clear()
    found = index.search("memory", 9, filter=condition, fusion=fusion, explain=explain)
    assert sorted(found.ids) == ["1", "4", "7"]
    asked = spy.filters_by_vector()
    assert {using for using, _ in asked} == {"dense", "bm25"}
    assert all(where is not None and where == asked[0][1] for _, where in asked)


def test_a_native_filter_is_passed_on_untouched(spy: Spy) -> None:
    index = filled(spy)
    before = NATIVE.model_copy(deep=True)
    assert index.count(NATIVE) == 3
    assert index.delete(filter=NATIVE) == 3
    index.search("memory", filter=NATIVE)
    spy.requests.clear()
    index.search("memory", filter=NATIVE)
    assert before == NATIVE
    assert all(where == before for where in spy.counted)
    assert all(where == before for _, where in spy.filters_by_vector())
    assert sorted(index.search("memory", 9).ids) == ["0", "2", "3", "5", "6", "8"]


def test_an_empty_native_filter_leaves_everything(spy: Spy) -> None:
    assert len(filled(spy).search("memory", 9, filter=models.Filter())) == 9
