"""A second look at the best hits: what it may be, what it changes, and what happens where it fails."""

from __future__ import annotations

import asyncio
import math
import random
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from fastembed.rerank.cross_encoder import TextCrossEncoder

from tests.encoders.test_hub import no_hub as no_hub
from tests.encoders.tiny_cross_encoder import NAME, put_into_cache
from tests.faces import Face
from twofold import ConfigError, Document, HybridIndex, InvalidQuery, Memory, ModelUnavailable, SearchConfig
from twofold.encoders.rerankers import Reranker, _by_name
from twofold.memory import MemoryConfig
from twofold.ranking.ranker import Candidate, reranked
from twofold.testing import HashEmbedding, fake_memory

QUESTION = "which port does the tunnel use"
TEXTS = [f"The port of tunnel {n} is {n * 37}" for n in range(60)]
ANSWERS = {"d17", "d42"}


def knows(query: str, texts: Sequence[str]) -> list[float]:
    """A logit for each text: the answers of the question, and nothing else, are above 0."""
    assert query == QUESTION
    return [5.0 if any(text == TEXTS[int(each[1:])] for each in ANSWERS) else -5.0 for text in texts]


async def aknows(query: str, texts: Sequence[str]) -> list[float]:
    await asyncio.sleep(0)
    return knows(query, texts)


def fails(query: str, texts: Sequence[str]) -> list[float]:
    raise RuntimeError("out of memory")


def _fill(face: Face) -> Face:
    face.add([Document(text, f"d{n}") for n, text in enumerate(TEXTS)])
    return face


@pytest.fixture
def index() -> Any:
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        index.add([Document(text, f"d{n}") for n, text in enumerate(TEXTS)])
        yield index


def test_on_every_engine_one_that_knows_is_right_and_one_that_fails_does_no_harm(
    open_index: Callable[..., Face],
) -> None:
    face = _fill(open_index(rerank=knows, config=SearchConfig(rerank_top=60)))
    before = face.search(QUESTION, 60, rerank=False)
    found = face.search(QUESTION, 10, explain=True)
    assert set(found.ids[:2]) == ANSWERS
    assert found.degraded is None
    expected = sorted(ANSWERS, key=before.ids.index) + [each for each in before.ids if each not in ANSWERS]
    assert found.ids == expected[:10], "of equal scores the better one before comes first"
    for hit in found:
        why = hit.explanation
        assert why is not None
        assert why.rank_before == before.ids.index(hit.id) + 1
        assert why.score_before == pytest.approx(before[why.rank_before - 1].score)
        assert why.rerank_score == (5.0 if hit.id in ANSWERS else -5.0)
        assert hit.score == hit.relevance == why.final_score == pytest.approx(1 / (1 + math.exp(-why.rerank_score)))
    assert face.search(QUESTION, 10, rerank=aknows).ids == found.ids
    failed = face.search(QUESTION, 10, rerank=fails, explain=True)
    assert [(hit.id, hit.relevance) for hit in failed] == [(hit.id, hit.relevance) for hit in before[:10]]
    assert failed.degraded == "the reranker failed, so the ranking before it stands: RuntimeError: out of memory"
    assert failed[0].explanation is not None
    assert failed[0].explanation.rank_before is None


def test_pages_join_and_what_it_did_not_see_follows_in_its_order(open_index: Callable[..., Face]) -> None:
    face = _fill(open_index())
    rng = random.Random(5)
    opinion = {text: rng.random() for text in TEXTS}
    arguments: dict[str, Any] = {"rerank": lambda _, texts: [opinion[text] for text in texts], "rerank_top": 20}
    before = face.search(QUESTION, 60).ids
    pages = [face.search(QUESTION, 7, offset=offset, **arguments) for offset in range(0, 63, 7)]
    ids = [hit.id for page in pages for hit in page]
    assert ids[:20] == sorted(before[:20], key=lambda each: -opinion[TEXTS[int(each[1:])]])
    assert ids[20:] == before[20:]
    relevances = [hit.relevance for page in pages for hit in page]
    assert relevances == sorted(relevances, reverse=True)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ([0.5], "one score for each"),
        ([0.5] * 61, "one score for each"),
        ([math.nan] * 60, "NaN"),
        (["good"] * 60, "list of numbers"),
        (None, "one score for each"),
    ],
)
def test_an_answer_that_means_nothing_leaves_the_ranking_before_it(index: HybridIndex, answer: Any, said: str) -> None:
    found = index.search(QUESTION, rerank=lambda *_: answer, rerank_top=60)
    assert found.ids == index.search(QUESTION).ids
    assert said in str(found.degraded)


