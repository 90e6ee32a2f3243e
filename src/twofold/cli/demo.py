"""`twofold demo`: an agent's memories, found by meaning, by words and by both.

demo_memories.jsonl holds the notes of an agent that has worked on three projects for one person. Rathole is mentioned
in five memories, while "project", "codebase" and "architecture" are said all the time about the other two; some names
and error messages are only mentioned in passing. The rankings are whatever the index returns.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from importlib.resources import files
from typing import Annotated

import typer
from rich import box
from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from twofold.cli.console import LEG_STYLES, bar, out, print_json, printable, result_as_json, snippet, unrepeated
from twofold.cli.target import AsJson
from twofold.documents import Document
from twofold.results import Explanation, Hit, SearchResult

_SHOWN_HITS = 5
_MAX_COLUMNS = 120
_BAR_WIDTH = 20
_WAYS = {"dense": 1.0, "bm25": 0.0, "hybrid": None}
"""The ways that are compared, each with its alpha."""
_NEXT_STEPS = (
    ("Python", 'from twofold import HybridIndex; index = HybridIndex.open("./index")'),
    ("add", "twofold add ./notes"),
    ("search", 'twofold search "what did we decide about caching?"'),
)
QUERIES = {
    "rathole project codebase architecture": {
        "rathole-overview",
        "rathole-ports",
        "rathole-config",
        "rathole-noise",
        "rathole-systemd",
    },
    "checkRateLimit": {"cachekit-rate", "cachekit-pr-88"},
    "TypeError: Cannot read property": {"cachekit-typeerror", "cachekit-blank"},
    "migration_032": {"cachekit-m032"},
    "can she have a cappuccino": {"ana-coffee"},
}
"""Questions, and the ids of the memories that a person would want back."""


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
    queries: Mapping[str, Collection[str]] = QUERIES if query is None else {query: ()}
    with HybridIndex.open(":memory:") as index, unrepeated():
        index.add(stored)
        answers = {
            text: {way: index.search(text, _SHOWN_HITS, alpha=alpha, explain=True) for way, alpha in _WAYS.items()}
            for text in queries
        }
    if as_json:
        told = [
            {
                "query": text,
                "relevant": sorted(relevant),
                **{way: result_as_json(result, explain=True) for way, result in answers[text].items()},
            }
            for text, relevant in queries.items()
        ]
        print_json({"memories": len(stored), "queries": told})
    else:
        console = out()
        console.width = min(console.width, _MAX_COLUMNS)
        mark = "*" if console.options.ascii_only else "●"
        legend = f" {mark} is what a person would want back." if query is None else ""
        console.print(f"\n{len(stored)} memories of an agent, the bundled model, nothing sent anywhere.{legend}")
        for text, relevant in queries.items():
            _show_answer(console, text, dict.fromkeys(relevant, mark), answers[text])
        console.print("\nYour turn:")
        grid = Table.grid(padding=(0, 2))
        for name, command in _NEXT_STEPS:
            grid.add_row(f"  {name}", Text(command, "bold"))
        console.print(grid)


def _show_answer(console: Console, query: str, marks: Mapping[str, str], answer: Mapping[str, SearchResult]) -> None:
    """The hits of each way side by side, those with a mark emphasised, and why the best hybrid one is that."""
    console.print(Text.assemble("\n? ", (printable(query), "bold")))
    table = Table(box=box.SIMPLE_HEAD, expand=True, show_edge=False, padding=(0, 1, 0, 0))
    for title, style in (("meaning only", "magenta"), ("BM25 only", "green"), ("hybrid", "cyan")):
        table.add_column(title, ratio=1, no_wrap=True, overflow="ellipsis", header_style=style)
    # With no word to look for, the index answers "BM25 only" by meaning; that is not what the column promises.
    columns = [result.hits if way != "bm25" or result.mode == "lexical" else () for way, result in answer.items()]
    for place in range(max(map(len, columns))):
        table.add_row(*(_place(hits, place, marks) for hits in columns))
    console.print(table)
    for hit in answer["hybrid"][:1]:
        if hit.explanation:
            console.print(_why(console, hit, hit.explanation))


def _place(hits: Sequence[Hit], place: int, marks: Mapping[str, str]) -> Text:
    if place >= len(hits):
        return Text("nothing found" if place == 0 else "", "dim")
    identity = hits[place].id
    style = "bold green" if identity in marks else "dim" if marks else ""
    return Text.assemble((f"{place + 1} ", "dim"), (f"{marks.get(identity, ' ')} {identity}", style))


def _why(console: Console, hit: Hit, why: Explanation) -> Panel:
    """The winner, and what each leg gave it."""
    matched = f" ({', '.join(why.matched_words)})" if why.matched_words else ""
    rows = []
    for leg, digits, words in zip(why.legs, (2, 1), ("", matched), strict=True):
        found = f"{leg.measure} {leg.score:.{digits}f}, rank {leg.rank}{words}" if leg.score is not None else ""
        rows.append((leg.name, leg.part, found or "did not find it", LEG_STYLES[leg.name]))
    rows.append(("score", why.final_score, f"the sum, by {why.fusion} fusion", "cyan"))
    table = Table.grid(padding=(0, 1))
    for name, part, remark, style in rows:
        drawn = bar(part, _BAR_WIDTH, style, ascii_only=console.options.ascii_only)
        table.add_row(Text(name, style), Text.assemble(drawn, f" {part:.2f}"), Text(printable(remark), "dim"))
    content = Group(snippet(hit.text, why.matched_words, 240), table)
    title = f"why {hit.id} comes first"
    return Panel(content, title=title, title_align="left", border_style="dim", box=box.ROUNDED)
