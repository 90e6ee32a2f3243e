from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.runs import Answer, run
from twofold import Document, HybridIndex


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return tmp_path / "index"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    return folder


def stored(index: Path, id: str) -> Document | None:
    with HybridIndex.open(index) as opened:
        return opened.get(id)


def count(index: Path) -> int:
    with HybridIndex.open(index) as opened:
        return opened.count()


def add(index: Path, *words: object, stdin: str | bytes | None = None) -> Answer:
    answer = run("add", *words, "--location", index, stdin=stdin)
    assert answer.code == 0, answer
    return answer


def test_markdown_is_cut_into_paragraphs_that_keep_headings_and_code_together(index: Path, notes: Path) -> None:
    file = notes / "a.md"
    file.write_text("# Tunnels\n\nPort 2333.\n\n```\none\n\ntwo\n```\n\n\nlast\n")
    answer = add(index, file)
    assert "stored 3 documents from 1 source" in answer.out
    assert f'twofold search "your words" --location {index}' in answer.out.replace("'", "")
    first, second = stored(index, f"{file}#1"), stored(index, f"{file}#2")
    metadata = {"source": str(file), "line": 1}
    assert first == Document("# Tunnels\nPort 2333.", f"{file}#1", metadata, part_of=str(file), position=1)
    assert second is not None
    assert second.text == "```\none\n\ntwo\n```"
    assert second.metadata["line"] == 5
    assert second.title == "Tunnels"


def test_headings_and_a_field_become_titles(index: Path, notes: Path) -> None:
    (notes / "a.md").write_text(
        "# Guide\n\nWelcome.\n\n## Ports ##\n2333.\n\nSome more.\n\n# Cake\n\nEggs.\n\nFlour.\n"
    )
    (notes / "b.jsonl").write_text('{"text": "2333", "id": "b", "title": "Port", "year": 2014}\n')
    (notes / "c.csv").write_text("text,id,heading\nfour,c,Eggs\n")
    add(index, notes / "a.md", notes / "b.jsonl")
    add(index, notes / "c.csv", "--title-field", "heading")
    parts = [stored(index, f"{notes / 'a.md'}#{part}") for part in range(1, 6)]
    assert [(each.text, each.title) for each in parts if each] == [
        ("# Guide\nWelcome.", None),
        ("## Ports ##\n2333.", "Guide"),
        ("Some more.", "Guide > Ports"),
        ("# Cake\nEggs.", None),
        ("Flour.", "Cake"),
    ]
    assert stored(index, "b") == Document("2333", "b", {"year": 2014}, "Port")
    assert stored(index, "c") == Document("four", "c", {}, "Eggs")


@pytest.mark.parametrize(("split", "number"), [("paragraph", 2), ("line", 3), ("file", 1)])
def test_split_decides_what_a_document_is(index: Path, notes: Path, split: str, number: int) -> None:
    (notes / "a.txt").write_text("one\ntwo\n\nthree\n")
    add(index, notes / "a.txt", "--split", split)
    assert count(index) == number


def test_adding_again_changes_nothing_and_a_shorter_file_leaves_nothing_behind(index: Path, notes: Path) -> None:
    file = notes / "a.txt"
    file.write_text("one\n\ntwo\n\nthree\n\nfour")
    add(index, notes)
    add(index, file)
    assert count(index) == 4
    file.write_text("one\n\nzwei")
    answer = add(index, file)
    assert "removed 2" in answer.out
    assert count(index) == 2
    changed = stored(index, f"{file}#2")
    assert changed is not None
    assert changed.text == "zwei"


