"""`twofold doctor`: what is wrong with the collections of a place, and what mends it. `twofold repair` mends it.

The exit code of `doctor` is 0 where all is well, 1 where something has to be done, and 2 where nothing could be looked
at. What `--json` prints is a `Diagnosis`, with `healthy`::

    {"location", "healthy", "server", "collections": {name: {"rows", "model", "dimension", …}},
     "findings": [{"code", "severity", "message", "mend", "collection", "rows"}], "skipped"}
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from twofold.cli.console import out, print_json, printable, progress_bar
from twofold.cli.target import DEFAULT_MEMORY_COLLECTION, ApiKey, AsJson, Target, with_options
from twofold.errors import CollectionNotFound, ConfigError

if TYPE_CHECKING:
    from twofold.index import Diagnosis, Finding

_STYLES = {"error": "bold red", "warning": "bold yellow", "note": "bold cyan"}
_INDENT = 9
"""Messages begin behind the longest word for how bad it is."""


def doctor(
    place: Annotated[
        str | None, typer.Argument(metavar="LOCATION", help="A folder, or the URL of a Qdrant server.")
    ] = None,
    location: Annotated[
        str, typer.Option("--location", "-l", envvar="TWOFOLD_LOCATION", help="The same, as other commands have it.")
    ] = Target.location,
    collection: Annotated[str | None, typer.Option("--collection", "-c", help="Only this one. Default: all.")] = None,
    model: Annotated[str | None, typer.Option(help="The model, where the collection doesn't name it.")] = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """Look for what is wrong, and say what mends it. Nothing is written.

    Exit code 0: all is well, perhaps with notes. 1: something has to be done. 2: it could not be looked at.
    """
    target = Target(place or location, model=model, api_key=api_key)
    options: dict[str, Any] = {"api_key": api_key}
    if not target.remote:
        _check_folder(target)
        options = {"optimize": "manual"}  # whoever looks changes nothing
    from twofold.index import diagnose

    found = diagnose(target.location if target.remote else str(target.folder), collection, dense=model, **options)
    if as_json:
        print_json({**asdict(found), "healthy": found.healthy})
    else:
        _show(found)
    if not found.healthy:
        raise typer.Exit(1)


@with_options
def repair(target: Target) -> None:
    """Mend in place: rows without words or without a vector get them, from their texts; rare words count more.

    Texts, metadata and the vectors that are there stay as they are. Interrupted, it goes on when it is started again.
    """
    with target.open(create=False) as index, progress_bar() as begin:
        done = index.repair(progress=begin("mending", None))
    rows = done.rows
    if done.memories:
        with target.open_memory(DEFAULT_MEMORY_COLLECTION, create=False) as memory:
            rows += memory.backfill_all()
    console = out()
    if rows:
        console.print(Text.assemble((f"{rows:,}", "bold green"), " rows have the vectors that they lacked"))
    if done.idf:
        console.print("rare words count more than common ones from now on")
    for name in done.indexes:
        console.print(f"a payload index for {printable(name)} was made")
    if not rows and done.nothing:
        console.print("there was nothing to mend in place")


def _check_folder(target: Target) -> None:
    folder = target.folder
    if folder is None:
        raise ConfigError("an index in :memory: is gone when the command ends: name a folder or a URL")
    if not folder.is_dir() or not any(folder.iterdir()):
        raise CollectionNotFound(f"there is no index at {target.shown}: check the path")


# What was found, for people


def _show(found: Diagnosis) -> None:
    console = out()
    server = f", Qdrant {found.server}" if found.server else ""
    console.print(Text.assemble((printable(found.location), "bold"), server), soft_wrap=True)
    if found.collections:
        console.print(_overview(found))
    else:
        console.print("there is no collection here")
    for name in (None, *found.collections):
        for finding in (each for each in found.findings if each.collection == name):
            _show_finding(finding)
    for each in found.skipped:
        console.print()
        console.print(Text.assemble(("not looked at: ", "dim"), printable(each)), soft_wrap=True)
    console.print()
    bad = sum(each.severity != "note" for each in found.findings)
    if bad:
        console.print(Text(f"{bad} {'thing' if bad == 1 else 'things'} to mend", "bold red"))
    else:
        console.print(Text("all is well", "bold green"))


def _overview(found: Diagnosis) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("collection", "rows", "model", "vectors", "words", "state"):
        table.add_column(heading, justify="right" if heading == "rows" else "left", overflow="fold")
    for name, facts in found.collections.items():
        own = [each.severity for each in found.findings if each.collection == name]
        worst = min(own, key=list(_STYLES).index, default=None)
        state = Text("well", "green") if worst in (None, "note") else Text(str(worst), _STYLES[str(worst)])
        size, distance = facts.get("dimension"), facts.get("distance")
        table.add_row(
            printable(name),
            f"{facts['rows']:,}" if "rows" in facts else "?",
            printable(str(facts.get("model") or "?")),
            f"{size}, {distance}" if size else "none",
            printable(str(facts.get("words") or "?")),
            state,
        )
    return table


def _show_finding(finding: Finding) -> None:
    console = out()
    where = "" if finding.collection is None else f"{printable(finding.collection)}: "
    said = Text.assemble((where, "bold"), f"{printable(finding.message)} ", (f"[{finding.code}]", "dim"))
    line = Table.grid(padding=(0, 1))
    line.add_column(min_width=_INDENT - 1)
    line.add_row(Text(finding.severity, _STYLES[finding.severity]), said)
    console.print()
    console.print(line)
    console.print(Text(f"{'':{_INDENT}}→ {printable(finding.mend)}", "bold"), soft_wrap=True)  # whole, to be copied
