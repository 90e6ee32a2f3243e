"""From files, folders and stdin to documents, each with the place that it came from."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from twofold.cli.options import Split
from twofold.documents import Document
from twofold.errors import InvalidDocument

KINDS = (".txt", ".md", ".jsonl", ".csv")
Placed: TypeAlias = tuple[Document, str]
"""A document, and the file:line where it begins."""


@dataclass(frozen=True)
class Reading:
    """How sources are read."""

    split: Split | None = None
    text_field: str = "text"
    id_field: str = "id"


@dataclass(frozen=True)
class Source:
    """A file, or stdin, which can only be read once and is held in memory."""

    name: str
    """As the user wrote it, for messages."""
    path: Path | None
    data: bytes | None = None

    @property
    def kind(self) -> str:
        """The suffix, which decides how it is read."""
        return self.path.suffix.lower() if self.path else ".txt"

    @property
    def root(self) -> str | None:
        """What the ids of its parts begin with; stdin has none, so that two pipes never share an id."""
        return str(self.path.resolve()) if self.path else None

    def lines(self) -> Iterator[tuple[int, str]]:
        """Numbered lines, with their ends."""
        with self._open() as stream:
            for number, raw in enumerate(stream, 1):
                yield number, self._decode(raw, number)

    def _open(self) -> io.BufferedIOBase:
        if self.path is None:
            return io.BytesIO(self.data or b"")
        try:
            return self.path.open("rb")
        except OSError as error:
            raise InvalidDocument(f"{self.name} can't be read: {error.strerror}") from error

    def _decode(self, raw: bytes, number: int) -> str:
        try:
            return raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InvalidDocument(
                f"{self.name}:{number}: not UTF-8 (byte {error.start + 1} of the line): convert the file, for example "
                "with iconv -f latin1 -t utf-8"
            ) from error


def find(names: Sequence[str], skip: Path | None = None) -> list[Source]:
    """The files that the names stand for, each once. `skip` is the index itself, should it lie among them."""
    found: dict[Path | None, Source] = {}
    for name in names:
        for source in _expand(name, skip.resolve() if skip else None):
            found.setdefault(source.path and source.path.resolve(), source)
    return list(found.values())


def _expand(name: str, skip: Path | None) -> list[Source]:
    if name == "-":
        return [Source("stdin", None, sys.stdin.buffer.read())]
    path = Path(name).expanduser()
    if path.is_dir():
        files = [Source(str(file), file) for file in _walk(path, skip)]
        if not files:
            raise InvalidDocument(f"{name} holds no {', '.join(KINDS)} files: name another folder, or the files")
        return files
    if not path.exists():
        raise InvalidDocument(f"{name} does not exist: check the path, or use - for stdin")
    if path.suffix.lower() not in KINDS:
        raise InvalidDocument(
            f"{name} is not one of {', '.join(KINDS)}: rename it, or add its lines with `twofold add - < {name}`"
        )
    return [Source(name, path)]


def _walk(folder: Path, skip: Path | None) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        here = Path(parent)
        folders[:] = sorted(f for f in folders if not f.startswith(".") and (here / f).resolve() != skip)
        for file in sorted(files):
            if not file.startswith(".") and Path(file).suffix.lower() in KINDS:
                yield here / file


def read(source: Source, reading: Reading) -> Iterator[Placed]:
    """The documents of one source, in order."""
    from twofold.cli import records, texts

    if source.kind == ".jsonl":
        return records.read_jsonl(source, reading)
    if source.kind == ".csv":
        return records.read_csv(source, reading)
    return texts.read_text(source, reading)
