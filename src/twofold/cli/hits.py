"""The answer to a search as a table that a person likes to read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from twofold.cli.console import out, printable
from twofold.cli.words import bar, snippet
from twofold.results import Explanation, Hit, SearchResult

_BAR = 8
_LINES = 3


def show(result: SearchResult, *, offset: int, explain: bool) -> None:
    """Print a result: how it was found, then the hits."""
    console = out()
    console.print(_headline(result, offset))
    if result.degraded:
        console.print(Text.assemble(("degraded: ", "bold yellow"), printable(result.degraded)))
    if result:
        console.print(_table(console, result, offset, explain))


def _headline(result: SearchResult, offset: int) -> Text:
    query = printable(result.query)
    if not result:
        more = f" after the first {offset}" if offset else ""
        return Text.assemble(("nothing found", "bold"), f"{more} for “{query}” ({result.mode})")
    shown = f"{offset + 1}–{offset + len(result)}" if offset else f"{len(result)}"
    noun = "hit" if len(result) == 1 and not offset else "hits"
    return Text.assemble((f"{shown} {noun}", "bold"), f" for “{query}” ({result.mode})")


def _table(console: Console, result: SearchResult, offset: int, explain: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, expand=True, show_edge=False, header_style="dim", padding=(0, 1, 0, 0))
    table.add_column("#", justify="right", style="dim", no_wrap=True)
    table.add_column("relevance", no_wrap=True)
    table.add_column("text", ratio=1, overflow="fold")
    size = max(40, (console.width - 22) * _LINES - 4)
    for rank, hit in enumerate(result, offset + 1):
        table.add_row(str(rank), _relevance(console, hit), _cell(hit, size, explain))
        table.add_row()
    return table


def _relevance(console: Console, hit: Hit) -> Text:
    drawn = bar(hit.relevance, _BAR, "cyan", ascii_only=console.options.ascii_only)
    return Text.assemble(drawn, f" {hit.relevance:.2f}")


def _cell(hit: Hit, size: int, explain: bool) -> Group:
    matched = hit.explanation.matched_words if hit.explanation else ()
    lines = [snippet(hit.text, matched, size), _origin(hit)]
    if explain and hit.explanation:
        lines.extend(legs(hit.explanation))
    return Group(*lines)


def _origin(hit: Hit) -> Text:
    """The id and the metadata; what a text file's id already says is left out."""
    known = {"source", "part"} if hit.id == f"{hit.metadata.get('source')}#{hit.metadata.get('part')}" else set()
    facts = [f"{printable(str(k))}={_value(v)}" for k, v in hit.metadata.items() if k not in known]
    return Text.assemble((_short(hit.id), "blue"), ("".join(f"  {fact}" for fact in facts), "dim"))


def _value(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(_value(item) for item in value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{printable(str(k))}: {_value(v)}" for k, v in value.items()) + "}"
    return printable(str(value))


def _short(identity: str) -> str:
    """A path below the current folder as one would type it."""
    return printable(identity.removeprefix(f"{Path.cwd()}/"))


def legs(explanation: Explanation) -> list[Text]:
    """One line for each leg: rank, raw score, what it adds, the words."""
    words = ", ".join(printable(word) for word in explanation.matched_words)
    rows = (
        ("meaning", "magenta", explanation.semantic_rank, explanation.semantic_score, explanation.semantic_part, ""),
        ("words", "green", explanation.lexical_rank, explanation.lexical_score, explanation.lexical_part, words),
    )
    return [_leg(explanation, *row) for row in rows]


def _leg(
    explanation: Explanation, name: str, style: str, rank: int | None, score: float | None, part: float, words: str
) -> Text:
    if score is None:
        return Text.assemble((f"{name:<8}", style), ("not found by this leg", "dim"))
    measure = "cosine" if name == "meaning" else "BM25"
    place = f"#{rank}" if rank is not None else ""
    line = f"{place:<4} {measure:<6} {score:6.3f}  adds {part:.4f} of {explanation.final_score:.4f}"
    return Text.assemble((f"{name:<8}", style), line, (f"  {words}" if words else "", "dim"))
