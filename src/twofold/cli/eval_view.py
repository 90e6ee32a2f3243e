"""The figures of an evaluation, for people and for machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from twofold.cli.console import complain, out, printable
from twofold.eval.comparing import Comparison
from twofold.eval.data import Dataset
from twofold.eval.runs import Run, common_k, floor_matters
from twofold.eval.scoring import label

_WIDE = 100
"""Columns of a terminal that shows everything; a narrower one gets no interval and no p95."""


def show(data: Dataset, runs: Sequence[Run], comparisons: Sequence[Comparison], metric: str) -> None:
    """Print a table of the runs; the first is what the others are compared with."""
    documents = f", {len(data.documents):,} documents" if data.documents else ""
    out().print(Text.assemble((printable(data.name), "bold"), f": {len(data.questions):,} questions{documents}"))
    out().print(_table(runs, comparisons, metric, wide=out().width >= _WIDE))
    for run in runs:
        for reason in run.degraded:
            complain("degraded", f"{run.name}: {reason}", "bold yellow")


def _table(runs: Sequence[Run], comparisons: Sequence[Comparison], metric: str, *, wide: bool) -> Table:
    metrics = list(runs[0].scores)
    shares = _shares(runs)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, header_style="dim", padding=(0, 1, 0, 0))
    table.add_column("run", overflow="fold")
    heads = [label(name, common_k(runs)) for name in metrics]
    heads += [f"{label(metric)} ±" + (" (95 %)" if wide else ""), "p"] if comparisons else []
    for head in [*heads, *shares, "p50 ms", *(["p95 ms"] if wide else [])]:
        table.add_column(head, justify="right")
    best = {name: max(run[name] for run in runs) for name in metrics}
    for run, compared in zip(runs, [None, *comparisons] if comparisons else [None] * len(runs), strict=True):
        cells = [_figure(run[name], best[name]) for name in metrics]
        cells += _difference(compared, wide) if comparisons else []
        cells += [_share(read(run)) for read in shares.values()]
        times = [f"{run.latency(percentile):.1f}" for percentile in ((50, 95) if wide else (50,))]
        table.add_row(printable(run.name), *cells, *times)
    return table


def _shares(runs: Sequence[Run]) -> dict[str, Callable[[Run], float | None]]:
    """What a floor gains and what it costs, where there is something to see."""
    gained = any(run.answered_nothing is not None for run in runs)
    shares: dict[str, Callable[[Run], float | None]] = {"nothing": lambda run: run.answered_nothing} if gained else {}
    # In two lines: a terminal of 80 columns has no room for the word.
    return {**shares, "un-\nanswered": lambda run: run.unanswered} if floor_matters(runs) else shares


def _figure(value: float, best: float) -> Text:
    return Text("–" if value != value else f"{value:.3f}", "bold green" if value == best else "")


def _difference(comparison: Comparison | None, wide: bool) -> list[Text]:
    if comparison is None:
        return [Text("–", "dim"), Text("–", "dim")]
    style = "" if not comparison.significant else "green" if comparison.difference > 0 else "red"
    span = f" {comparison.low:+.3f} … {comparison.high:+.3f}" if wide else ""
    chance = "<0.001" if comparison.p < 0.001 else f"{comparison.p:.3f}"
    return [Text.assemble((f"{comparison.difference:+.3f}", style), (span, "dim")), Text(chance)]


def _share(value: float | None) -> Text:
    return Text("–" if value is None else f"{value:.0%}")


def parts(runs: Sequence[Run], name: str, metric: str) -> None:
    """Print one metric by a metadata field of the questions."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, header_style="dim", padding=(0, 1, 0, 0))
    for head in (name, "questions", *(run.name for run in runs)):
        table.add_column(printable(head), justify="left" if head == name else "right")
    split = [run.by(name) for run in runs]
    for value, first in split[0].items():
        figures = [part[value][metric] for part in split]
        cells = [_figure(figure, max(figures)) for figure in figures]
        table.add_row(printable(value) or "–", str(len(first.answers)), *cells)
    out().print(Text.assemble("\n", (f"{label(metric, common_k(runs))} by {printable(name)}", "bold")))
    out().print(table)


def as_json(data: Dataset, runs: Sequence[Run], comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "data": data.name,
        "questions": len(data.questions),
        "documents": len(data.documents),
        "runs": [run.summary() for run in runs],
        "comparisons": [
            {
                "baseline": one.baseline.name,
                "run": one.challenger.name,
                "metric": f"{one.metric}@{one.baseline.k}",
                "difference": round(one.difference, 6),
                "low": round(one.low, 6),
                "high": round(one.high, 6),
                "p": one.p,
                "better": len(one.wins),
                "worse": len(one.losses),
            }
            for one in comparisons
        ],
    }
