"""When a leg can't answer, the rest does, and the result says why."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import models

from tests.faces import Face
from twofold import Document, EncoderError, HybridIndex, SearchConfig, embedded_client
from twofold.documents import point_id
from twofold.encoders.base import Sparse
from twofold.encoders.bm25 import BM25
from twofold.testing import HashEmbedding

Opener = Callable[..., Face]


class Moody(HashEmbedding):
    """A dense model that can be switched off."""

    down = False
    calls = 0

    def _embed(self, text: str) -> list[float]:
        type(self).calls += 1
        if self.down:
            raise ConnectionError("the model server is gone")
        return super()._embed(text)


class MoodyBM25(BM25):
    down = False

    def embed_query(self, text: str) -> Sparse:
        if self.down:
            raise MemoryError("no room")
        return super().embed_query(text)

    def matched_words(self, query: str, texts: Sequence[str]) -> list[tuple[str, ...]]:
        if self.down:
            raise MemoryError("no room")
        return super().matched_words(query, texts)


@pytest.fixture
def legs() -> tuple[Moody, MoodyBM25]:
    Moody.calls = 0
    return Moody(), MoodyBM25()


@pytest.fixture
def index(open_index: Opener, legs: tuple[Moody, MoodyBM25]) -> Face:
    face = open_index(dense=legs[0], sparse=legs[1])
    face.add(
        [
            Document(text="rathole tunnels listen on port 2333", id="r", metadata={"year": 2024}),
            Document(text="to be or not to be", id="h", metadata={"year": 1603}),
            Document(text="caches expire at noon", id="c", metadata={"year": 2024}),
        ]
    )
    return face


def test_dense_down_means_by_words(index: Face, legs: Any, caplog: pytest.LogCaptureFixture) -> None:
    legs[0].down = True
    with caplog.at_level(logging.WARNING, "twofold"):
        results = [index.search(query, explain=True) for query in ("rathole port", "port rathole")]
    for result in results:
        assert result.ids == ["r"]
        assert result.mode == "lexical"
        assert result.degraded == "the dense encoder failed: ConnectionError: the model server is gone"
        assert result[0].explanation is not None
        assert result[0].explanation.semantic_score is None
        assert result[0].relevance > 0
    assert len(caplog.records) == 1, "each reason is logged once, not at every search"


def test_a_collection_opens_with_its_model_down(tmp_path: Path) -> None:
    with HybridIndex.open(tmp_path / "index", dense=Moody()) as index:
        index.add(["rathole tunnels"])
    down = Moody()
    down.down = True
    with HybridIndex.open(tmp_path / "index", dense=down) as index:
        assert index.search("rathole").mode == "lexical"


def test_adding_with_dense_down_fails_and_writes_nothing(index: Face, legs: Any) -> None:
    legs[0].down = True
    with pytest.raises(EncoderError, match="the model server is gone"):
        index.add(["new"])
    assert index.count() == 3


def test_sparse_down_means_by_meaning(index: Face, legs: Any) -> None:
    legs[1].down = True
    result = index.search("rathole port", 1)
    assert result.ids == ["r"]
    assert result.mode == "dense"
    assert result.degraded == "the lexical encoder failed: MemoryError: no room"


def test_a_query_of_stop_words_goes_by_meaning(index: Face) -> None:
    result = index.search("to be or not to be", 1)
    assert result.ids == ["h"]
    assert result.mode == "dense"
    assert result.degraded == "the query has no word that the lexical leg indexes"


def test_both_useless_means_matching_the_text(index: Face, legs: Any) -> None:
    legs[0].down = True
    result = index.search("to be or not", explain=True)
    assert result.ids == ["h"]
    assert result.mode == "text"
    assert result[0].score == result[0].relevance == 1.0
    assert result.degraded is not None
    assert "the words were matched" in result.degraded.replace("query's words", "words")
    assert result[0].explanation is not None
    assert result[0].explanation.fusion == "text"
    assert result[0].explanation.matched_words == ("to", "be", "or", "not")


def test_matching_the_text_keeps_the_filter_and_the_floor(index: Face, legs: Any) -> None:
    legs[0].down = True
    assert index.search("to be", filter={"year": 2024}).ids == []
    assert index.search("to be or not at all", min_score=0.9).ids == []


def test_everything_down_still_answers(index: Face, legs: Any) -> None:
    legs[0].down = legs[1].down = True
    result = index.search("rathole tunnels", explain=True)
    assert result.ids == ["r"]
    assert result.mode == "text"
    assert result[0].explanation is not None
    assert result[0].explanation.matched_words == ("rathole", "tunnels")
    assert index.search("completely unknown vocabulary").ids == []


def test_explaining_survives_a_sparse_encoder_that_is_down(index: Face, legs: Any) -> None:
    legs[1].down = True
    result = index.search("rathole port", 1, explain=True)
    assert result.mode == "dense"
    assert result[0].explanation is not None
    assert result[0].explanation.matched_words == ("rathole", "port")


def test_matching_the_text_finds_the_best_among_many(open_index: Opener, legs: Any) -> None:
    face = open_index(dense=legs[0], sparse=legs[1])
    face.add([Document(text=f"to number {i}", id=f"n{i}") for i in range(300)])
    face.add([Document(text="to be or not to be", id="best")])
    legs[0].down = True
    assert face.search("to be or not to be", 1, depth=20).ids == ["best"]


def test_an_empty_answer_of_both_legs_is_an_answer(index: Face) -> None:
    """A filter or floor that leaves nothing must not be answered with something else."""
    for arguments in ({"filter": {"year": 1066}}, {"min_score": 0.99}, {"min_semantic": 0.99, "min_lexical": 99.0}):
        result = index.search("rathole port", **arguments)
        assert result.ids == []
        assert result.mode == "hybrid"
        assert result.degraded is None


def test_asking_for_words_alone_is_not_degraded(index: Face) -> None:
    result = index.search("rathole", alpha=0.0)
    assert (result.ids, result.mode, result.degraded) == (["r"], "lexical", None)
    assert index.search("unheard", alpha=0.0).ids == []


def test_asking_for_meaning_alone_is_not_degraded(index: Face) -> None:
    result = index.search("rathole", alpha=1.0)
    assert (len(result), result.mode, result.degraded) == (3, "dense", None)


def test_asking_for_meaning_alone_with_dense_down_goes_by_words(index: Face, legs: Any) -> None:
    legs[0].down = True
    result = index.search("rathole", alpha=1.0)
    assert (result.ids, result.mode) == (["r"], "lexical")
    assert result[0].relevance > 0


def test_scores_keep_their_scale_when_a_leg_is_gone(index: Face, legs: Any) -> None:
    """The leg that is left carries all the weight, as if it had been asked for alone."""
    asked_alone = index.search("rathole port", 1, alpha=0.0)[0].score
    legs[0].down = True
    left_alone = index.search("rathole port", 1)
    assert left_alone.mode == "lexical"
    assert left_alone[0].score == pytest.approx(asked_alone)


def test_query_vectors_are_remembered(index: Face) -> None:
    index.search("what scores mean here is asked once")
    before = Moody.calls
    for _ in range(5):
        index.search("the same question")
    assert Moody.calls == before + 1


@pytest.mark.parametrize("fusion", ["auto", "rrf", "dbsf", "weighted", "average"])
def test_relevance_lies_between_0_and_1(index: Face, fusion: str) -> None:
    for hit in index.search("rathole tunnels port", fusion=fusion):
        assert 0 <= hit.relevance <= 1


def test_a_lone_hit_of_an_unmeasured_model_is_not_worth_nothing(open_index: Opener) -> None:
    """One text says little about the cosines there; asked for word by word it is an answer all the same."""
    face = open_index()
    face.add(["tunnel port"])
    assert face.search("tunnel port", alpha=1.0)[0].relevance >= 0.95
    assert face.search("tunnel port")[0].relevance >= 0.95


# --- what the log tells --------------------------------------------------------------------------


def test_every_search_leaves_one_line_for_those_who_listen(open_index: Opener, caplog: Any) -> None:
    face = open_index(dense=HashEmbedding())
    face.add(["rathole tunnels listen on port 2333", "grandmother's apple cake"])
    quiet = face.search("rathole")
    with caplog.at_level(logging.INFO, logger="twofold.search"):
        assert face.search("rathole") == quiet  # nothing else changes
        face.search("rathole", alpha=0.0)
    facts = [record.search for record in caplog.records if record.name == "twofold.search"]
    assert [(each["hits"], each["by_meaning"], each["by_words"], each["alpha"]) for each in facts] == [
        (2, 2, 1, 0.5),
        (1, 0, 1, 0.0),
    ]
    assert [each["by_words_only"] for each in facts] == [0, 1]
    assert all("query" not in each for each in facts)


def test_the_log_shows_the_beginning_of_a_query_only_if_asked_to(open_index: Opener, caplog: Any) -> None:
    face = open_index(dense=HashEmbedding(), config=SearchConfig(log_queries=True))
    face.add(["rathole"])
    with caplog.at_level(logging.INFO, logger="twofold.search"):
        face.search("rathole " * 50)
    assert caplog.records[-1].search["query"] == ("rathole " * 50)[:100]


def test_rows_without_words_are_counted_and_warned_of_once(tmp_path: Path, caplog: Any) -> None:
    with HybridIndex.open(tmp_path, dense=HashEmbedding()) as index, closing(embedded_client(tmp_path)) as client:
        index.add(["rathole tunnels", "apple cake", "port 2333", ""])
        assert index.info().notes == ()
        client.delete_vectors("twofold", ["bm25"], models.Filter())
        assert index.info().notes[0].startswith("3 rows have no words")
        for _ in range(2):
            index.search("rathole")
        said = [record.getMessage() for record in caplog.records if "no words" in record.getMessage()]
        assert len(said) == 1
        assert "memory.backfill()" in said[0]


def test_a_row_whose_text_is_no_text_is_a_problem(tmp_path: Path) -> None:
    with HybridIndex.open(tmp_path, dense=HashEmbedding()) as index, closing(embedded_client(tmp_path)) as client:
        index.add(["rathole tunnels", "rathole port"], ids=["a", "b"])
        client.set_payload("twofold", {"text": 42}, [point_id("a")])
        result = index.search("rathole", k=1)
        assert result.ids == ["b"]
        assert [problem.id for problem in index.search("rathole").problems] == ["a"]
        assert "no text but int" in index.search("rathole").problems[0].reason
