"""`twofold info`: what an index holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from rich.table import Table

from twofold.cli.console import out, print_json, printable
from twofold.cli.opening import Target


def run(target: Target, *, as_json: bool) -> None:
    """Show models, settings and the number of documents."""
    with target.open_existing() as index:
        facts = asdict(index.info())
    if as_json:
        print_json(facts)
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in facts.items():
        if value not in ((), None):
            table.add_row(name.replace("_", " "), printable(_readable(value)))
    out().print(table)


def _readable(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {item}" for name, item in value.items() if item is not None)
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
