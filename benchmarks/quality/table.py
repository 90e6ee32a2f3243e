"""The figures as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from rich import box
from rich.table import Table
from rich.text import Text

from benchmarks.quality.sets import ENGLISH, known
from benchmarks.quality.systems import AUTO, LEGS, PEERS
from twofold.eval import Run, compare
from twofold.eval.scoring import METRICS, label

Results = Mapping[str, Mapping[str, Run]]
"""For each set (or part of one) the run of each system."""
_RELATIVE = {"auto/peer": PEERS, "auto/leg": LEGS}
"""Ours over the better of the peers, and over the better of its own legs."""


def by_set(results: Results, inside: Sequence[str], metric: str, k: int) -> Table:
    """One metric, a row a set; the sets that `inside` names make the mean."""
    systems = list(next(iter(results.values())))
    table = _table(f"{label(metric, k)}", ["set", "questions", *systems, *_RELATIVE])
    for name, runs in results.items():
        figures = {system: run[metric] for system, run in runs.items()}
        cells = [_cell(runs.get(AUTO), run, max(figures.values()), metric) for run in runs.values()]
        asked = len(next(iter(runs.values())).answers)
        table.add_row(name, f"{asked:,}", *cells, *(_figure(each) for each in _relative(figures).values()))
    table.add_section()
    table.add_row(f"mean of {len(inside)}", "", *_means(results, inside, metric))
    return table


def by_family(results: Results, inside: Sequence[str], metric: str, k: int) -> Table:
    """Means over the sets of each family, over the English ones and over the others."""
    systems = list(next(iter(results.values())))
    table = _table(f"{label(metric, k)}, means", ["family", "sets", *systems, *_RELATIVE])
    families = dict.fromkeys(known(name).family for name in inside)
    groups = {family: [name for name in inside if known(name).family == family] for family in families}
    english = [name for name in inside if known(name).language == ENGLISH]
    languages = {"English": english, "not English": [name for name in inside if name not in english]}
    for part in (groups, languages):
        for group, names in part.items():
            if names:
                table.add_row(group, str(len(names)), *_means(results, names, metric))
        table.add_section()
    return table


def _means(results: Results, names: Sequence[str], metric: str) -> list[str]:
    """Of each system, and of what `auto` is relative to others in each set."""
    figures = [{system: run[metric] for system, run in results[name].items()} for name in names]
    means = [f"{_mean([row[system] for row in figures]):.3f} " for system in figures[0]]
    relative = [_relative(row) for row in figures]
    known_only = {kind: [value for row in relative if (value := row[kind]) is not None] for kind in _RELATIVE}
    return [*means, *(_figure(_mean(values) if values else None) for values in known_only.values())]


def _relative(figures: Mapping[str, float]) -> dict[str, float | None]:
    """What `auto` is of the better of each kind; None where one of them was not measured."""
    found: dict[str, float | None] = {}
    for kind, others in _RELATIVE.items():
        best = max((figures[other] for other in others), default=0.0) if {AUTO, *others} <= figures.keys() else 0.0
        found[kind] = figures[AUTO] / best if best else None
    return found


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _cell(baseline: Run | None, run: Run, best: float, metric: str) -> Text:
    """With a mark where the difference to `auto` is more than chance."""
    mark = " "
    if baseline is not None and run is not baseline:
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