def test_jsonl_takes_nested_and_flat_metadata_and_any_id(index: Path, notes: Path) -> None:
    rows = [
        {"id": 7, "text": "flat", "year": 1982, "tags": ["a", "b"]},
        {"id": "x", "text": "nested", "metadata": {"year": 1999}, "lang": "no"},
        {"text": "no id"},
    ]
    (notes / "a.jsonl").write_text("\ufeff" + "\n\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    for _ in range(2):
        add(index, notes / "a.jsonl")
    assert count(index) == 3
    assert stored(index, "7") == Document("flat", "7", {"year": 1982, "tags": ["a", "b"]})
    assert stored(index, "x") == Document("nested", "x", {"year": 1999, "lang": "no"})


def test_field_names_can_be_chosen(index: Path, notes: Path) -> None:
    (notes / "a.jsonl").write_text('{"body": "hello", "key": "k1", "id": "kept"}')
    add(index, notes / "a.jsonl", "--text-field", "body", "--id-field", "key")
    assert stored(index, "k1") == Document("hello", "k1", {"id": "kept"})


def test_csv_columns_of_numbers_become_numbers_and_others_stay_as_written(index: Path, notes: Path) -> None:
    (notes / "a.csv").write_text(
        'id,text,year,price,zip,version\n1,"a, b",2014,1.5,01234,1.9\n2,c,2016,2,55555,1.10\n3,d,,,,\n'
    )
    add(index, notes / "a.csv")
    assert stored(index, "1") == Document("a, b", "1", {"year": 2014, "price": 1.5, "zip": "01234", "version": "1.9"})
    assert stored(index, "2") == Document("c", "2", {"year": 2016, "price": 2.0, "zip": "55555", "version": "1.10"})
    assert stored(index, "3") == Document("d", "3", {})


def test_stdin_lines_are_stored_once_each(index: Path) -> None:
    answer = add(index, "-", stdin="one\n\ntwo\none\n")
    assert "stored 2 documents" in answer.out
    assert "1 had the id or the text of another one" in answer.out
    add(index, "-", stdin="three\n")
    assert count(index) == 3, "another pipe replaces nothing"


def test_a_folder_is_read_with_everything_below_but_hidden_files_and_the_index(notes: Path) -> None:
    index = notes / "index"
    (notes / "deep" / "er").mkdir(parents=True)
    (notes / ".hidden").mkdir()
    for name in ("a.txt", "deep/b.MD", "deep/er/c.txt", ".hidden/d.txt", ".e.txt", "f.rst"):
        (notes / name).write_text(name)
    add(index, notes)
    (index / "stray.txt").write_text("not a note")
    add(index, notes, notes / "a.txt")
    assert count(index) == 3


BAD = {
    "json": ("a.jsonl", b'{"text": "ok"}\n{"text": \n', "a.jsonl:2: not JSON"),
    "not an object": ("a.jsonl", b'{"text": "ok"}\n\n[1]\n', "a.jsonl:3: each line must be an object"),
    "no text": ("a.jsonl", b'{"body": "x"}\n', "a.jsonl:1: no field 'text' among body: name the one"),
    "text is a number": ("a.jsonl", b'{"text": 3}\n', "a.jsonl:1: text must be a string"),
    "not a number": ("a.jsonl", b'{"text": "x", "n": NaN}\n', "a.jsonl:1: metadata.n is nan"),
    "half a character": ("a.jsonl", b'{"text": "\\ud83d"}\n', "a.jsonl:1: text has half a character"),
    "deep": ("a.jsonl", b'{"text": "x", "n": ' + b"[" * 20_000 + b"]" * 20_000 + b"}", "a.jsonl:1: "),
    "latin1": ("a.txt", "ok\n\nsmørbrød\n".encode("latin1"), "a.txt:3: not UTF-8"),
    "csv without the column": ("a.csv", b"id,body\n1,x\n", "a.csv:1: no column 'text' among id, body"),
    "csv with too many cells": ("a.csv", b"id,text\n1,x\n2,y,z\n", "a.csv:3: more cells than columns"),
    "csv with an open quote": ("a.csv", b'id,text\n1,"x\n', "a.csv:2: not CSV"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content", "message"), BAD.values(), ids=BAD.keys())
def test_a_bad_line_is_named_and_nothing_is_stored(
    index: Path, notes: Path, name: str, content: bytes, message: str
) -> None:
    (notes / "0.txt").write_text("a good one")
    (notes / name).write_bytes(content)
    answer = run("add", notes, "--location", index)
    assert answer.code == 2
    assert answer.out == ""
    assert f"{notes}/{message}" in answer.err, answer
    assert answer.err.count("\n") == 1, "one line"
    assert not index.exists()


def test_sources_that_are_not_there_or_of_another_kind(index: Path, notes: Path) -> None:
    (notes / "a.rst").write_text("text")
    for source, message in (
        (notes / "nope.md", "does not exist"),
        (notes / "a.rst", "twofold add - <"),
        (notes, "holds no .txt, .md, .jsonl, .csv files"),
    ):
        answer = run("add", source, "--location", index)
        assert answer.code == 2
        assert message in answer.err
        assert not index.exists()


def test_another_language_than_the_collection_has_is_one_clean_line(index: Path, notes: Path) -> None:
    (notes / "a.txt").write_text("as casas")
    add(index, notes, "--language", "portuguese")
    answer = run("add", notes, "--location", index, "--language", "german")
    assert answer.code == 2
    assert answer.err.startswith("error: collection 'twofold' was written with language 'portuguese', not 'german'")


def test_memory_is_no_place_to_add_to(notes: Path) -> None:
    (notes / "a.txt").write_text("text")
    answer = run("add", notes, "--location", ":memory:")
    assert answer.code == 2
    assert "gone when the command ends" in answer.err