@pytest.mark.parametrize("awaited", [False, True])
def test_one_that_never_answers_is_given_up(index: HybridIndex, awaited: bool) -> None:
    never, config = threading.Event(), SearchConfig(rerank_timeout=0.05)
    slow: Any = lambda *_: never.wait()  # noqa: E731
    with HybridIndex.open(":memory:", dense=HashEmbedding(), config=config, rerank=slow) as other:
        other.add(TEXTS[:5])
        found = asyncio.run(other.asearch(QUESTION)) if awaited else other.search(QUESTION)
        never.set()
    assert len(found) == 5
    assert "TimeoutError: no answer within 0.05 s" in str(found.degraded)


def test_one_that_fails_again_and_again_is_left_alone_for_a_while(index: HybridIndex) -> None:
    asked: list[str] = []
    with HybridIndex.open(":memory:", dense=HashEmbedding(), rerank=lambda query, _: asked.append(query)) as other:
        other.add(TEXTS[:5])
        results = [other.search(QUESTION) for _ in range(5)]
    assert len(asked) == 3
    assert "it failed 3 times in a row" in str(results[-1].degraded)


def test_a_floor_is_compared_with_what_the_reranker_says(index: HybridIndex) -> None:
    found = index.search(QUESTION, 60, rerank=knows, rerank_top=60, min_score=0.5)
    assert set(found.ids) == ANSWERS
    failed = index.search(QUESTION, 60, rerank=fails, min_score=0.5)
    assert failed.ids == index.search(QUESTION, 60, min_score=0.5).ids


def test_what_has_no_text_to_compare_with_is_not_reranked(index: HybridIndex) -> None:
    vector = index.embed_query(QUESTION)
    with_, without = (index.search("", vector=vector, alpha=1.0, rerank=each) for each in (fails, None))
    assert (with_.ids, with_.degraded) == (without.ids, None)
    with pytest.raises(ConfigError, match="rerank= got a int: give the name"):
        index.search(QUESTION, rerank=3)
    with pytest.raises(InvalidQuery, match="rerank_top"):
        index.search(QUESTION, rerank=knows, rerank_top=0)


def test_diverse_hits_are_chosen_by_what_the_reranker_says(index: HybridIndex) -> None:
    found = index.search_diverse(QUESTION, 2, diversity=0.0, candidates=60, rerank=knows)
    assert set(found.ids) & ANSWERS == ANSWERS & set(index.search(QUESTION, 30, rerank=False).ids)


def test_a_model_by_name_that_cannot_be_had_says_what_to_do(no_hub: str, index: HybridIndex) -> None:
    for use in (lambda: index.search(QUESTION, rerank=NAME), lambda: HybridIndex.open(":memory:", rerank=NAME)):
        with pytest.raises(ModelUnavailable, match=r"(?s)ms-marco.*FASTEMBED_CACHE_PATH.*leave the model out\."):
            use()
    with pytest.raises(ConfigError, match=r"rerank model 'nobody/knows' is not one that fastembed knows"):
        index.search(QUESTION, rerank="nobody/knows")


def test_a_cross_encoder_by_name_is_read_from_the_cache(no_hub: str, index: HybridIndex, tmp_path: Path) -> None:
    put_into_cache(tmp_path)
    _by_name.cache_clear()
    index.add([Document("The tunnel has a port: yes", "yes"), Document("yes, yes", "twice", title="The port")])
    found = index.search(QUESTION, 3, rerank=NAME.lower(), rerank_top=100, explain=True)
    assert found.degraded is None
    assert [hit.explanation.rerank_score for hit in found if hit.explanation] == pytest.approx([9.0, 3.0, -3.0])
    assert found.ids[:2] == ["twice", "yes"]
    assert [hit.relevance for hit in found] == pytest.approx([1 / (1 + math.exp(-logit)) for logit in (9, 3, -3)])
    assert asyncio.run(index.asearch(QUESTION, 3, rerank=NAME, rerank_top=100)).ids == found.ids
    model = TextCrossEncoder(NAME, local_files_only=True)
    assert index.search(QUESTION, 3, rerank=model, rerank_top=100).ids == found.ids
    _by_name.cache_clear()


def test_a_reranker_sees_titles(index: HybridIndex) -> None:
    seen: list[str] = []
    index.add([Document("nine", "t", title="The port of the tunnel")])
    index.search(QUESTION, rerank=lambda _, texts: [seen.append(text) or 0.0 for text in texts], rerank_top=60)  # type: ignore[func-returns-value]
    assert "The port of the tunnel\nnine" in seen


