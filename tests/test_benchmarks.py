"""The benchmarks run, and measure what they say: a small version of `make bench`."""

from __future__ import annotations

from functools import partial

import pytest

from benchmarks import measure, recall
from benchmarks.__main__ import _ratios, _table
from benchmarks.data import Data
from benchmarks.engines import ENGINES
from benchmarks.turns import Elsewhere, Here, take_turns

POINTS = 300
QUERIES = 40


@pytest.fixture(scope="module")
def results() -> dict[str, dict[str, object]]:
    """Every engine once through all steps: filled once, each query asked once. Steady figures need more of both."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "Data", partial(Data, queries=QUERIES))
        patch.setattr(measure, "_MOST_FILLS", 1)
        patch.setattr(measure, "_LEAST_SECONDS", 0.0)
        return take_turns({engine.name: Here(engine.name, POINTS) for engine in ENGINES}, POINTS, lambda told: None)


def test_every_engine_is_measured(results: dict[str, dict[str, object]]) -> None:
    assert set(results) == {engine.name for engine in ENGINES}
    for name, result in results.items():
        searches = result["searches"]
        assert isinstance(searches, dict)
        assert searches["hybrid"]["p50_ms"] > 0, name
        assert isinstance(result["upserts_per_s"], float)
        assert result["upserts_per_s"] > 0


def test_an_embedded_search_is_faster_than_the_frameworks_on_local_mode(results: dict[str, dict[str, object]]) -> None:
    """A ratio in one run, with a wide margin for a busy machine: at 10,000 points it is about a hundred."""
    ours = results["twofold"]["searches"]["hybrid"]["p50_ms"]  # type: ignore[index]
    for peer in ("langchain-qdrant", "llama-index"):
        assert results[peer]["searches"]["hybrid"]["p50_ms"] > ours  # type: ignore[index]


def test_an_engine_has_a_process_of_its_own_and_says_why_it_failed() -> None:
    subject = Elsewhere("raw qdrant-edge", 300)
    try:
        measured = take_turns({"raw": subject}, 300, lambda told: None)["raw"]
        assert measured["searches"]["rrf"]["queries"] >= 200
        assert measured["memory_mb"] > 0
        with pytest.raises(RuntimeError, match=r"raw qdrant-edge failed: (?s:.*)no such step"):
            subject.ask("no such step")
    finally:
        subject.close()


def test_the_report_compares(results: dict[str, dict[str, object]]) -> None:
    assert _table(POINTS, results).row_count >= 7
    lines = _ratios(results)
    assert any("hybrid p50, twofold / raw qdrant-edge" in line for line in lines)
    assert any("langchain-qdrant / twofold" in line for line in lines)


def test_recall_is_measured_against_pure_vector_search() -> None:
    result = recall.measure(memories=200, queries=10)
    assert result["recall"]["p50_ms"] > 0
    assert recall.table(200, result).row_count == len(result)
    assert result["recall"]["p50_ms"] < 60 * result["pure vector"]["p50_ms"], "one request, not one for each memory"
