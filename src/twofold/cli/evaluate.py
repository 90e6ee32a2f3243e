"""`twofold eval` and `twofold sweep`: how good are the answers, and with which settings are they best?

Read the questions, check every parameter, open what is asked, run, write the files, show the figures.
"""

from __future__ import annotations

import inspect
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from twofold.cli.console import OnProgress, complain, out, print_json, printable, progress_bar, unrepeated
from twofold.cli.target import DEFAULT_MEMORY_COLLECTION, ApiKey, AsJson, Collection, Model, Target, with_options
from twofold.errors import EvaluationError
from twofold.ranking.fusion import Fusion, Strategy, resolve

if TYPE_CHECKING:
    from twofold.eval import Comparison, Dataset, Run, Sweep
    from twofold.eval.report import Cell

_DEFAULT_RUNS = ("dense", "bm25", "auto")
_DEFAULT_SWEEP = ("alpha=0.3:1:0.1",)
_SHORT_RUNS: dict[str, dict[str, Any]] = {"dense": {"alpha": 1.0}, "bm25": {"alpha": 0.0}, "default": {}}
_SHORT_RUNS |= {name: {"fusion": name} for name in ("auto", "rrf", "dbsf", "weighted", "average")}
_NOT_SETTINGS = ("self", "query", "vector", "offset", "filter", "explain")
_MAX_VALUES = 1000
_WIDE_COLUMNS = 100
"""Columns of a terminal that shows everything; a narrower one gets no interval and no p95."""
_STYLES = {"best": "bold green", "good": "green", "bad": "red", "soft": "dim"}
_CALL = re.compile(r"(\w+)\((.*)\)")
_SEPARATOR = re.compile(r"[,\s]+(?![^(]*\))")
"""What separates words, except in parentheses."""


@dataclass(frozen=True)
class Evaluation:
    """What `eval` and `sweep` have in common: the options, and the steps from the questions to the figures."""

    path: Annotated[str, typer.Argument(metavar="DATA", help="A folder, or a .jsonl or .csv file.")]
    location: Annotated[
        str | None,
        typer.Option(
            "--location", "-l", help="The index to ask. Default: DATA's documents, in memory; if it has none, ./index."
        ),
    ] = None
    user: Annotated[
        str | None,
        typer.Option("--user", "-u", help="Ask this user's memory at the location, or DATA's documents as memories."),
    ] = None
    collection: Collection = Target.collection
    k: Annotated[int, typer.Option("-k", "--limit", min=1, help="How many hits count.")] = 10
    metric: Annotated[str, typer.Option(help="What runs are compared by.")] = "ndcg"
    by: Annotated[str | None, typer.Option(help="Split the figures by this field of the questions.")] = None
    same: Annotated[
        str | None, typer.Option(help="Search only documents whose metadata field has the question's own value.")
    ] = None
    split: Annotated[str | None, typer.Option(help="Which of qrels/*.tsv. Default: test.")] = None
    sample: Annotated[int | None, typer.Option(min=1, help="Ask this many of the questions, spread evenly.")] = None
    html: Annotated[Path | None, typer.Option(help="Write a report to this file.")] = None
    plot: Annotated[Path | None, typer.Option(help="Draw a chart: .png, .svg or .pdf.")] = None
    as_json: AsJson = False
    language: Annotated[str | None, typer.Option(help="Language of the documents of DATA. Default: english.")] = None
    model: Model = None
    api_key: ApiKey = None

    @cached_property
    def data(self) -> Dataset:
        """The questions, and the documents if they come along."""
        from twofold.eval import load

        data = load(self.path, same=self.same, split=self.split)
        return data if self.sample is None else data.sample(self.sample)

    @property
    def brings_documents(self) -> bool:
        """Whether the documents that came with the questions are asked, held in memory."""
        return self.location is None and bool(self.data.documents)

    def check(self, parameters: Mapping[str, Sequence[Any]]) -> None:
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

    @contextmanager
    def asking(self) -> Iterator[tuple[Any, dict[str, Any], OnProgress]]:
        """What answers the questions, what every run asks for, and where it tells how far it is."""
        from twofold.eval.scoring import METRICS

        asked = {"k": self.k, "metrics": tuple(dict.fromkeys((*METRICS, self.metric)))}
        with progress_bar() as begin, self._open(begin("storing", None)) as retriever, unrepeated():
            yield retriever, asked, begin("asking", None)

    def _open(self, progress: OnProgress) -> Any:
        from twofold.eval import CorpusIndex, CorpusMemory

        if self.brings_documents:
            kind = CorpusIndex if self.user is None else CorpusMemory
            language = self.language or "english"
            return kind(self.data.documents, dense=self.model, language=language, progress=progress)
        # Not an envvar of the option: an index that is usually searched must not replace the documents of the data.
        location = self.location or os.environ.get("TWOFOLD_LOCATION") or Target.location
        target = Target(location, self.collection, self.model, self.api_key)
        if self.user is None:
            return target.open(create=False)
        if self.collection == Target.collection:  # without another name, the one that is usual for memories
            target = replace(target, collection=DEFAULT_MEMORY_COLLECTION)
        return target.open_memory(self.user, create=False)

    def write_files(self, result: Sweep | Sequence[Run], retriever: Any, baseline: Run | None = None) -> None:
        """Write the report and the chart, where they are wanted."""
        from twofold.eval import plot, write_report

        def text_of(identity: str) -> str | None:
            """The text of a document that no search found, where it isn't in the data."""
            return None if self.brings_documents else getattr(retriever.get(identity), "text", None)

        if self.html:
            chosen: dict[str, Any] = {"metric": self.metric, "by": self.by, "baseline": baseline}
            write_report(self.html, self.data, result, text_of=text_of, **chosen)
        if self.plot:
            plot(result, self.plot, self.metric)

    def show(self, runs: Sequence[Run], comparisons: Sequence[Comparison], best: str | None = None) -> None:
        """Print the figures; of a sweep, the name of the best run too."""
        if self.as_json:
            print_json(_as_json(self.data, runs, comparisons) | ({} if best is None else {"best": best}))
        else:
            _show(self.data, runs, comparisons, self.metric, self.by if best is None else None)
            if best is not None:
                out().print(f"\nbest by {self.metric}: {best}", style="bold", soft_wrap=True)
        for path in filter(None, (self.html, self.plot)):
            out(stderr=True).print(f"wrote {path}", soft_wrap=True)


