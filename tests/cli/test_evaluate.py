"""`twofold eval` and `twofold sweep`, as they are typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runs import run
from tests.eval.sets import NOTES, QUESTIONS, write_beir
from twofold import Fusion, Memory
from twofold.cli.evaluate import parse_run, parse_values
from twofold.eval import EvaluationError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_beir(tmp_path_factory.mktemp("data") / "notes")


@pytest.mark.parametrize("width", ["80", "120"])
def test_eval_compares_dense_bm25_and_auto(folder: Path, tmp_path: Path, width: str) -> None:
    files = ("--html", tmp_path / "r.html", "--plot", tmp_path / "p.svg")
    answer = run("eval", folder, *files, env={"COLUMNS": width})
    assert answer.code == 0, answer
    assert "notes: 4 questions, 5 documents" in answer.out
    assert [line.split()[0] for line in answer.out.splitlines()[3:6]] == ["dense", "bm25", "auto"]
    assert ("p95" in answer.out) is (width == "120")
    assert "r.html" in answer.err
    assert (tmp_path / "r.html").read_text("utf-8").startswith("<!doctype html>")
    assert (tmp_path / "p.svg").is_file()


def test_eval_for_machines(folder: Path) -> None:
    answer = run("eval", folder, "--run", "bm25", "--run", "rrf depth=50", "-k", 3, "--json", "--sample", 3)
    found = answer.json
    assert (found["data"], found["questions"], found["documents"]) == ("notes", 3, 5)
    assert [one["name"] for one in found["runs"]] == ["bm25", "rrf depth=50"]
    assert found["runs"][1]["parameters"] == {"fusion": "rrf", "depth": 50}
    assert 0 < found["runs"][0]["ndcg@3"] <= 1
    assert {"baseline": "bm25", "run": "rrf depth=50", "metric": "ndcg@3"}.items() <= found["comparisons"][0].items()


def test_eval_by_a_field(folder: Path) -> None:
    answer = run("eval", folder, "--run", "bm25", "--by", "topic")
    assert "nDCG@10 by topic" in answer.out


def test_pairs_are_asked_of_an_index(tmp_path: Path) -> None:
    corpus, pairs = tmp_path / "notes.jsonl", tmp_path / "pairs.jsonl"
    corpus.write_text("\n".join(json.dumps({"id": i, "text": text}) for i, text in NOTES.items()))
    rows = [{"query": text, "expected": list(relevant)} for text, relevant in QUESTIONS.values()]
    pairs.write_text("\n".join(map(json.dumps, rows)))
    assert run("add", corpus, "-l", tmp_path / "index").code == 0
    answer = run("eval", pairs, "-l", tmp_path / "index", "--html", tmp_path / "r.html", "--json")
    found = {one["name"]: one for one in answer.json["runs"]}
    assert found["bm25"]["answered_nothing"] == 1.0
    assert found["dense"]["answered_nothing"] == 0.0
    assert "Answered by" in (tmp_path / "r.html").read_text("utf-8")
    refused = run("sweep", pairs, "k1=1,2", "-l", tmp_path / "index")
    assert refused.code == 2
    assert "k1 decides what an index stores" in refused.err


def test_sweep_finds_the_best(folder: Path, tmp_path: Path) -> None:
    answer = run("sweep", folder, "alpha=0:1:0.5", "--with", "fusion=weighted", "--plot", tmp_path / "p.png")
    assert answer.code == 0, answer
    assert [line.split()[0] for line in answer.out.splitlines()[3:7]] == ["default", "alpha=0", "alpha=0.5", "alpha=1"]
    assert "best by ndcg: alpha=" in answer.out
    assert (tmp_path / "p.png").is_file()


def test_sweep_of_bm25_and_of_k_for_machines(folder: Path) -> None:
    answer = run("sweep", folder, "k1=0.5,1.5", "b=0,1", "--json")
    assert len(answer.json["runs"]) == 5
    assert answer.json["best"] in {one["name"] for one in answer.json["runs"]}
    answer = run("sweep", folder, "k=1,5", "--json")
    assert "recall@1" in answer.json["runs"][0]
    assert answer.json["comparisons"] == []


def test_a_memory_is_swept_by_its_settings(folder: Path, tmp_path: Path) -> None:
    answer = run("sweep", folder, "recency_decay=0,0.1", "--user", "ada", "--json", "--html", tmp_path / "r.html")
    assert [one["name"] for one in answer.json["runs"]] == ["default", "recency_decay=0", "recency_decay=0.1"]
    assert answer.json["runs"][0]["hit_rate@10"] > 0
    with Memory.open(tmp_path / "store", user="ada") as memory:
        kept = memory.remember(NOTES["tunnel"])
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text(json.dumps({"query": "which port do rathole tunnels use", "expected": str(kept)}))
    place = ("-l", tmp_path / "store", "--user", "ada")
    answer = run("eval", pairs, *place, "--run", "default", "--run", "popularity=0", "--json")
    assert [one["hit_rate@10"] for one in answer.json["runs"]] == [1.0, 1.0]
    refused = run("sweep", pairs, "tags_weight=0,1", *place)
    assert "tags_weight decides what an index stores" in refused.err
    nowhere = run("eval", pairs, "-l", tmp_path / "none", "--user", "ada")
    assert "there is no memory at" in nowhere.err


def test_a_sweep_shows_what_a_floor_costs(folder: Path, tmp_path: Path) -> None:
    report = tmp_path / "s.html"
    answer = run("sweep", folder, "min_score=0,0,99", "--html", report, "--plot", tmp_path / "s.png")
    assert answer.code == 0, answer
    assert "answered" in answer.out.splitlines()[2]
    rows = [line.split() for line in answer.out.splitlines() if line.startswith("min_sc")]
    assert [row[-2] for row in rows] == ["0%", "100%"], "before the time"
    assert "<th>unanswered</th>" in report.read_text("utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("eval", "nowhere"), "nowhere does not exist"),
        (("sweep", "{folder}", "alpha"), "'alpha' is no parameter"),
        (("sweep", "{folder}", "gamma=1,2"), "no parameter 'gamma'"),
        (("sweep", "{folder}", "recency_decay=0,1"), "or --user to ask a memory"),
        (("sweep", "{folder}", "fusion=rrf(z=1)"), "rrf has k, weights"),
        (("eval", "{folder}", "--run", "bogus"), "'bogus' is no run"),
        (("eval", "{folder}", "--run", "fusion=bogus"), "unknown fusion 'bogus'"),
        (("eval", "{folder}", "--same", "sample"), "no metadata field 'sample'"),
        (("eval", "{folder}", "--metric", "bogus"), "bogus"),
    ],
)
def test_what_is_wrong_is_one_line(folder: Path, words: tuple[str, ...], message: str) -> None:
    answer = run(*(word.format(folder=folder) for word in words))
    assert answer.code == 2
    assert message in answer.err
    assert answer.err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0.3:1:0.1", [0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]),
        ("50:200:50", [50, 100, 150, 200]),
        ("0.5", [0.5]),
        ("auto, rrf", ["auto", "rrf"]),
        ("1,2.5,true,x", [1, 2.5, True, "x"]),
        ("0:1:0.4", [0.0, 0.4, 0.8]),
        ("rrf(k=5),auto(alpha=0.3)", [Fusion.rrf(k=5), Fusion.auto(0.3)]),
    ],
)
def test_values(text: str, found: list[Any]) -> None:
    assert parse_values(text) == found


@pytest.mark.parametrize("text", ["", "1:2", "a:b:c", "0:1:0", "1:0:0.1", "0:1:0.000001", "0:inf:1"])
def test_values_that_mean_nothing(text: str) -> None:
    with pytest.raises(EvaluationError):
        parse_values(text)


def test_runs_as_they_are_written() -> None:
    assert parse_run("dense") == {"alpha": 1.0}
    assert parse_run("default") == {}
    assert parse_run("rrf(k=5) depth=50") == {"fusion": Fusion.rrf(k=5), "depth": 50}
    assert parse_run("weighted alpha=0.4, depth=50") == {"fusion": "weighted", "alpha": 0.4, "depth": 50}
