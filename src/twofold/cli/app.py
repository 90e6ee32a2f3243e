"""The commands and their options. What they do is imported when they run: `--help` is instant."""

from __future__ import annotations

from typing import Annotated

import typer

from twofold.cli.console import Commands
from twofold.cli.eval_options import (
    EvalBy,
    EvalData,
    EvalHtml,
    EvalLanguage,
    EvalLocation,
    EvalMetric,
    EvalPlot,
    EvalSame,
    EvalSample,
    EvalSplit,
    EvalUser,
)
from twofold.cli.mcp import DEFAULT_MEMORIES, USUAL_HOST, USUAL_PORT, Transport
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


@app.command("eval")
def evaluate(
    data: EvalData,
    location: EvalLocation = None,
    user: EvalUser = None,
    collection: Collection = DEFAULT_COLLECTION,
    runs: Annotated[
        list[str] | None,
        typer.Option("--run", help="A run: dense, bm25, a fusion, or NAME=VALUE …; the first is the baseline."),
    ] = None,
    k: Annotated[int, typer.Option("-k", "--limit", min=1, help="How many hits count.")] = 10,
    metric: EvalMetric = "ndcg",
    by: EvalBy = None,
    same: EvalSame = None,
    split: EvalSplit = None,
    sample: EvalSample = None,
    html: EvalHtml = None,
    plot: EvalPlot = None,
    as_json: AsJson = False,
    language: EvalLanguage = None,
    model: Model = None,
    api_key: ApiKey = None,
) -> None:
    """Measure how good the answers are: hit rate, MRR, nDCG, recall, latency.

    DATA is a folder with corpus.jsonl, queries.jsonl and qrels.tsv, or a .jsonl or .csv file with query and expected.
    """
    from twofold.cli.eval import run
    from twofold.cli.eval_asked import Asked, Wanted

    asked = Asked(data, location, collection, same, split, sample, language, model, api_key, user)
    run(asked, Wanted(runs or [], k, metric, by, html, plot, as_json))


@app.command()
def sweep(
    data: EvalData,
    parameters: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=VALUES]...", help="What to vary: alpha=0.3:1:0.1 fusion=auto,rrf depth=50,200 k1=0.9,1.2 …"
        ),
    ] = None,
    location: EvalLocation = None,
    user: EvalUser = None,
    collection: Collection = DEFAULT_COLLECTION,
    fixed: Annotated[
        list[str] | None, typer.Option("--with", help="What is the same in all runs, as fusion=weighted.")
    ] = None,
    k: Annotated[int, typer.Option("-k", "--limit", min=1, help="How many hits count.")] = 10,
    metric: EvalMetric = "ndcg",
    by: EvalBy = None,
    same: EvalSame = None,
    split: EvalSplit = None,
    sample: EvalSample = None,
    html: EvalHtml = None,
    plot: EvalPlot = None,
    as_json: AsJson = False,
    language: EvalLanguage = None,
    model: Model = None,
    api_key: ApiKey = None,
) -> None:
    """Find the settings that answer best: every combination of the given values. By default, alpha from 0.3 to 1."""
    from twofold.cli.eval_asked import Asked, Wanted
    from twofold.cli.sweep import run

    asked = Asked(data, location, collection, same, split, sample, language, model, api_key, user)
    run(asked, parameters or [], Wanted(fixed or [], k, metric, by, html, plot, as_json))


@app.command()
def mcp(
    user: Annotated[
        str | None, typer.Option("--user", "-u", envvar="TWOFOLD_USER", help="Whose memories. Needed.")
    ] = None,
    location: Annotated[
        str,
        typer.Option(
            "--location",
            "-l",
            "--path",
            "--url",
            envvar="TWOFOLD_LOCATION",
            help="A folder, or the URL of a Qdrant server.",
        ),
    ] = DEFAULT_MEMORIES,
    agent: Annotated[
        str | None, typer.Option("--agent", envvar="TWOFOLD_AGENT", help="Only the memories of this agent.")
    ] = None,
    collection: Annotated[
        str | None, typer.Option("--collection", "-c", envvar="TWOFOLD_COLLECTION", help="Default: memories.")
    ] = None,
    language: Annotated[
        str | None,
        typer.Option(
            "--language",
            envvar="TWOFOLD_LANGUAGE",
            help="Language of the words. Default: the collection's, or english.",
        ),
    ] = None,
    transport: Annotated[
        Transport,
        typer.Option(
            "--transport",
            "-t",
            envvar="TWOFOLD_MCP_TRANSPORT",
            help="stdio: the client starts this. http: many clients share it.",
        ),
    ] = Transport.stdio,
    host: Annotated[
        str, typer.Option("--host", envvar="TWOFOLD_MCP_HOST", help="For http: the address to listen on.")
    ] = USUAL_HOST,
    port: Annotated[
        int, typer.Option("--port", "-p", envvar="TWOFOLD_MCP_PORT", min=1, max=65535, help="For http.")
    ] = USUAL_PORT,
    token: Annotated[
        str | None,
        typer.Option(
            "--token", envvar="TWOFOLD_MCP_TOKEN", help="For http: what clients must send as their bearer token."
        ),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Offer no tool that stores, changes or deletes.")
    ] = False,
    aliases: Annotated[
        bool, typer.Option("--aliases", help="Offer retrieve_memory too, another name for memory_search.")
    ] = False,
    model: Model = None,
    api_key: ApiKey = None,
) -> None:
    """Serve a user's memories to MCP clients: Claude Desktop, Cursor, VS Code …."""
    from twofold.cli.mcp import Listening, Served, run

    served = Served(location, user, agent, collection, language, model, api_key)
    run(served, Listening(transport, host, port, token), read_only=read_only, aliases=aliases)
