"""`twofold eval`: how good are the answers?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from twofold.cli.console import print_json, unrepeated
from twofold.cli.eval_asked import Asked, Opened, Wanted, bar, say_written, write_outputs
from twofold.cli.eval_values import run_of

if TYPE_CHECKING:
    from twofold.eval.comparing import Comparison
    from twofold.eval.data import Dataset
    from twofold.eval.running import Progress
    from twofold.eval.runs import Run

_USUAL = ("dense", "bm25", "auto")


def run(asked: Asked, wanted: Wanted) -> None:
    """Ask every question in each way, and show how well it was answered."""
    settings = {name: run_of(name) for name in wanted.runs or _USUAL}
    data = asked.load()
    for parameters in settings.values():
        asked.check(data, {name: [value] for name, value in parameters.items()})
    with bar() as begin, asked.open(data, begin("storing")) as opened:
        progress = begin("asking")
        with unrepeated():
            runs = [_run(opened, data, wanted, name, progress, first=i == 0) for i, name in enumerate(settings)]
        write_outputs(wanted, data, runs, text_of=opened.text_of)
    _show(data, runs, wanted)
    say_written(wanted)


def _run(opened: Opened, data: Dataset, wanted: Wanted, name: str, progress: Progress, *, first: bool) -> Run:
    from twofold.eval.running import evaluate

    parameters = run_of(name)
    return evaluate(
        opened.retriever,
        data,
        k=parameters.pop("k", wanted.k),
        name=name,
        metrics=wanted.metrics,
        parameters=parameters,
        warm_up=len(data.questions) if first else 1,  # the others find the query vectors in the cache
        progress=progress,
    )


def _show(data: Dataset, runs: list[Run], wanted: Wanted) -> None:
    from twofold.cli import eval_view

    comparisons = compared(runs, wanted.metric)
    if wanted.as_json:
        print_json(eval_view.as_json(data, runs, comparisons))
        return
    eval_view.show(data, runs, comparisons, wanted.metric)
    if wanted.by:
        eval_view.parts(runs, wanted.by, wanted.metric)


def compared(runs: list[Run], metric: str) -> list[Comparison]:
    """Every other run against the first, where that can be done."""
    from twofold.eval.comparing import compare

    if len({run.k for run in runs}) > 1 or math.isnan(runs[0][metric]):
        return []
    return [compare(runs[0], run, metric) for run in runs[1:]]
