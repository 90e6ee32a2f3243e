"""`twofold add`: from files, folders and stdin to documents, each with the place that it came from, and into the index.

Everything is read and checked before anything is stored.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from rich.text import Text

from twofold.cli.console import out, progress_bar
from twofold.cli.target import Target, with_options
from twofold.documents import MAX_TEXT_CHARS, Document, check
from twofold.errors import InvalidDocument
from twofold.text import passages

if TYPE_CHECKING:
    from twofold.index import HybridIndex

_SUFFIXES = (".txt", ".md", ".jsonl", ".csv")
_MAX_CELL_LETTERS = 2**31 - 1
_HEADING = re.compile(r"(#{1,6})[ \t]+(.+?)[ \t#]*(?:\n|$)")
Line: TypeAlias = tuple[int, str]
"""The number of the (first) line, and the text."""
PlacedDocument: TypeAlias = tuple[Document, str]
"""A document, and the file:line where it begins."""


class Split(str, Enum):
    """How a text becomes documents."""

    paragraph = "paragraph"
    line = "line"
    file = "file"


@with_options
def add(
    target: Target,
    sources: Annotated[
        list[str], typer.Argument(metavar="SOURCE", help="Files (.txt .md .jsonl .csv), folders, or - for stdin.")
    ],
    split: Annotated[
        Split | None, typer.Option(help="What of a text is one document. Default: paragraph, for stdin line.")
    ] = None,
    text_field: Annotated[str, typer.Option(help="Field or column with the text.")] = "text",
    id_field: Annotated[str, typer.Option(help="Field or column with the id, if there is one.")] = "id",
    title_field: Annotated[str, typer.Option(help="Field or column with the title, if there is one.")] = "title",
    language: Annotated[
        str | None, typer.Option(help="Language of the words. Default: the collection's, or english.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Documents to store at a time.")] = 64,
) -> None:
    """Store files, folders or lines. Adding them again replaces them.

    Everything is read and checked before anything is stored. Of .jsonl and .csv, all other fields become metadata;
    with part_of and position a row is found with some context of its neighbours, as the parts of a text file are.
    The headings above a paragraph of Markdown are its title.
    Adding a text file again also removes the parts that it no longer has.
    """
    target = replace(target, language=language)
    found = _find(sources, _Source("stdin", None, split, text_field, id_field, title_field), skip=target.folder)
    # Read twice, to check and to store: all is right before the first write, and no file has to fit into memory.
    counts = {source: sum(1 for _ in _checked(source)) for source in found}
    documents = (document for source in found for document in _checked(source))
    with target.open() as index, progress_bar() as begin:
        ids = index.add(documents, batch_size=batch_size, progress=begin("adding", sum(counts.values())))
        removed = _remove_leftovers(index, counts)
        total = index.count()
    _report(target, ids, len(found), removed, total)


def _checked(source: _Source) -> Iterator[Document]:
    """Documents that can be stored; one that can't is an error that names its line."""
    read = {".jsonl": _read_jsonl, ".csv": _read_csv}.get(source.kind, _read_text)
    for document, place in read(source):
        try:
            next(check([document]))
        except InvalidDocument as error:
            reason = str(error).removeprefix("document 0: ")
            raise InvalidDocument(f"{place}: {reason}") from error
        yield document


def _remove_leftovers(index: HybridIndex, counts: Mapping[_Source, int]) -> int:
    """Remove the parts that an earlier `add` stored of a text file that has become shorter."""
    ends = {source.root: count for source, count in counts.items() if source.kind in (".txt", ".md") and source.root}
    removed = 0
    while ends:
        following = {f"{root}#{count + 1}": root for root, count in ends.items()}
        stale = [document.id for document in index.get(list(following)) if document and document.id]
        removed += index.delete(stale) if stale else 0
        ends = {following[identity]: ends[following[identity]] + 1 for identity in stale}
    return removed


def _report(target: Target, ids: Sequence[str], sources: int, removed: int, total: int) -> None:
    distinct = len(set(ids))
    console = out()
    stored = (_counted(distinct, "document"), "bold green")
    console.print(Text.assemble("stored ", stored, f" from {_counted(sources, 'source')}"))
    if len(ids) > distinct:
        console.print(f"{len(ids) - distinct} had the id or the text of another one and count once", style="dim")
    if removed:
        console.print(f"removed {removed} that their file no longer has", style="dim")
    where = f"{target.shown}, collection {target.collection}"
    console.print(f"{_counted(total, 'document')} in {where}", soft_wrap=True)
    console.print(Text.assemble("search: ", (target.command('search "your words"'), "bold")), soft_wrap=True)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


