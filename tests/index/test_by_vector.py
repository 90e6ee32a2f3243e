"""Searching with a vector, and choosing hits that differ from each other."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.vectorstores.utils import maximal_marginal_relevance

from tests.faces import Face
from twofold import Document, HybridIndex, InvalidQuery
from twofold.index.searching import choose
from twofold.testing import HashEmbedding

Opener = Callable[..., Face]
EMBEDDING = HashEmbedding()
WORDS = ["port", "proxy", "tunnel", "cache", "cat", "tea", "night", "harbour", "ship", "cable", "queue", "token"]
DOCUMENTS = [
    Document(" ".join(WORDS[(n * step + n // 3) % len(WORDS)] for step in (1, 2, 5)), f"d{n}", {"even": n % 2 == 0})
    for n in range(30)
]
QUERIES = [f"{WORDS[n % len(WORDS)]} {WORDS[(n * 7 + 3) % len(WORDS)]}" for n in range(20)]


@pytest.fixture
def index(open_index: Opener) -> Face:
    face = open_index(dense=EMBEDDING)
    face.add(DOCUMENTS)
    return face


def by_vector(face: Face, *args: Any, **kwargs: Any) -> Any:
    return face._call("search_by_vector", *args, **kwargs)


def diverse(face: Face, *args: Any, **kwargs: Any) -> Any:
    return face._call("search_diverse", *args, **kwargs)


def test_a_vector_finds_what_its_text_finds_by_meaning_alone(index: Face) -> None:
    for query in QUERIES:
        by_text = index.search(query, k=7, alpha=1.0)
        found = by_vector(index, EMBEDDING.embed_query(query), k=7)
        assert found.mode == "dense"
        assert found.degraded is None
        assert [(hit.id, hit.score, hit.relevance) for hit in found] == [
            (hit.id, hit.score, hit.relevance) for hit in by_text
        ]


def test_arrays_filters_pages_floors_and_explanations(index: Face) -> None:
    vector = np.asarray(EMBEDDING.embed_query("tunnel port"))
    every = by_vector(index, vector, k=30)
    assert by_vector(index, vector, k=5, offset=5).ids == every.ids[5:10]
    even = by_vector(index, vector, k=30, filter={"even": True})
    assert even.ids == [hit.id for hit in every if hit.metadata["even"]]
    why = by_vector(index, vector, k=1, explain=True)[0].explanation
    assert why.semantic_rank == 1
    assert why.lexical_rank is None
    near = by_vector(index, vector, k=30, min_semantic=0.5)
    assert 0 < len(near) < 30
    assert near.ids == every.ids[: len(near)]
    floor = every[3].relevance
    assert 0 < floor < every[0].relevance
    assert by_vector(index, vector, k=30, min_score=floor).ids == [hit.id for hit in every if hit.relevance >= floor]
    assert len(by_vector(index, vector, k=0)) == 0


@pytest.mark.parametrize(
    ("vector", "said"),
    [
        ([0.5] * 63, "63.*64 dimensions"),
        ([], "64 dimensions"),
        ([[0.5] * 64], "64 dimensions"),
        ([math.nan, *[0.5] * 63], "NaN"),
        (["a"] * 64, "list of numbers"),
        (None, "64 dimensions|text or a vector"),
    ],
)
def test_a_vector_that_does_not_fit_is_refused(vector: Any, said: str) -> None:
    with HybridIndex.open(":memory:", dense=EMBEDDING) as index:
        for search in (index.search_by_vector, index.search_diverse):
            with pytest.raises(InvalidQuery, match=said):
                search(vector)


def test_no_diversity_is_the_ranking_of_search(index: Face) -> None:
    for query in QUERIES:
        assert diverse(index, query, k=6, diversity=0).ids == index.search(query, k=6).ids
        vector = EMBEDDING.embed_query(query)
        assert diverse(index, vector, k=6, diversity=0).ids == by_vector(index, vector, k=6).ids


def test_by_vector_each_choice_is_the_best_that_was_left(index: Face) -> None:
    for query in QUERIES:
        vector = np.asarray(EMBEDDING.embed_query(query))
        candidates = {hit.id: np.asarray(EMBEDDING.embed_query(hit.text)) for hit in by_vector(index, vector, k=12)}
        for diversity in (0.3, 0.5, 0.8):
            taken: list[str] = []
            for chosen in diverse(index, vector, k=5, candidates=12, diversity=diversity).ids:
                worth = {
                    each: (1 - diversity) * (own @ vector)
                    - diversity * max((own @ candidates[other] for other in taken), default=0.0)
                    for each, own in candidates.items()
                    if each not in taken
                }
                assert worth[chosen] == pytest.approx(max(worth.values()), abs=1e-5)
                taken.append(chosen)


@pytest.mark.parametrize("diversity", [0.0, 0.2, 0.5, 0.9])
def test_the_choice_is_that_of_langchain(diversity: float) -> None:
    random = np.random.default_rng(7)
    for _ in range(20):
        query, rows = random.normal(size=8), random.normal(size=(20, 8))
        units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        relevance = units @ (query / np.linalg.norm(query))
        expected = maximal_marginal_relevance(query, units.tolist(), lambda_mult=1 - diversity, k=8)
        assert choose(relevance, units, 8, diversity) == expected


def test_a_copy_gives_way_to_something_else(index: Face) -> None:
    index.add(
        [Document("rathole gateway", "first"), Document("rathole gateway", "copy"), Document("rathole moon", "x")]
    )
    assert index.search("rathole gateway", k=2).ids == ["copy", "first"]
    assert diverse(index, "rathole gateway", k=2).ids[0] == "copy"
    assert "first" not in diverse(index, "rathole gateway", k=2).ids


def test_words_count_when_hits_are_chosen(index: Face) -> None:
    result = diverse(index, "tunnel port", k=4, alpha=0.0, explain=True)
    assert result.mode == "lexical"
    assert all(hit.explanation.lexical_rank for hit in result)
    assert all(hit.metadata["even"] for hit in diverse(index, "tunnel port", k=4, filter={"even": True}))


def test_the_choice_is_the_same_on_every_engine(index: Face) -> None:
    with HybridIndex.open(":memory:", dense=EMBEDDING) as reference:
        reference.add(DOCUMENTS)
        for query in QUERIES:
            assert diverse(index, query, k=8).ids == reference.search_diverse(query, k=8).ids
            vector = EMBEDDING.embed_query(query)
            assert diverse(index, vector, k=8).ids == reference.search_diverse(vector, k=8).ids


def test_fewer_candidates_than_hits_are_raised_to_them(index: Face) -> None:
    assert len(diverse(index, "port", k=9, candidates=2)) == 9
    assert len(diverse(index, "port", k=0)) == 0
    assert len(diverse(index, "", k=3)) == 0
    assert len(diverse(index, "port", k=100)) == 30


@pytest.mark.parametrize(
    "wrong", [{"diversity": 1.5}, {"diversity": True}, {"candidates": 0}, {"candidates": 2.5}, {"k": -1}, {"alpha": 3}]
)
def test_wrong_arguments_are_refused(wrong: dict[str, Any]) -> None:
    with HybridIndex.open(":memory:", dense=EMBEDDING) as index, pytest.raises(InvalidQuery):
        index.search_diverse("port", **wrong)


@given(
    rows=st.lists(st.lists(st.floats(-1, 1), min_size=4, max_size=4), min_size=1, max_size=12),
    k=st.integers(0, 15),
    diversity=st.floats(0, 1),
)
def test_a_choice_takes_each_candidate_once_and_the_best_first(
    rows: list[list[float]], k: int, diversity: float
) -> None:
    lengths = [math.hypot(*row) for row in rows]
    units = np.array([[v / n if n else 0.0 for v in row] for row, n in zip(rows, lengths, strict=True)])
    relevance = np.linspace(1, 0, len(rows))
    chosen = choose(relevance, units, k, diversity)
    assert len(chosen) == len(set(chosen)) == min(k, len(rows))
    assert not chosen or chosen[0] == 0
    assert chosen == choose(relevance, units, len(rows), diversity)[: len(chosen)]


def test_the_awaited_methods_take_the_same_arguments() -> None:
    for name in ("search_by_vector", "search_diverse"):
        blocking, awaited = getattr(HybridIndex, name), getattr(HybridIndex, f"a{name}")
        assert inspect.signature(blocking) == inspect.signature(awaited)


def test_a_text_is_no_vector() -> None:
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        index.add(["a text"])
        with pytest.raises(InvalidQuery, match="a vector is a list of numbers, got str"):
            index.search_by_vector("abc")  # type: ignore[arg-type]
        with pytest.raises(InvalidQuery, match="got None"):
            index.search_by_vector(None)  # type: ignore[arg-type]


def test_a_vector_beside_the_text_and_either_may_be_empty(index: Face) -> None:
    vector = EMBEDDING.embed_query("tunnel cache")
    both = index.search("port proxy", vector=vector, explain=True)
    assert both.mode == "hybrid"
    assert both[0].explanation is not None
    alone = index.search("", vector=vector)
    assert (alone.mode, alone.degraded) == ("dense", None)
    assert alone.ids == by_vector(index, vector).ids
    assert index.search("tunnel cache", alpha=1.0).ids == alone.ids
    assert len(index.search("")) == 0


def test_vectors_are_given_back(index: Face) -> None:
    found = index._call("vectors", ["d1", "nothing", "d0"])
    assert found[1] is None
    for number, vector in ((1, found[0]), (0, found[2])):
        assert vector == pytest.approx(EMBEDDING.embed_documents([DOCUMENTS[number].text])[0], abs=1e-5)
