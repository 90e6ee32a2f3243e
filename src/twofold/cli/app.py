"""The commands and their options. What they do is imported when they run: `--help` is instant."""

from __future__ import annotations

from typing import Annotated

import typer

from twofold.cli.console import Commands
from twofold.cli.options import (
    DEFAULT_COLLECTION,
    DEFAULT_LOCATION,
    ApiKey,
    AsJson,
    Collection,
    Location,
    Model,
    Split,
)

app = typer.Typer(
    cls=Commands,
    help="Find by meaning and by words, and see why.",
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


@app.command()
def demo(
    query: Annotated[str | None, typer.Option("--query", "-q", help="Ask the demo's memories yourself.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show meaning, words and both side by side on an agent's memories."""
    from twofold.cli.demo import run

    run(query, as_json=as_json)


@app.command()
def add(
    sources: Annotated[
        list[str], typer.Argument(metavar="SOURCE", help="Files (.txt .md .jsonl .csv), folders, or - for stdin.")
    ],
    location: Location = DEFAULT_LOCATION,
    collection: Collection = DEFAULT_COLLECTION,
    split: Annotated[
        Split | None,
        typer.Option("--split", help="What of a text is one document. Default: paragraph, for stdin line."),
    ] = None,
    text_field: Annotated[str, typer.Option("--text-field", help="Field or column with the text.")] = "text",
    id_field: Annotated[str, typer.Option("--id-field", help="Field or column with the id, if there is one.")] = "id",
    language: Annotated[
        str | None, typer.Option("--language", help="Language of the words. Default: the collection's, or english.")
    ] = None,
    model: Model = None,
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Documents to store at a time.")] = 64,
    api_key: ApiKey = None,
) -> None:
    """Store files, folders or lines. Adding them again replaces them.

    Everything is read and checked before anything is stored. Of .jsonl and .csv, all other fields become metadata.
    Adding a text file again also removes the parts that it no longer has.
    """
    from twofold.cli.add import run
    from twofold.cli.opening import Target
    from twofold.cli.sources import Reading

    target = Target(location, collection, api_key, model=model, language=language)
    run(sources, target, Reading(split, text_field, id_field), batch_size)


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="What to look for.")],
    location: Location = DEFAULT_LOCATION,
    collection: Collection = DEFAULT_COLLECTION,
    k: Annotated[int, typer.Option("-k", "--limit", min=0, help="How many hits at most.")] = 10,
    offset: Annotated[int, typer.Option("--offset", min=0, help="How many of the best to skip.")] = 0,
    filter: Annotated[
        str | None, typer.Option("--filter", help="""Metadata to match, as '{"year": {"gte": 2010}}'.""")
    ] = None,
    alpha: Annotated[float | None, typer.Option("--alpha", help="From 0, words only, to 1, meaning only.")] = None,
    fusion: Annotated[str | None, typer.Option("--fusion", help="auto, rrf, dbsf, weighted or average.")] = None,
    min_score: Annotated[float | None, typer.Option("--min-score", help="Leave out lower final scores.")] = None,
    explain: Annotated[bool, typer.Option("--explain", "-x", help="Show both legs' scores and ranks.")] = False,
    as_json: AsJson = False,
    model: Model = None,
    api_key: ApiKey = None,
) -> None:
    """Find what was stored."""
    from twofold.cli.opening import Target
    from twofold.cli.search import Request, run

    request = Request(query, k, offset, filter, alpha, fusion, min_score, explain)
    run(Target(location, collection, api_key, model=model), request, as_json=as_json)


@app.command()
def info(
    location: Location = DEFAULT_LOCATION,
    collection: Collection = DEFAULT_COLLECTION,
    as_json: AsJson = False,
    model: Model = None,
    api_key: ApiKey = None,
) -> None:
    """Show what an index holds."""
    from twofold.cli.info import run
    from twofold.cli.opening import Target

    run(Target(location, collection, api_key, model=model), as_json=as_json)
