"""`twofold eval` and `twofold sweep`: how good are the answers, and with which settings are they best?

Read the questions, check every parameter, open what is asked, run, write the files, show the figures.
"""

from __future__ import annotations

import inspect
import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from twofold.cli.console import OnProgress, complain, err, out, print_json, printable, progress_bar, unrepeated
from twofold.cli.target import DEFAULT_COLLECTION, DEFAULT_LOCATION, ApiKey, AsJson, Collection, Model, Target
from twofold.errors import EvaluationError
from twofold.ranking.fusion import Strategy, resolve

if TYPE_CHECKING:
    from twofold.eval import Comparison, Dataset, Run, Sweep
    from twofold.eval.report import Cell

_DEFAULT_RUNS = ("dense", "bm25", "auto")
_DEFAULT_SWEEP = ("alpha=0.3:1:0.1",)
_SHORT_RUNS: dict[str, dict[str, Any]] = {"dense": {"alpha": 1.0}, "bm25": {"alpha": 0.0}, "default": {}}
_FUSIONS = ("auto", "rrf", "dbsf", "weighted", "average")
_NOT_SETTINGS = ("self", "query", "vector", "offset", "filter", "explain")
_MAX_VALUES = 1000
_WIDE_COLUMNS = 100
"""Columns of a terminal that shows everything; a narrower one gets no interval and no p95."""
_STYLES = {"best": "bold green", "good": "green", "bad": "red", "soft": "dim"}
_CALL = re.compile(r"(\w+)\((.*)\)")
_SEPARATOR = re.compile(r"[,\s]+(?![^(]*\))")
"""What separates words, except in parentheses."""

Data: TypeAlias = Annotated[str, typer.Argument(metavar="DATA", help="A folder, or a .jsonl or .csv file.")]
EvalLocation: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--location", "-l", help="The index to ask. Default: the documents of DATA, in memory; if it has none, ./index."
    ),
]
User: TypeAlias = Annotated[
    str | None,
    typer.Option("--user", "-u", help="Ask this user's memory at the location, or DATA's documents as memories."),
]
Limit: TypeAlias = Annotated[int, typer.Option("-k", "--limit", min=1, help="How many hits count.")]
Metric: TypeAlias = Annotated[str, typer.Option("--metric", help="What runs are compared by.")]
By: TypeAlias = Annotated[str | None, typer.Option("--by", help="Split the figures by this field of the questions.")]
Same: TypeAlias = Annotated[
    str | None, typer.Option("--same", help="Search only documents whose metadata field has the question's own value.")
]
QrelsSplit: TypeAlias = Annotated[str | None, typer.Option("--split", help="Which of qrels/*.tsv. Default: test.")]
Sample: TypeAlias = Annotated[
    int | None, typer.Option("--sample", min=1, help="Ask this many of the questions, spread evenly.")
]
Html: TypeAlias = Annotated[Path | None, typer.Option("--html", help="Write a report to this file.")]
Plot: TypeAlias = Annotated[Path | None, typer.Option("--plot", help="Draw a chart: .png, .svg or .pdf.")]
DataLanguage: TypeAlias = Annotated[
    str | None, typer.Option("--language", help="Language of the documents of DATA. Default: english.")
]


