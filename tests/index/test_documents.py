"""Documents by filter, with vectors of their own, changed in place; and the model of an index by itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.faces import Face
from twofold import Document, FilterError, HybridIndex, InvalidDocument, InvalidQuery
from twofold.documents import point_id
from twofold.filters import All, Equals, HasPoint
from twofold.results import is_explanation
from twofold.testing import HashEmbedding

Opener = Callable[..., Face]
EMBEDDING = HashEmbedding()
NOTES = [
    Document(
        f"note {n} about {'cats' if n % 2 else 'ships'}",
        f"n{n}",
        {"n": n, "kind": "cat" if n % 2 else "ship", "day": f"2024-05-{n + 1:02}T00:00:00+00:00"},
    )
    for n in range(9)
]


@pytest.fixture
def index(open_index: Opener) -> Face:
    face = open_index(dense=EMBEDDING)
    face.add(NOTES)
    return face


def ids(documents: Any) -> list[str]:
    return [document.id for document in documents]


def test_fetch_gives_what_fits_a_filter_as_it_was_added(index: Face) -> None:
    assert sorted(ids(index._call("fetch"))) == [note.id for note in NOTES]
    cats = index._call("fetch", {"kind": "cat"})
    assert sorted(cats, key=lambda each: each.id) == NOTES[1::2]
    assert len(index._call("fetch", {"kind": "cat"}, limit=2)) == 2
    assert index._call("fetch", limit=0) == []
    assert index._call("fetch", {"kind": "dog"}) == []
    with pytest.raises(InvalidQuery, match="limit must be a whole number"):
        index._call("fetch", limit=-1)


def test_fetch_goes_on_beyond_one_page(open_index: Opener) -> None:
    face = open_index(dense=EMBEDDING)
    face.add([Document("", f"d{n}") for n in range(600)])
    assert len(set(ids(face._call("fetch")))) == 600
    assert len(set(ids(face._call("fetch", limit=300)))) == 300


def test_fetch_newest_first(index: Face) -> None:
    index.add([Document("no date", "undated")])
    assert ids(index._call("fetch", newest_first="day")) == [f"n{n}" for n in range(8, -1, -1)]
    assert ids(index._call("fetch", {"kind": "cat"}, limit=2, newest_first="day")) == ["n7", "n5"]


def test_a_filter_can_name_ids(index: Face) -> None:
    assert ids(index._call("fetch", {"$id": "n3"})) == ["n3"]
    assert sorted(ids(index._call("fetch", {"$id": ["n1", "n2", "nobody"], "kind": "ship"}))) == ["n2"]
    assert index.search("note", k=9, filter={"$id": ["n4"]}).ids == ["n4"]
    assert index.count({"not": {"$id": ["n4", "n5"]}}) == 7
    assert index.count({"$id": []}) == 0
    assert index.count(All((HasPoint((point_id("n1"), point_id("n2"))), Equals("kind", "cat")))) == 1
    with pytest.raises(FilterError, match="ids of documents, which are strings"):
        index.count({"$id": [3]})
    with pytest.raises(FilterError, match="takes a list"):
        index.count({"$id": 3})


def test_metadata_changes_in_place(index: Face) -> None:
    before = index.search("cats", k=3)
    index._call("update_metadata", {"seen": True, "n": 70}, ids=["n7", "n8"])
    assert index.get("n7") == Document(NOTES[7].text, "n7", {**NOTES[7].metadata, "seen": True, "n": 70})
    assert index.count({"seen": True}) == 2
    index._call("update_metadata", {"seen": False}, filter={"$id": ["n6", "n7", "n8"], "n": 70, "kind": "cat"})
    assert [index.get(each).metadata.get("seen") for each in ("n6", "n7", "n8")] == [None, False, True]
    assert index.search("cats", k=3).ids == before.ids
    with pytest.raises(InvalidQuery, match="either ids or a filter"):
        index._call("update_metadata", {"seen": True})
    with pytest.raises(FilterError, match="matches everything: name what to update"):
        index._call("update_metadata", {"seen": True}, filter={})
    with pytest.raises(InvalidDocument, match="JSON cannot hold"):
        index._call("update_metadata", {"seen": object()}, ids="n1")


def test_clear_deletes_everything_and_the_index_goes_on(index: Face) -> None:
    assert index._call("clear") == 9
    assert index._call("clear") == 0
    index.add(["after that"])
    assert len(index.search("after", k=3)) == 1


def test_values_of_a_field(index: Face) -> None:
    assert index._call("values", "kind") == {"ship": 5, "cat": 4}
    assert index._call("values", "kind", {"$id": ["n0", "n1", "n2"]}) == {"ship": 2, "cat": 1}


def test_an_index_on_a_field_makes_ranges_right_and_twice_is_fine(index: Face) -> None:
    for _ in range(2):
        assert index._call("create_field_index", "n", "float") is None
    assert index.count({"n": {"gte": 3, "lt": 5}}) == 2
    with pytest.raises(Exception, match="'colour' is not one of"):
        index._call("create_field_index", "n", "colour")


def test_vectors_given_with_documents_are_stored_instead_of_the_models(open_index: Opener) -> None:
    face = open_index(dense=EMBEDDING)
    cats, ships = (EMBEDDING.embed_query(text) for text in ("cats", "ships"))
    face.add([Document("one", "a"), Document("two", "b"), Document("ships", "c"), Document("", "d")],
             vectors=[cats, np.asarray(ships), None, cats])  # fmt: skip
    near = face._call("search_by_vector", cats, k=2, explain=True)
    assert sorted(near.ids) == ["a", "d"]
    assert near[0].explanation.semantic_score == pytest.approx(1.0, abs=1e-5)
    assert sorted(face._call("search_by_vector", ships, k=2).ids) == ["b", "c"]
    assert face.search("two", k=1, alpha=0.0).ids == ["b"]


@pytest.mark.parametrize(
    ("vectors", "said"),
    [
        ([[0.5] * 64], "2 documents but 1 vectors"),
        ([[0.5] * 64, [0.5] * 3], r"shape \(3,\).*64 dimensions"),
        ([[0.5] * 64, [math.nan] * 64], "NaN"),
        ([[0.5] * 64, ["a"] * 64], "a vector is a list of numbers"),
    ],
)
def test_vectors_that_cannot_be_stored_fail_before_anything_is_written(vectors: Any, said: str) -> None:
    with HybridIndex.open(":memory:", dense=EMBEDDING) as index:
        with pytest.raises(InvalidDocument, match=said):
            index.add(["one", "two"], vectors=vectors)
        assert index.count() == 0


def test_the_model_of_the_index_embeds(index: Face) -> None:
    assert index._call("embed", ["cats", "ships"]) == [
        pytest.approx(v) for v in EMBEDDING.embed_documents(["cats", "ships"])
    ]
    assert index._call("embed", []) == []
    assert index._call("embed_query", "cats") == pytest.approx(EMBEDDING.embed_query("cats"))
    assert index.index.dense_dim == 64
    with pytest.raises(InvalidQuery, match="wrap a single one"):
        index._call("embed", "cats")


def test_words_of_a_text_and_a_vector_together(index: Face) -> None:
    ships = EMBEDDING.embed_query("ships")
    both = index.search("cats", k=9, vector=ships, alpha=0.5, explain=True)
    alike = index.search("ships", k=9, alpha=1.0, explain=True)
    why: dict[str, Any] = {hit.id: hit.explanation for hit in both}
    assert both.mode == "hybrid"
    for hit in alike:
        assert hit.explanation is not None
        assert why[hit.id].semantic_score == pytest.approx(hit.explanation.semantic_score, abs=1e-6)
    assert why["n1"].lexical_rank is not None
    with pytest.raises(InvalidQuery, match="64 dimensions"):
        index.search("cats", vector=[1.0])


def test_a_hit_as_metadata(index: Face) -> None:
    found = index.search("cats", k=1, explain=True)
    told = found[0].as_metadata(found)
    assert told["score"] == found[0].score == told["explanation"]["final_score"]
    assert told["explanation"]["matched_words"] == ["cats"]
    assert (told["explanation"]["mode"], told["explanation"]["degraded"]) == ("hybrid", None)
    assert is_explanation(told["explanation"])
    bare = index.search("cats", k=1)
    assert is_explanation(bare[0].as_metadata(bare)["explanation"])
    assert not is_explanation({"why": 1})


def test_a_title_counts_for_meaning_and_words_and_comes_back(open_index: Callable[..., Face]) -> None:
    face = open_index()
    plain, titled = Document("It is 2333.", "p", {"title": "mine"}), Document("It is 2333.", "t", {}, "Rathole port")
    face.add([plain, {"text": "Cake needs four eggs", "id": "c", "title": "  "}, titled])
    found = face.search("rathole port", explain=True)
    assert (found[0].id, found[0].title, found[0].text) == ("t", "Rathole port", "It is 2333.")
    why = found[0].explanation
    assert why is not None
    assert why.matched_words == ("rathole", "port")
    assert (why.semantic_rank, why.lexical_rank) == (1, 1)
    assert face.get(["t", "p", "c"]) == [titled, plain, Document("Cake needs four eggs", "c")]
    face.add([Document("It is 2333.", "t", {}, "Frp port")])
    assert face.get("t").title == "Frp port"
    assert face.search("rathole port", explain=True, alpha=0.0, min_lexical=0.01).ids == ["t"]
    face.add([Document("", "only", {}, "Nothing but zebras")])
    assert face.search("zebras").ids[0] == "only"
    same, other = face.add([Document("x", title="one"), Document("x", title="two")])
    assert same != other, "another title is another document"
    with pytest.raises(InvalidDocument, match="title must be a string, got int"):
        face.add([Document("x", title=3)])  # type: ignore[arg-type]
