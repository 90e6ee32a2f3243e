"""MCP over streamable HTTP: one process, one store, any number of clients."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import ipaddress
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mcp.server.lowlevel import Server

from twofold.errors import ConfigError
from twofold.mcp.clients import check_token

if TYPE_CHECKING:  # loaded when HTTP is served: a stdio server answers sooner without them
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from mcp.server.transport_security import TransportSecuritySettings
    from starlette.applications import Starlette
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

PATH = "/mcp"
SESSION_SECONDS = 1800.0
"""A session in which nothing was asked for so long ends; its client is told to begin another one."""
REQUEST_SECONDS = 30.0
"""A request must have come in whole by then."""
MAX_REQUEST_BYTES = 4 * 1024 * 1024
_LOCAL_HOSTS = ("127.0.0.1", "127.0.0.1:*", "localhost", "localhost:*", "[::1]", "[::1]:*")


def serve_http(
    server: Server[Any] | Mapping[str, Server[Any]],
    *,
    host: str = "127.0.0.1",
    port: int = 8765,
    token: str | None = None,
    session_seconds: float = SESSION_SECONDS,
    request_seconds: float = REQUEST_SECONDS,
) -> None:
    """Serve until interrupted, at `http://host:port/mcp`. The rest is as for `http_app`."""
    import uvicorn

    from twofold.mcp.connection import patient

    given: dict[str, Any] = {"session_seconds": session_seconds, "request_seconds": request_seconds}
    app = http_app(server, host=host, token=token, **given)
    uvicorn.run(app, host=host, port=port, log_level="warning", http=patient(request_seconds))


def http_app(
    server: Server[Any] | Mapping[str, Server[Any]],
    *,
    host: str = "127.0.0.1",
    token: str | None = None,
    session_seconds: float = SESSION_SECONDS,
    request_seconds: float = REQUEST_SECONDS,
) -> Starlette:
    """The same as an ASGI application, to be served by itself or mounted in another one.

    Args:
        server: What `create_server` gave, for all clients; or what `create_servers` gave, one for each token.
        host: The address that it will be reached at. One that others can reach needs a token.
        token: What clients of a single server must send, as `Authorization: Bearer …`.
        session_seconds: After so long without a request a session ends.
        request_seconds: A request that isn't there as a whole by then is refused.
    """
    from mcp.server.transport_security import TransportSecuritySettings
    from starlette.applications import Starlette
    from starlette.routing import Route

    if min(session_seconds, request_seconds) <= 0:
        raise ConfigError("session_seconds and request_seconds must be more than 0: leave them out for the defaults")
    servers = _by_token(server, token)
    if not is_loopback(host) and None in servers:
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
    doors = [_Door(each, own, security, session_seconds) for own, each in servers.items()]
    endpoint = _Endpoint(doors, request_seconds)
    return Starlette(routes=[Route(PATH, endpoint=endpoint)], lifespan=endpoint.run)


def _by_token(server: Server[Any] | Mapping[str, Server[Any]], token: str | None) -> Mapping[str | None, Server[Any]]:
    """The servers by their tokens; None for one that asks for none."""
    if not isinstance(server, Mapping):
        return {None if token is None else check_token(token): server}
    if token is not None or not server:
        raise ConfigError("with a server for each token there is one at least, and no token= besides: leave it out")
    return {check_token(each): own for each, own in server.items()}


class _Door:
    """One server, for the clients that have its token. Its sessions are its own: nobody else can name them."""

    def __init__(
        self, server: Server[Any], token: str | None, security: TransportSecuritySettings, session_seconds: float
    ) -> None:
        self._server, self._security, self._session_seconds = server, security, session_seconds
        self.token = None if token is None else _digest(f"Bearer {token}".encode())
        self.app: ASGIApp | None = None

    @contextlib.asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Let clients in."""
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        # A manager runs only once.
        manager: StreamableHTTPSessionManager = StreamableHTTPSessionManager(
            app=self._server, security_settings=self._security, session_idle_timeout=self._session_seconds
        )
        async with manager.run():
            self.app = getattr(manager, "asgi_app", manager.handle_request)
            try:
                yield
            finally:
                self.app = None


def _digest(header: bytes) -> bytes:
    return hashlib.sha256(header).digest()


async def _read(receive: Receive) -> bytearray | None:
    """The body of a request, None if the client left; what is longer than allowed is not read to its end."""
    body, more = bytearray(), True
    while more and len(body) <= MAX_REQUEST_BYTES:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


def _replay(body: bytes, receive: Receive) -> Receive:
    """A request whose body was read already."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return messages.pop() if messages else await receive()

    return replayed


def _refuse(status: int, reason: str, headers: Mapping[str, str] | None = None) -> ASGIApp:
    """An answer to what was not read whole: the connection is good for nothing more."""
    from starlette.responses import PlainTextResponse

    return PlainTextResponse(reason, status, {**(headers or {}), "Connection": "close"})


class _Endpoint:
    """The protocol's address: finds the door that a request has the token for. Sessions run while it does."""

    def __init__(self, doors: Sequence[_Door], request_seconds: float) -> None:
        self._doors, self._request_seconds = doors, request_seconds
        self._started = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def run(self, _: Starlette | None = None) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for door in self._doors:
                await stack.enter_async_context(door.run())
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        door = self._door(dict(scope["headers"]).get(b"authorization", b""))
        if door is None:
            refusal = "send the server's token, as Authorization: Bearer …"
            await _refuse(401, refusal, {"WWW-Authenticate": "Bearer"})(scope, receive, send)
            return
        if scope["method"] == "POST":
            try:
                body = await asyncio.wait_for(_read(receive), self._request_seconds)
            except asyncio.TimeoutError:
                late = f"the request was not there as a whole within {self._request_seconds:g} seconds: send it again"
                await _refuse(408, late)(scope, receive, send)
                return
            if body is None:
                return
            if len(body) > MAX_REQUEST_BYTES:
                large = f"a request has {MAX_REQUEST_BYTES:,} bytes at most: send less at once"
                await _refuse(413, large)(scope, receive, send)
                return
            receive = _replay(bytes(body), receive)
        app = door.app or await self._start(door)
        await app(scope, receive, send)

    def _door(self, given: bytes) -> _Door | None:
        """The door for a token. All are compared, in the same time, so that none tells how near a guess was."""
        digest, found = _digest(given), None
        for door in self._doors:
            if door.token is None or hmac.compare_digest(digest, door.token):
                found = door
        return found

    async def _start(self, door: _Door) -> ASGIApp:
        # An application that is mounted in another one is not told when that starts: the first request does it.
        if self._task is None or self._task.done():
            self._started = asyncio.Event()
            self._task = asyncio.create_task(self._run_until_loop_ends(self._started))
        await self._started.wait()
        if door.app is None:
            raise RuntimeError("the MCP server could not begin: the log says why")
        return door.app

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
