"""Parts of one thing lend each other context, and whatever is added, moved or deleted, the stored vectors are right."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from qdrant_client import QdrantClient

from tests.faces import Face
from tests.kit.rest import RestServer
from twofold import Document, HybridIndex, InvalidDocument, embedded_client
from twofold.testing import HashEmbedding

MEETING = ["Who takes the minutes?", "The budget, please", "Twelve thousand euros", "Agreed", "Next is the garden"]
WORDS = ["tunnel", "port", "cache", "rathole"]


def meeting(name: str = "monday") -> list[Document]:
    return [Document(text, f"{name}-{n}", {"room": 7}, None, name, n) for n, text in enumerate(MEETING)]


# --- what it does ---


def test_a_part_is_found_by_what_its_neighbours_say(open_index: Callable[..., Face]) -> None:
    index = open_index()
    index.add([*meeting(), Document("Four eggs and a cup of milk", "cake")])
    result = index.search("budget", alpha=0.0, explain=True)
    assert [result.ids[0], {*result.ids[1:3]}, *result.ids[3:]] == ["monday-1", {"monday-0", "monday-2"}, "monday-3"]
    for hit, words in zip(result, [("budget",), (), (), ()], strict=True):
        assert hit.explanation is not None
        assert hit.explanation.matched_words == words  # those of its own text, whatever its neighbours say
        assert hit.explanation.lexical_score is not None
    assert index.search("twelve", filter={"part_of": "monday", "position": {"gte": 2}}).ids[0] == "monday-2"


def test_a_part_comes_back_as_it_was_added(open_index: Callable[..., Face]) -> None:
    index = open_index()
    added = meeting()
    index.add([*added[:3], {"text": MEETING[3], "id": "monday-3", "part_of": "monday", "position": 3}])
    assert index.get("monday-2") == added[2]
    assert (index.get("monday-3").part_of, index.get("monday-3").position) == ("monday", 3)
    assert index.search("thousand", 1)[0].metadata == {"room": 7, "part_of": "monday", "position": 2}
    index.add([index.get("monday-3")])
    assert index.count({"part_of": "monday"}) == 4


def test_a_place_may_stand_in_the_metadata_or_beside_it() -> None:
    within = Document("Agreed", "a", {"part_of": "monday", "position": 3})
    assert within == Document("Agreed", "a", part_of="monday", position=3)
    assert Document("Agreed", "a", {"position": 3, "part_of": None}).position is None  # a field like any other
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        index.add([{"text": "Agreed", "part_of": "monday", "position": 3}], ids=["a"], metadatas=[{"room": 7}])
        assert index.get("a") == Document("Agreed", "a", {"room": 7}, None, "monday", 3)


@pytest.mark.parametrize(("part_of", "position"), [("a", None), (None, 1), ("", 1), ("a", -1), ("a", 1.5), (3, 1)])
def test_half_a_place_is_an_error(part_of: Any, position: Any) -> None:
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        with pytest.raises(InvalidDocument, match="document 1: a part has both part_of, a name, and position"):
            index.add(["one", Document("two", part_of=part_of, position=position)])
        assert index.count() == 0


def test_a_part_is_moved_by_adding_it_again() -> None:
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        index.add(meeting())
        with pytest.raises(InvalidDocument, match="position can't be changed alone: add the document again"):
            index.update_metadata({"position": 9}, "monday-1")


# --- whatever happened before ---


@pytest.fixture
def client(engine: str) -> Iterator[Any]:
    if engine == "embedded":
        store = embedded_client(":memory:")
        yield store
        store.close()
        return
    server = RestServer(lambda: embedded_client(":memory:")).start()
    yield QdrantClient(url=server.url, check_compatibility=False)
    server.close()


def stored(client: Any, collection: str) -> dict[str, tuple[Any, Any]]:
    """By id, both vectors of every point."""
    points, _ = client.scroll(collection, limit=1000, with_vectors=True)
    vectors = {}
    for point in points:
        sparse = point.vector.get("bm25")
        words = {} if sparse is None else dict(zip(sparse.indices, sparse.values, strict=True))
        vectors[point.payload["id"]] = (point.vector.get("dense"), words)
    return vectors


def check_anew(client: Any, name: str, documents: dict[str, tuple[Document, Any]]) -> None:
    """What is stored is what it is when everything is written for the first time."""
    with HybridIndex.open(client, f"{name}-anew", dense=HashEmbedding()) as index:
        if documents:
            rows = list(documents.values())
            index.add([document for document, _ in rows], vectors=[vector for _, vector in rows])
    one, other = stored(client, name), stored(client, f"{name}-anew")
    assert one.keys() == other.keys()
    for identity, (dense, words) in one.items():
        wanted, wanted_words = other[identity]
        assert (dense is None) == (wanted is None)
        if dense is not None:
            np.testing.assert_allclose(dense, wanted, atol=1e-5)
        assert words == pytest.approx(wanted_words, abs=1e-5)


# Every history begins with these, one with a vector of its own: what is moved or deleted has neighbours that stay.
FULL = [Document(f"{WORDS[n % 4]} {WORDS[n // 4]}", f"d{n}", {"odd": n % 2}, None, "a", n) for n in range(8)]
part = st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 6))
document = st.builds(
    lambda number, text, place: Document(text, f"d{number}", {"odd": number % 2}, None, *(place or ())),
    st.integers(0, 7),
    st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join),
    st.none() | part | part,
)
# Now and then a vector comes with a document, as LlamaIndex's do.
addition = st.tuples(document, st.none() | st.none() | st.integers(0, 3))
operations = st.lists(
    st.one_of(
        st.lists(addition, min_size=1, max_size=3).map(lambda rows: ("add", rows)),
        st.lists(st.integers(0, 7), min_size=1, max_size=3).map(lambda ids: ("delete", ids)),
        st.sampled_from([{"part_of": "a"}, {"odd": 1}, {"position": {"gte": 3}}]).map(lambda where: ("filter", where)),
    ),
    min_size=1,
    max_size=4,
)


@pytest.mark.parametrize(("engine", "examples"), [("embedded", 40), ("http", 12)])
def test_after_any_history_the_vectors_are_those_of_writing_everything_anew(client: Any, examples: int) -> None:
    made = 0
    sizes = random.Random(3)

    @settings(max_examples=examples)
    @given(operations)
    def check(history: list[tuple[str, Any]]) -> None:
        nonlocal made
        made += 1
        history = [("add", [(each, 0 if each.position == 3 else None) for each in FULL]), *history]
        name, documents = f"parts-{made}", dict[str, tuple[Document, Any]]()
        with HybridIndex.open(client, name, dense=HashEmbedding()) as index:
            for verb, what in history:
                if verb == "add":
                    vectors = [None if seed is None else np.eye(64)[seed].tolist() for _, seed in what]
                    index.add([each for each, _ in what], vectors=vectors, batch_size=sizes.choice([1, 3, 64]))
                    documents |= {each.id: (each, vector) for (each, _), vector in zip(what, vectors, strict=True)}
                else:
                    ids = [f"d{number}" for number in what] if verb == "delete" else None
                    index.delete(ids, filter=what if ids is None else None)
                    kept = {each.id for each in index.fetch()}
                    documents = {identity: row for identity, row in documents.items() if identity in kept}
            check_anew(client, name, documents)

    check()


def test_those_who_write_neighbours_at_the_same_time_see_each_other() -> None:
    client = embedded_client(":memory:")
    texts = [f"{WORDS[n % 4]} {n}" for n in range(40)]
    documents = {f"d{n}": (Document(text, f"d{n}", {}, None, "page", n), None) for n, text in enumerate(texts)}
    in_any_order = random.Random(7).sample([document for document, _ in documents.values()], len(texts))
    indexes = [HybridIndex.open(client, "together", dense=HashEmbedding()) for _ in range(2)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda each: indexes[each.position % 2].add([each]), in_any_order[:20]))

    async def awaited() -> None:
        await asyncio.gather(*(indexes[0].aadd([each]) for each in in_any_order[20:]))

    asyncio.run(awaited())
    check_anew(client, "together", documents)
    client.close()
