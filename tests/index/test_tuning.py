"""Tuning and calibrating an index, kept in its collection."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.faces import Face
from twofold import ConfigError, Document, Fusion, HybridIndex, InvalidQuery, Memory, Pair, SearchConfig
from twofold.encoders.base import Sparse
from twofold.ranking.calibration import unrelated_questions
from twofold.testing import HashEmbedding

WORDS = [f"word{n}" for n in range(80)]


class Elsewhere(HashEmbedding):
    """Meaning that leads astray: a query lies next to one of the texts, whatever it asks for."""

    def embed_query(self, text: str) -> list[float]:
        return super().embed_query(_texts()[zlib.crc32(text.encode()) % 120])


def _texts(count: int = 120) -> list[str]:
    rng = random.Random(3)
    return [" ".join(rng.sample(WORDS, 12)) for _ in range(count)]


def _pairs(texts: list[str], count: int = 60) -> list[tuple[str, str]]:
    rng = random.Random(4)
    return [(" ".join(rng.sample(text.split(), 3)), f"d{n}") for n, text in enumerate(texts[:count])]


def _documents(texts: list[str]) -> list[Document]:
    return [Document(text, id=f"d{n}") for n, text in enumerate(texts)]


def test_tuning_is_kept_shared_and_undone(tmp_path: Path) -> None:
    texts = _texts()
    with HybridIndex.open(tmp_path, dense=Elsewhere()) as index:
        index.add(_documents(texts))
        before = [index.search(query).ids for query, _ in _pairs(texts)]
        assert index.search("word1 word2", explain=True)[0].explanation.alpha == pytest.approx(0.5)  # type: ignore[union-attr]
        found = index.tune(_pairs(texts))
        assert found.changed
        assert found.fusion.alpha < 0.35
        tuned = [index.search(query).ids for query, _ in _pairs(texts)]
        assert tuned != before
        assert index.search("word1 word2", alpha=0.5, explain=True)[0].explanation.alpha == pytest.approx(0.5)  # type: ignore[union-attr]
        named = index.search("word1 word2", fusion="auto", explain=True)[0].explanation
        assert named.alpha == found.fusion.alpha, "auto is what suits the collection"  # type: ignore[union-attr]
        assert index.search("word1 word2", fusion="weighted", explain=True)[0].explanation.alpha == pytest.approx(0.7)  # type: ignore[union-attr]
    with HybridIndex.open(tmp_path, dense=Elsewhere()) as index:
        assert [index.search(query).ids for query, _ in _pairs(texts)] == tuned
        assert index.untune()
        assert [index.search(query).ids for query, _ in _pairs(texts)] == before
        assert not index.untune()


def test_tuning_works_on_every_engine(open_index: Callable[..., Face]) -> None:
    texts = _texts()
    face = open_index(dense=Elsewhere())
    face.add(_documents(texts))
    found: Any = face._call("tune", _pairs(texts))
    assert found.fusion.alpha < 0.35
    assert face._call("untune")


def test_pairs_can_look_in_a_part_of_the_collection() -> None:
    texts = _texts(60)
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        index.add([Document(text, id=f"d{n}", metadata={"half": n % 2}) for n, text in enumerate(texts)])
        pairs = [Pair(q, frozenset({i}), {"half": int(i[1:]) % 2}) for q, i in _pairs(texts, 30)]
        assert index.tune(pairs).before > 0.9
        wrong = [Pair(q, frozenset({i}), {"half": 1 - int(i[1:]) % 2}) for q, i in _pairs(texts, 30)]
        assert index.tune(wrong).before == 0


@pytest.mark.parametrize(
    "pairs", [[], [("", "d1")], [("word", [])], ["word"], [{"query": "word"}], [(3, "d1")], [("word", 17)]]
)
def test_pairs_that_mean_nothing_are_refused(pairs: Any) -> None:
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index, pytest.raises(InvalidQuery):
        index.tune(pairs)


def test_a_query_that_comes_again_counts_once() -> None:
    texts = _texts(60)
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        index.add(_documents(texts))
        found = index.tune([("dup word1", "d1"), ("dup word1", "d2")] * 10)
        assert not found.changed
        assert found.pairs == 1
        apart = [{"query": "word1", "relevant": "d1", "filter": {"half": half}} for half in (0, 1)]
        assert index.tune([*apart, *apart, ("word1", "d1")]).pairs == 3, "another filter is another question"


def test_too_few_pairs_are_said_to_be_too_few() -> None:
    texts = _texts(60)
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        index.add(_documents(texts))
        assert "too few pairs" in str(index.tune(_pairs(texts, 5)))
        assert "too few pairs" not in str(index.tune(_pairs(texts, 30)))


@pytest.mark.parametrize("fusion", [Fusion.rrf(), Fusion.auto(0.0)])
def test_tuning_what_no_search_would_use_is_refused(fusion: Any) -> None:
    texts = _texts(60)
    with HybridIndex.open(":memory:", dense=Elsewhere(), config=SearchConfig(fusion=fusion)) as index:
        index.add(_documents(texts))
        with pytest.raises(ConfigError, match=f"fusion {fusion.name}.*without a fusion"):
            index.tune(_pairs(texts))


def test_tuning_an_empty_collection_is_refused() -> None:
    with (
        HybridIndex.open(":memory:", dense=HashEmbedding()) as index,
        pytest.raises(InvalidQuery, match="none of the queries found anything"),
    ):
        index.tune(_pairs(_texts(20), 20))


def test_expected_ids_that_are_not_there_are_counted() -> None:
    texts = _texts(60)
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        index.add(_documents(texts))
        with pytest.raises(InvalidQuery, match="none of the expected ids is in the collection"):
            index.tune([(query, f"no-{identity}") for query, identity in _pairs(texts, 20)])
        found = index.tune([*_pairs(texts, 20), ("word1 word2", ["d1", "nowhere"])])
        assert found.unknown == 1
        assert "1 expected id is not in the collection" in str(found)


def test_calibrating_tells_what_searches_use(open_index: Callable[..., Face]) -> None:
    texts = _texts()
    face = open_index()
    face.add(_documents(texts))
    one, other = (face.search(texts[0], k=k) for k in (1, 50))
    assert one[0].score == pytest.approx(other[0].score), "a score doesn't depend on how many hits are shown"
    seen = face._call("calibrate")
    assert (seen.texts, seen.total, len(seen.probes)) == (120, 120, 24)
    assert -0.2 < seen.mean < 0.2, "a hash of words that nothing else has"
    assert 0.05 < seen.spread < 0.3
    assert "answers from" in str(seen)
    assert face.search(texts[0], k=1)[0].score == pytest.approx(one[0].score), "searches had seen it by themselves"
    assert not face._call("untune"), "nothing of it is kept"


class Shifted(HashEmbedding):
    """A model whose cosines all lie close together: everything has most of its length in common."""

    def _embed(self, text: str) -> list[float]:
        shifted = [value + 0.3 for value in super()._embed(text)]
        length = sum(value * value for value in shifted) ** 0.5
        return [value / length for value in shifted]


def test_a_model_whose_cosines_lie_close_together_ranks_as_well() -> None:
    texts, rankings = _texts(), []
    for model in (HashEmbedding(), Shifted()):
        with HybridIndex.open(":memory:", dense=model) as index:
            index.add(_documents(texts))
            seen = index.calibrate()
            rankings.append([index.search(query, 1).ids for query, _ in _pairs(texts)])
            verbatim, foreign = (index.search(query)[0].relevance for query in (texts[0], "Why is the sky blue?"))
            assert verbatim > 0.9
            assert foreign < 0.5
    assert seen.mean > 0.7, "the second one"
    same = sum(one == other for one, other in zip(*rankings, strict=True))
    assert same >= 0.9 * len(rankings[0])


CHINESE = "今天明早晚上山下海水火木金土日月星云雨雪风花草树鸟鱼虫马牛羊猫狗人口手足目耳心头"


def test_calibrating_works_on_texts_without_spaces() -> None:
    rng = random.Random(5)
    texts = ["".join(rng.sample(CHINESE, 24)) for _ in range(40)]
    with HybridIndex.open(":memory:", dense=HashEmbedding(), language="chinese") as index:
        index.add(texts)
        seen = index.calibrate()
        assert index.search(texts[7])[0].relevance > 0.9
    assert seen.texts == 40
    asked = [HashEmbedding().embed_query(each) for each in unrelated_questions("chinese")]
    assert asked[0] != HashEmbedding().embed_query(unrelated_questions("english")[0])
    for probe, vector in zip(seen.probes, asked, strict=True):
        assert probe.vector == pytest.approx(vector, abs=1e-6), "asked in the language of the collection"


class Wordless:
    """Words that are of no use: each text has one of its own, and no query has it."""

    settings: ClassVar[dict[str, Any]] = {"model": "wordless"}
    needs_idf = False

    def embed_documents(self, texts: Sequence[str]) -> list[Sparse]:
        return [Sparse([zlib.crc32(text.encode())], [1.0]) for text in texts]

    def embed_query(self, text: str) -> Sparse:
        return Sparse([1], [1.0])

    def matched_words(self, query: str, texts: Sequence[str]) -> list[tuple[str, ...]]:
        return [() for _ in texts]


def test_where_words_find_nothing_meaning_says_what_scores_mean() -> None:
    texts = _texts()
    with HybridIndex.open(":memory:", dense=HashEmbedding(), sparse=Wordless()) as index:
        index.add(_documents(texts))
        seen = index.calibrate()
        assert len(seen.probes) == 24
        assert not any(probe.lexical.any() for probe in seen.probes)
        assert index.search(texts[3])[0].id == "d3"
        assert index.search(texts[3])[0].relevance > 0.9


@pytest.mark.parametrize("count", [0, 1, 5])
def test_a_handful_of_texts_ranks_from_the_first_one_on(count: int) -> None:
    texts = _texts()[:count]
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        index.add(_documents(texts))
        seen = index.calibrate()
        assert (seen.texts, seen.total) == (count, count)
        for number, text in enumerate(texts):
            (best, *_) = index.search(text)
            assert best.id == f"d{number}"
            assert best.relevance > 0.9


def test_feedback_given_to_a_memory_tunes_its_index() -> None:
    texts = _texts()
    with Memory.open(":memory:", user="ada", dense=Elsewhere()) as memory:
        ids = memory.remember_many(texts)
        memory.for_user("bob").remember_many(texts)
        for query, place in _pairs(texts, 40):
            memory.feedback(query, str(ids[int(place[1:])]))
        memory.feedback("word1 word2", str(ids[0]), useful=False)
        judged = memory.judged()
        assert sorted(pair.query for pair in judged) == sorted(query for query, _ in _pairs(texts, 40))
        assert memory.for_user("bob").judged() == []
        found = memory.index.tune(judged)
        assert found.changed
        assert (found.pairs, found.unknown) == (40, 0)
        assert "tuned" in memory.recall(texts[0]).alpha_reason


def test_a_memory_recalls_with_what_was_tuned() -> None:
    texts = _texts()
    with Memory.open(":memory:", user="ada", dense=Elsewhere()) as memory:
        ids = memory.remember_many(texts)
        memory.index.tune([(query, str(ids[int(i[1:])])) for query, i in _pairs(texts)])
        result = memory.recall(texts[0], explain=True)
        assert "tuned" in result.alpha_reason
        assert result[0].explanation is not None
        assert result[0].explanation.alpha is not None
        assert result[0].explanation.alpha < 0.35
