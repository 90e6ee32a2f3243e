"""`make eval`: retrieval quality of Twofold and its peers on every set that is there."""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

from rich.console import Console

from benchmarks.quality import sets, table
from benchmarks.quality.systems import AUTO, SYSTEMS, USUAL, System
from benchmarks.quality.vectors import Material, material, model_named
from twofold.eval import Run, evaluate, write_report

_WIDTH = 150  # a table that is cut to a narrow terminal shows no figures


def main(words: list[str] | None = None) -> None:
    chosen = _parser().parse_args(words)
    console = Console(width=max(Console().width, _WIDTH))
    systems = [system for system in SYSTEMS if system.name in chosen.systems]
    chosen.encoder = model_named(chosen.model)
    results: dict[str, dict[str, Run]] = {}
    inside: list[str] = []
    for path in sets.find(chosen.data, chosen.sets):
        runs = _runs(path, systems, chosen, console)
        inside.append(path.name)
        results.update(_parts(path.name, runs))
    _show(results, inside, chosen, console)


def _parser() -> argparse.ArgumentParser:
    names = [system.name for system in SYSTEMS]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description=__doc__)
    sets.add_options(parser)
    parser.add_argument("--sets", nargs="+", metavar="SET", help="only these; by default all that are there")
    told = f"of {', '.join(names)}; by default {', '.join(USUAL)}"
    parser.add_argument("--systems", nargs="+", choices=names, default=list(USUAL), metavar="SYSTEM", help=told)
    parser.add_argument("--k", type=int, default=10, help="how many hits count")
    parser.add_argument("--sample", type=int, help="ask only so many questions of each set")
    parser.add_argument("--metric", default="ndcg", help="hit_rate, mrr, ndcg or recall")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument("--html", type=Path, help="write a report for each set into this folder")
    return parser


def _runs(path: Path, systems: list[System], chosen: argparse.Namespace, console: Console) -> dict[str, Run]:
    vectors = material(sets.read(path), sets.known(path.name).language, chosen.cache, chosen.sample, chosen.encoder)
    runs = {}
    for system in systems:
        with console.status(f"{path.name}: {system.name}"):
            runs[system.name] = _run(system, vectors, chosen.k)
        for reason in runs[system.name].degraded:
            console.print(f"{path.name}, {system.name}: {reason}", style="yellow", markup=False)
    if chosen.html:
        chosen.html.mkdir(parents=True, exist_ok=True)
        write_report(chosen.html / f"{path.name}.html", vectors.data, list(runs.values()), metric=chosen.metric)
    return runs


def _run(system: System, vectors: Material, k: int) -> Run:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the peers say about their own dependencies
        with system.open(vectors) as retriever:
            return evaluate(retriever, vectors.data, k=k, name=system.name, parameters=system.parameters, warm_up=20)


def _parts(name: str, runs: dict[str, Run]) -> dict[str, dict[str, Run]]:
    """A set, and apart from it the questions that are of another kind."""
    apart = sets.known(name).apart
    if apart is None:
        return {name: runs}
    field, value = apart
    return {
        name: {system: run.where(lambda q: q.metadata.get(field) != value) for system, run in runs.items()},
        f"{name}, {field} {value}": {
            system: run.where(lambda q: q.metadata.get(field) == value) for system, run in runs.items()
        },
    }


def _show(results: dict[str, dict[str, Run]], inside: list[str], chosen: argparse.Namespace, console: Console) -> None:
    console.print(table.by_set(results, inside, chosen.metric, chosen.k))
    if AUTO in chosen.systems:
        console.print(f"▲ ▼ differs from {AUTO} by more than chance (p < 0.05)", style="dim")
    console.print(table.by_family(results, inside, chosen.metric, chosen.k))
    console.print(table.by_system(results, inside, chosen.k))
    for line in table.published(results):
        console.print(line, soft_wrap=True)
    if chosen.json:
        figures = {name: {system: run.summary() for system, run in runs.items()} for name, runs in results.items()}
        chosen.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
