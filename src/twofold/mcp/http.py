"""MCP over streamable HTTP: one process, one store, any number of clients."""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from mcp.server.lowlevel import Server

from twofold.errors import ConfigError

if TYPE_CHECKING:  # loaded when HTTP is served: a stdio server answers sooner without them
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
    """The same as an ASGI application, to be served together with others."""
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
    manager = StreamableHTTPSessionManager(app=server, security_settings=security)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    endpoint = _Endpoint(getattr(manager, "asgi_app", manager.handle_request), token)
    return Starlette(routes=[Route(PATH, endpoint=endpoint)], lifespan=lifespan)


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
