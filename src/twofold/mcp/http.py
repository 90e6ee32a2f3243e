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
_LOCAL_HOSTS = ("127.0.0.1", "127.0.0.1:*", "localhost", "localhost:*", "[::1]", "[::1]:*")


def serve_http(server: Server[Any], *, host: str = "127.0.0.1", port: int = 8765, token: str | None = None) -> None:
    """Serve until interrupted, at `http://host:port/mcp`. `server`, `host` and `token` are as for `http_app`."""
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
        allowed_hosts=list(_LOCAL_HOSTS),
        allowed_origins=[f"http://{name}" for name in _LOCAL_HOSTS],
    )
    endpoint = _Endpoint(lambda: StreamableHTTPSessionManager(app=server, security_settings=security), token)
    return Starlette(routes=[Route(PATH, endpoint=endpoint)], lifespan=endpoint.run)


class _Endpoint:
    """The protocol's address, for clients that have the token. Sessions run while the application does."""

    def __init__(self, make_manager: Callable[[], StreamableHTTPSessionManager], token: str | None) -> None:
        self._make_manager = make_manager  # a manager runs only once
        self._authorization = f"Bearer {token}".encode() if token else None
        self._app: ASGIApp | None = None
        self._started = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def run(self, _: Starlette | None = None) -> AsyncIterator[None]:
        manager = self._make_manager()
        async with manager.run():
            self._app = getattr(manager, "asgi_app", manager.handle_request)
            try:
                yield
            finally:
                self._app = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from starlette.responses import PlainTextResponse

        app: ASGIApp
        given = dict(scope["headers"]).get(b"authorization", b"")
        if self._authorization is None or hmac.compare_digest(given, self._authorization):
            app = self._app or await self._start()
        else:
            refusal = "send the server's token, as Authorization: Bearer …"
            app = PlainTextResponse(refusal, 401, {"WWW-Authenticate": "Bearer"})
        await app(scope, receive, send)

    async def _start(self) -> ASGIApp:
        # An application that is mounted in another one is not told when that starts: the first request does it.
        if self._task is None or self._task.done():
            self._started = asyncio.Event()
            self._task = asyncio.create_task(self._run_until_loop_ends(self._started))
        await self._started.wait()
        if self._app is None:
            raise RuntimeError("the MCP server could not begin: the log says why")
        return self._app

    async def _run_until_loop_ends(self, started: asyncio.Event) -> None:
        """In a task of its own: sessions live longer than the request that started them."""
        try:
            async with self.run():
                started.set()
                await asyncio.Event().wait()
        finally:
            started.set()


def is_loopback(host: str) -> bool:
    """Only this machine can reach it."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    return host == "localhost"
