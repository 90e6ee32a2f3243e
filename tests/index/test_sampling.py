"""What scores mean in a collection is seen from its texts, at the first search and when enough has changed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.faces import Face
from twofold import BM25, Document, HybridIndex, Memory, embedded_client
from twofold.encoders.base import DenseEncoder
from twofold.engine.layout import RECORD_KEY
from twofold.ranking.fusion import WORD_WEIGHT
from twofold.testing import HashEmbedding

PROSE = [f"Note {n}: the gateway was moved to the new cluster, and nobody noticed." for n in range(40)]
LONG = [f"{text} " * 12 for text in PROSE]
QUESTION = "where did the gateway go?"


class Counting(HashEmbedding):
    """Keeps the questions it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def embed_query(self, text: str) -> list[float]:
        if text != "dimension":  # asked when it is opened
            self.asked.append(text)
        return super().embed_query(text)


def scores(index: Any, query: str = QUESTION, **arguments: Any) -> list[tuple[str, float, float]]:
    return [(hit.id, hit.score, hit.relevance) for hit in index.search(query, **arguments)]


def rareness(texts: int) -> float:
    """What words count more by where there are few texts, so that none of them is rare."""
    return math.log(101) / math.log(1 + min(max(texts, 2), 100))


def words(index: HybridIndex) -> float:
    """What words count, but for how few texts there are."""
    return index.calibrate().words / rareness(index.count())


def test_the_first_search_asks_two_dozen_questions_and_the_next_ones_none() -> None:
    model = Counting()
    with HybridIndex.open(":memory:", dense=model) as index:
        index.add(PROSE)
        index.search(QUESTION)
        assert len(model.asked) == 25
        index.search("another")
        index.search("another", filter={"n": {"gte": 1}})
        assert len(model.asked) == 26


def test_words_alone_need_no_model_for_meaning() -> None:
    model = Counting()
    with HybridIndex.open(":memory:", dense=model) as index:
        index.add(PROSE)
        hits = index.search("gateway 7", alpha=0.0)
        assert hits[0].text == PROSE[7]
        assert hits[0].relevance > 0.5
        assert model.asked == []


def test_it_is_seen_again_after_reopening(tmp_path: Path) -> None:
    with HybridIndex.open(tmp_path, dense=HashEmbedding()) as index:
        index.add(PROSE)
        before = scores(index)
    with HybridIndex.open(tmp_path, dense=HashEmbedding()) as index:
        assert scores(index) == before


def test_the_longer_the_texts_the_more_a_word_counts(open_index: Callable[..., Face]) -> None:
    seen = []
    for name, texts in (("short", ["gateway"]), ("usual", PROSE), ("long", LONG)):
        face = open_index(name)
        face.add(texts)
        seen.append(face._call("calibrate").words / rareness(len(texts)))
    assert seen == sorted(set(seen))
    assert seen[2] == pytest.approx(seen[1] * 12**0.25, rel=0.01)


def test_what_is_written_here_is_seen_when_it_matters() -> None:
    model = Counting()
    with HybridIndex.open(":memory:", dense=model) as index:
        index.add(PROSE)
        index.search(QUESTION)
        index.add([Document("a word more", id=f"few{n}") for n in range(4)])
        found = scores(index)
        index.add([Document("a word more", id="few4")])
        again = scores(index)
        assert [score for _, score, _ in found] != [score for _, score, _ in again], "more than a tenth has changed"
        assert len(model.asked) == 25, "the questions themselves are encoded once"
        index.delete([f"few{n}" for n in range(5)])
        assert index.calibrate().total == len(PROSE)


def test_what_others_write_is_seen_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        HybridIndex.open(tmp_path, dense=HashEmbedding()) as ours,
        HybridIndex.open(tmp_path, dense=HashEmbedding()) as theirs,
    ):
        ours.add(PROSE)

        def weight() -> float:
            why = ours.search("gateway 7", 1, alpha=0.0, explain=True)[0].explanation
            assert why is not None
            assert why.lexical_score is not None
            return why.lexical_part / why.lexical_score

        before = weight()
        theirs.add([Document(text, id=f"long{n}") for n, text in enumerate(LONG)])
        assert weight() == pytest.approx(before), "not yet"
        later = time.monotonic() + 700
        monkeypatch.setattr(time, "monotonic", lambda: later)
        assert weight() > 1.2 * before