def evaluate(
    data: Data,
    location: EvalLocation = None,
    user: User = None,
    collection: Collection = DEFAULT_COLLECTION,
    runs: Annotated[
        list[str] | None,
        typer.Option("--run", help="A run: dense, bm25, a fusion, or NAME=VALUE …; the first is the baseline."),
    ] = None,
    k: Limit = 10,
    metric: Metric = "ndcg",
    by: By = None,
    same: Same = None,
    split: QrelsSplit = None,
    sample: Sample = None,
    html: Html = None,
    plot: Plot = None,
    as_json: AsJson = False,
    language: DataLanguage = None,
    model: Model = None,
    api_key: ApiKey = None,
) -> None:
    """Measure how good the answers are: hit rate, MRR, nDCG, recall, latency.

    DATA is a folder with corpus.jsonl, queries.jsonl and qrels.tsv, or a .jsonl or .csv file with query and expected.
    """
    settings = {name: parse_run(name) for name in runs or _DEFAULT_RUNS}
    target = Target(_location(location), collection, api_key, model=model, language=language)
    subject = _Subject(_load(data, same, split, sample), target, user, documents_only=location is None)
    for parameters in settings.values():
        subject.check({name: [value] for name, value in parameters.items()})
    from twofold.eval import evaluate, scoring

    with progress_bar() as begin, subject.open(begin("storing", None)) as retriever:
        progress = begin("asking", None)
        with unrepeated():
            done = [
                evaluate(
                    retriever,
                    subject.data,
                    k=parameters.pop("k", k),
                    name=name,
                    metrics=_metrics(metric),
                    parameters=parameters,
                    warm_up=1 if place else len(subject.data.questions),  # the others find its query vectors cached
                    progress=progress,
                )
                for place, (name, parameters) in enumerate(settings.items())
            ]
        _write_files(html, plot, done, subject, retriever, metric, by)
    comparisons = scoring.compare_to_first(done, metric)
    if as_json:
        print_json(_as_json(subject.data, done, comparisons))
    else:
        _show(subject.data, done, comparisons, metric, by)
    _say_written(html, plot)


def sweep(
    data: Data,
    parameters: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=VALUES]...", help="What to vary: alpha=0.3:1:0.1 fusion=auto,rrf depth=50,200 k1=0.9,1.2 …"
        ),
    ] = None,
    location: EvalLocation = None,
    user: User = None,
    collection: Collection = DEFAULT_COLLECTION,
    fixed: Annotated[
        list[str] | None, typer.Option("--with", help="What is the same in all runs, as fusion=weighted.")
    ] = None,
    k: Limit = 10,
    metric: Metric = "ndcg",
    by: By = None,
    same: Same = None,
    split: QrelsSplit = None,
    sample: Sample = None,
    html: Html = None,
    plot: Plot = None,
    as_json: AsJson = False,
    language: DataLanguage = None,
    model: Model = None,
    api_key: ApiKey = None,
) -> None:
    """Find the settings that answer best: every combination of the given values. By default, alpha from 0.3 to 1."""
    grid, shared = parse_grid(parameters or _DEFAULT_SWEEP), parse_run(" ".join(fixed or ()))
    target = Target(_location(location), collection, api_key, model=model, language=language)
    subject = _Subject(_load(data, same, split, sample), target, user, documents_only=location is None)
    subject.check({**{name: [value] for name, value in shared.items()}, **grid})
    from twofold.eval import evaluate, scoring, sweep

    asked: dict[str, Any] = {"k": k, "metrics": _metrics(metric), "parameters": shared}
    with progress_bar() as begin, subject.open(begin("storing", None)) as retriever:
        progress = begin("asking", None)
        with unrepeated():
            swept = sweep(retriever, subject.data, grid, progress=progress, **asked)
            # What is searched with when nothing is said: after the sweep, so that it finds the same warm cache.
            baseline = None if "k" in grid else evaluate(retriever, subject.data, name="default", **asked)
        _write_files(html, plot, swept, subject, retriever, metric, by, baseline)
    runs = [*([baseline] if baseline else []), *swept.runs]
    comparisons = scoring.compare_to_first(runs, metric) if baseline else []
    best = swept.best(metric).name
    if as_json:
        print_json({**_as_json(subject.data, runs, comparisons), "best": best})
    else:
        _show(subject.data, runs, comparisons, metric, None)
        out().print(f"\nbest by {metric}: {best}", style="bold", soft_wrap=True)
    _say_written(html, plot)


def _location(option: str | None) -> str:
    # Not an envvar of the option: an index that is usually searched must not replace the documents of the data.
    return option or os.environ.get("TWOFOLD_LOCATION") or DEFAULT_LOCATION


def _load(path: str, same: str | None, split: str | None, sample: int | None) -> Dataset:
    from twofold.eval import load

    data = load(path, same=same, split=split)
    return data if sample is None else data.sample(sample)


def _metrics(metric: str) -> tuple[str, ...]:
    """The usual ones, and the one that runs are compared by."""
    from twofold.eval.scoring import METRICS

    return tuple(dict.fromkeys((*METRICS, metric)))


# What is asked


