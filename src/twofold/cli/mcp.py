"""`twofold mcp`: serve a user's memories to MCP clients."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from twofold.cli.console import complain
from twofold.errors import ConfigError

if TYPE_CHECKING:
    from twofold.memory import Memory

DEFAULT_MEMORIES = "~/.twofold/memories"
USUAL_HOST = "127.0.0.1"
USUAL_PORT = 8765


class Transport(str, Enum):
    """How clients are connected."""

    stdio = "stdio"
    http = "http"


@dataclass(frozen=True)
class Served:
    """Whose memories, and where they are."""

    location: str
    user: str | None
    agent: str | None = None
    collection: str | None = None
    language: str | None = None
    model: str | None = None
    api_key: str | None = None

    @property
    def remote(self) -> bool:
        """Whether they are on a server."""
        return self.location.startswith(("http://", "https://"))

    def open(self) -> Memory:
        """Open them; called when the first tool is."""
        from twofold import Memory

        place = self.location if self.remote or self.location == ":memory:" else Path(self.location).expanduser()
        return Memory.open(
            place,
            user=self.user or "",
            agent=self.agent,
            collection=self.collection,
            dense=self.model,
            language=self.language,
            api_key=self.api_key if self.remote else None,
        )

    @property
    def options(self) -> dict[str, str | None]:
        """What to type for the same memories again. Not the API key: secrets don't belong into messages."""
        return {
            "--location": self.location,
            "--user": self.user,
            "--agent": self.agent,
            "--collection": self.collection,
            "--language": self.language,
            "--model": self.model,
        }


@dataclass(frozen=True)
class Listening:
    """Where clients connect."""

    transport: Transport
    host: str
    port: int
    token: str | None

    @property
    def address(self) -> str:
        """Where clients on this machine find the server."""
        reached = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host  # noqa: S104
        return f"http://{reached}:{self.port}/mcp"

    @property
    def options(self) -> dict[str, str | None]:
        """What to type to listen there; nothing where it is the usual place."""
        host = None if self.host == USUAL_HOST else self.host
        return {"--host": host, "--port": None if self.port == USUAL_PORT else str(self.port)}


def run(served: Served, listening: Listening, *, read_only: bool, aliases: bool) -> None:
    """Serve until the client goes or the process is interrupted."""
    if not (served.user or "").strip():
        raise ConfigError("memories belong to somebody: say whose, with --user ada or TWOFOLD_USER=ada")
    try:
        from twofold.mcp import create_server, serve_http, serve_stdio
    except ImportError as error:
        raise ConfigError(str(error)) from error
    from twofold.tools import LazyMemory

    switches = [name for name, on in (("--read-only", read_only), ("--aliases", aliases)) if on]
    memory = LazyMemory(lambda: _open(served, listening, switches))
    server = create_server(memory, read_only=read_only, aliases=aliases)
    try:
        if listening.transport is Transport.stdio:
            serve_stdio(server)
        else:
            complain("listening", f"http://{listening.host}:{listening.port}/mcp", "green")
            serve_http(server, host=listening.host, port=listening.port, token=listening.token)
    finally:
        memory.close()


def _open(served: Served, listening: Listening, switches: list[str]) -> Memory:
    """Open the memories; if another process has them, say how several clients can share a server like this one."""
    from twofold import StoreLocked

    try:
        return served.open()
    except StoreLocked as error:
        given = {"--transport": Transport.http.value, **served.options, **listening.options}
        options = [f"{name} {shlex.quote(value)}" for name, value in given.items() if value]
        raise ConfigError(
            f"{error} For several MCP clients, start one server that all of them share, with "
            f"`{' '.join(['twofold mcp', *options, *switches])}`, and connect them to {listening.address}"
        ) from error