# The files that the names stand for


@dataclass(frozen=True)
class _Source:
    """A file, or stdin, which can only be read once and is held in memory; and how to read it."""

    name: str
    """As the user wrote it, for messages."""
    path: Path | None
    split: Split | None
    text_field: str
    id_field: str
    title_field: str
    data: bytes = b""

    @property
    def kind(self) -> str:
        """The suffix, which decides how it is read."""
        return self.path.suffix.lower() if self.path else ".txt"

    @property
    def root(self) -> str | None:
        """What the ids of its parts begin with; stdin has none, so that two pipes never share an id."""
        return str(self.path.resolve()) if self.path else None

    def lines(self) -> Iterator[Line]:
        """Numbered lines, with their ends."""
        try:
            stream = self.path.open("rb") if self.path else io.BytesIO(self.data)
        except OSError as error:
            raise InvalidDocument(f"{self.name} can't be read: {error.strerror}") from error
        with stream:
            for number, raw in enumerate(stream, 1):
                try:
                    yield number, raw.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise InvalidDocument(
                        f"{self.name}:{number}: not UTF-8 (byte {error.start + 1} of the line): convert the file, for "
                        "example with iconv -f latin1 -t utf-8"
                    ) from error


def _find(names: Sequence[str], stdin: _Source, skip: Path | None) -> list[_Source]:
    """The files that the names stand for, each once, to be read as stdin is; `skip` is the index itself."""
    found: dict[Path | None, _Source] = {}
    suffixes = ", ".join(_SUFFIXES)
    for name in names:
        path = Path(name).expanduser()
        if name == "-":
            found.setdefault(None, replace(stdin, data=sys.stdin.buffer.read()))
        elif path.is_dir():
            files = list(_walk(path, skip.resolve() if skip else None))
            if not files:
                raise InvalidDocument(f"{name} holds no {suffixes} files: name another folder, or the files")
            for file in files:
                found.setdefault(file.resolve(), replace(stdin, name=str(file), path=file))
        elif not path.exists():
            raise InvalidDocument(f"{name} does not exist: check the path, or use - for stdin")
        elif path.suffix.lower() not in _SUFFIXES:
            fix = f"rename it, or add its lines with `twofold add - < {name}`"
            raise InvalidDocument(f"{name} is not one of {suffixes}: {fix}")
        else:
            found.setdefault(path.resolve(), replace(stdin, name=name, path=path))
    return list(found.values())


def _walk(folder: Path, skip: Path | None) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        here = Path(parent)
        folders[:] = sorted(f for f in folders if not f.startswith(".") and (here / f).resolve() != skip)
        for file in sorted(files):
            if not file.startswith(".") and Path(file).suffix.lower() in _SUFFIXES:
                yield here / file


# Plain texts and Markdown, cut into documents


def _read_text(source: _Source) -> Iterator[PlacedDocument]:
    """The parts of a text. In a file their ids are path#1, path#2 …, so that adding it again replaces them."""
    split, lines = source.split or (Split.paragraph if source.path else Split.line), source.lines()
    pieces: Iterable[list[Line]] = ([line] for line in lines)
    if split is not Split.line:
        pieces = _paragraphs(lines) if split is Split.paragraph else [list(lines)]
    texts = ((piece[0][0], passage) for piece in pieces if piece for passage in _passages(piece))
    headings: list[str] = []
    for part, (line, text) in enumerate(filter(itemgetter(1), texts), 1):
        root = source.root
        title = _under(headings, text) if source.kind == ".md" and split is Split.paragraph else None
        document = Document(text, f"{root}#{part}", {"source": root, "line": line}, title, root, part)
        yield document if root else Document(text), f"{source.name}:{line}"


