"""The commands. `search` and `info` stand here with their options, the others in files of their own.

What a command works with is imported when it runs: `--help` is instant.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

import typer

from twofold.cli.console import Commands, out, print_json, printable, result_as_json, show_hits, unrepeated
from twofold.cli.demo import demo
from twofold.cli.doctor import doctor, repair
from twofold.cli.evaluate import evaluate, sweep
from twofold.cli.rewrite import adopt, reembed
from twofold.cli.serve import mcp
from twofold.cli.sources import add
from twofold.cli.target import AsJson, Target, with_options
from twofold.cli.transfer import backup, export, import_, move
from twofold.errors import FilterError

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        import twofold

        typer.echo(f"twofold {twofold.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Find by meaning and by words, and see why."""


app.command()(demo)
app.command()(add)
app.command()(adopt)
app.command()(reembed)


@app.command()
@with_options
def search(
    target: Target,
    query: Annotated[str, typer.Argument(help="What to look for.")],
    k: Annotated[int, typer.Option("-k", "--limit", min=0, help="How many hits at most.")] = 10,
    offset: Annotated[int, typer.Option(min=0, help="How many of the best to skip.")] = 0,
    filter: Annotated[str | None, typer.Option(help="""Metadata to match, as '{"year": {"gte": 2010}}'.""")] = None,
    alpha: Annotated[float | None, typer.Option(help="From 0, words only, to 1, meaning only.")] = None,
    fusion: Annotated[str | None, typer.Option(help="auto, rrf, dbsf, weighted or average.")] = None,
    min_score: Annotated[
        float | None, typer.Option(min=0, max=1, help="Leave out hits of less relevance, from 0 to 1.")
    ] = None,
    rerank: Annotated[
        str | None, typer.Option(help="Look at the best once more: a cross-encoder, by fastembed name.")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", "-x", help="Show both legs' scores and ranks.")] = False,
    as_json: AsJson = False,
) -> None:
    """Find what was stored."""
    where = _filter(filter)
    with target.open(create=False) as index:
        with unrepeated():  # the answer shows them
            result = index.search(
                query,
                k,
                offset=offset,
                filter=where,
                alpha=alpha,
                fusion=fusion,
                min_score=min_score,
                rerank=rerank,
                explain=True,  # changes no ranking, costs no request, and tells which words to emphasise
            )
        empty = not result and index.count() == 0
    if as_json:
        print_json(result_as_json(result, offset, explain=explain))
    elif empty:
        out().print(f"collection {target.collection} holds nothing yet", soft_wrap=True)
        out().print(f"fill it: {target.command('add notes.md')}", soft_wrap=True)
    else:
        show_hits(result, offset=offset, explain=explain)


def _filter(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    example = """write it as '{"year": {"gte": 2010}}'"""
    try:
        where = json.loads(text)
    except ValueError as error:
        raise FilterError(f"--filter is not JSON ({error}): {example}") from error
    if not isinstance(where, dict):
        raise FilterError(f"--filter must be a JSON object: {example}")
    return where


@app.command()
@with_options
def info(target: Target, as_json: AsJson = False) -> None:
    """Show what an index holds."""
    from rich.table import Table

    with target.open(create=False) as index:
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


app.command()(doctor)
app.command()(repair)
app.command("eval")(evaluate)
app.command()(sweep)
for _name, _command in (("export", export), ("import", import_), ("backup", backup), ("move", move)):
    app.command(_name)(_command)
app.command()(mcp)
