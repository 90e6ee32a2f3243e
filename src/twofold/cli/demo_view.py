"""How the demo looks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from twofold.cli.console import out, printable
from twofold.cli.words import bar, snippet
from twofold.results import Explanation, Hit

if TYPE_CHECKING:
    from twofold.cli.demo import Comparison

_WIDEST = 120
_BAR = 20
_NEXT = (
    ("Python", 'from twofold import HybridIndex; index = HybridIndex.open("./index")'),
    ("add", "twofold add ./notes"),
    ("search", 'twofold search "what did we decide about caching?"'),
)


def show(comparisons: Sequence[Comparison], memories: int, *, judged: bool) -> None:
    """Print all comparisons, and what to do next."""
    console = out()
    console.width = min(console.width, _WIDEST)
    intro = f"{memories} memories of an agent, the bundled model, nothing sent anywhere."
    legend = f" {_mark(console)} is what a person would want back." if judged else ""
    console.print(f"\n{intro}{legend}")
    for comparison in comparisons:
        _compare(console, comparison)
    _next_steps(console)


def _mark(console: Console) -> str:
    return "*" if console.options.ascii_only else "●"


def _compare(console: Console, comparison: Comparison) -> None:
    console.print(Text.assemble("\n? ", (printable(comparison.query.text), "bold")))
    table = Table(box=box.SIMPLE_HEAD, expand=True, show_edge=False, padding=(0, 1, 0, 0))
    # With no word to look for, the index answers "BM25 only" by meaning; that is not what the column promises.
    bm25 = comparison.bm25.hits if comparison.bm25.mode == "lexical" else ()
    answers = (comparison.dense.hits, bm25, comparison.hybrid.hits)
    for title, style in (("meaning only", "magenta"), ("BM25 only", "green"), ("hybrid", "cyan")):
        table.add_column(title, ratio=1, no_wrap=True, overflow="ellipsis", header_style=style)
    for place in range(max((len(answer) for answer in answers), default=0)):
        table.add_row(*(_place(console, answer, place, comparison.query.relevant) for answer in answers))
    console.print(table)
    if comparison.hybrid:
        console.print(_why(console, comparison.hybrid[0]))


def _place(console: Console, answer: Sequence[Hit], place: int, relevant: frozenset[str]) -> Text:
    if place >= len(answer):
        return Text("nothing found" if place == 0 else "", "dim")
    wanted = answer[place].id in relevant
    mark = _mark(console) if wanted else " "
    dim = "dim" if relevant and not wanted else ""
    return Text.assemble((f"{place + 1} ", "dim"), (f"{mark} {answer[place].id}", "bold green" if wanted else dim))


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
    drawn = bar(part, _BAR, style, ascii_only=console.options.ascii_only)
    return Text(name, style), Text.assemble(drawn, f" {part:.2f}"), Text(printable(remark), "dim")


def _next_steps(console: Console) -> None:
    console.print("\nYour turn:")
    grid = Table.grid(padding=(0, 2))
    for name, command in _NEXT:
        grid.add_row(f"  {name}", Text(command, "bold"))
    console.print(grid)
