"""The same data written twice, in another order, gives the same rankings: with every strategy, on every engine."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faces import Face
from twofold import Document, Explanation, Hit, HybridIndex, embedded_client
from twofold.testing import HashEmbedding

FUSIONS = ["auto", "rrf", "dbsf", "weighted", "average"]
WORDS = ["tunnel", "port", "cache", "rathole", "index", "query", "token", "limit", "error", "migration"]
QUERIES = ["tunnel", "port of the tunnel", "cache token limit", "nothing of that kind", "rathole rathole error"]

Ranking = list[tuple[str, Any, Any]]


def explained(hit: Hit) -> Explanation:
    assert hit.explanation is not None
    return hit.explanation


def ranking(index: Any, query: str, fusion: str, k: int = 20, **arguments: Any) -> Ranking:
    found = index.search(query, k, fusion=fusion, **arguments)
    return [(hit.id, pytest.approx(hit.score, abs=1e-6), pytest.approx(hit.relevance, abs=1e-5)) for hit in found]


def test_the_same_data_in_another_order_ranks_alike_by_every_strategy() -> None:
    engine = embedded_client(":memory:")  # one for all: making a client takes longer than a whole example
    made = 0

    @settings(max_examples=60)
    @given(
        # Few words, so that texts are alike and scores equal: the order of what is equal is what is looked at.
        texts=st.lists(st.lists(st.sampled_from(WORDS[:4]), min_size=1, max_size=3).map(" ".join), max_size=14),
        query=st.lists(st.sampled_from(WORDS[:5]), min_size=1, max_size=3).map(" ".join),
        chance=st.randoms(use_true_random=False),
        k=st.integers(1, 15),
    )
    def check(texts: list[str], query: str, chance: random.Random, k: int) -> None:
        nonlocal made
        made += 1
        documents = [Document(text, id=f"d{n}") for n, text in enumerate(texts)]
        shuffled = chance.sample(documents, len(documents))
        indexes = []
        for name, ordered in ((f"one-{made}", documents), (f"other-{made}", shuffled)):
            indexes.append(HybridIndex.open(engine, name, dense=HashEmbedding()))
            indexes[-1].add(ordered)
        for fusion in FUSIONS:
            one, other = (ranking(index, query, fusion, k) for index in indexes)
            assert [each[0] for each in one] == [each[0] for each in other], fusion
            assert one == other, fusion
        for name in (f"one-{made}", f"other-{made}"):
            engine.delete_collection(name)

    check()
    engine.close()


def documents() -> list[Document]:
    rng = random.Random(11)
    texts = [" ".join(rng.choices(WORDS, k=rng.randint(1, 5))) for _ in range(50)]
    return [Document(text, id=f"d{n:02}") for n, text in enumerate([*texts, *texts[:10]])]  # some of them twice


@pytest.mark.parametrize("fusion", FUSIONS)
def test_written_again_in_another_order_it_ranks_alike(open_index: Callable[..., Face], fusion: str) -> None:
    given_order = documents()
    one, other = open_index("one"), open_index("other")
    one.add(given_order)
    shuffled = random.Random(5).sample(given_order, len(given_order))
    other.add(shuffled[:20])
    other.add(shuffled[20:])
    other.add(shuffled[5:9])  # once more
    for query in QUERIES:
        for arguments in ({}, {"explain": True}, {"k": 7, "offset": 3}, {"alpha": 0.0}, {"alpha": 1.0}):
            first, second = (ranking(index, query, fusion, **arguments) for index in (one, other))
            assert [each[0] for each in first] == [each[0] for each in second]
            assert first == second


@pytest.mark.parametrize("fusion", ["auto", "rrf", "weighted", "average"])
def test_equal_scores_are_not_in_the_order_of_ids_where_cosines_differ(
    open_index: Callable[..., Face], fusion: str
) -> None:
    index = open_index()
    index.add(documents())
    told = 0
    for query in QUERIES:
        # Of what ties at the cut of a leg, which of them is brought is up to the engine: `auto` cuts at thirty.
        hits = index.search(query, 20 if fusion == "auto" else 60, fusion=fusion, explain=True)
        for before, after in pairwise(hits):
            one, other = explained(before), explained(after)
            if before.score != after.score or one.semantic_score is None or other.semantic_score is None:
                continue
            if one.semantic_score == pytest.approx(other.semantic_score, abs=1e-5):
                told += 1
                assert fusion == "rrf" or before.id < after.id, "nothing else tells them apart"
            else:
                assert one.semantic_score > other.semantic_score
    assert told or fusion == "rrf", "rrf gives different places to what is equal"


def test_what_is_far_from_the_question_is_in_the_order_of_its_cosines(open_index: Callable[..., Face]) -> None:
    """Where no word is shared and every cosine is low, as with a question about something else."""
    index = open_index()
    index.add(documents())
    hits = index.search("zebras drink tea", 60, explain=True)
    cosines = [explained(hit).semantic_score or 0.0 for hit in hits]
    assert len(hits) == 60
    assert min(cosines) < 0
    assert cosines == [pytest.approx(each, abs=1e-5) for each in sorted(cosines, reverse=True)]
    assert hits.ids != sorted(hits.ids)


@pytest.mark.parametrize("fusion", FUSIONS)
@pytest.mark.parametrize("depth", [200, 8], ids=["all brought", "a few brought"])
def test_what_the_legs_add_is_the_score(open_index: Callable[..., Face], fusion: str, depth: int) -> None:
    index = open_index()
    index.add(documents())
    for query in QUERIES:
        for alpha in (None, 0.0, 0.3, 1.0):
            hits = index.search(query, 20, fusion=fusion, alpha=alpha, explain=True, depth=depth)
            for hit in hits:
                why = explained(hit)
                assert why.final_score == hit.score
                assert why.semantic_part + why.lexical_part == pytest.approx(hit.score, rel=1e-5, abs=1e-5)
