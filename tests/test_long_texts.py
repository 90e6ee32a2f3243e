"""How long a text may be, and what cuts longer ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.runs import run
from twofold import Document, HybridIndex, InvalidDocument, Memory
from twofold.documents import MAX_TEXT_CHARS
from twofold.testing import HashEmbedding
from twofold.text import passages

TOO_LONG = "word " * (MAX_TEXT_CHARS // 5 + 1)


def test_a_text_that_is_too_long_says_what_cuts_it_and_nothing_is_stored() -> None:
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        with pytest.raises(InvalidDocument, match=r"document 1: its text has 1,000,005 characters.*split\(\)"):
            index.add(["fine", TOO_LONG])
        with pytest.raises(InvalidDocument, match="is the most"):
            index.add([Document("x" * MAX_TEXT_CHARS, title="one more")])
        assert index.count() == 0
        assert index.add(["x" * MAX_TEXT_CHARS])
    with Memory.open(":memory:", user="ada", dense=HashEmbedding()) as memory:
        with pytest.raises(InvalidDocument, match="is the most"):
            memory.remember(TOO_LONG)
        assert memory.stats().memories == 0


def test_a_document_is_cut_into_parts_of_it() -> None:
    text = "First part. It is short.\n\nSecond part, which says more.\n\nThird."
    parts = Document(text, id="book", metadata={"year": 2014}, title="On cutting").split(40)
    assert [part.text for part in parts] == ["First part. It is short.", "Second part, which says more.\n\nThird."]
    assert [part.id for part in parts] == ["book#1", "book#2"]
    assert {(part.title, part.part_of, part.metadata["year"]) for part in parts} == {("On cutting", "book", 2014)}
    assert [part.position for part in parts] == [1, 2]
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        index.add(Document(TOO_LONG, title="long").split(MAX_TEXT_CHARS // 2))
        assert index.count() == 3


def test_a_document_without_an_id_has_the_same_parts_each_time() -> None:
    assert Document("one two", title="a").split(4) == Document("one two", title="a").split(4)
    assert Document("one two").split(4) != Document("one three").split(4)
    assert Document(" ").split() == []


@pytest.mark.parametrize("characters", [0, -1, 1.5, True, "10", None])
def test_passages_have_a_length(characters: object) -> None:
    with pytest.raises(InvalidDocument, match="whole number from 1"):
        Document("one").split(characters)  # type: ignore[arg-type]


@given(st.text(alphabet="ab .\n", max_size=200), st.integers(1, 40))
def test_nothing_is_lost_but_blanks(text: str, most: int) -> None:
    found = list(passages(text, most))
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(0 < len(each) <= most for each in found)


def test_a_file_with_one_long_paragraph_is_cut(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text(TOO_LONG)
    added = run("add", tmp_path / "long.txt", "--location", tmp_path / "index")
    assert "stored 3 documents" in added.out, added
