"""Plain texts and Markdown, cut into documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from twofold.cli.options import Split
from twofold.cli.sources import Placed, Reading, Source
from twofold.documents import Document

Piece: TypeAlias = tuple[int, str]
"""The number of the first line, and the text."""


def read_text(source: Source, reading: Reading) -> Iterator[Placed]:
    """The parts of a text. In a file their ids are path#1, path#2 …, so that adding it again replaces them."""
    split = reading.split or (Split.paragraph if source.path else Split.line)
    lines = source.lines()
    pieces = _paragraphs(lines) if split is Split.paragraph else lines if split is Split.line else _whole(lines)
    filled = ((line, text.strip()) for line, text in pieces if text.strip())
    for part, (line, text) in enumerate(filled, 1):
        yield _document(source, part, line, text), f"{source.name}:{line}"


def part_id(root: str, part: int) -> str:
    """The id of a part of a text file, from 1."""
    return f"{root}#{part}"


def _document(source: Source, part: int, line: int, text: str) -> Document:
    root = source.root
    if root is None:
        return Document(text)
    return Document(text, part_id(root, part), {"source": root, "part": part, "line": line})


def _whole(lines: Iterable[Piece]) -> Iterator[Piece]:
    yield 1, "".join(text for _, text in lines)


def _paragraphs(lines: Iterable[Piece]) -> Iterator[Piece]:
    """Cut at empty lines, but not within ``` blocks, and not between a heading and what it is about."""
    held: list[Piece] = []
    fenced = False
    for number, line in lines:
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        if line.strip() or fenced:
            held.append((number, line))
        elif not _only_headings(held):
            yield _joined(held)
            held = []
    if held:
        yield _joined(held)


def _only_headings(held: list[Piece]) -> bool:
    return all(line.startswith("#") for _, line in held)


def _joined(held: list[Piece]) -> Piece:
    return held[0][0], "".join(line for _, line in held)
