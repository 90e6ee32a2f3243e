"""Charts and reports of runs and sweeps.

A chart is drawn by matplotlib: into a file, or as inline SVG for the page, coloured by the page's own style. The report
is one HTML file: no scripts, no links to elsewhere, light and dark.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from twofold.eval.data import Dataset, Question
from twofold.eval.running import Sweep
from twofold.eval.scoring import Answer, Comparison, Found, Run, common_k, compare_to_first, describe, label
from twofold.ranking.fusion import is_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TextOf: TypeAlias = Callable[[str], str | None]
Sides: TypeAlias = tuple[tuple[str, Answer], ...]
"""What each of some runs, by its name, answered to one question."""
_PLOT_SIZE = (8.0, 4.5)
_PAGE_SIZE = (860 / 72, 340 / 72)
"""Width and height of a chart in inches, in a file and on the page."""
_MAX_TICKS = 14
_MAX_LEGEND_LINES = 16
_LEGEND_LETTERS = 24
"""How much of a name fits into a line of the legend."""
_COLOURS = 8
"""How many the page's style has."""
_SHOWN_QUESTIONS = 10
_SHOWN_HITS = 5
_SHOWN_LETTERS = 260


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
    runs, parameters = (result.runs, result.parameters) if isinstance(result, Sweep) else (tuple(result), {})
    varied = [name for name, values in parameters.items() if len(values) > 1]
    x = next((name for name in varied if all(map(is_number, parameters[name]))), None)
    if x is None:
        names = tuple(run.name for run in runs)
        return Chart("", "", tuple(map(float, range(len(runs)))), names, _metrics(runs), joined=False)
    values, others = sorted(parameters[x]), [name for name in varied if name != x]
    in_order = sorted(runs, key=lambda run: _value(run, x))
    series: dict[str, tuple[float, ...]] = {} if others else _metrics(in_order)
    for run in in_order if others else ():
        line = describe({name: _value(run, name) for name in others})
        series[line] = (*series.get(line, ()), run[metric])
    y = label(metric, common_k(runs)) if others else ""
    return Chart(x, y, tuple(map(float, values)), tuple(f"{value:g}" for value in values), series, joined=True)


def _value(run: Run, name: str) -> Any:
    return run.k if name == "k" else run.parameters[name]


def _metrics(runs: Sequence[Run]) -> dict[str, tuple[float, ...]]:
    """One line for each metric; those that agree everywhere (hit rate and recall, with one right answer) share it."""
    lines: dict[tuple[float, ...], list[str]] = {}
    for metric in runs[0].scores:
        lines.setdefault(tuple(run[metric] for run in runs), []).append(label(metric, common_k(runs)))
    return {", ".join(names): values for values, names in lines.items()}


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
    figure = Figure(figsize=size, layout="constrained", dpi=150)
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
    # The names that there is room for, whole: one that is cut doesn't say what its line is.
    names, lines = ["\n".join(textwrap.wrap(name, _LEGEND_LETTERS)) for name in chart.series], list(axes.lines)
    ends = accumulate(name.count("\n") + 1 for name in names)
    del names[max(1, sum(end <= _MAX_LEGEND_LINES for end in ends)) :]
    if hidden := len(lines) - len(names):
        lines[len(names) :] = axes.plot([], [], linestyle="none")
        names.append(f"and {hidden} more")
    legend = axes.legend(lines, names, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    for number, mark in enumerate(filter(None, legend.legend_handles)):
        mark.set_gid(f"key-{number}")
    return figure


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
        colour, line, key = f"c{number % _COLOURS}", f".//g[@id='series-{number}']", f".//g[@id='key-{number}']"
        for path in (*root.iterfind(f"{line}//path"), *root.iterfind(f"{key}//path")):
            path.set("class", f"line {colour}")
        points = root.findall(f"{line}//use")  # matplotlib draws a point by using a shape again
        for point in (*points, *root.iterfind(f"{key}//use")):
            middle = {"cx": point.get("x", ""), "cy": point.get("y", "")}
            point.tag, point.attrib = "circle", {"class": colour, **middle, "r": "4"}
        drawn = [(place, value) for place, value in zip(chart.names, values, strict=True) if math.isfinite(value)]
        for point, (place, value) in zip(points, drawn, strict=True):
            ElementTree.SubElement(point, "title").text = f"{name}, {chart.x} {place}: {value:.4f}"
    root.attrib = {"viewBox": root.get("viewBox", ""), "role": "img"}
    root.set("aria-label", f"{chart.y or 'Metrics'} over {chart.x or 'the runs'}")
    return ElementTree.tostring(root, "unicode")


# Tables of figures, for the page and for a terminal


@dataclass(frozen=True)
class Cell:
    """What stands at one place of a table."""

    text: str
    kind: str = ""
    """ "best", "good", "bad" or "soft", where it is to be told apart."""
    detail: str = ""
    """What stands beside the text where there is room for it."""
    share: float | None = None
    """How much of the cell a bar fills, from 0 to 1."""


Figures: TypeAlias = tuple[list[str], list[list[Cell]]]
"""The heads of a table and its rows."""


def runs_table(runs: Sequence[Run], comparisons: Sequence[Comparison]) -> Figures:
    """One row a run: metrics, the difference to the first, what got nothing, latency."""
    columns = {"run": [Cell(run.name) for run in runs]}
    for metric in runs[0].scores:
        columns[label(metric, common_k(runs))] = _figures([run[metric] for run in runs])
    if comparisons:
        columns["difference (95 %)"] = [Cell("baseline", "soft"), *map(_difference, comparisons)]
        chances = ["<0.001" if one.p < 0.001 else f"{one.p:.3f}" for one in comparisons]
        columns["p"] = [Cell("", "soft"), *map(Cell, chances)]
    # What a floor gains and what it costs, where there is something to see.
    gained = any(run.answered_nothing is not None for run in runs)
    if gained:
        columns["right nothing"] = [_share(run.answered_nothing) for run in runs]
    if gained or any(run.unanswered for run in runs):
        columns["unanswered"] = [_share(run.unanswered) for run in runs]
    for percentile in (50, 95):
        columns[f"p{percentile} ms"] = [Cell(f"{run.latency(percentile):.1f}") for run in runs]
    return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]


