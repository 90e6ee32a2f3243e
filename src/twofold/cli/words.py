"""Pieces of text to show: snippets with the matched words emphasised, and bars."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator

from rich.text import Text

from twofold.cli.console import printable

_TOKEN = re.compile(r"[^\W_]+(?:[-_.][^\W_]+)*")
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_a-zA-Z]+")
_EIGHTHS = " ▏▎▍▌▋▊▉"
_LEAD = 40
"""Characters to show before the first matched word."""


def snippet(text: str, matched: Collection[str], size: int) -> Text:
    """The part of a text where the first matched words are, at most `size` characters, on one line."""
    line = printable(re.sub(r"\s+", " ", text))
    spans = list(_matches(line, matched))
    start = _start(line, spans[0][0] if spans else 0, size)
    end = _end(line, start + size)
    shown = Text(line)
    for begin, stop in spans:
        shown.stylize("bold green", begin, stop)
    return Text.assemble("… " if start else "", shown[start:end], " …" if end < len(line) else "")


def _start(line: str, first: int, size: int) -> int:
    """Where to begin, at a word, so that the first match is in sight."""
    if len(line) <= size or first + _LEAD < size:
        return 0
    begin = min(first - _LEAD, len(line) - size)
    return line.find(" ", begin, first) + 1 or begin


def _end(line: str, limit: int) -> int:
    """Where to stop: after a whole word, unless it is one long word."""
    if limit >= len(line):
        return len(line)
    space = line.rfind(" ", limit - _LEAD, limit + 1)
    return limit if space < 0 else space


def _matches(line: str, matched: Collection[str]) -> Iterator[tuple[int, int]]:
    wanted = {_folded(word) for word in matched}
    for token in _TOKEN.finditer(line):
        parts = [token[0], *_PART.findall(token[0])]
        if any(_alike(_folded(part), word) for part in parts for word in wanted):
            yield token.span()


def _folded(word: str) -> str:
    decomposed = unicodedata.normalize("NFKD", word.casefold())
    return "".join(character for character in decomposed if not unicodedata.combining(character))


def _alike(one: str, other: str) -> bool:
    """Whether two words differ by an ending only. The index has already said that the text has the word."""
    if one == other:
        return True
    short, long = sorted((one, other), key=len)
    stem = short[: max(4, len(short) - 3)]
    return len(short) >= 4 and long.startswith(stem) and len(long) - len(stem) <= 5


def bar(share: float, width: int, style: str, *, ascii_only: bool = False) -> Text:
    """A bar for a share from 0 to 1."""
    share = min(max(share, 0.0), 1.0)
    if ascii_only:
        full = round(share * width)
        return Text.assemble(("#" * full, style), ("." * (width - full), "dim"))
    eighths = round(share * width * 8)
    if share > 0:
        eighths = max(eighths, 1)
    drawn = "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
    return Text.assemble((drawn, style), ("·" * (width - len(drawn)), "dim"))
