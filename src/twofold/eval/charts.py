"""What a chart shows, apart from how it is drawn; and drawing it with matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twofold.eval.errors import EvaluationError
from twofold.eval.naming import describe
from twofold.eval.running import Sweep
from twofold.eval.runs import Run, common_k
from twofold.eval.scoring import label


@dataclass(frozen=True)
class Chart:
    """Values over a parameter, or over names. Values over numbers are joined by lines."""

    x: str
    y: str
    places: tuple[float, ...]
    names: tuple[str, ...]
    """What is written below each place."""
    series: Mapping[str, tuple[float, ...]]
    joined: bool


def chart_of(result: Sweep | Sequence[Run], metric: str = "ndcg") -> Chart:
    """Every metric over the runs or the one parameter; with several parameters, one metric and a line for the rest."""
    if isinstance(result, Sweep):
        wide = [name for name, values in result.parameters.items() if len(values) > 1]
        numeric = [name for name in wide if all(_is_number(value) for value in result.parameters[name])]
        if numeric:
            return _over(result, numeric[0], metric, alone=len(wide) == 1)
    runs = result.runs if isinstance(result, Sweep) else tuple(result)
    names = tuple(run.name for run in runs)
    return Chart("", "", tuple(map(float, range(len(names)))), names, _metrics(runs), joined=False)


def _over(sweep: Sweep, name: str, metric: str, *, alone: bool) -> Chart:
    values = tuple(sorted(set(sweep.parameters[name])))
    k = common_k(sweep.runs)
    if alone:
        in_order = [run for _, run in sorted(zip(sweep.parameters[name], sweep.runs, strict=True), key=lambda p: p[0])]
        series = _metrics(in_order)
    else:
        series = _lines(sweep, name, values, metric)
    ticks = tuple(f"{value:g}" for value in values)
    return Chart(name, "" if alone else label(metric, k), tuple(map(float, values)), ticks, series, joined=True)


def _lines(sweep: Sweep, name: str, values: tuple[Any, ...], metric: str) -> dict[str, tuple[float, ...]]:
    """One line for each combination of the other parameters."""
    lines: dict[str, dict[Any, float]] = {}
    for run in sweep.runs:
        own = {other: _value(run, other) for other in sweep.parameters}
        x = own.pop(name)
        rest = {other: value for other, value in own.items() if len(sweep.parameters[other]) > 1}
        lines.setdefault(describe(rest), {})[x] = run[metric]
    return {line: tuple(points[value] for value in values) for line, points in lines.items()}


def _value(run: Run, name: str) -> Any:
    return run.k if name == "k" else run.parameters[name]


def _metrics(runs: Sequence[Run]) -> dict[str, tuple[float, ...]]:
    """One line for each metric; those that agree everywhere (hit rate and recall, with one right answer) share it."""
    lines: dict[tuple[float, ...], list[str]] = {}
    for metric in runs[0].scores:
        lines.setdefault(tuple(run[metric] for run in runs), []).append(label(metric, common_k(runs)))
    return {", ".join(names): values for values, names in lines.items()}


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def plot(result: Sweep | Sequence[Run], path: str | Path, metric: str = "ndcg") -> Path:
    """Draw a sweep or several runs into a file: .png, .svg, .pdf."""
    try:
        from matplotlib.figure import Figure  # without pyplot: no window, no global state
    except ImportError as error:
        raise EvaluationError("plots need matplotlib: pip install 'twofold[eval]'") from error
    chart = chart_of(result, metric)
    figure = Figure(figsize=(8, 4.5), layout="constrained", dpi=150)
    axes = figure.add_subplot()
    for name, values in chart.series.items():
        axes.plot(chart.places, values, "o-" if chart.joined else "o", label=name, markersize=5)
    axes.set(xlabel=chart.x, ylabel=chart.y)
    axes.set_xticks(
        chart.places, chart.names, rotation=0 if chart.joined else 20, ha="center" if chart.joined else "right"
    )
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise EvaluationError(f"the plot can't be written to {path}: {error}") from error
    return Path(path)
