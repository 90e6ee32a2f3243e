"""The engine's fusion and ours are one ranking: same ids, same order, same scores."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from qdrant_client import QdrantClient

from twofold import Document, Fusion, HybridIndex, SearchConfig, SearchResult, embedded_client
from twofold.testing import HashEmbedding

WORDS = ["tunnel", "port", "cache", "rathole", "index", "query", "token", "limit", "error", "migration"]
EXACTLY_NATIVE = [Fusion.dbsf(), Fusion.auto(), Fusion.auto(0.7)]
FUSED_HERE = [Fusion.rrf(), Fusion.rrf(k=2), Fusion.weighted(), Fusion.average()]


class Counting:
    """A client that counts the searches it sends."""

    def __init__(self) -> None:
        self.client = QdrantClient(":memory:")
        self.searches = 0
        real = self.client.query_batch_points

        def query_batch_points(*args: Any, **kwargs: Any) -> Any:
            self.searches += 1
            return real(*args, **kwargs)

        self.client.query_batch_points = query_batch_points  # type: ignore[method-assign]


texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join)
collections = {
    "embedded": st.lists(texts, min_size=1, max_size=30),
    # Different sets of words: local mode computes the cosines of equal vectors anew each time, differing in the last
    # digit, so their ranks change from call to call. The embedded engine does not.
    "local": st.lists(texts, min_size=1, max_size=30, unique_by=lambda text: frozenset(text.split())),
}
clients: dict[str, Callable[[], QdrantClient]] = {
    "embedded": lambda: embedded_client(":memory:"),
    "local": lambda: QdrantClient(":memory:"),
}


def assert_same(one: SearchResult, other: SearchResult) -> None:
    assert one.ids == other.ids
    assert [hit.score for hit in one] == pytest.approx([hit.score for hit in other], abs=2e-5)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["embedded", "local"])
def test_native_equals_client_on_500_collections(kind: str) -> None:
    seen = 0
    loop = asyncio.new_event_loop()
    engine = clients[kind]()  # one for all: making a client takes longer than a whole example

    @settings(max_examples=500, derandomize=True)
    @given(
        documents=collections[kind],
        query=texts,
        fusion=st.sampled_from([*EXACTLY_NATIVE, *FUSED_HERE]),
        k=st.integers(1, 12),
    )
    def check(documents: list[str], query: str, fusion: Any, k: int) -> None:
        nonlocal seen
        name = f"collection-{seen}"
        native = HybridIndex.open(engine, name, dense=HashEmbedding())
        client = HybridIndex.open(engine, name, dense=HashEmbedding(), config=SearchConfig(native=False))
        native.add(Document(text=text, id=str(i)) for i, text in enumerate(documents))

        ours = client.search(query, k, fusion=fusion)
        theirs = native.search(query, k, fusion=fusion)
        explained = native.search(query, k, fusion=fusion, explain=True)
        awaited = loop.run_until_complete(native.asearch(query, k, fusion=fusion))
        awaited_ours = loop.run_until_complete(client.asearch(query, k, fusion=fusion, explain=True))

        for other in (theirs, explained, awaited, awaited_ours):
            assert_same(other, ours)
        engine.delete_collection(name)
        seen += 1

    check()
    loop.close()
    engine.close()
    assert seen >= 500


@pytest.mark.parametrize("native", [True, False], ids=["native", "client"])
@pytest.mark.parametrize("fusion", [*EXACTLY_NATIVE, *FUSED_HERE], ids=lambda f: f"{f.name}-{f.weights[0]}")
def test_explaining_changes_no_ranking_and_sends_no_second_request(native: bool, fusion: Any) -> None:
    counting = Counting()
    index = HybridIndex.open(counting.client, dense=HashEmbedding(), config=SearchConfig(native=native))
    index.add(f"{a} {b}" for a in WORDS for b in WORDS)

    index.search("what scores mean here is asked once")
    counting.searches = 0

    plain = index.search("tunnel port", 10, fusion=fusion)
    assert counting.searches == 1
    explained = index.search("tunnel port", 10, fusion=fusion, explain=True)
    assert counting.searches == 2

    assert_same(explained, plain)
    for hit in explained:
        assert hit.explanation is not None
        assert hit.explanation.final_score == hit.score
        parts = hit.explanation.semantic_part + hit.explanation.lexical_part
        assert parts == pytest.approx(hit.score, abs=1e-5)


def test_both_scores_and_both_ranks_are_the_legs_own() -> None:
    index = HybridIndex.open(":memory:", dense=HashEmbedding())
    index.add([Document(text=f"{a} {b}", id=f"{a}-{b}") for a in WORDS for b in WORDS])
    by_meaning = index.search("tunnel port", 100, alpha=1.0, fusion="weighted")  # the plain cosine
    dense = {hit.id: (rank, hit.score) for rank, hit in enumerate(by_meaning, 1)}
    lexical = {hit.id: rank for rank, hit in enumerate(index.search("tunnel port", 100, alpha=0.0), 1)}

    for hit in index.search("tunnel port", 5, explain=True):
        why = hit.explanation
        assert why is not None
        assert why.semantic_score == pytest.approx(dense[hit.id][1], abs=1e-5)
        assert why.semantic_rank is not None
        assert why.lexical_rank is not None
        assert abs(why.semantic_rank - dense[hit.id][0]) <= 1  # equal cosines may swap places in the engine
        assert why.lexical_score is not None
        assert why.lexical_score > 0
        assert hit.id in lexical
        assert set(why.matched_words) <= {"tunnel", "port"}


def test_ties_are_broken_by_id_however_many_there_are() -> None:
    """Sixty equal documents: more than any slack that is fetched beyond the page."""
    index = HybridIndex.open(":memory:", dense=HashEmbedding())
    ids = [f"{i:03}" for i in range(60)]
    index.add([Document(text="the same words", id=i) for i in reversed(ids)])
    assert index.search("same words", 5).ids == ids[:5]
    assert index.search("same words", 5, offset=5).ids == ids[5:10]