def test_a_model_that_failed_is_asked_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    class Moody(Counting):
        down = False

        def embed_query(self, text: str) -> list[float]:
            if self.down:
                raise OSError("no route")
            return super().embed_query(text)

    model = Moody()
    with HybridIndex.open(":memory:", dense=model) as index:
        index.search(QUESTION)  # an empty collection asks nothing but this, which is remembered
        index.add(PROSE)
        model.down = True
        assert index.search(QUESTION).mode == "hybrid"
        model.down = False
        later = time.monotonic() + 40
        monkeypatch.setattr(time, "monotonic", lambda: later)
        index.search(QUESTION)
        assert len(model.asked) == 25


def test_users_do_not_shift_each_other() -> None:
    with Memory.open(":memory:", user="ada", dense=HashEmbedding()) as ada:
        ada.remember_many(PROSE)
        before = [(hit.id, hit.relevance) for hit in ada.recall("Note 7: the gateway", touch=False, min_score=0.0)]
        assert before
        ada.for_user("bob").remember_many(LONG)
        after = [(hit.id, hit.relevance) for hit in ada.recall("Note 7: the gateway", touch=False, min_score=0.0)]
        assert [identity for identity, _ in after] == [identity for identity, _ in before]
        assert [share for _, share in after] == pytest.approx([share for _, share in before], abs=1e-3)


def test_an_alpha_of_ones_own_stays() -> None:
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        index.add(PROSE)
        for given, used in ((None, 0.5), (0.2, 0.2)):
            (hit,) = index.search(QUESTION, k=1, alpha=given, explain=True)
            assert hit.explanation is not None
            assert hit.explanation.alpha == pytest.approx(used)


def test_a_memory_says_how_it_leans() -> None:
    with Memory.open(":memory:", user="ada", dense=HashEmbedding()) as memory:
        memory.remember_many(PROSE)
        result = memory.recall(QUESTION)
        assert result.alpha == 0.5
        assert "alike" in result.alpha_reason


def test_a_collection_from_before_pairs_keeps_its_own_weights(tmp_path: Path) -> None:
    """Its record has no word of delta and pairs, and its vectors have neither."""
    with HybridIndex.open(tmp_path, dense=HashEmbedding(), sparse=BM25(delta=0, pairs=0)) as index:
        index.add([Document("rate limit of the gateway", id="old")])
    with closing(embedded_client(tmp_path)) as client:
        record = dict((client.get_collection("twofold").config.metadata or {})[RECORD_KEY])
        record["sparse"] = {key: value for key, value in record["sparse"].items() if key not in ("delta", "pairs")}
        client.update_collection("twofold", metadata={RECORD_KEY: record})
    with HybridIndex.open(tmp_path, dense=HashEmbedding()) as index:
        index.add([Document("rate limit of the gateway", id="new")])
        one, other = index.search("rate limit", alpha=0.0)
        assert one.score == pytest.approx(other.score)


PORTUGUESE = [f"O relatório {n} não foi enviado aos clientes, mas está pronto para eles." for n in range(40)]


def english_only() -> DenseEncoder:
    model = HashEmbedding()
    return DenseEncoder(
        name="english-only",
        dim=len(model.embed_query("x")),
        languages=frozenset({"english"}),
        embed_documents=model.embed_documents,
        embed_query=model.embed_query,
    )


def test_words_count_twice_in_a_language_that_the_model_does_not_know() -> None:
    seen = {}
    for name, model, texts in (
        ("unknown", english_only(), PORTUGUESE),
        ("both", english_only(), [*PORTUGUESE, *PROSE]),
        ("anything", HashEmbedding(), PORTUGUESE),
        ("known", english_only(), PROSE),
    ):
        with HybridIndex.open(":memory:", dense=model) as index:
            index.add(texts)
            seen[name] = words(index) / (sum(map(len, texts)) / len(texts) / 600) ** 0.25
    assert seen["known"] == pytest.approx(WORD_WEIGHT)
    assert seen["anything"] == pytest.approx(WORD_WEIGHT), "a model that names no languages counts as knowing all"
    assert seen["unknown"] == pytest.approx(2 * WORD_WEIGHT, rel=0.1)
    assert 1.3 * WORD_WEIGHT < seen["both"] < 1.7 * WORD_WEIGHT


def test_where_the_language_was_named_a_few_texts_are_enough() -> None:
    with HybridIndex.open(":memory:", dense=english_only(), language="portuguese") as index:
        index.add(PORTUGUESE[:1])
        assert words(index) == pytest.approx(2 * WORD_WEIGHT * (len(PORTUGUESE[0]) / 600) ** 0.25)
