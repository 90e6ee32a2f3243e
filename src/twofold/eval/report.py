"""Charts and reports of runs and sweeps.

A chart is drawn by matplotlib: into a file, or as inline SVG for the page, coloured by the page's own style. The report
is one HTML file: no scripts, no links to elsewhere, light and dark.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from html import escape
from importlib.resources import files
from itertools import accumulate
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, TypeAlias
from xml.etree import ElementTree

from twofold.errors import EvaluationError
from twofold.eval.data import Dataset
from twofold.eval.running import Sweep
from twofold.eval.scoring import (
    Answer,
    Change,
    Comparison,
    Found,
    Run,
    common_k,
    compare_to_first,
    describe,
    floor_matters,
    label,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TextOf: TypeAlias = Callable[[str], str | None]
_POINTS_PER_INCH = 72
_PLOT_SIZE = (576.0, 324.0)
_PAGE_SIZE = (860.0, 340.0)
"""Width and height of a chart in points, in a file and on the page."""
_MAX_TICKS = 14
_MAX_LEGEND_LINES = 16
_LEGEND_LETTERS = 24
"""How much of a name fits into a line of the legend."""
_COLOURS = 8
"""How many the page's style has."""
_SHOWN_QUESTIONS = 10
_SHOWN_HITS = 5
_SHOWN_LETTERS = 260
_NONE = '<p class="soft">None.</p>'


# Charts


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
    figure = _draw(chart_of(result, metric), _PLOT_SIZE)
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise EvaluationError(f"the plot can't be written to {path}: {error}") from error
    return Path(path)


def _draw(chart: Chart, size: tuple[float, float]) -> Figure:
    """The chart; its lines have the ids series-0, series-1 …, and their marks in the legend key-0, key-1 …."""
    try:
        from matplotlib.figure import Figure  # without pyplot: no window, no global state
    except ImportError as error:
        raise EvaluationError("plots need matplotlib: pip install 'twofold[eval]'") from error
    width, height = (length / _POINTS_PER_INCH for length in size)
    figure = Figure(figsize=(width, height), layout="constrained", dpi=150)
    axes = figure.add_subplot()
    for number, values in enumerate(chart.series.values()):
        axes.plot(chart.places, values, "o-" if chart.joined else "o", markersize=5, gid=f"series-{number}")
    axes.set(xlabel=chart.x, ylabel=chart.y)
    every = math.ceil(len(chart.places) / _MAX_TICKS)
    turned: dict[str, Any] = {} if chart.joined else {"rotation": 20, "ha": "right"}
    axes.set_xticks(chart.places[::every], chart.names[::every], **turned)
    axes.tick_params(length=0)
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    names, lines = _legend_names(chart), list(axes.lines)
    if hidden := len(lines) - len(names):
        lines[len(names) :] = axes.plot([], [], linestyle="none")
        names.append(f"and {hidden} more")
    legend = axes.legend(lines, names, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    for number, mark in enumerate(filter(None, legend.legend_handles)):
        mark.set_gid(f"key-{number}")
    return figure


def _legend_names(chart: Chart) -> list[str]:
    """The names that there is room for, whole: one that is cut doesn't say what its line is."""
    names = ["\n".join(textwrap.wrap(name, _LEGEND_LETTERS)) for name in chart.series]
    ends = accumulate(name.count("\n") + 1 for name in names)
    return names[: max(1, sum(end <= _MAX_LEGEND_LINES for end in ends))]


def _inline_svg(chart: Chart) -> str:
    """The chart for the page: its style has the colours, and each point has its exact value as a tooltip."""
    import matplotlib

    stream = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "font.size": 11, "font.sans-serif": ["DejaVu Sans"]}):
        _draw(chart, _PAGE_SIZE).savefig(stream, format="svg", transparent=True)
    root = ElementTree.fromstring(stream.getvalue())  # noqa: S314  # our own
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.attrib.pop("clip-path", None)
    # Only what the page's style can colour stays: no fonts, no frames without an edge, no references by URL.
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in ("metadata", "defs") or (child.tag == "path" and "stroke:" not in child.get("style", "")):
                parent.remove(child)
            elif child.tag == "path":
                child.attrib = {"class": "grid", "d": child.get("d", "")}
    for number, (name, values) in enumerate(chart.series.items()):
        points = [(place, value) for place, value in zip(chart.names, values, strict=True) if math.isfinite(value)]
        tooltips = [f"{name}, {chart.x} {place}: {value:.4f}" for place, value in points]
        _colour(root, f"series-{number}", number, tooltips)
        _colour(root, f"key-{number}", number, [])
    root.attrib = {"viewBox": root.get("viewBox", ""), "role": "img"}
    root.set("aria-label", f"{chart.y or 'Metrics'} over {chart.x or 'the runs'}")
    return ElementTree.tostring(root, "unicode")


