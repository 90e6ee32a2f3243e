"""`make bench`: hybrid search speed, ingestion, opening, memory and encoding, side by side in one run."""

from __future__ import annotations

import argparse
import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import models, recall
from benchmarks.engines import ENGINES
from benchmarks.turns import Elsewhere, Results, take_turns

_WIDTH = 128


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--points", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--engines", nargs="+", choices=[e.name for e in ENGINES], default=[e.name for e in ENGINES])
    parser.add_argument("--memories", type=int, default=10_000, help="recall of so many memories; 0 leaves it out")
    parser.add_argument("--texts", type=int, default=300, help="embed so many with each bundled model; 0 leaves it out")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    arguments = parser.parse_args()
    console = Console(width=max(Console().width, _WIDTH))
    results: dict[int, Results] = {}
    for points in arguments.points:
        results[points] = _run(points, arguments.engines, console)
        console.print(_table(points, results[points]))
        for line in _ratios(results[points]):
            console.print(line)
    if arguments.memories:
        with console.status(f"recall of {arguments.memories:,} memories"):
            recalls = recall.measure(arguments.memories)
        console.print(recall.table(arguments.memories, recalls))
    if arguments.texts:
        with console.status("bundled models"):
            rates = models.elsewhere(arguments.texts)
        console.print(models.table(rates))
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


def _run(points: int, names: list[str], console: Console) -> Results:
    chosen = [engine.name for engine in ENGINES if engine.name in names and points <= engine.largest]
    with ExitStack() as ending, console.status(f"{points:,} points") as status:
        subjects = {name: Elsewhere(name, points) for name in chosen}
        for subject in subjects.values():
            ending.callback(subject.close)
        return take_turns(dict(subjects), points, status.update)


def _table(points: int, results: Results) -> Table:
    table = Table(title=f"{points:,} points, 384 dimensions", title_justify="left")
    table.add_column("engine")
    table.add_column("search")
    for column in ("p50 ms", "p95 ms", "upserts/s", "open ms", "memory MB", "longest stall ms"):
        table.add_column(column, justify="right")
    for name, result in results.items():
        whole = [f"{result[key]:,.0f}" for key in ("upserts_per_s", "open_ms", "memory_mb", "longest_stall_ms")]
        for stage, suffix in (("searches", ""), ("optimised", ", optimised")):
            for search, took in result.get(stage, {}).items():
                table.add_row(name, search + suffix, f"{took['p50_ms']:.2f}", f"{took['p95_ms']:.2f}", *whole)
                name, whole = "", [""] * 4
        table.add_section()
    return table


def _ratios(results: Results) -> list[str]:
    """What matters: ours against the others, in the same run."""
    ours, raw = results.get("twofold"), results.get("raw qdrant-edge")
    lines = []
    if ours and raw:
        for stage in ("searches", "optimised"):
            if stage in ours and stage in raw:
                lines += _stage_ratios(stage, ours[stage], raw[stage])
        lines.append(f"  ingestion, twofold / raw qdrant-edge: {ours['upserts_per_s'] / raw['upserts_per_s']:.2f} x")
    for peer in ("qdrant-client local", "langchain-qdrant", "llama-index"):
        if ours and peer in results:
            times = _p50(results[peer]["searches"], "hybrid") / _p50(ours["searches"], "hybrid")
            lines.append(f"  hybrid p50, {peer} / twofold: {times:,.0f} x")
    return lines


def _stage_ratios(stage: str, ours: dict[str, Any], raw: dict[str, Any]) -> list[str]:
    label = "" if stage == "searches" else ", optimised"
    return [
        f"  hybrid p50{label}, twofold / raw qdrant-edge: {_p50(ours, 'hybrid') / _p50(raw, 'hybrid'):.2f} x",
        f"  rrf p50{label}, twofold / raw qdrant-edge: {_p50(ours, 'rrf') / _p50(raw, 'rrf'):.2f} x",
        f"  p50{label}, hybrid / dense only in twofold: {_p50(ours, 'hybrid') / _p50(ours, 'dense only'):.2f} x",
    ]


def _p50(searches: dict[str, Any], name: str) -> float:
    return float(searches[name]["p50_ms"])


if __name__ == "__main__":
    main()
