"""MCP over streamable HTTP: one process, one store, any number of clients."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from mcp.server.lowlevel import Server

from twofold.errors import ConfigError

if TYPE_CHECKING:  # loaded when HTTP is served: a stdio server answers sooner without them
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from starlette.applications import Starlette
    from starlette.types import ASGIApp, Receive, Scope, Send

PATH = "/mcp"
_LOCAL = ("127.0.0.1", "localhost", "[::1]")


def serve_http(server: Server[Any], *, host: str = "127.0.0.1", port: int = 8765, token: str | None = None) -> None:
    """Serve until interrupted, at `http://host:port/mcp`.

    Args:
        server: What `create_server` gave.
        host: The address to listen on. One that others can reach needs a token.
        port: The port to listen on.
        token: What clients must send, as `Authorization: Bearer …`.
    """
    import uvicorn

    uvicorn.run(http_app(server, host=host, token=token), host=host, port=port, log_level="warning")


def http_app(server: Server[Any], *, host: str = "127.0.0.1", token: str | None = None) -> Starlette:
    """The same as an ASGI application, to be served by itself or mounted in another one.

    Args:
        server: What `create_server` gave.
        host: The address that it will be reached at. One that others can reach needs a token.
        token: What clients must send, as `Authorization: Bearer …`.
    """
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from mcp.server.transport_security import TransportSecuritySettings
    from starlette.applications import Starlette
    from starlette.routing import Route

    if not is_loopback(host) and not token:
        raise ConfigError(
            f"whoever reaches {host} could read and change the memories: give a token (--token, TWOFOLD_MCP_TOKEN), "
            "or listen on 127.0.0.1"
        )
    # A page in a browser must not reach a local server through a name that points here.
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=is_loopback(host),
        allowed_hosts=[name for local in _LOCAL for name in (local, f"{local}:*")],
        allowed_origins=[f"http://{name}" for local in _LOCAL for name in (local, f"{local}:*")],
    )
    sessions = _Sessions(lambda: StreamableHTTPSessionManager(app=server, security_settings=security))
    return Starlette(routes=[Route(PATH, endpoint=_Endpoint(sessions, token))], lifespan=sessions.run)


class _Sessions:
    """The sessions of clients: from when the application starts until it stops, as often as it does.

    An application that is mounted in another one is not told when that starts. Then the first request begins them.
    """

    def __init__(self, make: Callable[[], StreamableHTTPSessionManager]) -> None:
        self._make = make  # a manager runs only once
        self._app: ASGIApp | None = None
        self._begun = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def run(self, _: Starlette | None = None) -> AsyncIterator[None]:
        manager = self._make()
        async with manager.run():
            self._app = getattr(manager, "asgi_app", manager.handle_request)
            try:
                yield
            finally:
                self._app = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app or await self._begin()
        await app(scope, receive, send)

    async def _begin(self) -> ASGIApp:
        if self._keeper is None or self._keeper.done():
            self._begun = asyncio.Event()
            self._keeper = asyncio.create_task(self._keep(self._begun))
        await self._begun.wait()
        if self._app is None:
            raise RuntimeError("the MCP server could not begin: the log says why")
        return self._app

    async def _keep(self, begun: asyncio.Event) -> None:
        """In a task of its own: sessions live longer than the request that began them, until the event loop ends."""
        try:
            async with self.run():
                begun.set()
                await asyncio.Event().wait()
        finally:
            begun.set()


class _Endpoint:
    """The protocol's address, for those who have the token."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode() if token else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from starlette.responses import PlainTextResponse

        given = dict(scope["headers"]).get(b"authorization", b"")
        if self._expected is not None and not hmac.compare_digest(given, self._expected):
            refusal = PlainTextResponse(
                "send the server's token, as Authorization: Bearer …", 401, {"WWW-Authenticate": "Bearer"}
            )
            await refusal(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def is_loopback(host: str) -> bool:
    """Only this machine can reach it."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    return host == "localhost"
