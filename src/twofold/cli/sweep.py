"""`twofold sweep`: which settings answer best?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twofold.cli.console import out, print_json, unrepeated
from twofold.cli.eval import compared
from twofold.cli.eval_asked import Asked, Opened, Wanted, bar, say_written, write_outputs
from twofold.cli.eval_values import grid, run_of

if TYPE_CHECKING:
    from twofold.eval.data import Dataset
    from twofold.eval.running import Progress, Sweep
    from twofold.eval.runs import Run

_USUAL = ["alpha=0.3:1:0.1"]
_DEFAULT = "default"


def run(asked: Asked, parameters: list[str], wanted: Wanted) -> None:
    """Ask every question with each combination of parameters, and show which did best."""
    wide, fixed = grid(parameters or _USUAL), run_of(" ".join(wanted.runs))
    data = asked.load()
    asked.check(data, {**{name: [value] for name, value in fixed.items()}, **wide})
    with bar() as begin, asked.open(data, begin("storing")) as opened:
        with unrepeated():
            found = _sweep(opened, data, wide, fixed, wanted, begin("asking"))
            baseline = _baseline(opened, data, fixed, wanted) if "k" not in wide else None
        write_outputs(wanted, data, found, baseline=baseline, text_of=opened.text_of)
    _show(data, found, baseline, wanted)
    say_written(wanted)


def _sweep(
    opened: Opened, data: Dataset, wide: dict[str, Any], fixed: dict[str, Any], wanted: Wanted, progress: Progress
) -> Sweep:
    from twofold.eval.running import sweep

    return sweep(opened.retriever, data, wide, k=wanted.k, metrics=wanted.metrics, parameters=fixed, progress=progress)


def _baseline(opened: Opened, data: Dataset, fixed: dict[str, Any], wanted: Wanted) -> Run:
    """What is searched with when nothing is said: after the sweep, so that it finds the same warm cache."""
    from twofold.eval.running import evaluate

    return evaluate(opened.retriever, data, k=wanted.k, name=_DEFAULT, metrics=wanted.metrics, parameters=fixed)


def _show(data: Dataset, found: Sweep, baseline: Run | None, wanted: Wanted) -> None:
    from twofold.cli import eval_view

    runs = [*([baseline] if baseline else []), *found.runs]
    comparisons = compared(runs, wanted.metric) if baseline else []
    best = found.best(wanted.metric)
    if wanted.as_json:
        print_json({**eval_view.as_json(data, runs, comparisons), "best": best.name})
        return
    eval_view.show(data, runs, comparisons, wanted.metric)
    out().print(f"\nbest by {wanted.metric}: {best.name}", style="bold", soft_wrap=True)