def _settings(*, memory: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What an index or a memory takes with a query or as a setting, and what decides what it stores."""
    from twofold import HybridIndex, Memory, MemoryConfig
    from twofold.eval.corpus import bm25_settings, memory_store_settings

    stored = memory_store_settings() if memory else bm25_settings()
    asked = inspect.signature(Memory.recall if memory else HybridIndex.search).parameters
    live = dict.fromkeys((*asked, *(MemoryConfig.model_fields if memory else ())))
    return tuple(name for name in live if name not in (*_NOT_SETTINGS, *stored)), stored


# The commands


@with_options
def evaluate(
    evaluation: Evaluation,
    runs: Annotated[
        list[str] | None,
        typer.Option("--run", help="A run: dense, bm25, a fusion, or NAME=VALUE …; the first is the baseline."),
    ] = None,
) -> None:
    """Measure how good the answers are: hit rate, MRR, nDCG, recall, latency.

    DATA is a folder with corpus.jsonl, queries.jsonl and qrels.tsv, or a .jsonl or .csv file with query and expected.
    """
    settings = [(name, parse_run(name)) for name in dict.fromkeys(runs or _DEFAULT_RUNS)]
    data = evaluation.data
    for _, parameters in settings:
        evaluation.check({name: [value] for name, value in parameters.items()})
    from twofold.eval import running, scoring

    with evaluation.asking() as (retriever, asked, progress):
        done = running.evaluate_each(retriever, data, settings, progress=progress, **asked)
        evaluation.write_files(done, retriever)
    evaluation.show(done, scoring.compare_to_first(done, evaluation.metric))


@with_options
def sweep(
    evaluation: Evaluation,
    parameters: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=VALUES]...", help="What to vary: alpha=0.3:1:0.1 fusion=auto,rrf depth=50,200 k1=0.9,1.2 …"
        ),
    ] = None,
    fixed: Annotated[
        list[str] | None, typer.Option("--with", help="What is the same in all runs, as fusion=weighted.")
    ] = None,
) -> None:
    """Find the settings that answer best: every combination of the given values. By default, alpha from 0.3 to 1."""
    grid, shared = parse_grid(parameters or _DEFAULT_SWEEP), parse_run(" ".join(fixed or ()))
    data, metric = evaluation.data, evaluation.metric
    evaluation.check({name: [value] for name, value in shared.items()} | grid)
    from twofold.eval import evaluate, scoring, sweep

    with evaluation.asking() as (retriever, asked, progress):
        swept = sweep(retriever, data, grid, parameters=shared, progress=progress, **asked)
        # What is searched with when nothing is said: after the sweep, so that it finds the same warm cache.
        baseline = None if "k" in grid else evaluate(retriever, data, name="default", parameters=shared, **asked)
        evaluation.write_files(swept, retriever, baseline)
    runs = [baseline, *swept.runs] if baseline else swept.runs
    comparisons = scoring.compare_to_first(runs, metric) if baseline else []
    evaluation.show(runs, comparisons, swept.best(metric).name)


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
    make = getattr(Fusion, resolve(name).name)
    given = [part.partition("=") for part in _SEPARATOR.split(settings.strip()) if part]
    try:
        made: Strategy = make(**{key.strip(): _parse_value(written.strip()) for key, _, written in given})
    except TypeError as error:
        known = ", ".join(inspect.signature(make).parameters) or "no settings"
        raise EvaluationError(f"{name}({settings}) is no fusion: {name} has {known}, as rrf(k=20)") from error
    return made


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
        else:
            raise EvaluationError(f"{word!r} is no run: use {', '.join(_SHORT_RUNS)}, or NAME=VALUE")
    return parsed


# The figures


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
        console.print(f"\n{scoring.label(metric, scoring.common_k(runs))} by {printable(by)}", style="bold")
        heads, rows = report.parts_table(runs, by, metric)
        console.print(_table([printable(head) for head in heads], rows, wide=wide))


def _table(heads: Sequence[str], rows: Sequence[Sequence[Cell]], *, wide: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, header_style="dim", padding=(0, 1, 0, 0))
    for place, head in enumerate(heads):
        table.add_column(head, justify="right" if place else "left", overflow="fold")
    for row in rows:
        texts = []
        for cell in row[: len(heads)]:
            shown = "–" if cell.kind == "soft" else printable(cell.text)
            detail = f" {cell.detail}" if wide and cell.detail else ""
            texts.append(Text.assemble((shown, _STYLES.get(cell.kind, "")), (detail, "dim")))
        table.add_row(*texts)
    return table


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
