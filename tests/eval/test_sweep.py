"""Sweeping parameters of the search, and of BM25."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.eval.sets import small
from twofold.eval import CorpusIndex, EvaluationError, evaluate, sweep
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


def test_an_index_needs_documents() -> None:
    with pytest.raises(EvaluationError, match="brings no documents"):
        CorpusIndex([])