@dataclass(frozen=True)
class _Subject:
    """The questions, and what they are put to: what is at a location, or the documents that came with them."""

    data: Dataset
    target: Target
    user: str | None
    """Whose memory is asked, instead of an index."""
    documents_only: bool
    """Whether the documents go before what is at the location."""

    @property
    def brings_documents(self) -> bool:
        """Whether the documents that came with the questions are asked, held in memory."""
        return self.documents_only and bool(self.data.documents)

    def check(self, parameters: dict[str, list[Any]]) -> None:
        """Every parameter is one that the search takes: said before minutes are spent on embedding."""
        live, stored = _settings(memory=self.user is not None)
        for name in parameters:
            if name in stored and not self.brings_documents:
                raise EvaluationError(
                    f"{name} decides what an index stores: leave out --location and give a folder with corpus.jsonl"
                )
            if name not in (*live, *stored):
                hint = "" if self.user or name not in _settings(memory=True)[0] else ", or --user to ask a memory"
                raise EvaluationError(f"there is no parameter {name!r}: use {', '.join((*live, *stored))}{hint}")
        for fusion in parameters.get("fusion", ()):
            resolve(fusion)

    def open(self, progress: OnProgress) -> Any:
        """What answers the questions."""
        from twofold.eval import CorpusIndex, CorpusMemory

        if self.brings_documents:
            kind = CorpusIndex if self.user is None else CorpusMemory
            dense, language = self.target.model, self.target.language or "english"
            return kind(self.data.documents, dense=dense, language=language, progress=progress)
        target = replace(self.target, language=None)
        return target.open_existing() if self.user is None else target.open_existing_memory(self.user)


