"""Whatever finds something can be evaluated, and gives the same figures however it is wrapped."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.eval.sets import NOTES, small
from twofold import HybridIndex, InvalidQuery, Memory
from twofold.eval import Dataset, EvaluationError, Question, evaluate
from twofold.testing import HashEmbedding

DATA = small()


@pytest.fixture(scope="module")
def index() -> Iterator[HybridIndex]:
    with HybridIndex.open(":memory:", dense=HashEmbedding(256)) as opened:
        opened.add(DATA.documents)
        yield opened


def by_words(query: str) -> list[str]:
    """Ids of the notes by the number of words they share with the query."""
    asked = set(query.lower().split())
    shared = {i: len(asked & set(text.lower().split())) for i, text in NOTES.items()}
    return sorted((i for i, count in shared.items() if count), key=lambda i: (-shared[i], i))


@pytest.fixture(scope="module")
def expected() -> dict[str, float]:
    return evaluate(by_words, DATA).metrics


def test_an_index(index: HybridIndex) -> None:
    run = evaluate(index, DATA, k=3)
    assert run.name == "HybridIndex"
    assert run["hit_rate"] == 1.0
    assert all(len(answer.found) <= 3 for answer in run.answers)
    assert run.answers[0].found[0].text == NOTES["tunnel"]


def test_parameters_reach_the_search(index: HybridIndex) -> None:
    strict = evaluate(index, DATA, parameters={"min_score": 99.0})
    assert strict["hit_rate"] == 0.0
    assert strict.unanswered == 1.0
    assert strict.answered_nothing == 1.0
    with pytest.raises(InvalidQuery, match="unknown fusion"):
        evaluate(index, DATA, parameters={"fusion": "bogus"})
    with pytest.raises(EvaluationError, match="search takes no 'beta'"):
        evaluate(index, DATA, parameters={"beta": 1})


def test_filters_reach_the_search(index: HybridIndex) -> None:
    only = Question("q", "home server night", {"backup": 1.0}, filter={"length": len(NOTES["cats"])})
    run = evaluate(index, Dataset("filtered", (only,)))
    assert run.answers[0].ids == ["cats"]


def test_a_function_of_ids_hits_and_pairs(expected: dict[str, float]) -> None:
    assert evaluate(by_words, DATA).name == "by_words"
    as_objects = evaluate(lambda q: [SimpleNamespace(id=i, text=NOTES[i]) for i in by_words(q)], DATA)
    as_pairs = evaluate(lambda q: [(SimpleNamespace(id=i), 0.5) for i in by_words(q)], DATA)
    as_mappings = evaluate(lambda q: [{"id": i, "text": NOTES[i]} for i in by_words(q)], DATA)
    assert as_objects.metrics == as_pairs.metrics == as_mappings.metrics == expected
    assert as_mappings.answers[0].found[0].text


def test_a_function_gets_k_and_filter_if_it_takes_them() -> None:
    seen: list[tuple[int, Any]] = []

    def find(query: str, k: int, filter: Any = None) -> list[str]:
        seen.append((k, filter))
        return []

    evaluate(find, Dataset("one", (Question("q", "x", {"a": 1.0}, {"year": 1}),)), k=7, warm_up=0)
    assert seen == [(7, {"year": 1})]
    with pytest.raises(EvaluationError, match="by_words takes no 'filter'"):
        evaluate(by_words, Dataset("one", (Question("q", "x", {"a": 1.0}, {"year": 1}),)))


def test_a_langchain_retriever(expected: dict[str, float]) -> None:
    documents = pytest.importorskip("langchain_core.documents")
    retrievers = pytest.importorskip("langchain_core.retrievers")

    class Words(retrievers.BaseRetriever):  # type: ignore[name-defined,misc]
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Any]:
            return [documents.Document(page_content=NOTES[i], id=i, metadata={"own": i}) for i in by_words(query)]

    run = evaluate(Words(), DATA)
    assert run.metrics == expected
    assert run.answers[0].found[0].text == NOTES["tunnel"]
    assert evaluate(Words(), DATA, id_of="own").metrics == expected
    assert evaluate(Words(), DATA, id_of=lambda hit: hit.metadata["own"]).metrics == expected


def test_a_llamaindex_retriever(expected: dict[str, float]) -> None:
    retrievers = pytest.importorskip("llama_index.core.retrievers")
    schema = pytest.importorskip("llama_index.core.schema")

    class Words(retrievers.BaseRetriever):  # type: ignore[name-defined,misc]
        def _retrieve(self, query_bundle: Any) -> list[Any]:
            found = by_words(query_bundle.query_str)
            return [schema.NodeWithScore(node=schema.TextNode(id_=i, text=NOTES[i]), score=1.0) for i in found]

    run = evaluate(Words(), DATA)
    assert run.metrics == expected
    assert run.answers[0].found[0].text == NOTES["tunnel"]


def test_measuring_a_memory_leaves_it_as_it_was() -> None:
    with Memory.open(":memory:", user="ada", dense=HashEmbedding(256)) as memory:
        ids = dict(zip(NOTES, memory.remember_many(NOTES.values()), strict=True))
        asked = Dataset("own", (Question("q", NOTES["tunnel"], {str(ids["tunnel"]): 1.0}),))
        assert evaluate(memory, asked)["hit_rate"] == 1.0
        kept = memory.get(str(ids["tunnel"]))
        assert kept is not None
        assert kept.access_count == 0
        evaluate(memory, asked, parameters={"touch": True}, warm_up=0)
        kept = memory.get(str(ids["tunnel"]))
        assert kept is not None
        assert kept.access_count == 1, "unless that is asked for"


def test_anything_that_recalls(expected: dict[str, float]) -> None:
    class Recalls:
        def recall(self, query: str, k: int = 10, *, recency_decay: float = 0.01) -> list[str]:
            return by_words(query)[:k] if recency_decay else []

    assert evaluate(Recalls(), DATA).metrics == expected
    assert evaluate(Recalls(), DATA, parameters={"recency_decay": 0}).unanswered == 1.0


def test_a_document_found_twice_counts_once() -> None:
    run = evaluate(lambda q: ["x", "x", "a", "b"], Dataset("one", (Question("q", "x", {"a": 1.0}),)), k=2)
    assert run.answers[0].ids == ["x", "a"]
    assert run["mrr"] == 0.5


def test_what_cannot_be_evaluated_says_so() -> None:
    async def later(query: str) -> list[str]:
        return []

    one = Dataset("one", (Question("q", "x", {"a": 1.0}),))
    with pytest.raises(EvaluationError, match="a int can't be evaluated"):
        evaluate(3, one)
    with pytest.raises(EvaluationError, match="coroutine"):
        evaluate(later, one)
    with pytest.raises(EvaluationError, match="without an id: say with id_of"):
        evaluate(lambda q: [SimpleNamespace(text="?")], one)
    with pytest.raises(EvaluationError, match="returned a str"):
        evaluate(lambda q: "a", one)
    with pytest.raises(EvaluationError, match="k must be at least 1"):
        evaluate(by_words, one, k=0)


def test_a_failure_is_an_error_and_not_a_bad_answer() -> None:
    def fails(query: str) -> list[str]:
        raise RuntimeError("out of order")

    with pytest.raises(EvaluationError, match=r"failed on question q1 .*out of order"):
        evaluate(fails, DATA)


def test_figures_of_a_run() -> None:
    run = evaluate(by_words, DATA, name="words")
    assert run.answered_nothing == 1.0
    assert run.latency(95) >= run.latency(50) > 0
    summary = run.summary()
    assert summary["questions"] == 5
    assert summary["hit_rate@10"] == 1.0
    assert str(run).startswith("words: hit rate@10 1.000")
    assert run.by("kind")["q1"]["hit_rate"] == 1.0
    assert run.where(lambda question: question.id == "q5").metrics["ndcg"] != 0


def test_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    evaluate(by_words, DATA, progress=lambda done, total: told.append((done, total)))
    assert told == [(i, 5) for i in range(1, 6)]


def test_searches_that_did_less_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(text: str) -> list[float]:
        raise RuntimeError("the model is gone")

    model = HashEmbedding()
    with HybridIndex.open(":memory:", dense=model) as index:
        index.add(DATA.documents)
        monkeypatch.setattr(HashEmbedding, "_embed", lambda self, text: gone(text))
        run = evaluate(index, DATA)
    assert "the model is gone" in run.degraded[0]
    assert run.summary()["degraded"] == run.degraded
