"""Talking to MCP servers: with the package's own client, and line by line."""

from __future__ import annotations

import json
import queue
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.cli.runs import QUIET_ENV
from tests.docs.pages import ROOT
from tests.kit.rest import reserve

PATIENCE_SECONDS = 60
HELLO = {
    "jsonrpc": "2.0",
    "id": "hello",
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def fixture_server(folder: Path, *more: object) -> list[str]:
    return [sys.executable, "-m", "tests.mcp.fixture_server", str(folder), *map(str, more)]


def twofold_mcp(*options: object) -> list[str]:
    return [sys.executable, "-m", "twofold", "mcp", *map(str, options)]


@asynccontextmanager
async def stdio_session(command: Sequence[str]) -> AsyncIterator[ClientSession]:
    parameters = StdioServerParameters(command=command[0], args=list(command[1:]), env=QUIET_ENV, cwd=str(ROOT))
    async with stdio_client(parameters) as streams, ClientSession(streams[0], streams[1]) as session:
        await session.initialize()
        yield session


@asynccontextmanager
async def http_session(url: str) -> AsyncIterator[ClientSession]:
    async with streamable_http_client(url) as streams, ClientSession(streams[0], streams[1]) as session:
        await session.initialize()
        yield session


async def ask(session: ClientSession, name: str, **arguments: Any) -> dict[str, Any]:
    """The answer of a tool, as it stands on the wire."""
    return dict((await session.call_tool(name, arguments)).model_dump(by_alias=True, exclude_none=True))


class Wire:
    """A stdio server, spoken to in bytes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.lines: queue.Queue[bytes] = queue.Queue()
        self.errors: list[bytes] = []
        self._threads = [
            threading.Thread(target=self._read, daemon=True),
            threading.Thread(target=self._listen, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self.lines.put(line)

    def _listen(self) -> None:
        for line in self.process.stderr or ():
            self.errors.append(line)

    def send(self, *messages: bytes | dict[str, Any]) -> None:
        assert self.process.stdin
        for message in messages:
            self.process.stdin.write(message if isinstance(message, bytes) else json.dumps(message).encode())
            self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def answer(self, identity: object) -> dict[str, Any]:
        """The answer to a request. Every line up to it must be a message of the protocol."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            message = json.loads(self.lines.get(timeout=max(deadline - time.monotonic(), 0.01)))
            assert message["jsonrpc"] == "2.0"
            if message.get("id") == identity and type(message["id"]) is type(identity):
                return dict(message)

    def request(self, method: str, params: dict[str, Any] | None = None, identity: object = "ask") -> dict[str, Any]:
        message = {"jsonrpc": "2.0", "id": identity, "method": method}
        self.send(message if params is None else {**message, "params": params})
        return self.answer(identity)

    def tool(self, name: str, **arguments: Any) -> dict[str, Any]:
        """The answer of a tool."""
        return dict(self.request("tools/call", {"name": name, "arguments": arguments})["result"])

    def leave(self) -> str:
        """Say goodbye, and read what the server wrote to stderr."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(PATIENCE_SECONDS)
        self.join()
        return b"".join(self.errors).decode("utf-8", "replace")

    def join(self) -> None:
        """Wait until everything is read, once the process has ended."""
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)


@contextmanager
def wire(command: Sequence[str], env: Mapping[str, str] = QUIET_ENV) -> Iterator[Wire]:
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=env, cwd=ROOT) as process:
        made = Wire(process)
        try:
            made.send(HELLO, READY)
            made.answer("hello")
            yield made
        finally:
            process.kill()
            made.join()


@contextmanager
def http_server(command: Callable[[int], Sequence[str]]) -> Iterator[str]:
    """The address of a server in a process of its own, which `command` starts on a port that nobody else gets."""
    holder, port = reserve()
    with holder, tempfile.TemporaryFile() as errors:  # a pipe that nobody reads would fill up and stop the server
        process = subprocess.Popen(command(port), stderr=errors, stdout=subprocess.DEVNULL, env=QUIET_ENV, cwd=ROOT)
        with process:
            try:
                if not _listens(port, process):
                    errors.seek(0)
                    raise AssertionError(f"the server did not start: {errors.read()!r}")
                yield f"http://127.0.0.1:{port}/mcp"
            finally:
                process.terminate()
                process.wait(PATIENCE_SECONDS)


def _listens(port: int, process: subprocess.Popen[bytes]) -> bool:
    """Wait until the server takes connections; False if it ended, or takes too long."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return True
        time.sleep(0.05)
    return False