def _colour(root: ElementTree.Element, identity: str, number: int, tooltips: Sequence[str]) -> None:
    """Give a line and its points the colour of the page's style. matplotlib draws a point by using a shape again."""
    group = root.find(f".//g[@id='{identity}']")
    if group is None:
        return
    for path in group.iter("path"):
        path.set("class", f"line c{number % _COLOURS}")
    for position, point in enumerate(list(group.iter("use"))):
        place = {"cx": point.get("x", ""), "cy": point.get("y", "")}
        point.tag, point.attrib = "circle", {"class": f"c{number % _COLOURS}", **place, "r": "4"}
        if tooltips:
            ElementTree.SubElement(point, "title").text = tooltips[position]


# The page: its sections, in order


def write_report(
    path: str | Path,
    data: Dataset,
    result: Sweep | Sequence[Run],
    *,
    baseline: Run | None = None,
    metric: str = "ndcg",
    by: str | None = None,
    text_of: TextOf | None = None,
) -> Path:
    """Write a report on runs or a sweep: figures, a chart, and the questions that made the difference.

    Args:
        path: The .html file.
        data: What was asked.
        result: Runs over these questions, or a sweep.
        baseline: What the others are compared with; by default the first run.
        metric: What they are compared by.
        by: A metadata field of the questions, to split the figures by.
        text_of: Gives the text of a document by id, where neither the data nor the hits have it.
    """
    runs = list(result.runs if isinstance(result, Sweep) else result)
    if baseline is not None and baseline not in runs:
        runs.insert(0, baseline)
    page = _Page(data, runs, metric, by, _texts(data, text_of))
    try:
        Path(path).write_text(page.html(chart_of(result, metric)), "utf-8")
    except OSError as error:
        raise EvaluationError(f"the report can't be written to {path}: {error.strerror}") from error
    return Path(path)


def _texts(data: Dataset, text_of: TextOf | None) -> TextOf:
    known = {document.id: document.text for document in data.documents}
    return lambda identity: known.get(identity) or (text_of(identity) if text_of else None)


class _Page:
    """All that a report says about some runs; the first is the baseline."""

    def __init__(self, data: Dataset, runs: Sequence[Run], metric: str, by: str | None, text_of: TextOf) -> None:
        self._data, self._runs, self._metric, self._by, self._text_of = data, runs, metric, by, text_of
        self._comparisons = compare_to_first(runs, metric)
        self._best = max(runs, key=lambda run: -1.0 if math.isnan(run[metric]) else run[metric])

    def html(self, chart: Chart) -> str:
        """The whole file."""
        sections = [self._head(), self._cards(), self._table(), self._chart(chart), self._parts()]
        sections += [self._differences(), self._missed(), self._wrongly_answered()]
        template = Template(files("twofold.eval").joinpath("report.html").read_text("utf-8"))
        return template.substitute(name=escape(self._data.name), sections="\n".join(filter(None, sections)))

    def _head(self) -> str:
        facts = [f"{len(self._data.questions):,} questions"]
        facts += [f"{len(self._data.documents):,} documents"] if self._data.documents else []
        facts.append(datetime.now(timezone.utc).strftime("%Y-%m-%d"))
        return f'<h1>{escape(self._data.name)}</h1><p class="soft">{" · ".join(facts)}</p>'

    def _cards(self) -> str:
        best = self._best
        figures = [(f"{value:.3f}", label(metric, best.k)) for metric, value in best.metrics.items()]
        figures.append((f"{best.latency():.1f} ms", "median time a question"))
        cards = "".join(f'<div class="card"><b>{figure}</b><span>{name}</span></div>' for figure, name in figures)
        return f'<p>Best by {label(self._metric)}: <b>{escape(best.name)}</b></p><div class="cards">{cards}</div>'

    def _table(self) -> str:
        reasons = [(run.name, reason) for run in self._runs for reason in run.degraded]
        notes = "".join(f'<p class="bad">{escape(name)}: {escape(reason)}</p>' for name, reason in reasons)
        return f"<h2>Runs</h2>{_runs_table(self._runs, self._comparisons)}{notes}"

    def _chart(self, chart: Chart) -> str:
        if len(chart.places) < 2:
            return ""
        title = f"{chart.y or 'Metrics'} over {chart.x}" if chart.x else "Side by side"
        return f"<h2>{escape(title)}</h2><figure>{_inline_svg(chart)}</figure>"

    def _parts(self) -> str:
        if self._by is None:
            return ""
        title = f"{label(self._metric, common_k(self._runs))} by {self._by}"
        return f"<h2>{escape(title)}</h2>{_parts_table(self._runs, self._by, self._metric)}"

    def _differences(self) -> str:
        """The best run against the baseline; where the baseline is the best, the next best against it."""
        chosen = max(self._comparisons, key=lambda one: one.difference, default=None)
        if chosen is None:
            return ""
        wins = _changes("Better", chosen.wins, chosen, self._text_of)
        losses = _changes("Worse", chosen.losses, chosen, self._text_of)
        title = f"{chosen.challenger.name} against {chosen.baseline.name}, question by question"
        return f"<h2>{escape(title)}</h2>{wins}{losses}"

    def _missed(self) -> str:
        """The questions where the best run found nothing right."""
        scores = zip(self._best.answers, self._best.scores[self._metric], strict=True)
        missed = [answer for answer, score in scores if score == 0]
        return f"<h2>Not found by {escape(self._best.name)}</h2>{_listed(missed, self._text_of)}"

    def _wrongly_answered(self) -> str:
        """The questions whose right answer is nothing, and which got hits."""
        if self._best.answered_nothing is None:
            return ""
        wrong = [answer for answer in self._best.answers if answer.question.expects_nothing and answer.found]
        title = f"Answered by {self._best.name} where nothing is right"
        return f"<h2>{escape(title)}</h2>{_listed(wrong, self._text_of)}"


