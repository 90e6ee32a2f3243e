"""The real HTTP server in a thread of this process, and clients that have a token."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import uvicorn
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.server.lowlevel import Server
from mcp.shared._httpx_utils import create_mcp_http_client

from tests.kit.rest import reserve
from tests.mcp.talking import PATIENCE_SECONDS
from twofold.mcp import http_app
from twofold.mcp.connection import patient


@contextmanager
def serving(server: Server[Any] | Mapping[str, Server[Any]], **options: Any) -> Iterator[str]:
    """The address at which `serve_http` would serve, until the end of the block."""
    holder, port = reserve()
    protocol = patient(options.get("request_seconds", 30.0))
    config = uvicorn.Config(http_app(server, **options), port=port, log_level="critical", http=protocol)
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, daemon=True)
    with holder:
        thread.start()
        try:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not running.started and time.monotonic() < deadline:
                time.sleep(0.01)
            assert running.started
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            running.force_exit = running.should_exit = True
            thread.join(PATIENCE_SECONDS)


@asynccontextmanager
async def client_of(url: str, token: str) -> AsyncIterator[ClientSession]:
    """A client of the package's own, with a token."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        create_mcp_http_client(headers=headers) as http,
        streamable_http_client(url, http_client=http) as streams,
        ClientSession(streams[0], streams[1]) as session,
    ):
        await session.initialize()
        yield session
