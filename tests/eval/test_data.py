"""Folders and files of questions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.eval.sets import NOTES, QUESTIONS, write_beir
from twofold.eval import Dataset, EvaluationError, Question, load


def test_a_beir_folder(tmp_path: Path) -> None:
    data = load(write_beir(tmp_path / "notes"))
    assert data.name == "notes"
    assert {q.id: dict(q.relevant) for q in data.questions} == {i: r for i, (_, r) in QUESTIONS.items() if r}
    assert {d.id: d.text for d in data.documents} == NOTES
    assert data.questions[0].metadata == {"topic": "q1"}


def test_a_title_comes_before_the_text(tmp_path: Path) -> None:
    write_beir(tmp_path)
    (tmp_path / "corpus.jsonl").write_text('{"_id": 7, "title": "Ports", "text": "2333"}\n')
    assert [(d.id, d.text) for d in load(tmp_path).documents] == [("7", "Ports\n2333")]


def test_splits(tmp_path: Path) -> None:
    write_beir(tmp_path, qrels="qrels/dev.tsv")
    assert len(load(tmp_path).questions) == 4, "a single split needs no name"
    (tmp_path / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\nq2\treset\t1\n")
    with pytest.raises(EvaluationError, match="dev, train: name one"):
        load(tmp_path)
    assert [q.id for q in load(tmp_path, split="train").questions] == ["q2"]
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\ttunnel\t1\n")
    assert [q.id for q in load(tmp_path).questions] == ["q1"]


def test_trec_judgements_zero_grades_and_judged_as_nothing(tmp_path: Path) -> None:
    write_beir(tmp_path)
    (tmp_path / "qrels.tsv").write_text("q1 0 tunnel 2\nq1 0 rate 0\nq5 0 cats 0\n")
    found = {q.id: dict(q.relevant) for q in load(tmp_path).questions}
    assert found == {"q1": {"tunnel": 2.0}, "q5": {}}


def test_each_question_in_its_own_part(tmp_path: Path) -> None:
    data = load(write_beir(tmp_path), same="topic")
    assert data.questions[0].filter == {"topic": "q1"}
    with pytest.raises(EvaluationError, match="no metadata field 'sample'"):
        load(tmp_path, same="sample")


def test_pairs_in_jsonl(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text(
        '{"query": "one", "expected": "a"}\n'
        '{"query": "two", "expected": ["a", "b"], "relevance": [2, 1], "filter": {"year": 2014}, "kind": "x"}\n'
        '{"query": "none", "expected": []}\n'
        '{"query": "one", "expected": ["c"], "id": "ignored"}\n'
    )
    data = load(path)
    assert [(q.text, dict(q.relevant)) for q in data.questions] == [
        ("one", {"a": 1.0, "c": 1.0}),
        ("two", {"a": 2.0, "b": 1.0}),
        ("none", {}),
    ]
    assert [q.id for q in data.questions] == ["q1", "q2", "q3"]
    assert data.questions[1].filter == {"year": 2014}
    assert data.questions[1].metadata == {"kind": "x"}
    assert data.questions[2].expects_nothing


def test_pairs_in_csv(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("query,expected,relevance,kind\none,a,2,x\none,b,,x\nnone,,,\n")
    data = load(path)
    assert [(q.text, dict(q.relevant)) for q in data.questions] == [("one", {"a": 2.0, "b": 1.0}), ("none", {})]
    assert data.questions[0].metadata == {"kind": "x"}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.jsonl", "{", "p.jsonl:1: not JSON"),
        ("p.jsonl", "[1]", "must be an object"),
        ("p.jsonl", '{"expected": "a"}', "no 'query'"),
        ("p.jsonl", '{"query": "x", "expected": "a", "relevance": 0.5}', "scale it up"),
        ("p.jsonl", '{"query": "x", "expected": ["a"], "relevance": [1, 2]}', "1 expected ids but 2 relevances"),
        ("p.jsonl", '{"query": "x", "expected": "a", "relevance": "high"}', "must be a number"),
        ("p.jsonl", '{"query": "x", "filter": 3}', "filter must be an object"),
        ("p.jsonl", "", "no questions"),
        ("p.txt", "x", "neither .jsonl nor .csv"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(EvaluationError, match=message):
        load(tmp_path / name)


def test_what_is_wrong_with_a_folder(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="does not exist"):
        load(tmp_path / "nowhere")
    with pytest.raises(EvaluationError, match=r"no qrels.tsv"):
        load(tmp_path)
    write_beir(tmp_path)
    (tmp_path / "qrels.tsv").write_text("q1\ttunnel\n")
    with pytest.raises(EvaluationError, match=r"qrels.tsv:1: expected query-id"):
        load(tmp_path)


def test_a_sample_is_spread_and_always_the_same() -> None:
    data = Dataset("many", tuple(Question(str(i), "x", {"a": 1.0}) for i in range(100)))
    assert [q.id for q in data.sample(4).questions] == ["0", "25", "50", "75"]
    assert data.sample(1000) is data
    with pytest.raises(EvaluationError):
        data.sample(0)


def test_questions_by_metadata() -> None:
    data = Dataset("two", tuple(Question(str(i), "x", {}, None, {"kind": i % 2}) for i in range(4)))
    assert [q.id for q in data.where("kind", 1).questions] == ["1", "3"]