def _passages(piece: Sequence[Line]) -> Iterator[str]:
    """A piece of a text; one that is longer than a document may be, in several."""
    yield from passages("".join(line for _, line in piece).strip(), MAX_TEXT_CHARS // 2)  # there is a title, too


def _paragraphs(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Cut at empty lines, but not within ``` blocks, and not between a heading and what it is about."""
    held: list[Line] = []
    fenced = False
    for number, line in lines:
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        if line.strip() or fenced:
            held.append((number, line))
        elif not all(line.startswith("#") for _, line in held):
            yield held
            held = []
    yield held


def _under(headings: list[str], text: str) -> str | None:
    """The headings above a paragraph as one title; those that it begins with are in the text, and hold from then on."""
    above = list(headings)
    while heading := _HEADING.match(text):
        level = len(heading[1])
        above = above[: level - 1]
        headings[level - 1 :] = [*[""] * (level - 1 - len(headings)), heading[2]]
        text = text[heading.end() :].lstrip()
    return " > ".join(filter(None, above)) or None


# Records with fields: JSON lines and CSV


def _read_jsonl(source: _Source) -> Iterator[PlacedDocument]:
    """One object a line."""
    for number, line in source.lines():
        if not line.strip():
            continue
        place = f"{source.name}:{number}"
        try:
            row = json.loads(line)
        except ValueError as error:
            raise InvalidDocument(f"{place}: not JSON ({error}): each line must be one object") from error
        except RecursionError as error:
            raise InvalidDocument(f"{place}: the JSON is nested too deeply: make it flatter") from error
        if not isinstance(row, dict):
            raise InvalidDocument(f'{place}: each line must be an object such as {{"text": "…"}}')
        yield _from_row(source, row, place), place


def _read_csv(source: _Source) -> Iterator[PlacedDocument]:
    """One row a document, below a row of column names. A column of numbers becomes numbers."""
    convert = _column_types(source)
    for number, row in _rows(source):
        place = f"{source.name}:{number}"
        typed = {name: convert.get(name, str)(cell) for name, cell in row.items() if cell or name == source.text_field}
        yield _from_row(source, typed, place), place


def _rows(source: _Source) -> Iterator[tuple[int, dict[str, str]]]:
    csv.field_size_limit(_MAX_CELL_LETTERS)
    reader = csv.DictReader((line for _, line in source.lines()), strict=True)
    try:
        if reader.fieldnames:
            _check_text_field(source, reader.fieldnames, f"{source.name}:1", "column")
        for row in reader:
            if None in row:
                raise InvalidDocument(
                    f"{source.name}:{reader.line_num}: more cells than columns: put a text with commas in quotes"
                )
            yield reader.line_num, {name: cell or "" for name, cell in row.items()}
    except csv.Error as error:
        begun = reader.line_num + 1  # the last whole row ended before it
        raise InvalidDocument(f"{source.name}:{begun}: not CSV ({error}): mend the quotes") from error


def _check_text_field(source: _Source, names: Iterable[str], place: str, kind: str) -> None:
    if source.text_field not in names:
        raise InvalidDocument(
            f"{place}: no {kind} {source.text_field!r} among {', '.join(names) or 'none'}: name the one with the text "
            "with --text-field"
        )


def _column_types(source: _Source) -> dict[str, Callable[[str], Any]]:
    """Numbers, where every cell of a column is one: filters compare them. 007 and 1.10 stay as they are written."""
    types: defaultdict[str, set[type]] = defaultdict(set)
    for _, row in _rows(source):
        for name, cell in row.items():
            if cell and str not in types[name]:
                types[name].add(_type_of(cell))
    widest = {name: next(kind for kind in (str, float, int) if kind in kinds) for name, kinds in types.items() if kinds}
    return {**widest, source.text_field: str, source.id_field: str, source.title_field: str}


def _type_of(cell: str) -> type:
    for kind in (int, float):
        with suppress(ValueError):
            if str(kind(cell)) == cell and cell not in ("inf", "-inf", "nan"):
                return kind
    return str


def _from_row(source: _Source, row: Mapping[str, Any], place: str) -> Document:
    _check_text_field(source, row, place, "field")
    named = (source.text_field, source.id_field, source.title_field)
    rest = {name: value for name, value in row.items() if name not in named}
    nested = rest.pop("metadata", None)
    if nested is not None:
        rest = {**nested, **rest} if isinstance(nested, Mapping) else {**rest, "metadata": nested}
    identity, title = (None if row.get(name) is None else str(row[name]) for name in named[1:])
    return Document(row[source.text_field], identity, rest, title)
