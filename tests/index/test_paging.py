"""k and offset: as many as there are, no gaps, no repeats."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.faces import Face
from twofold import Document, SearchConfig

Opener = Callable[..., Face]


def filled(open_index: Opener, number: int, **arguments: object) -> Face:
    index = open_index(**arguments)
    index.add(
        [
            Document(text=f"memory {i} about tunnel {i % 7} and port {i % 5}", id=f"m{i:04}", metadata={"half": i % 2})
            for i in range(number)
        ]
    )
    return index


@pytest.mark.parametrize("fusion", ["auto", "rrf", "dbsf", "weighted", "average"])
def test_fifty_come_back_when_fifty_match(open_index: Opener, fusion: str) -> None:
    index = filled(open_index, 100)
    hits = index.search("unrelated question about a tunnel", 50, filter={"half": 1}, fusion=fusion)
    assert len(hits) == 50
    assert {hit.metadata["half"] for hit in hits} == {1}


@pytest.mark.parametrize("fusion", ["auto", "rrf", "dbsf", "weighted", "average"])
@pytest.mark.parametrize("depth", [200, 15], ids=["within depth", "beyond depth"])
def test_pages_join_without_gaps_or_repeats(open_index: Opener, fusion: str, depth: int) -> None:
    index = filled(open_index, 90)
    pages = [index.search("tunnel 3 port 2", 12, offset=o, fusion=fusion, depth=depth) for o in range(0, 96, 12)]
    ids = [i for page in pages for i in page.ids]
    assert len(ids) == len(set(ids)) == 90
    assert pages[0].ids == index.search("tunnel 3 port 2", 12, fusion=fusion, depth=depth).ids


def test_an_offset_beyond_the_end_is_an_empty_page(open_index: Opener) -> None:
    assert len(filled(open_index, 3).search("tunnel", 10, offset=50)) == 0


def test_k_does_not_change_the_order(open_index: Opener) -> None:
    index = filled(open_index, 60)
    long = index.search("tunnel 3", 40).ids
    assert index.search("tunnel 3", 7).ids == long[:7]


def test_a_floor_on_the_relevance_can_leave_nothing(open_index: Opener) -> None:
    index = filled(open_index, 20)
    everything = index.search("tunnel 3", 20)
    floor = everything[2].relevance
    assert floor > 0
    above = index.search("tunnel 3", 20, min_score=floor)
    assert 3 <= len(above) < 20
    assert above.ids == [hit.id for hit in everything if hit.relevance >= floor]
    nothing = index.search("tunnel 3", 20, min_score=1.0)
    assert len(nothing) == 0
    assert nothing.mode == "hybrid"
    assert nothing.degraded is None


def test_floors_per_leg_can_answer_nothing(open_index: Opener) -> None:
    index = filled(open_index, 20, config=SearchConfig(min_semantic=0.9))
    assert len(index.search("completely different words", 5)) == 0
    assert len(index.search("completely different words", 5, min_semantic=-1.0)) == 5
    assert len(index.search("tunnel", 5, min_lexical=1e9)) == 0
