"""Inputs that break things elsewhere. Each has a defined result here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from qdrant_client import models

from tests.faces import Face
from twofold import Document, EncoderError, FilterError, Fusion, InvalidDocument, InvalidQuery, PartialAdd
from twofold.testing import HashEmbedding

Opener = Callable[..., Face]


class Broken(HashEmbedding):
    """Embeds well, until a text says how it should fail."""

    def _embed(self, text: str) -> list[float]:
        vector = super()._embed(text)
        if "NAN" in text:
            return [float("nan"), *vector[1:]]
        if "INF" in text:
            return [float("inf"), *vector[1:]]
        if "SHORT" in text:
            return vector[:-1]
        if "BOOM" in text:
            raise RuntimeError("out of memory")
        return vector


@pytest.fixture
def index(open_index: Opener) -> Face:
    face = open_index(dense=Broken())
    face.add([Document(text="tunnels listen on port 2333", id="t"), Document(text="caches expire at noon", id="c")])
    return face


@pytest.mark.parametrize("query", ["", "   ", "\n\t\u00a0"], ids=["empty", "spaces", "blank"])
def test_a_blank_query_finds_nothing(index: Face, query: str) -> None:
    result = index.search(query, explain=True)
    assert len(result) == 0
    assert result.degraded is None


def test_k_zero_finds_nothing(index: Face) -> None:
    assert len(index.search("tunnels", 0)) == 0


@pytest.mark.parametrize("arguments", [{"k": -1}, {"k": 2.5}, {"k": True}, {"k": "3"}, {"offset": -1}, {"k": 10**20}])
def test_k_and_offset_are_whole_numbers(index: Face, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidQuery, match="whole number"):
        index.search("tunnels", **arguments)


@pytest.mark.parametrize("alpha", [-0.1, 1.1, float("nan"), "half", True])
def test_alpha_lies_between_0_and_1(index: Face, alpha: Any) -> None:
    with pytest.raises(InvalidQuery, match="alpha"):
        index.search("tunnels", alpha=alpha)


@pytest.mark.parametrize("query", [None, 7, b"tunnels", ["tunnels"]])
def test_a_query_is_a_string(index: Face, query: Any) -> None:
    with pytest.raises(InvalidQuery, match="string"):
        index.search(query)


@pytest.mark.parametrize(
    "text",
    [
        "tunnels\0listen",
        "tunnels 🦀🔥",
        "שלום tunnels עולם",
        "مرحبا tunnels",
        "tunnels \ud800",
        "e\u0301 tunnels",
        "tunnels " * 10_000,
        "tunnels \u202e \u200d \ufeff",
        "tunnels'; DROP TABLE --",
        "!!! tunnels ???",
    ],
    ids=["nul", "emoji", "hebrew", "arabic", "surrogate", "nfd", "10,000 words", "controls", "sql", "punctuation"],
)
def test_any_query_text_is_searched(index: Face, text: str) -> None:
    result = index.search(text, 1)
    assert result.ids == ["t"]
    assert result.mode == "hybrid"


def test_a_query_of_a_megabyte_is_cut_and_says_so(index: Face) -> None:
    result = index.search("tunnels " * 130_000)
    assert result[0].id == "t"
    assert result.degraded is not None
    assert "cut to its first 32,768 characters" in result.degraded


@pytest.mark.parametrize("text", ["🦀🔥", "...", "\0"], ids=["emoji", "dots", "nul"])
def test_a_query_without_words_goes_by_meaning_alone(index: Face, text: str) -> None:
    result = index.search(text)
    assert result.mode == "dense"
    assert result.degraded is not None
    assert "no word" in result.degraded


@pytest.mark.parametrize(
    "text",
    ["a\0b", "🦀 crab", "שלום עולם", "x" * 1_000_000, "word " * 200_000, "\ufeffbom"],
    ids=["nul", "emoji", "right to left", "one word of 1 MB", "1 MB of words", "bom"],
)
def test_any_text_is_stored_as_it_is(index: Face, text: str) -> None:
    index.add([Document(text=text, id="odd")])
    assert index.get("odd").text == text
    assert "odd" in index.search(text[:100], 3).ids


def test_a_document_without_text_is_kept_but_not_found(index: Face) -> None:
    index.add([Document(text="  ", id="blank", metadata={"kind": "empty"})])
    assert index.get("blank") == Document(text="  ", id="blank", metadata={"kind": "empty"})
    assert index.count({"kind": "empty"}) == 1
    assert "blank" not in index.search("tunnels", 10).ids


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (Document(text="half \ud800"), "lone surrogate"),
        (Document(text="x", id="\udfff"), "lone surrogate"),
        (Document(text="x", id=""), "id is empty"),
        (Document(text=None), "text must be a string"),  # type: ignore[arg-type]
        (Document(text="x", id=7), "id must be a string"),  # type: ignore[arg-type]
        (Document(text="x", metadata={"n": float("nan")}), "metadata.n is nan"),
        (Document(text="x", metadata={"n": {"m": [object()]}}), r"metadata.n.m\[0\] is a object"),
        (Document(text="x", metadata={7: "x"}), "a key of metadata"),  # type: ignore[dict-item]
        (Document(text="x", metadata={"n": 2**64}), "64 bits"),
        (Document(text="x", metadata="year"), "metadata must be a mapping"),  # type: ignore[arg-type]
        ({"body": "x"}, "needs 'text'"),
        ({"text": "x", "year": 3}, "other fields under 'metadata'"),
        (7, "expected a Document"),
    ],
)
def test_a_bad_document_is_named_and_nothing_is_written(index: Face, document: Any, says: str) -> None:
    with pytest.raises(InvalidDocument, match=f"document 1: .*{says}"):
        index.add([Document(text="good one", id="good"), document])
    assert index.get("good") is None
    assert index.count() == 2


def test_a_single_document_must_be_wrapped(index: Face) -> None:
    with pytest.raises(InvalidDocument, match="wrap a single one"):
        index.add("just a string")


@pytest.mark.parametrize("columns", [{"ids": ["a"]}, {"metadatas": [{}]}, {"ids": ["a", "b"], "metadatas": []}])
def test_columns_of_another_length_are_an_error(index: Face, columns: dict[str, Any]) -> None:
    with pytest.raises(InvalidDocument, match="2 documents but"):
        index.add(["one", "two"], **columns)
    assert index.count() == 2


def test_an_id_is_given_once(index: Face) -> None:
    with pytest.raises(InvalidDocument, match="keep one"):
        index.add([Document(text="x", id="own")], ids=["beside"])


def test_of_several_with_one_id_the_last_counts(index: Face) -> None:
    given = ["first words", "second words", "third words"]
    assert index.add([Document(text=text, id="same") for text in given]) == ["same"] * 3
    assert index.get("same").text == "third words"
    assert index.count() == 3


@pytest.mark.parametrize(
    ("text", "says"), [("NAN", "NaN"), ("INF", "NaN or infinity"), ("SHORT", "vector"), ("BOOM", "out of memory")]
)
def test_bad_vectors_reject_the_whole_batch(index: Face, text: str, says: str) -> None:
    with pytest.raises(EncoderError, match=says):
        index.add([Document(text="fine", id="fine"), Document(text=text, id="bad")])
    assert index.count() == 2


@pytest.mark.parametrize("text", ["NAN", "INF", "SHORT", "BOOM"])
def test_a_query_whose_vector_is_bad_goes_by_words(index: Face, text: str) -> None:
    result = index.search(f"{text} tunnels", 2)
    assert result.ids == ["t"]
    assert result.mode == "lexical"
    assert result.degraded is not None
    assert "dense encoder failed" in result.degraded


def test_an_unknown_filter_operator_is_an_error(index: Face) -> None:
    with pytest.raises(FilterError, match="unknown operator 'regex'"):
        index.search("tunnels", filter={"year": {"regex": "20.."}})


def test_a_generator_that_fails_late_says_what_is_stored(index: Face) -> None:
    def documents() -> Iterator[Any]:
        for i in range(5):
            yield Document(text=f"number {i}", id=f"n{i}")
        yield 7

    with pytest.raises(
        PartialAdd, match=r"The 4 documents before that batch are stored, the batch itself is not"
    ) as caught:
        index.add(documents(), batch_size=2)
    assert caught.value.written == ["n0", "n1", "n2", "n3"]
    assert index.get("n4") is None
    assert index.count() == 6


@pytest.mark.parametrize("size", [0, -1, 1.5, True])
def test_batch_size_is_a_positive_whole_number(index: Face, size: Any) -> None:
    with pytest.raises(ValueError, match="batch_size"):
        index.add(["x"], batch_size=size)


def test_adding_again_replaces(index: Face) -> None:
    first: Sequence[str] = index.add(["one", "two"])
    assert index.add(["one", "two"]) == first
    assert index.count() == 4
    index.add([Document(text="tunnels closed", id="t")])
    assert index.get("t").text == "tunnels closed"
    assert index.count() == 4


def test_any_string_is_an_id(index: Face) -> None:
    ids = ["1", "foo", "a/b c", "ü", "📎", "x" * 10_000, "6d8f9d0e-52d5-5c56-8d5b-7f3f2a1c4b90", " ", "\0"]
    assert index.add([f"text {i}" for i in range(len(ids))], ids=ids) == ids
    assert [d.id for d in index.get(ids)] == ids
    assert index.delete(ids) == len(ids)


def test_delete_wants_one_of_ids_and_filter(index: Face) -> None:
    for arguments in ({}, {"ids": ["t"], "filter": {"a": 1}}):
        with pytest.raises(InvalidQuery, match="either ids or a filter"):
            index.delete(**arguments)
    everything: Any
    native = (models.Filter(), models.Filter(must=[], should=[]))
    for everything in ({}, {"and": []}, {"not": {"or": []}}, {"or": [{"a": 1}, {}]}, *native):
        with pytest.raises(FilterError, match="matches everything"):
            index.delete(filter=everything)
    assert index.delete([]) == 0
    assert index.count() == 2


def test_a_generator_that_raises_does_not_lose_what_is_stored(index: Face) -> None:
    def documents() -> Iterator[Document]:
        yield Document(text="one", id="n0")
        yield Document(text="two", id="n1")
        raise OSError("the disk with the source is gone")

    with pytest.raises(PartialAdd, match="the disk with the source is gone") as caught:
        index.add(documents(), batch_size=1)
    assert caught.value.written == ["n0", "n1"]
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize("arguments", [{"min_score": float("nan")}, {"depth": 0}, {"fusion": "magic"}])
def test_settings_that_mean_nothing_are_an_invalid_query(index: Face, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidQuery):
        index.search("tunnels", **arguments)


def test_weights_may_come_as_a_list(index: Face) -> None:
    assert index.search("tunnels", 1, fusion=Fusion.rrf(weights=[2, 1])).ids == ["t"]  # type: ignore[arg-type]


@pytest.mark.parametrize("ids", [3, None, ["a", 3]])
def test_ids_are_strings(index: Face, ids: Any) -> None:
    with pytest.raises(InvalidQuery, match="ids are strings"):
        index.get(ids)


@pytest.mark.parametrize("documents", [None, 3])
def test_documents_come_in_a_list(index: Face, documents: Any) -> None:
    with pytest.raises(InvalidDocument, match="takes a list"):
        index.add(documents)
