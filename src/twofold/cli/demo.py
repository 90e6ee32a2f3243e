"""`twofold demo`: an agent's memories, found by meaning, by words and by both.

demo_memories.jsonl holds the notes of an agent that has worked on three projects for one person. Rathole is mentioned
in five memories, while "project", "codebase" and "architecture" are said all the time about the other two; some names
and error messages are only mentioned in passing. The rankings are whatever the index returns.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from twofold.cli.console import bar, out, print_json, printable, result_as_json, snippet, unrepeated
from twofold.cli.target import AsJson
from twofold.documents import Document
from twofold.results import Explanation, Hit, SearchResult

if TYPE_CHECKING:
    from twofold.index import HybridIndex

_SHOWN_HITS = 5
_MAX_COLUMNS = 120
_BAR_WIDTH = 20
_NEXT_STEPS = (
    ("Python", 'from twofold import HybridIndex; index = HybridIndex.open("./index")'),
    ("add", "twofold add ./notes"),
    ("search", 'twofold search "what did we decide about caching?"'),
)


@dataclass(frozen=True)
class DemoQuery:
    """A question, and the ids of the memories that a person would want back."""

    text: str
    relevant: frozenset[str]


QUERIES = (
    DemoQuery(
        "rathole project codebase architecture",
        frozenset({"rathole-overview", "rathole-ports", "rathole-config", "rathole-noise", "rathole-systemd"}),
    ),
    DemoQuery("checkRateLimit", frozenset({"cachekit-rate", "cachekit-pr-88"})),
    DemoQuery("TypeError: Cannot read property", frozenset({"cachekit-typeerror", "cachekit-blank"})),
    DemoQuery("migration_032", frozenset({"cachekit-m032"})),
    DemoQuery("can she have a cappuccino", frozenset({"ana-coffee"})),
)


def memories() -> list[Document]:
    """What the agent remembers."""
    rows = files("twofold.cli").joinpath("demo_memories.jsonl").read_text("utf-8").splitlines()
    return [Document(row.pop("text"), row.pop("id"), row) for row in map(json.loads, rows)]


def demo(
    query: Annotated[str | None, typer.Option("--query", "-q", help="Ask the demo's memories yourself.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show meaning, words and both side by side on an agent's memories."""
    from twofold.index import HybridIndex

    stored = memories()
    queries = QUERIES if query is None else (DemoQuery(query, frozenset()),)
    with HybridIndex.open(":memory:") as index:
        index.add(stored)
        with unrepeated():
            answers = [_search(index, each) for each in queries]
    if as_json:
        print_json({"memories": len(stored), "queries": [_as_json(answer) for answer in answers]})
    else:
        _show(answers, len(stored), judged=query is None)


@dataclass(frozen=True)
class SideBySide:
    """One query, answered three ways."""

    query: DemoQuery
    dense: SearchResult
    bm25: SearchResult
    hybrid: SearchResult


def _search(index: HybridIndex, query: DemoQuery) -> SideBySide:
    dense, bm25, hybrid = (
        index.search(query.text, _SHOWN_HITS, alpha=alpha, explain=True) for alpha in (1.0, 0.0, None)
    )
    return SideBySide(query, dense, bm25, hybrid)


def _as_json(answer: SideBySide) -> dict[str, Any]:
    return {
        "query": answer.query.text,
        "relevant": sorted(answer.query.relevant),
        "dense": result_as_json(answer.dense, explain=True),
        "bm25": result_as_json(answer.bm25, explain=True),
        "hybrid": result_as_json(answer.hybrid, explain=True),
    }


def _show(answers: Sequence[SideBySide], stored: int, *, judged: bool) -> None:
    """Print all comparisons, and what to do next."""
    console = out()
    console.width = min(console.width, _MAX_COLUMNS)
    intro = f"{stored} memories of an agent, the bundled model, nothing sent anywhere."
    legend = f" {_mark(console)} is what a person would want back." if judged else ""
    console.print(f"\n{intro}{legend}")
    for answer in answers:
        _show_answer(console, answer)
    _next_steps(console)


def _mark(console: Console) -> str:
    return "*" if console.options.ascii_only else "●"


def _show_answer(console: Console, answer: SideBySide) -> None:
    console.print(Text.assemble("\n? ", (printable(answer.query.text), "bold")))
    table = Table(box=box.SIMPLE_HEAD, expand=True, show_edge=False, padding=(0, 1, 0, 0))
    # With no word to look for, the index answers "BM25 only" by meaning; that is not what the column promises.
    bm25 = answer.bm25.hits if answer.bm25.mode == "lexical" else ()
    columns = (answer.dense.hits, bm25, answer.hybrid.hits)
    for title, style in (("meaning only", "magenta"), ("BM25 only", "green"), ("hybrid", "cyan")):
        table.add_column(title, ratio=1, no_wrap=True, overflow="ellipsis", header_style=style)
    for place in range(max((len(hits) for hits in columns), default=0)):
        table.add_row(*(_place(console, hits, place, answer.query.relevant) for hits in columns))
    console.print(table)
    if answer.hybrid:
        console.print(_why(console, answer.hybrid[0]))


def _place(console: Console, hits: Sequence[Hit], place: int, relevant: frozenset[str]) -> Text:
    if place >= len(hits):
        return Text("nothing found" if place == 0 else "", "dim")
    wanted = hits[place].id in relevant
    mark = _mark(console) if wanted else " "
    dim = "dim" if relevant and not wanted else ""
    return Text.assemble((f"{place + 1} ", "dim"), (f"{mark} {hits[place].id}", "bold green" if wanted else dim))


def _why(console: Console, hit: Hit) -> Panel:
    """The winner, and what each leg gave it."""
    body = Table.grid(padding=(0, 1))
    explanation = hit.explanation
    for row in _legs(console, explanation) if explanation else ():
        body.add_row(*row)
    content = Table.grid()
    content.add_row(snippet(hit.text, explanation.matched_words if explanation else (), 240))
    content.add_row(body)
    title = f"why {hit.id} comes first"
    return Panel(content, title=title, title_align="left", border_style="dim", box=box.ROUNDED)


def _legs(console: Console, why: Explanation) -> list[tuple[Text, Text, Text]]:
    on = f" ({', '.join(why.matched_words)})" if why.matched_words else ""
    meaning = f"cosine {why.semantic_score:.2f}, rank {why.semantic_rank}" if why.semantic_score is not None else ""
    words = f"BM25 {why.lexical_score:.1f}, rank {why.lexical_rank}{on}" if why.lexical_score is not None else ""
    return [
        _row(console, "meaning", why.semantic_part, meaning or "did not find it", "magenta"),
        _row(console, "words", why.lexical_part, words or "did not find it", "green"),
        _row(console, "score", why.final_score, f"the sum, by {why.fusion} fusion", "cyan"),
    ]


def _row(console: Console, name: str, part: float, remark: str, style: str) -> tuple[Text, Text, Text]:
    drawn = bar(part, _BAR_WIDTH, style, ascii_only=console.options.ascii_only)
    return Text(name, style), Text.assemble(drawn, f" {part:.2f}"), Text(printable(remark), "dim")


def _next_steps(console: Console) -> None:
    console.print("\nYour turn:")
    grid = Table.grid(padding=(0, 2))
    for name, command in _NEXT_STEPS:
        grid.add_row(f"  {name}", Text(command, "bold"))
    console.print(grid)