def parts_table(runs: Sequence[Run], name: str, metric: str) -> Figures:
    """One row for each value of a metadata field of the questions: one metric of every run."""
    parts = [run.by(name) for run in runs]
    rows = [
        [Cell(value or "–"), Cell(str(len(first.answers))), *_figures([part[value][metric] for part in parts])]
        for value, first in parts[0].items()
    ]
    return [name, "questions", *(run.name for run in runs)], rows


def _figures(values: Sequence[float]) -> list[Cell]:
    """Figures to be compared with each other. Some metrics count: of those the best fills the cell."""
    best = max(values)
    cells = [Cell(f"{value:.3f}", "best" if value == best else "", share=value / max(best, 1.0)) for value in values]
    return [Cell("–") if math.isnan(value) else cell for value, cell in zip(values, cells, strict=True)]


def _share(value: float | None) -> Cell:
    return Cell("–" if value is None else f"{value:.0%}")


def _difference(comparison: Comparison) -> Cell:
    kind = "" if not comparison.significant else "good" if comparison.difference > 0 else "bad"
    return Cell(f"{comparison.difference:+.3f}", kind, f"{comparison.low:+.3f} to {comparison.high:+.3f}")


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
    best = max(runs, key=lambda run: -1.0 if math.isnan(run[metric]) else run[metric])
    known = {document.id: document.text for document in data.documents}

    def text(identity: str) -> str | None:
        return known.get(identity) or (text_of(identity) if text_of else None)

    facts = [f"{len(data.questions):,} questions", *([f"{len(data.documents):,} documents"] if data.documents else [])]
    facts.append(datetime.now(timezone.utc).strftime("%Y-%m-%d"))
    figures = [(f"{value:.3f}", label(name, best.k)) for name, value in best.metrics.items()]
    figures.append((f"{best.latency():.1f} ms", "median time a question"))
    sections = _sections(runs, best, chart_of(result, metric), metric, by, text)
    page = Template(files("twofold.eval").joinpath("report.html").read_text("utf-8")).substitute(
        name=escape(data.name),
        facts=" · ".join(facts),
        metric=label(metric),
        best=escape(best.name),
        cards="".join(f'<div class="card"><b>{figure}</b><span>{name}</span></div>' for figure, name in figures),
        sections="\n".join(f"<h2>{escape(title)}</h2>{content}" for title, content in sections),
    )
    try:
        Path(path).write_text(page, "utf-8")
    except OSError as error:
        raise EvaluationError(f"the report can't be written to {path}: {error.strerror}") from error
    return Path(path)


