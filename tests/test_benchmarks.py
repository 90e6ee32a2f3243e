"""The benchmarks run, and measure what they say: small versions of `make bench`, `make eval` and the memories."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from benchmarks import measure, recall
from benchmarks import models as encoding
from benchmarks.__main__ import _ratios, _table
from benchmarks.data import Data
from benchmarks.engines import ENGINES
from benchmarks.memories import __main__ as memories
from benchmarks.quality import __main__ as quality
from benchmarks.quality import fitting, floor, sets, table, vectors
from benchmarks.quality.systems import USUAL
from benchmarks.turns import Elsewhere, Here, take_turns
from twofold.encoders import models
from twofold.testing import HashEmbedding

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


@pytest.mark.parametrize("name", encoding.names())
def test_a_bundled_model_is_measured_against_the_runtime(name: str) -> None:
    result = encoding.measure(name, texts=2)
    assert all(value > 0 for key, value in result.items() if key != "memory_mb"), "it may be loaded already"
    assert encoding.table({name: result}).row_count == 2


# --- Natural questions to memories ---


def test_memories_are_measured_by_language_and_kind() -> None:
    stored, asked = (memories.read(memories.FOLDER / f"{name}.jsonl") for name in ("memories", "questions"))
    stored, asked = ([each for each in part if each["user"] == "tiny"] for part in (stored, asked))
    answers = memories.measure(stored, asked)
    assert {way: len(given) for way, given in answers.items()} == dict.fromkeys(memories.WAYS, len(asked))
    auto = answers["auto"]
    assert sum(answer.right_within(1, gated=False) for answer in auto) >= 4, "of five that can be answered"
    assert sum(answer.right_within(3) for answer in auto) >= sum(answer.right_within(1) for answer in auto)
    assert all(not answer.found or answer.found == answer.ungated for answer in auto), "all of a ranking, or nothing"
    groups = 1 + len({each["language"] for each in asked}) + len({each["kind"] for each in asked})
    assert memories.table(answers).row_count == groups * len(memories.WAYS)


def test_what_the_gate_took_is_told_from_what_was_never_found() -> None:
    def answer(expected: list[str], found: list[str], ungated: list[str]) -> memories.Answer:
        question = {"id": "q1", "query": "which?", "kind": "words", "expected": expected}
        return memories.Answer(question, found, ungated)

    right, late = answer(["a"], ["a", "b"], ["a", "b"]), answer(["a"], ["b", "a"], ["b", "a"])
    lost, never, none = answer(["a"], [], ["a"]), answer(["a"], [], ["b"]), answer([], [], ["b"])
    cells = memories.cells([right, late, lost, never, none])
    assert cells == ["4", "25.0% (1)", "50.0% (2)", "50.0% (2)", "75.0% (3)", "25.0% (1)", "100.0% (1)"]
    told = memories.wrong([right, late, lost, none], {"a": "apples", "b": "bears"})
    assert [line.splitlines()[-1].split(": ")[1].strip() for line in told] == ["bears", "nothing"]


def test_every_question_of_the_memories_can_be_judged() -> None:
    stored, asked = (memories.read(memories.FOLDER / f"{name}.jsonl") for name in ("memories", "questions"))
    owners = {each["id"]: each["user"] for each in stored}
    assert len(owners) == len(stored)
    assert len({each["id"] for each in asked}) == len(asked) >= 150
    for each in asked:
        assert (each["kind"] == memories.NOTHING) == (not each["expected"]), each["id"]
        assert {owners[expected] for expected in each["expected"]} <= {each["user"]}, each["id"]


# --- Sets of questions, by family ---

_SETS = {
    "tunnels": ["rathole tunnels listen on port", "heartbeats keep tunnels open", "tokens open the tunnel gate"],
    "kitchen": ["leek soup wants nutmeg", "cherries make a pie", "bread rises twice before baking"],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two sets of different families, embedded without a model."""
    model = HashEmbedding()

    def embed(what: str, texts: Sequence[str], *rest: Any) -> Any:
        return np.asarray(model.embed_documents(texts), dtype=np.float32)

    encoder = models.resolve_dense(model)
    monkeypatch.setattr(models, "resolve_dense", lambda name=None: encoder)
    monkeypatch.setattr(vectors, "_embed", embed)
    known = {"tunnels": sets.Known("support"), "kitchen": sets.Known("passages")}
    monkeypatch.setattr(sets, "KNOWN", known)
    monkeypatch.chdir(tmp_path)
    for name, texts in _SETS.items():
        place = tmp_path / "data" / name
        place.mkdir(parents=True)
        texts = [*texts, *(f"{name} filler number {n} about {n * 7} things" for n in range(30))]
        rows = [{"_id": f"d{n}", "text": text} for n, text in enumerate(texts)]
        (place / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))
        asked = [{"_id": f"q{n}", "text": " ".join(text.split()[:3])} for n, text in enumerate(texts[:3])]
        (place / "queries.jsonl").write_text("\n".join(map(json.dumps, asked)))
        judged = "".join(f"q{n}\td{n}\t1\n" for n in range(3))
        (place / "qrels.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    return tmp_path / "data"


def test_sets_are_compared_by_family_and_language(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    quality.main(["--data", str(folder), "--systems", *USUAL, "rrf"])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    heads = next(row for row in rows if row[:1] == ["set"])
    expected = "dense words qdrant-bm25 langchain langchain+idf llama-index rrf auto auto/peer auto/leg"
    assert heads[2:] == expected.split()
    for name in (*_SETS, "support", "passages", "English"):
        assert any(row[:1] == [name] and len(row) == len(heads) for row in rows), name


def test_auto_is_compared_only_with_what_was_measured() -> None:
    figures = {"dense": 0.5, "words": 0.4, "auto": 0.6}
    assert table._relative(figures) == {"auto/peer": None, "auto/leg": pytest.approx(1.2)}
    peers = dict.fromkeys(("langchain", "langchain+idf", "llama-index"), 0.5)
    assert table._relative({**figures, **peers, "llama-index": 0.8})["auto/peer"] == pytest.approx(0.75)


def test_relevance_is_measured_on_own_and_on_foreign_questions(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = sets.find(folder, None)
    assert set(floor.foreign_questions("kitchen", paths, 10)) == {
        q.text for q in sets.read(folder / "tunnels").questions
    }
    seen, best = floor.measure(folder / "kitchen", paths, Path("cache"), 10)
    assert (seen.right, seen.foreign, seen.texts) == (3, 3, 10)
    assert seen.answered == 3
    assert seen.verbatim == 10
    assert [right for _, right in best].count(True) == 3
    floor.main(["--data", str(folder), "--asked", "5", "--plot", str(folder / "plot.svg")])
    assert "below 0.5" in capsys.readouterr().out
    assert ElementTree.parse(folder / "plot.svg").getroot().tag.endswith("svg")
    monkeypatch.setattr(sets, "KNOWN", {"tunnels": sets.Known("passages"), "kitchen": sets.Known("passages")})
    assert not floor.foreign_questions("kitchen", paths, 10), "the same family is not foreign"


def test_each_set_counts_alike_in_what_relevance_says() -> None:
    steps = floor.by_relevance([[(0.95, True)] * 3 + [(0.91, False)], [(1.0, False)], [(0.3, True)]])
    assert [count for count, _ in steps] == [0, 0, 0, 1, 0, 0, 0, 0, 0, 5]
    assert [steps[3][1], steps[9][1]] == pytest.approx([1.0, 0.375])
    drawing = ElementTree.fromstring(floor.drawn(steps))
    assert len(drawing.findall("{*}circle")) == 2
    assert len(drawing.findall("{*}line[@stroke-dasharray]")) == 1, "where a probability would lie"


def test_tuning_is_tried_on_questions_that_it_never_saw(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fitting.main(["--data", str(folder), "--sets", "kitchen"])
    assert "the default stays" in capsys.readouterr().out
    mine, theirs = fitting._halves(sets.read(folder / "kitchen"))
    assert not {each.id for each in mine.questions} & {each.id for each in theirs.questions}
