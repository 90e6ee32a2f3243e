"""Every Python block of the README and the docs runs, and prints what the page says it prints."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import PAGES, ROOT, agree, blocks, run_page, tidy

_LINK = re.compile(r"\]\((?!https?://)([^)#]*)(#[^)]*)?\)")


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_page_runs_as_written(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = page.read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    for block, printed in run_page(page):
        where = f"{name(page)}:{block.line}"
        if block.shown is None:
            assert not printed, f"{where} prints something that the page doesn't show: {printed}"
        else:
            shown = source[slice(*block.shown)]
            assert agree(shown, printed), f"{where} prints\n{tidy(printed)}\n`python -m tests.docs` puts it on the page"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in _LINK.findall(page.read_text("utf-8")):
        linked = page.parent / target if target else page
        assert linked.exists(), f"{name(page)} links to {target}"
        if anchor:
            assert anchor[1:] in _anchors(linked), f"{name(page)} links to {target}{anchor}"


def test_snippets_for_mcp_clients_are_what_each_client_reads() -> None:
    """Claude Desktop starts commands only; VS Code has a key of its own, and wants to know the type."""
    source = (ROOT / "docs" / "mcp.md").read_text("utf-8")
    found = re.findall(
        r"\*\*(Claude Desktop|Cursor|VS Code)\*\*[^`]*(?:`[^`\n]+`[^`]*)*```json\n(.*?)```", source, re.DOTALL
    )
    told: dict[str, list[Any]] = {}
    for client, snippet in found:
        told.setdefault(client, []).append(json.loads(snippet))
    assert {client: len(snippets) for client, snippets in told.items()} == {
        "Claude Desktop": 2, "Cursor": 2, "VS Code": 2,
    }  # fmt: skip
    assert all("command" in snippet["mcpServers"]["memory"] for snippet in told["Claude Desktop"])
    assert all(list(snippet) == ["mcpServers"] for snippet in told["Cursor"])
    assert [snippet["servers"]["memory"]["type"] for snippet in told["VS Code"]] == ["stdio", "http"]


def test_every_page_is_on_the_map() -> None:
    index = (ROOT / "docs" / "index.md").read_text("utf-8")
    assert not [name(page) for page in PAGES[1:] if page.stem != "index" and f"({page.name})" not in index]


def test_readme_starts_with_code_that_runs() -> None:
    first = next(blocks(PAGES[0]))
    assert not first.needs
    assert len(first.code.splitlines()) <= 12


def _anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("0.50 rathole\n", "0.51 rathole\n", True),
        ("7.41 raw\n", "7.48 raw\n", True),
        ("0.50 rathole\n", "0.55 rathole\n", False),
        ("0.50 rathole\n", "0.50 tunnel\n", False),
        ("2 hits\n", "3 hits\n", False),
        ("one  \n\n", "one\n", True),
        ("one\ntwo\n", "one\n", False),
    ],
)
def test_outputs_are_compared_by_words_and_roughly_by_decimals(shown: str, printed: str, same: bool) -> None:
    assert agree(shown, printed) is same