def _sections(
    runs: Sequence[Run], best: Run, chart: Chart, metric: str, by: str | None, text_of: TextOf
) -> Iterator[tuple[str, str]]:
    """Titles and contents: the figures, then single questions that got better or worse, or that nobody answered."""
    comparisons = compare_to_first(runs, metric)
    reasons = [(run.name, reason) for run in runs for reason in run.degraded]
    notes = "".join(f'<p class="bad">{escape(name)}: {escape(reason)}</p>' for name, reason in reasons)
    yield "Runs", _table(*runs_table(runs, comparisons)) + notes
    if len(chart.places) > 1:
        title = f"{chart.y or 'Metrics'} over {chart.x}" if chart.x else "Side by side"
        yield title, f"<figure>{_inline_svg(chart)}</figure>"
    if by is not None:
        yield f"{label(metric, common_k(runs))} by {by}", _table(*parts_table(runs, by, metric))
    if comparisons:
        # The best run against the baseline; where the baseline is the best, the next best against it.
        chosen = max(comparisons, key=lambda one: one.difference)
        before, after = chosen.baseline.name, chosen.challenger.name
        content = ""
        for title, changes in (("Better", chosen.wins), ("Worse", chosen.losses)):
            sides = [(((before, change.before), (after, change.after)), change.difference) for change in changes]
            content += f"<h3>{title}{f' ({len(changes)})' if changes else ''}</h3>{_listed(sides, text_of)}"
        yield f"{after} against {before}, question by question", content
    missed = [answer for answer, score in zip(best.answers, best.scores[metric], strict=True) if score == 0]
    yield f"Not found by {best.name}", _listed([((("found", answer),), None) for answer in missed], text_of)
    if best.answered_nothing is not None:
        wrong = [answer for answer in best.answers if answer.question.expects_nothing and answer.found]
        title = f"Answered by {best.name} where nothing is right"
        yield title, _listed([((("found", answer),), None) for answer in wrong], text_of)


def _table(heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """A table that scrolls by itself where it is too wide."""
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join(f"<tr>{''.join(map(_cell, cells))}</tr>" for cells in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(cell: Cell) -> str:
    kind = f' class="{cell.kind}"' if cell.kind else ""
    bar = "" if cell.share is None else f' style="--share:{cell.share:.1%}"'
    detail = f'<span class="soft"> ({cell.detail})</span>' if cell.detail else ""
    return f"<td{kind}{bar}>{escape(cell.text)}{detail}</td>"


def _listed(entries: Sequence[tuple[Sides, float | None]], text_of: TextOf) -> str:
    """Questions, each with what was found by whom; the first one is open where a difference is shown."""
    if not entries:
        return '<p class="soft">None.</p>'
    more = len(entries) - _SHOWN_QUESTIONS
    shown = [_details(*entry, text_of, opened=not place) for place, entry in enumerate(entries[:_SHOWN_QUESTIONS])]
    return "".join(shown) + (f'<p class="soft">and {more} more</p>' if more > 0 else "")


def _details(sides: Sides, difference: float | None, text_of: TextOf, *, opened: bool) -> str:
    """One question: the hits of each side, and the right answers that are not among them."""
    question = sides[0][1].question
    columns = ""
    for name, answer in sides:
        hits = _hits(answer.found, question, text_of) or '<p class="soft">nothing</p>'
        columns += f"<div><h4>{escape(name)}</h4>{hits}</div>"
    seen = {identity for _, answer in sides for identity in answer.ids[:_SHOWN_HITS]}
    unseen = _hits([Found(identity) for identity in question.relevant if identity not in seen], question, text_of)
    expected = f'<div class="expected"><h4>right answers not shown above</h4>{unseen}</div>' if unseen else ""
    kind = "good" if (difference or 0) > 0 else "bad"
    change = "" if difference is None else f'<span class="change {kind}">{difference:+.2f}</span>'
    return (
        f"<details{' open' if opened and change else ''}>"
        f"<summary><span>{escape(question.text)}</span>{change}</summary>"
        f'<div class="{"sides" if len(sides) > 1 else "expected"}">{columns}</div>{expected}</details>'
    )


def _hits(hits: Sequence[Found], question: Question, text_of: TextOf) -> str:
    items = []
    for hit in hits[:_SHOWN_HITS]:
        text = " ".join((hit.text or text_of(hit.id) or "").split())
        short = text if len(text) <= _SHOWN_LETTERS else f"{text[:_SHOWN_LETTERS].rsplit(' ', 1)[0]} …"
        kind = "right" if hit.id in question.relevant else ""
        items.append(f'<li class="{kind}">{escape(short)} <span class="id">{escape(hit.id)}</span></li>')
    return f"<ol>{''.join(items)}</ol>" if items else ""
