"""How the command line speaks: results, progress, warnings and errors, and hits as a person likes to read them.

The keys of what `--json` prints are stable: new ones may come, none goes or changes its meaning. search::

    {"query", "mode", "degraded", "corrections", "offset", "count",
     "hits": [{"rank", "id", "text", "score", "relevance", "metadata", "explanation"}]}

`rank` counts from 1 over all pages, `relevance` is the score from 0 to 1, and `explanation` is null without
`--explain`; with it, it has the fields of `twofold.Explanation`.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

import typer
from rich import box
from rich.console import Console, Group
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from twofold.errors import TwofoldError
from twofold.results import Explanation, Hit, SearchResult

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]+")
_TOKEN = re.compile(r"[^\W_]+(?:[-_.][^\W_]+)*")
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_a-zA-Z]+")
LEG_STYLES = {"meaning": "magenta", "words": "green"}
_EIGHTHS = " ▏▎▍▌▋▊▉"
_BAR_WIDTH = 8
_SNIPPET_LINES = 3
_LEAD_LETTERS = 40
"""Characters to show before the first matched word."""
OnProgress: TypeAlias = Callable[[int, int | None], None]
"""Gets how much is done, and of how much, if that is known."""


# Streams


def out(*, stderr: bool = False) -> Console:
    """For results, or for progress, warnings and errors. Made for each use: streams change (tests, pipes)."""
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def printable(text: str) -> str:
    """One line that is safe to show: a stored text could hold control codes that repaint the terminal."""
    return _CONTROL.sub(" ", text).strip()


def print_json(value: Mapping[str, Any]) -> None:
    """One JSON object, readable where the stream can hold every character."""
    unicode = "utf" in (sys.stdout.encoding or "").lower()
    typer.echo(json.dumps(value, ensure_ascii=not unicode, indent=2))


def complain(kind: str, message: str, style: str) -> None:
    """One line on stderr, however long: it stays greppable."""
    out(stderr=True).print(Text.assemble((f"{kind}: ", style), printable(message)), soft_wrap=True)


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int | None], OnProgress]]:
    """A progress bar on stderr; gives a function that begins its next part, by name and, if known, what it comes to."""
    console = out(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:

        def begin(what: str, total: int | None = None) -> OnProgress:
            task = progress.add_task(what, total=total)
            return lambda done, of: progress.update(task, completed=done, total=of if total is None else total)

        yield begin


# Errors and warnings


class Commands(TyperGroup):
    """The commands, with their errors turned into one line and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")  # a terminal that can't show ø still gets an answer
        try:
            with _tidy_warnings():
                return super().invoke(ctx)
        except TwofoldError as error:
            complain("error", str(error), "bold red")
            raise typer.Exit(2) from error
        except KeyboardInterrupt:
            raise typer.Exit(130) from None