# Tables of figures


def _runs_table(runs: Sequence[Run], comparisons: Sequence[Comparison]) -> str:
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
    return _table(heads, rows)


def _parts_table(runs: Sequence[Run], name: str, metric: str) -> str:
    """One row for each value of a metadata field: one metric of every run."""
    parts = [run.by(name) for run in runs]
    rows = []
    for value, first in parts[0].items():
        figures = [part[value][metric] for part in parts]
        cells = [_figure(figure, max(figures)) for figure in figures]
        rows.append([f"<td>{escape(value) or '–'}</td>", _cell(str(len(first.answers))), *cells])
    return _table([name, "questions", *(run.name for run in runs)], rows)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
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


# Single questions: what got better, what got worse, what nobody found


def _changes(title: str, changes: Sequence[Change], comparison: Comparison, text_of: TextOf) -> str:
    """Questions with the hits of both runs side by side, the first one open."""
    if not changes:
        return f"<h3>{escape(title)}</h3>{_NONE}"
    names = (comparison.baseline.name, comparison.challenger.name)
    items = [_change(change, names, text_of, opened=i == 0) for i, change in enumerate(changes[:_SHOWN_QUESTIONS])]
    return f"<h3>{escape(title)} ({len(changes)})</h3>{''.join(items)}{_more(len(changes))}"


def _change(change: Change, names: tuple[str, str], text_of: TextOf, *, opened: bool) -> str:
    kind = "good" if change.difference > 0 else "bad"
    sides = "".join(
        f"<div><h4>{escape(name)}</h4>{_hits(answer, text_of)}</div>"
        for name, answer in zip(names, (change.before, change.after), strict=True)
    )
    seen = change.before.ids[:_SHOWN_HITS] + change.after.ids[:_SHOWN_HITS]
    unseen = [identity for identity in change.question.relevant if identity not in seen]
    return (
        f"<details{' open' if opened else ''}><summary><span>{escape(change.question.text)}</span>"
        f'<span class="change {kind}">{change.difference:+.2f}</span></summary>'
        f'<div class="sides">{sides}</div>{_expected(unseen, text_of)}</details>'
    )


def _listed(answers: Sequence[Answer], text_of: TextOf) -> str:
    """Questions with what was found, and the right answers that are not among it."""
    if not answers:
        return _NONE
    items = [
        f"<details><summary><span>{escape(answer.question.text)}</span></summary>"
        f'<div class="expected"><h4>found</h4>{_hits(answer, text_of)}</div>'
        f"{_expected(answer.question.relevant, text_of)}</details>"
        for answer in answers[:_SHOWN_QUESTIONS]
    ]
    return "".join(items) + _more(len(answers))


def _expected(ids: Iterable[str], text_of: TextOf) -> str:
    items = "".join(_item(Found(identity), text_of, right=True) for identity in list(ids)[:_SHOWN_HITS])
    return f'<div class="expected"><h4>right answers not shown above</h4><ol>{items}</ol></div>' if items else ""


def _hits(answer: Answer, text_of: TextOf) -> str:
    right = answer.question.relevant
    items = "".join(_item(hit, text_of, right=hit.id in right) for hit in answer.found[:_SHOWN_HITS])
    return f"<ol>{items}</ol>" if items else '<p class="soft">nothing</p>'


def _item(hit: Found, text_of: TextOf, *, right: bool) -> str:
    text = " ".join((hit.text or text_of(hit.id) or "").split())
    short = text if len(text) <= _SHOWN_LETTERS else f"{text[:_SHOWN_LETTERS].rsplit(' ', 1)[0]} …"
    return f'<li class="{"right" if right else ""}">{escape(short)} <span class="id">{escape(hit.id)}</span></li>'


def _more(count: int) -> str:
    return f'<p class="soft">and {count - _SHOWN_QUESTIONS} more</p>' if count > _SHOWN_QUESTIONS else ""
