"""Every notebook runs from top to bottom in a fresh kernel, and gives what is stored in it."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.docs.notebooks import NOTEBOOKS, PICTURE, code_cells, printed, read, run
from tests.docs.pages import ROOT, agree, tidy

_NAMES = {"quickstart", "langchain", "llamaindex", "agent_memory"}
_LINK = re.compile(r"\]\((?!https?://)([^)#]*)(#[^)]*)?\)")
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: str(path.stem))


def test_they_are_there_and_on_the_map() -> None:
    index = (ROOT / "docs" / "index.md").read_text("utf-8")
    assert {path.stem for path in NOTEBOOKS} >= _NAMES
    assert not [path.name for path in NOTEBOOKS if f"(../examples/notebooks/{path.name})" not in index]


@each_notebook
def test_notebook_gives_what_is_stored_in_it(path: Path, tmp_path: Path) -> None:
    stored, fresh = code_cells(read(path)), code_cells(run(path, tmp_path))
    for number, (one, other) in enumerate(zip(stored, fresh, strict=True), 1):
        assert agree(printed(one), printed(other)), (
            f"{path.name}, code cell {number} gives\n{tidy(printed(other))}\n"
            "`python -m tests.docs.notebooks` stores it in the notebook"
        )


@each_notebook
def test_what_is_stored_is_fit_to_be_seen(path: Path) -> None:
    notebook = read(path)
    nbformat.validate(notebook)
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert pictures(notebook)
    for picture in pictures(notebook):
        assert picture.startswith(b"\x89PNG")
        assert int.from_bytes(picture[16:20], "big") > 500  # the width
    said = "".join(printed(cell) for cell in cells)
    assert "[stderr]" not in said
    assert not re.search(r"(/home|/tmp|/root|/work|/Users|[A-Z]:\\)\b", said)


@each_notebook
def test_links_of_a_notebook_lead_somewhere(path: Path) -> None:
    prose = "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")
    assert not [target for target, _ in _LINK.findall(prose) if not (path.parent / target).exists()]


def pictures(notebook: Any) -> list[bytes]:
    data = [output.get("data", {}) for cell in code_cells(notebook) for output in cell.outputs]
    return [base64.b64decode(each[PICTURE]) for each in data if PICTURE in each]