def test_a_memory_is_reranked_after_its_gate_and_signals() -> None:
    asked: list[str] = []

    def look(query: str, texts: Sequence[str]) -> list[float]:
        asked.append(query)
        return knows(QUESTION, texts)

    memory: Memory
    with fake_memory(TEXTS, rerank=look, config=MemoryConfig(min_score=None, rerank_top=60)) as memory:
        found, awaited = memory.recall(QUESTION, explain=True), asyncio.run(memory.arecall(QUESTION))
        assert {hit.text for hit in found[:2]} == {TEXTS[17], TEXTS[42]}
        assert awaited.ids == found.ids
        assert found[0].explanation is not None
        assert found[0].explanation.rerank_score == 5.0
        assert memory.recall(QUESTION, rerank=False).ids != found.ids
        failed = memory.recall(QUESTION, rerank=fails)
        assert failed.ids == memory.recall(QUESTION, rerank=False).ids
        assert "the reranker failed" in str(failed.degraded)
        pages = [memory.recall(QUESTION, 7, offset=offset) for offset in range(0, 63, 7)]
        assert [each for page in pages for each in page.ids] == memory.recall(QUESTION, 60).ids
        asked.clear()
        memory.recall("!")
        assert asked == []
    with Memory.open(":memory:", user="ada", rerank=look) as memory:
        memory.remember_many(["Rathole tunnels listen on 2333", "Apple cake needs four eggs"])
        assert not memory.recall("who won the world cup in 1974")
        assert asked == [], "where the gate finds no answer, none is looked for"


def test_tuning_says_whether_it_pays(index: HybridIndex) -> None:
    rng = random.Random(1)
    pairs = [(f"{rng.choice(['port', 'tunnel'])} {n * 37} or {n * 37 + 37}", f"d{n}") for n in range(20)]
    answers = {query: TEXTS[int(identity[1:])] for query, identity in pairs}
    good = index.tune(pairs, rerank=lambda query, texts: [float(text == answers[query]) for text in texts])
    assert good.rerank is not None
    assert good.rerank.pays
    assert good.rerank.after > good.rerank.before
    assert "it pays" in str(good)
    bad = index.tune(pairs, rerank=lambda _, texts: list(range(len(texts))))
    assert bad.rerank is not None
    assert not bad.rerank.pays
    assert "not surely better" in str(bad)
    broken = index.tune(pairs[:12], rerank=fails).rerank
    assert broken is not None
    assert (broken.failed, broken.pays, broken.before) == (12, False, broken.after)
    assert index.tune(pairs).rerank is None


def _candidates(scores: Sequence[float]) -> list[Candidate]:
    return [Candidate(f"r{n}", score, score) for n, score in enumerate(scores)]


@pytest.mark.parametrize(
    ("order", "rows", "relevances"),
    [
        ([(2, 0.9), (0, 0.4), (1, 0.1)], [2, 0, 1, 3], [0.9, 0.4, 0.1, 0.1]),
        ([(2, 0.9), (0, 0.4)], [2, 0, 1, 3], [0.9, 0.4, 0.4, 0.2]),
        ([(1, 2.0), (0, 0.0)], [1, 0, 2, 3], [1 / (1 + math.exp(-2.0)), 0.5, 0.4, 0.2]),
        ([(1, 800.0), (0, -800.0)], [1, 0, 2, 3], [1.0, 0.0, 0.0, 0.0]),
        ([(2, None), (1, None), (0, None)], [2, 1, 0, 3], [0.8, 0.6, 0.4, 0.2]),
        ([(2, 0.1), (1, 0.9), (0, 0.5)], [2, 1, 0, 3], [0.8, 0.6, 0.4, 0.2]),
        ([], [0, 1, 2, 3], [0.8, 0.6, 0.4, 0.2]),
    ],
    ids=["shares", "some left out", "logits", "far logits", "an order only", "scores in another order", "nothing"],
)
def test_scores_become_relevance_in_the_order_of_the_ranking(order: Any, rows: Any, relevances: Any) -> None:
    found = reranked(_candidates([4, 3, 2, 1]), [0.8, 0.6, 0.4, 0.2], order)
    assert [each.row for each in found] == [f"r{n}" for n in rows]
    assert [each.score for each in found] == pytest.approx(relevances)
    assert [each.look.rank_before for each in found if each.look] == [n + 1 for n in rows]


def test_settings_keep_a_function_as_a_reranker_and_a_name_as_a_name() -> None:
    assert isinstance(SearchConfig(rerank=knows).rerank, Reranker)
    assert SearchConfig(rerank="some/name").rerank == MemoryConfig(rerank="some/name").rerank == "some/name"
    assert MemoryConfig(rerank=False).rerank is None