def _settings(*, memory: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What an index or a memory takes with a query or as a setting, and what decides what it stores."""
    from twofold import HybridIndex, Memory, MemoryConfig
    from twofold.eval.corpus import bm25_settings, memory_store_settings

    if not memory:
        return _parameters(HybridIndex.search), bm25_settings()
    stored = memory_store_settings()
    live = dict.fromkeys((*_parameters(Memory.recall), *MemoryConfig.model_fields))
    return tuple(name for name in live if name not in stored), stored


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(name for name in inspect.signature(function).parameters if name not in _NOT_SETTINGS)


# Parameters as they are typed: alpha=0.3:1:0.1, fusion=auto,rrf(k=20), depth=200


def _parse_value(text: str) -> Any:
    """A number, true or false, a fusion with its settings as rrf(k=20), or the word itself."""
    if call := _CALL.fullmatch(text):
        return _parse_fusion(call[1], call[2])
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def _parse_fusion(name: str, settings: str) -> Strategy:
    """A fusion whose settings are not the usual ones."""
    plain, given = resolve(name), [part.partition("=") for part in _SEPARATOR.split(settings.strip()) if part]
    try:
        return replace(plain, **{key.strip(): _parse_value(written.strip()) for key, _, written in given})
    except TypeError as error:
        known = ", ".join(each.name for each in fields(plain))
        raise EvaluationError(f"{name}({settings}) is no fusion: {name} has {known}, as rrf(k=20)") from error


def parse_values(text: str) -> list[Any]:
    """Values separated by commas, or numbers as first:last:step."""
    parts = [part.strip() for part in text.split(":")]
    if len(parts) == 1:
        listed = [_parse_value(part) for part in _SEPARATOR.split(text.strip()) if part]
        if not listed:
            raise EvaluationError(f"{text!r} holds no value: write 0.3,0.5 or 0.3:1:0.1")
        return listed
    numbers = [_parse_value(part) for part in parts]
    if len(parts) != 3 or not all(isinstance(n, (int, float)) and math.isfinite(n) for n in numbers):
        raise EvaluationError(f"{text!r} is no range: write it as first:last:step, as 0.3:1:0.1")
    first, last, step = numbers
    count = math.floor((last - first) / step + 1e-9) + 1 if step > 0 else 0
    if not 1 <= count <= _MAX_VALUES:
        raise EvaluationError(
            f"{text!r} makes {max(count, 0)} values: give a step above 0 and at most {_MAX_VALUES} values"
        )
    return [first + i * step if isinstance(step, int) else round(first + i * step, 10) for i in range(count)]


def parse_grid(words: Iterable[str]) -> dict[str, list[Any]]:
    """What to sweep: each NAME=VALUES."""
    parsed: dict[str, list[Any]] = {}
    for word in words:
        name, sign, written = word.partition("=")
        if not sign or not name:
            raise EvaluationError(f"{word!r} is no parameter: write it as alpha=0.3:1:0.1 or fusion=auto,rrf")
        parsed[name.strip()] = parse_values(written)
    return parsed


def parse_run(text: str) -> dict[str, Any]:
    """The parameters of one run: "rrf depth=50". dense, bm25, default and the fusions need no name."""
    parsed: dict[str, Any] = {}
    for word in filter(None, _SEPARATOR.split(text.strip())):
        name, sign, written = word.partition("=")
        if _CALL.fullmatch(word):
            parsed["fusion"] = _parse_value(word)
        elif sign:
            parsed[name] = _parse_value(written)
        elif word in _SHORT_RUNS:
            parsed.update(_SHORT_RUNS[word])
        elif word in _FUSIONS:
            parsed["fusion"] = word
        else:
            known = ", ".join((*_SHORT_RUNS, *_FUSIONS))
            raise EvaluationError(f"{word!r} is no run: use {known}, or NAME=VALUE")
    return parsed


# The files and the figures


def _write_files(
    html: Path | None,
    plot_file: Path | None,
    result: Sweep | list[Run],
    subject: _Subject,
    retriever: Any,
    metric: str,
    by: str | None,
    baseline: Run | None = None,
) -> None:
    from twofold.eval import plot, write_report

    def text_of(identity: str) -> str | None:
        """The text of a document that no search found, where it isn't in the data."""
        return None if subject.brings_documents else getattr(retriever.get(identity), "text", None)

    if html:
        write_report(html, subject.data, result, baseline=baseline, metric=metric, by=by, text_of=text_of)
    if plot_file:
        plot(result, plot_file, metric)


def _say_written(*paths: Path | None) -> None:
    for path in filter(None, paths):
        err().print(f"wrote {path}", soft_wrap=True)


def _show(data: Dataset, runs: Sequence[Run], comparisons: Sequence[Comparison], metric: str, by: str | None) -> None:
    """Print tables of the runs; the first is what the others are compared with."""
    from twofold.eval import report, scoring

    console = out()
    wide = console.width >= _WIDE_COLUMNS
    # A terminal of 80 columns has no room for the words of the report.
    short = {
        "difference (95 %)": f"{scoring.label(metric)} ±" + (" (95 %)" if wide else ""),
        "right nothing": "nothing",
        "unanswered": "un-\nanswered",
    }
    documents = f", {len(data.documents):,} documents" if data.documents else ""
    console.print(Text.assemble((printable(data.name), "bold"), f": {len(data.questions):,} questions{documents}"))
    heads, rows = report.runs_table(runs, comparisons)
    shown = len(heads) if wide else len(heads) - 1
    console.print(_table([short.get(head, head) for head in heads[:shown]], rows, wide=wide))
    for run in runs:
        for reason in run.degraded:
            complain("degraded", f"{run.name}: {reason}", "bold yellow")
    if by:
        console.print(
            Text.assemble("\n", (f"{scoring.label(metric, scoring.common_k(runs))} by {printable(by)}", "bold"))
        )
        heads, rows = report.parts_table(runs, by, metric)
        console.print(_table([printable(head) for head in heads], rows, wide=wide))


def _table(heads: Sequence[str], rows: Sequence[Sequence[Cell]], *, wide: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, header_style="dim", padding=(0, 1, 0, 0))
    for place, head in enumerate(heads):
        table.add_column(head, justify="right" if place else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(cell, wide) for cell in row[: len(heads)]))
    return table


def _cell(cell: Cell, wide: bool) -> Text:
    text = "–" if cell.kind == "soft" else printable(cell.text)
    return Text.assemble((text, _STYLES.get(cell.kind, "")), (f" {cell.detail}" if wide and cell.detail else "", "dim"))


def _as_json(data: Dataset, runs: Sequence[Run], comparisons: Sequence[Comparison]) -> dict[str, Any]:
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
                **{name: round(getattr(one, name), 6) for name in ("difference", "low", "high")},
                "p": one.p,
                "better": len(one.wins),
                "worse": len(one.losses),
            }
            for one in comparisons
        ],
    }
