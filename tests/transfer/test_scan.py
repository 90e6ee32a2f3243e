"""Walking through everything, on every engine."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from tests.faces import Face
from tests.transfer.corpus import documents
from twofold import FilterError, HybridIndex, IndexClosed, ScannedDocument, embedded_client
from twofold.testing import HashEmbedding

NUMBER = 300
"""More than a page."""


def scanned(face: Face, *args: Any, **options: Any) -> list[ScannedDocument]:
    if face._loop is None:
        return list(face.index.scan(*args, **options))

    async def collect() -> list[ScannedDocument]:
        return [each async for each in face.index.ascan(*args, **options)]

    return face._loop.run_until_complete(collect())


def test_everything_comes_once(open_index: Callable[..., Face]) -> None:
    face = open_index()
    face.add(list(documents(NUMBER)))
    found = scanned(face)
    by_id = {each.id: each for each in found}
    assert len(found) == len(by_id) == NUMBER
    for document in documents(NUMBER):
        each = by_id[str(document.id)]
        assert (each.text, each.title, each.metadata) == (document.text, document.title, document.metadata)
        assert (each.part_of, each.position) == (document.part_of, document.position)
        assert (each.dense, each.sparse, each.problem) == (None, None, None)


def test_a_filter_and_vectors(open_index: Callable[..., Face]) -> None:
    face = open_index()
    face.add(list(documents(100)))
    found = scanned(face, {"tags": "t1"}, vectors=True)
    assert {each.metadata["n"] for each in found} == {n for n in range(100) if n % 5 == 1}
    for each in found:
        (vector,) = face._call("vectors", [each.id])
        assert each.dense == pytest.approx(vector, abs=1e-6)
        assert each.sparse is not None
        assert len(each.sparse.indices) == len(each.sparse.values) > 0


def test_what_is_wrong_is_said_before_the_walk_begins() -> None:
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        with pytest.raises(FilterError):
            index.scan({"n": {"wrong": 1}})
        with pytest.raises(FilterError):
            index.ascan({"n": {"wrong": 1}})


def test_what_comes_and_goes_meanwhile_disturbs_nothing() -> None:
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        index.add(list(documents(NUMBER)))
        walk, seen = index.scan(), []
        for number, each in enumerate(walk):
            seen.append(each.id)
            if number == 10:
                index.add([f"new {n}" for n in range(50)], ids=[f"new {n}" for n in range(50)])
                index.delete(filter={"n": {"gte": 270}})
        assert len(seen) == len(set(seen))
        assert {f"document {n}" for n in range(270) if n % 10 != 3} <= set(seen)


def test_a_row_that_is_not_as_it_should_be_says_so() -> None:
    client = embedded_client(":memory:")
    index = HybridIndex.open(client, dense=HashEmbedding())
    index.add(["fine", "damaged"], ids=["a", "b"])
    row = next(each for each in client.scroll("twofold")[0] if (each.payload or {})["id"] == "b")
    client.set_payload("twofold", {"text": 7}, [row.id])
    problems = {each.id: each.problem for each in index.scan()}
    assert problems["a"] is None
    assert "is no text but int" in str(problems["b"])
    client.close()


def test_a_walk_ends_when_the_index_is_closed() -> None:
    index = HybridIndex.open(":memory:", dense=HashEmbedding())
    index.add(list(documents(NUMBER)))
    walk = index.scan()
    next(walk)
    index.close()
    with pytest.raises(IndexClosed):
        list(walk)


def test_memory_does_not_grow_with_the_collection() -> None:
    def peak(index: HybridIndex) -> int:
        tracemalloc.start()
        number = sum(1 for _ in index.scan(vectors=True))
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert number == index.count()
        return size

    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        index.add(list(documents(256)))
        once = peak(index)
        index.add(list(documents(1024)))
        assert peak(index) < 2 * once


def test_two_walks_at_once() -> None:
    async def main() -> int:
        async with await HybridIndex.aopen(":memory:", dense=HashEmbedding()) as index:
            await index.aadd(list(documents(NUMBER)))

            async def walk() -> int:
                return len([each async for each in index.ascan()])

            return sum(await asyncio.gather(walk(), walk()))

    assert asyncio.run(main()) == 2 * NUMBER
