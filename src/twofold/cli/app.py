"""The commands. `search`, `info` and `mcp` stand here with their options, the others in files of their own.

What a command works with is imported when it runs: `--help` is instant.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twofold.cli.console import Commands, complain, out, print_json, printable, result_as_json, show_hits, unrepeated
from twofold.cli.demo import demo
from twofold.cli.doctor import doctor, repair
from twofold.cli.evaluate import evaluate, sweep
from twofold.cli.rewrite import adopt, reembed
from twofold.cli.sources import add
from twofold.cli.target import DEFAULT_MEMORY_COLLECTION, ApiKey, AsJson, Model, Target, command_line, with_options
from twofold.cli.transfer import backup, export, import_, move
from twofold.errors import ConfigError, FilterError

if TYPE_CHECKING:
    from twofold.memory import Memory

DEFAULT_MEMORIES = "~/.twofold/memories"
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8765

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
    min_score: Annotated[float | None, typer.Option(help="Leave out hits of less relevance, from 0 to 1.")] = None,
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


class Transport(str, Enum):
    """How MCP clients are connected."""

    stdio = "stdio"
    http = "http"


def _env(variable: str, help: str, *flags: str, **limits: Any) -> Any:
    """An option that can also be set by an environment variable: a client's configuration file has room for those."""
    return typer.Option(*flags, envvar=f"TWOFOLD_{variable}", help=help, **limits)


@app.command()
def mcp(
    user: Annotated[str | None, _env("USER", "Whose memories. Needed.", "--user", "-u")] = None,
    location: Annotated[
        str, _env("LOCATION", "A folder, or the URL of a Qdrant server.", "--location", "-l", "--path", "--url")
    ] = DEFAULT_MEMORIES,
    agent: Annotated[str | None, _env("AGENT", "Only the memories of this agent.")] = None,
    collection: Annotated[str | None, _env("COLLECTION", "Default: memories.", "--collection", "-c")] = None,
    language: Annotated[
        str | None, _env("LANGUAGE", "Language of the words. Default: the collection's, or english.")
    ] = None,
    transport: Annotated[
        Transport,
        _env("MCP_TRANSPORT", "stdio: the client starts this. http: many clients share it.", "--transport", "-t"),
    ] = Transport.stdio,
    host: Annotated[str, _env("MCP_HOST", "For http: the address to listen on.")] = DEFAULT_HOST,
    port: Annotated[int, _env("MCP_PORT", "For http.", "--port", "-p", min=1, max=65535)] = DEFAULT_PORT,
    token: Annotated[str | None, _env("MCP_TOKEN", "For http: what clients must send as their bearer token.")] = None,
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
    given: dict[str, Any] = {"--location": location, "--user": user, "--agent": agent, "--collection": collection}
    given |= {"--language": language, "--model": model, "--host": host, "--port": port}
    given |= {"--read-only": read_only, "--aliases": aliases}
    if not (user or "").strip():
        raise ConfigError("memories belong to somebody: say whose, with --user ada or TWOFOLD_USER=ada")
    try:
        from twofold.mcp import create_server, serve_http, serve_stdio
    except ImportError as error:
        raise ConfigError(str(error)) from error
    from twofold.tools import LazyMemory

    target = Target(location, collection or DEFAULT_MEMORY_COLLECTION, model, api_key, language)
    memory = LazyMemory(lambda: _open_shared(target, user or "", agent, given))
    server = create_server(memory, read_only=read_only, aliases=aliases)
    try:
        if transport is Transport.stdio:
            serve_stdio(server)
        else:
            complain("listening", f"http://{host}:{port}/mcp", "green")
            serve_http(server, host=host, port=port, token=token)
    finally:
        memory.close()


def _open_shared(target: Target, user: str, agent: str | None, given: dict[str, Any]) -> Memory:
    """Open the memories when the first tool is called; if another process has them, say how to share them."""
    from twofold import StoreLocked

    try:
        return target.open_memory(user, agent)
    except StoreLocked as error:
        command = command_line("mcp --transport http", given, {"--host": DEFAULT_HOST, "--port": DEFAULT_PORT})
        reached = "127.0.0.1" if given["--host"] in ("0.0.0.0", "::") else given["--host"]  # noqa: S104
        raise ConfigError(
            f"{error} For several MCP clients, start one server that all of them share, with `{command}`, and connect "
            f"them to http://{reached}:{given['--port']}/mcp"
        ) from error
