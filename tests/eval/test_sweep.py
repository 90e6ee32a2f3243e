"""Sweeping parameters of the search, and of BM25."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.eval.sets import NOTES, small
from twofold import ConfigError, Document, Fusion, Memory
from twofold.eval import CorpusIndex, CorpusMemory, Dataset, EvaluationError, Question, evaluate, sweep
from twofold.testing import HashEmbedding

DATA = small()


class Counting(HashEmbedding):
    """Remembers what it was asked to embed."""

    def __init__(self) -> None:
        super().__init__(256)
        self.documents: list[str] = []
        self.queries: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        self.documents += texts
        return super().embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        self.queries.append(text)
        return super().embed_query(text)


def test_every_combination_is_a_run() -> None:
    with CorpusIndex(DATA.documents, dense=HashEmbedding()) as index:
        found = sweep(index, DATA, {"alpha": [0.0, 0.5, 1.0], "fusion": ["auto", "weighted"]}, k=3)
        assert [run.name for run in found.runs][:3] == [
            "alpha=0 fusion=auto",
            "alpha=0 fusion=weighted",
            "alpha=0.5 fusion=auto",
        ]
        alone = evaluate(index, DATA, k=3, parameters={"alpha": 0.5, "fusion": "auto"})
        assert found.runs[2].metrics == alone.metrics
        assert found.best("mrr")["mrr"] == max(run["mrr"] for run in found.runs)


def test_k_can_be_swept() -> None:
    with CorpusIndex(DATA.documents, dense=HashEmbedding()) as index:
        found = sweep(index, DATA, {"k": [1, 2, 5]})
        assert [run.k for run in found.runs] == [1, 2, 5]
        recalls = [run["recall"] for run in found.runs]
        assert recalls == sorted(recalls)


def test_bm25_settings_change_the_scores_and_each_text_is_embedded_once() -> None:
    model = Counting()
    with CorpusIndex(DATA.documents, dense=model) as index:
        found = sweep(index, DATA, {"k1": [0.5, 2.0], "b": [0.0, 1.0]})
        low, high = (index.search("home server night", 1, alpha=0.0, k1=k1)[0].score for k1 in (0.5, 2.0))
    assert len(found.runs) == 4
    assert low != high
    assert len(model.documents) == len(set(model.documents))
    assert len(model.queries) == len(set(model.queries))


def test_whatever_bm25_takes_can_be_swept() -> None:
    with CorpusIndex(DATA.documents, dense=HashEmbedding()) as index:
        scores = [index.search("home server", 1, alpha=0.0, **{s: 2.0})[0].score for s in ("k1", "delta", "pairs")]
    assert len(set(scores)) == 3


OLD_AND_NEW = (
    Document("the deploy runs on Tuesdays", "old", {"created": "2020-01-01"}),
    Document("the deploy runs on Thursdays", "new", {"created": "2026-01-01", "tags": ["deploy"]}),
    Document("cats sleep most of the day", "cats", {"kind": "animal"}),
)
WHEN = Dataset("when", (Question("q", "when is the deploy", {"new": 1.0}),), OLD_AND_NEW)


def test_the_settings_of_a_memory_can_be_swept() -> None:
    with Memory.open(":memory:", user="ada", dense=HashEmbedding(256)) as memory:
        old, new, _ = memory.remember_many(
            [{"text": d.text, "created": d.metadata.get("created")} for d in OLD_AND_NEW]
        )
        asked = Dataset("when", (Question("q", "when is the deploy", {str(old): 1.0}),))
        found = sweep(memory, asked, {"recency_decay": [0.0, 0.001], "recency": ["full"], "min_score": [None, 99.0]})
        faded = memory.with_settings(recency="full", recency_decay=0.001).recall("when is the deploy", touch=False)
        assert memory.recall("when is the deploy", touch=False)[0].score > faded[0].score
    assert [run.name for run in found.runs[:2]] == [
        "recency_decay=0 recency=full min_score=None",
        "recency_decay=0 recency=full min_score=99",
    ]
    assert found.runs[1].unanswered == 1.0, "what recall takes goes with the question"
    assert faded.ids.index(str(new)) < faded.ids.index(str(old))
    assert memory.config.recency_decay == 0.01


def test_a_corpus_can_be_recalled_with_any_setting() -> None:
    model = Counting()
    with CorpusMemory(OLD_AND_NEW, dense=model) as corpus:
        found = sweep(corpus, WHEN, {"recency_decay": [0.0, 0.5], "tags_weight": [0.0, 1.0], "k1": [0.5, 2.0]})
        assert found.best()["ndcg"] == 1.0
        assert corpus.recall("deploy", 5, filter={"kind": "animal"}, alpha=1.0, min_score=-1.0).ids == ["cats"]
        light, heavy = (
            corpus.recall("deploy", 1, alpha=0.0, tags_weight=w, tag_weight=0.0)[0].score for w in (0.0, 1.0)
        )
    assert len(found.runs) == 8
    assert light < heavy, "the tags are words of the stored vector"
    assert len(model.documents) == len(set(model.documents))


def test_documents_with_one_text_are_found_under_each_id() -> None:
    twins = [Document("the deploy runs on Tuesdays", name) for name in ("one", "two")]
    with CorpusMemory(twins, dense=HashEmbedding(256)) as corpus:
        assert corpus.recall("deploy runs").ids == ["one", "two"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"gamma": 1}, "gamma: "), ({"recency_decay": -1}, "recency_decay: "), ({"tags_weight": 1}, "what is stored")],
)
def test_settings_that_a_memory_cannot_take(settings: dict[str, Any], message: str) -> None:
    with (
        Memory.open(":memory:", user="ada", dense=HashEmbedding(256)) as memory,
        pytest.raises(ConfigError, match=message),
    ):
        evaluate(memory, WHEN, parameters=settings)


def test_a_value_given_twice_is_tried_once() -> None:
    found = sweep(lambda query, size: list(NOTES), DATA, {"size": [1, 1, 2]})
    assert [run.name for run in found.runs] == ["size=1", "size=2"]
    assert found.parameters == {"size": (1, 2)}


def test_runs_are_called_by_what_is_unusual_about_a_fusion() -> None:
    with CorpusIndex(DATA.documents, dense=HashEmbedding()) as index:
        found = sweep(index, DATA, {"fusion": [Fusion.rrf(), Fusion.rrf(k=5)]})
    assert [run.name for run in found.runs] == ["fusion=rrf", "fusion=rrf(k=5)"]
    assert found.runs[1].summary()["parameters"] == {"fusion": "rrf(k=5)"}


def test_progress_counts_over_all_runs() -> None:
    told: list[tuple[int, int]] = []

    def find(query: str, size: int) -> list[str]:
        return []

    sweep(find, DATA, {"size": [1, 2]}, progress=lambda done, total: told.append((done, total)))
    assert told[0] == (1, 10)
    assert told[-1] == (10, 10)


@pytest.mark.parametrize("grid", [{"alpha": []}, {}])
def test_nothing_to_sweep(grid: dict[str, Any]) -> None:
    if grid:
        with pytest.raises(EvaluationError, match="nothing to sweep"):
            sweep(lambda q: [], DATA, grid)
    else:
        assert len(sweep(lambda q: [], DATA, grid).runs) == 1


def test_an_index_and_a_memory_need_documents() -> None:
    with pytest.raises(EvaluationError, match="brings no documents: evaluate an index"):
        CorpusIndex([])
    with pytest.raises(EvaluationError, match="brings no documents: evaluate a memory"):
        CorpusMemory([])
