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
        from twofold import Memory, StoreLocked

        place = self.location if self.remote or self.location == ":memory:" else Path(self.location).expanduser()
        try:
            return Memory.open(
                place,
                user=self.user or "",
                agent=self.agent,
                collection=self.collection,
                dense=self.model,
                language=self.language,
                api_key=self.api_key if self.remote else None,
            )
        except StoreLocked as error:
            raise ConfigError(
                f"{error} For several MCP clients, start one server that all of them share, with `{self._shared()}`, "
                "and connect them to http://127.0.0.1:8765/mcp"
            ) from error

    def _shared(self) -> str:
        options = f"--location {shlex.quote(self.location)} --user {shlex.quote(self.user or '')}"
        return f"twofold mcp --transport http {options}"


@dataclass(frozen=True)
class Listening:
    """Where clients connect."""

    transport: Transport
    host: str
    port: int
    token: str | None


def run(served: Served, listening: Listening, *, read_only: bool, aliases: bool) -> None:
    """Serve until the client goes or the process is interrupted."""
    if not (served.user or "").strip():
        raise ConfigError("memories belong to somebody: say whose, with --user ada or TWOFOLD_USER=ada")
    try:
        from twofold.mcp import create_server, serve_http, serve_stdio
    except ImportError as error:
        raise ConfigError(str(error)) from error
    from twofold.tools import LazyMemory

    memory = LazyMemory(served.open)
    server = create_server(memory, read_only=read_only, aliases=aliases)
    try:
        if listening.transport is Transport.stdio:
            serve_stdio(server)
        else:
            complain("listening", f"http://{listening.host}:{listening.port}/mcp", "green")
            serve_http(server, host=listening.host, port=listening.port, token=listening.token)
    finally:
        memory.close()
