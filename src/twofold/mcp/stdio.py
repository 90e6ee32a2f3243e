"""MCP over stdin and stdout, which belong to the protocol alone."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

# One escape after the other, so that a backslash that is itself escaped is not taken for the beginning of one.
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)


def serve_stdio(server: Server[Any]) -> None:
    """Serve the client that started this process, until it goes."""
    with claimed_streams() as (source, sink):
        anyio.run(_serve, server, source, sink)


async def _serve(server: Server[Any], source: TextIOWrapper, sink: TextIOWrapper) -> None:
    async with stdio_server(anyio.wrap_file(source), anyio.wrap_file(sink)) as (reads, writes):
        await server.run(reads, writes, server.create_initialization_options())


class Lines(TextIOWrapper):
    """Lines of JSON without half characters: the parser refuses them, and the request would never be answered."""

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]
        """The next line."""
        return without_half_characters(super().readline(size))


def without_half_characters(line: str) -> str:
    """JSON text with U+FFFD in place of every escape that stands for half a character."""
    return _ESCAPE.sub(lambda found: "\\ufffd" if found[1] else found[0], line) if "\\u" in line else line


@contextmanager
def claimed_streams() -> Iterator[tuple[TextIOWrapper, TextIOWrapper]]:
    """The two ends of the protocol. Whatever else prints, here or in a child process, goes to stderr."""
    sys.stdout.flush()
    kept = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    source = Lines(os.fdopen(kept[0], "rb", closefd=False), encoding="utf-8", errors="replace")
    sink = TextIOWrapper(os.fdopen(kept[1], "wb", closefd=False), encoding="utf-8", errors="replace", newline="\n")
    try:
        yield source, sink
    finally:
        sys.stdout.flush()
        for number, original in enumerate(kept):
            os.dup2(original, number)
