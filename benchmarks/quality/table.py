"""The figures as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from rich import box
from rich.table import Table
from rich.text import Text

from benchmarks.quality.sets import known
from twofold.eval import Run, compare
from twofold.eval.scoring import METRICS, label

PEERS = ("langchain", "langchain+idf", "llama-index")
Results = Mapping[str, Mapping[str, Run]]
"""For each set (or part of one) the run of each system."""


def by_set(results: Results, inside: Sequence[str], metric: str, k: int) -> Table:
    """One metric, a row a set; the sets that `inside` names make the mean."""
    systems = list(next(iter(results.values())))
    table = _table(f"{label(metric, k)}", ["set", "questions", *systems])
    for name, runs in results.items():
        first = next(iter(runs.values()))
        cells = [_cell(first, run, max(r[metric] for r in runs.values()), metric) for run in runs.values()]
        table.add_row(name, f"{len(first.answers):,}", *cells)
    means = {system: _mean([results[name][system][metric] for name in inside]) for system in systems}
    table.add_section()
    best = max(means.values())
    shown = [Text(f"{mean:.3f} ", "bold green" if mean == best else "") for mean in means.values()]
    table.add_row(f"mean of {len(inside)}", "", *shown)
    return table


def _cell(baseline: Run, run: Run, best: float, metric: str) -> Text:
    """With a mark where the difference to the first system is more than chance."""
    mark = " "
    if run is not baseline:
        compared = compare(baseline, run, metric)
        mark = ("▲" if compared.difference > 0 else "▼") if compared.significant else " "
    return Text.assemble((f"{run[metric]:.3f}", "bold green" if run[metric] == best else ""), (mark, "dim"))


def by_system(results: Results, inside: Sequence[str], k: int) -> Table:
    """All metrics, a row a system, as means over the sets."""
    heads = ["system", *(label(metric, k) for metric in METRICS), "p50 ms", "p95 ms"]
    table = _table(f"Means over {len(inside)} sets; times without embedding", heads)
    for system in next(iter(results.values())):
        runs = [results[name][system] for name in inside]
        figures = [f"{_mean([run[metric] for run in runs]):.3f}" for metric in METRICS]
        times = [f"{_mean([run.latency(p) for run in runs]):.1f}" for p in (50, 95)]
        table.add_row(system, *figures, *times)
    return table


def against_peers(results: Results, inside: Sequence[str]) -> list[str]:
    """Ours over the better of the peers, by set and on the mean."""
    if not {"auto", *PEERS} <= set(next(iter(results.values()))):
        return []
    figures = {name: {system: run["ndcg"] for system, run in results[name].items()} for name in inside}
    systems = ("auto", *PEERS)
    figures["the mean"] = {system: _mean([row[system] for row in figures.values()]) for system in systems}
    shown = [f"{name} {row['auto'] / max(row[peer] for peer in PEERS):.3f}" for name, row in figures.items()]
    return [f"nDCG, auto / the better peer: {', '.join(shown)}"]


def published(results: Results) -> list[str]:
    """What the literature reports, beside what was measured."""
    return [
        f"{name}, {system}: nDCG@10 {runs[system]['ndcg']:.3f}, published {figure:.3f} on the test questions "
        f"(difference {runs[system]['ndcg'] - figure:+.3f})"
        for name, runs in results.items()
        for system, figure in (known(name).published or {}).items()
        if system in runs and runs[system].k == 10
    ]


def _table(title: str, heads: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for place, head in enumerate(heads):
        table.add_column(head, justify="right" if place else "left", no_wrap=not place)
    return table


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))
