"""The figures of the runs as HTML tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from twofold.eval.comparing import Comparison
from twofold.eval.runs import Run, common_k, floor_matters
from twofold.eval.scoring import label


def runs_table(runs: Sequence[Run], comparisons: Sequence[Comparison]) -> str:
    """One row a run: metrics, the difference to the first, what got nothing, latency."""
    metrics = list(runs[0].scores)
    nothing = floor_matters(runs)
    heads = ["run", *(label(metric, common_k(runs)) for metric in metrics)]
    heads += ["difference (95 %)", "p"] if comparisons else []
    heads += ["right nothing", "unanswered"] if nothing else []
    heads += ["p50 ms", "p95 ms"]
    best = {metric: max(run[metric] for run in runs) for metric in metrics}
    rows = [
        [f"<td>{escape(run.name)}</td>"]
        + [_figure(run[metric], best[metric]) for metric in metrics]
        + (_difference(compared) if comparisons else [])
        + ([_cell(_share(run.answered_nothing)), _cell(_share(run.unanswered))] if nothing else [])
        + [_cell(f"{run.latency(50):.1f}"), _cell(f"{run.latency(95):.1f}")]
        for run, compared in zip(runs, [None, *comparisons] if comparisons else [None] * len(runs), strict=True)
    ]
    return table(heads, rows)


def parts_table(runs: Sequence[Run], name: str, metric: str) -> str:
    """One row for each value of a metadata field: one metric of every run."""
    parts = [run.by(name) for run in runs]
    rows = []
    for value, first in parts[0].items():
        figures = [part[value][metric] for part in parts]
        cells = [_figure(figure, max(figures)) for figure in figures]
        rows.append([f"<td>{escape(value) or '–'}</td>", _cell(str(len(first.answers))), *cells])
    return table([name, "questions", *(run.name for run in runs)], rows)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table that scrolls by itself where it is too wide."""
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _figure(value: float, best: float) -> str:
    if math.isnan(value):
        return _cell("–")
    kind = "bar best" if value == best else "bar"
    share = value / max(best, 1.0)  # some metrics count: of those the best fills the cell
    return f'<td class="{kind}" style="--share:{share:.1%}">{value:.3f}</td>'


def _difference(comparison: Comparison | None) -> list[str]:
    if comparison is None:
        return ['<td class="soft">baseline</td>', "<td></td>"]
    kind = "" if not comparison.significant else "good" if comparison.difference > 0 else "bad"
    span = f'<span class="soft"> ({comparison.low:+.3f} to {comparison.high:+.3f})</span>'
    chance = "&lt; 0.001" if comparison.p < 0.001 else f"{comparison.p:.3f}"
    return [f'<td><span class="{kind}">{comparison.difference:+.3f}</span>{span}</td>', _cell(chance)]


def _cell(text: str) -> str:
    return f"<td>{text}</td>"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"
