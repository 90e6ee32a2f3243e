"""`twofold mcp`: a user's memories, or those of several users, for MCP clients."""

from __future__ import annotations

import os
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twofold.cli.console import complain
from twofold.cli.target import DEFAULT_MEMORY_COLLECTION, ApiKey, Model, Target, command_line
from twofold.errors import ConfigError

if TYPE_CHECKING:
    from twofold.memory import Memory
    from twofold.tools import ToolOptions

DEFAULT_MEMORIES = "~/.twofold/memories"
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8765


class Transport(str, Enum):
    """How MCP clients are connected."""

    stdio = "stdio"
    http = "http"


def _env(variable: str, help: str, *flags: str, **limits: Any) -> Any:
    """An option that can also be set by an environment variable: a client's configuration file has room for those."""
    return typer.Option(*flags, envvar=f"TWOFOLD_{variable}", help=help, **limits)


def mcp(
    user: Annotated[str | None, _env("USER", "Whose memories. Needed without --tokens.", "--user", "-u")] = None,
    project: Annotated[
        list[str] | None, _env("PROJECTS", "Also the memories of this project; can be given again.", "--project")
    ] = None,
    location: Annotated[
        str, _env("LOCATION", "A folder, or the URL of a Qdrant server.", "--location", "-l", "--path", "--url")
    ] = DEFAULT_MEMORIES,
    agent: Annotated[
        str | None, _env("AGENT", "The memories of this agent, and the user's that belong to none.")
    ] = None,
    general: Annotated[
        bool, typer.Option("--general/--no-general", help="With --agent: see the user's memories that belong to none.")
    ] = True,
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
    tokens: Annotated[
        str | None, _env("MCP_TOKENS", "For http: a JSON file that says whose memories each token opens.")
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
    given: dict[str, Any] = {"--location": location, "--user": user, "--project": project, "--agent": agent}
    given |= {"--no-general": not general, "--collection": collection, "--language": language, "--model": model}
    given |= {"--host": host, "--port": port, "--tokens": tokens, "--read-only": read_only}
    given |= {"--aliases": aliases}
    _check(given, token, transport)
    from twofold.tools import ToolOptions

    options = ToolOptions(read_only=read_only, aliases=aliases, general=general)
    target = Target(location, collection or DEFAULT_MEMORY_COLLECTION, model, api_key, language)
    _serve(target, given, options, transport, token)


def _serve(
    target: Target, given: dict[str, Any], options: ToolOptions, transport: Transport, token: str | None
) -> None:
    """Serve until interrupted; the memories are opened by the first tool that is called."""
    try:
        from twofold.mcp import create_server, create_servers, read_clients, serve_http, serve_stdio
    except ImportError as error:
        raise ConfigError(str(error)) from error
    from twofold.tools import LazyMemory

    clients = read_clients(given["--tokens"]) if given["--tokens"] is not None else {}
    whose = given["--user"] or next((client.user for client in clients.values()), "")
    memory = LazyMemory(lambda: _open_shared(target, whose, given), projects=given["--project"] or ())
    try:
        if transport is Transport.stdio:
            serve_stdio(create_server(memory, **options))
        else:
            host, port = given["--host"], given["--port"]
            server = create_servers(memory, clients, **options) if clients else create_server(memory, **options)
            complain("listening", f"http://{host}:{port}/mcp", "green")
            serve_http(server, host=host, port=port, token=token)
    finally:
        memory.close()


def _check(given: dict[str, Any], token: str | None, transport: Transport) -> None:
    """What belongs together, and what doesn't."""
    for variable in ("TWOFOLD_MCP_TOKEN", "TWOFOLD_MCP_TOKENS"):  # what a script left empty is not "no token"
        if transport is Transport.http and os.environ.get(variable) == "":
            raise ConfigError(f"{variable} is empty, so anybody could come in: give it a value, or unset it")
    if given["--tokens"] is None:
        if not (given["--user"] or "").strip():
            raise ConfigError("memories belong to somebody: say whose, with --user ada or TWOFOLD_USER=ada")
        return
    besides = [name for name in ("--user", "--project", "--agent") if given[name]] + ["--token"] * (token is not None)
    if besides:
        raise ConfigError(f"--tokens says whose memories each client works with: leave out {', '.join(besides)}")
    if transport is not Transport.http:
        raise ConfigError("--tokens is for clients that come in over HTTP: add --transport http")


def _open_shared(target: Target, user: str, given: dict[str, Any]) -> Memory:
    """Open the memories when the first tool is called; if another process has them, say how to share them."""
    from twofold import StoreLocked

    try:
        return target.open_memory(user, given["--agent"], projects=given["--project"] or ())
    except StoreLocked as error:
        command = command_line("mcp --transport http", given, {"--host": DEFAULT_HOST, "--port": DEFAULT_PORT})
        reached = "127.0.0.1" if given["--host"] in ("0.0.0.0", "::") else given["--host"]  # noqa: S104
        raise ConfigError(
            f"{error} For several MCP clients, start one server that all of them share, with `{command}`, and connect "
            f"them to http://{reached}:{given['--port']}/mcp"
        ) from error