class _Tidy(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        complain(record.levelname.lower(), record.getMessage(), "yellow")


@contextmanager
def _tidy_warnings() -> Iterator[None]:
    """Show the package's log and Python's warnings as one line each."""
    logger, handler = logging.getLogger("twofold"), _Tidy(logging.WARNING)
    propagate = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: complain("warning", str(message), "yellow")
            yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate


@contextmanager
def unrepeated() -> Iterator[None]:
    """Leave out what the log says about a search: `result.degraded` says the same, and is shown."""
    logger = logging.getLogger("twofold")

    def keep(record: logging.LogRecord) -> bool:
        return not hasattr(record, "degraded")

    logger.addFilter(keep)
    try:
        yield
    finally:
        logger.removeFilter(keep)


# Hits, for people and for machines


def show_hits(result: SearchResult, *, offset: int, explain: bool) -> None:
    """Print a result: how it was found, then the hits."""
    console = out()
    if result:
        shown = f"{offset + 1}–{offset + len(result)}" if offset else f"{len(result)}"
        found, more = f"{shown} {'hit' if shown == '1' else 'hits'}", ""
    else:
        found, more = "nothing found", f" after the first {offset}" if offset else ""
    console.print(Text.assemble((found, "bold"), f"{more} for “{printable(result.query)}” ({result.mode})"))
    for wrong, right in result.corrections.items():
        console.print(Text.assemble(("read as: ", "bold"), f"{printable(right)}, not {printable(wrong)}"))
    if result.degraded:
        console.print(Text.assemble(("degraded: ", "bold yellow"), printable(result.degraded)))
    if not result:
        return
    table = Table(box=box.SIMPLE_HEAD, expand=True, show_edge=False, header_style="dim", padding=(0, 1, 0, 0))
    table.add_column("#", justify="right", style="dim", no_wrap=True)
    table.add_column("relevance", no_wrap=True)
    table.add_column("text", ratio=1, overflow="fold")
    size = max(40, (console.width - 22) * _SNIPPET_LINES - 4)
    for rank, hit in enumerate(result, offset + 1):
        why = hit.explanation
        drawn = bar(hit.relevance, _BAR_WIDTH, "cyan", ascii_only=console.options.ascii_only)
        lines = [Text(printable(hit.title), "bold")] if hit.title else []
        lines += [snippet(hit.text, why.matched_words if why else (), size), _origin(hit)]
        lines += _legs(why) if explain and why else ()
        table.add_row(str(rank), Text.assemble(drawn, f" {hit.relevance:.2f}"), Group(*lines))
        table.add_row()
    console.print(table)


def _origin(hit: Hit) -> Text:
    """The id and the metadata; what a text file's id already says is left out."""
    known = {"source", "part"} if hit.id == f"{hit.metadata.get('source')}#{hit.metadata.get('part')}" else set()
    facts = [f"{printable(str(k))}={_value(v)}" for k, v in hit.metadata.items() if k not in known]
    shown = printable(hit.id.removeprefix(f"{Path.cwd()}/"))  # a path below the current folder as one would type it
    return Text.assemble((shown, "blue"), ("".join(f"  {fact}" for fact in facts), "dim"))


def _value(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(_value(item) for item in value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{printable(str(k))}: {_value(v)}" for k, v in value.items()) + "}"
    return printable(str(value))


def _legs(why: Explanation) -> Iterator[Text]:
    """One line for each leg: rank, raw score, what it adds, the words."""
    total = why.final_score if why.score_before is None else why.score_before
    for leg in why.legs:
        name = (f"{leg.name:<8}", LEG_STYLES[leg.name])
        if leg.score is None:
            yield Text.assemble(name, ("not found by this leg", "dim"))
            continue
        place = f"#{leg.rank}" if leg.rank is not None else ""
        line = f"{place:<4} {leg.measure:<6} {leg.score:6.3f}  adds {leg.part:.4f} of {total:.4f}"
        words = ", ".join(map(printable, why.matched_words)) if leg.name == "words" else ""
        yield Text.assemble(name, line, (f"  {words}" if words else "", "dim"))
    if why.rank_before is not None:
        given = "" if why.rerank_score is None else f"{why.rerank_score:.3f}, "
        yield Text(f"reranked {given}before #{why.rank_before}")


def result_as_json(result: SearchResult, offset: int = 0, *, explain: bool) -> dict[str, Any]:
    """A search result for machines."""
    hits = [
        {
            "rank": rank,
            **vars(hit),
            "metadata": dict(hit.metadata),
            "explanation": asdict(hit.explanation) if explain and hit.explanation else None,
        }
        for rank, hit in enumerate(result, offset + 1)
    ]
    found = {"query": result.query, "mode": result.mode, "degraded": result.degraded}
    read = {"corrections": dict(result.corrections)}
    return {**found, **read, "offset": offset, "count": len(result), "hits": hits}


# Snippets with the matched words emphasised, and bars


def snippet(text: str, matched: Collection[str], size: int) -> Text:
    """The part of a text where the first matched words are, at most `size` characters, on one line."""
    line = printable(re.sub(r"\s+", " ", text))
    spans = list(_matches(line, matched))
    first = spans[0][0] if spans else 0
    start, end = 0, len(line)
    if end > size and first + _LEAD_LETTERS >= size:  # begin at a word, so that the first match is in sight
        begin = min(first - _LEAD_LETTERS, end - size)
        start = line.find(" ", begin, first) + 1 or begin
    if start + size < end:  # stop after a whole word, unless it is one long word
        space = line.rfind(" ", start + size - _LEAD_LETTERS, start + size + 1)
        end = start + size if space < 0 else space
    shown = Text(line)
    for span in spans:
        shown.stylize("bold green", *span)
    return Text.assemble("… " if start else "", shown[start:end], " …" if end < len(line) else "")


def _matches(line: str, matched: Collection[str]) -> Iterator[tuple[int, int]]:
    from twofold.ranking.vocabulary import fold

    wanted = set(map(fold, matched))
    for token in _TOKEN.finditer(line):
        parts = [token[0], *_PART.findall(token[0])]
        if any(_alike(fold(part), word) for part in parts for word in wanted):
            yield token.span()


def _alike(one: str, other: str) -> bool:
    """Whether two words differ by an ending only. The index has already said that the text has the word."""
    short, long = sorted((one, other), key=len)
    stem = short[: max(4, len(short) - 3)]
    return one == other or (len(short) >= 4 and long.startswith(stem) and len(long) - len(stem) <= 5)


def bar(share: float, width: int, style: str, *, ascii_only: bool = False) -> Text:
    """A bar for a share from 0 to 1."""
    share = min(max(share, 0.0), 1.0)
    if ascii_only:
        drawn, rest = "#" * round(share * width), "."
    else:
        whole, eighths = divmod(max(round(share * width * 8), share > 0), 8)
        drawn, rest = "█" * whole + _EIGHTHS[eighths].strip(), "·"
    return Text.assemble((drawn, style), (rest * (width - len(drawn)), "dim"))
