"""A loopback endpoint that speaks Qdrant's REST over any client, for tests: it can fail in every way a server does.

with RestServer(lambda: embedded_client(folder)) as server:
    client = QdrantClient(url=server.url)
    server.faults.status(503, times=2)

As a process that a test can kill: python -m tests.kit.rest FOLDER --port 6333
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any

from qdrant_client import QdrantClient
from qdrant_client.local.qdrant_local import QdrantLocal
from typing_extensions import Self

from tests.kit.faults import Fault, Faults
from twofold.embedded.client.routes import Refusal, error_body, find, result_body

VERSION = "1.20.0"
GARBAGE = b"<html>it works!</html>"
# What is asked for with a body, and changes nothing.
_READS = ("/query", "/query/batch", "/query/groups", "/scroll", "/count", "/facet", "/points")


class RestServer:
    """An endpoint over the client that `open_client` opens; stop() closes it, start() opens it on the same port."""

    def __init__(self, open_client: Callable[[], QdrantClient], *, version: str = VERSION, port: int = 0) -> None:
        self.version = version
        self.api_key: str | None = None
        """What a request must bring along; None to take any."""
        self.read_key: str | None = None
        """What a request that only reads may bring along instead."""
        self.stale_reads = 0
        """So often what a collection was before its last change is said, as by a node that lags behind."""
        self.known: dict[str, str] = {}
        self.status = "green"
        """What is said of every collection."""
        self.instead: dict[str, str] = {}
        """What is said of collections, and of their shards, in place of what the engine says: texts in the JSON."""
        self.faults = Faults()
        self.requests: list[tuple[str, str]] = []
        """(method, path) of every request that arrived."""
        self.last_headers: dict[str, str] = {}
        """Those of the last request, by their names in lower case."""
        self.handled: list[tuple[str, str]] = []
        """(method, path) of those that reached the engine."""
        self._open_client = open_client
        self._reservation, self.port = reserve(port)
        self._client: QdrantClient | None = None
        self._http: _Http | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def running(self) -> bool:
        return self._http is not None

    def start(self) -> Self:
        """Open the store and listen. Starting twice is fine."""
        if self._http is None:
            self._client = self._open_client()
            self._http = _Http(self, self._client)
            Thread(target=self._http.serve_forever, args=(0.01,), name="kit-rest", daemon=True).start()
        return self

    def stop(self) -> None:
        """Cut every connection, let running requests end without an answer, and close the store."""
        if self._http is not None:
            http, self._http = self._http, None
            http.end()
        if self._client is not None:
            client, self._client = self._client, None
            client.close()

    def restart(self) -> None:
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop, and give the port back."""
        self.stop()
        self._reservation.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()


def reserve(port: int = 0) -> tuple[socket.socket, int]:
    """A port that stays ours while nothing listens on it: bound, never listening, so connecting is refused."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", port))
    number: int = holder.getsockname()[1]
    if sys.platform != "linux":  # elsewhere a second bind would be refused
        holder.close()
    return holder, number


class _Http(ThreadingHTTPServer):
    """One run of the endpoint, from start to stop."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, owner: RestServer, client: QdrantClient) -> None:
        self.owner = owner
        self.client = client
        # Local mode is not thread-safe.
        self.turn: Any = Lock() if isinstance(client._client, QdrantLocal) else nullcontext()
        self.stopping = Event()
        self.connections: dict[socket.socket, Thread] = {}
        self.guard = Lock()
        super().__init__(("127.0.0.1", owner.port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """As in the base class, but every thread is known before it runs, so that none outlives the store."""
        thread = Thread(target=self.process_request_thread, args=(request, client_address), daemon=True)
        with self.guard:
            self.connections[request] = thread
        thread.start()

    def shutdown_request(self, request: Any) -> None:
        with self.guard:
            self.connections.pop(request, None)
        super().shutdown_request(request)

    def end(self) -> None:
        self.stopping.set()
        self.shutdown()
        self.server_close()
        with self.guard:
            live = dict(self.connections)
        for connection in live:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in live.values():
            thread.join(30)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news; anything else is a mistake in the kit and is shown."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Http

    def finish(self) -> None:
        with suppress(OSError):
            super().finish()

    def do_GET(self) -> None:
        started = time.perf_counter()
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        owner = self.server.owner
        owner.requests.append((self.command, path))
        owner.last_headers = {name.lower(): value for name, value in self.headers.items()}
        drawn = owner.faults.draw(self.command, path, raw)
        answer = None
        if drawn.fault is None or drawn.fault.after:
            answer = self._handle(path, raw, started)
        if self.server.stopping.wait(drawn.seconds) if drawn.seconds else self.server.stopping.is_set():
            self.close_connection = True
        elif drawn.fault is not None:
            self._fail(drawn.fault)
        elif answer is not None:
            self._send(*answer)

    do_PUT = do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815

    def _handle(self, path: str, raw: bytes, started: float) -> tuple[int, bytes]:
        if path == "/":
            about = {"title": "qdrant - vector search engine", "version": self.server.owner.version}
            return 200, json.dumps(about).encode()
        try:
            self._check_key(path)
            route, names = find(self.command, path)
            with self.server.turn:
                result = route.answer(self.server.client, names, raw)
        except Refusal as error:
            return error.status, error_body(error.message, started)
        finally:
            self.server.owner.handled.append((self.command, path))
        owner = self.server.owner
        result = result.replace('"status":"green"', f'"status":"{owner.status}"')
        if self.command == "GET":
            for said, other in owner.instead.items():
                result = result.replace(said, other)
        if self.command == "GET" and path.count("/") == 2:
            if owner.stale_reads and path in owner.known:
                owner.stale_reads, result = owner.stale_reads - 1, owner.known[path]
            owner.known[path] = result
        return 200, result_body(result, started)

    def _check_key(self, path: str) -> None:
        """As a server does: 401 for a key that it doesn't know, 403 where one that may only read writes."""
        owner, key = self.server.owner, self.headers.get("api-key")
        if owner.api_key is None or key == owner.api_key:
            return
        if key is None or key != owner.read_key:
            raise Refusal(401, "Invalid API key or JWT")
        if self.command != "GET" and not (self.command == "POST" and path.endswith(_READS)):
            raise Refusal(403, "Forbidden: Global manage access is required")

    def _fail(self, fault: Fault) -> None:
        if fault.kind == "status":
            words = HTTPStatus(fault.code).phrase
            more = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
            self._send(fault.code, error_body(f"{words}, as the test asked", time.perf_counter()), more)
        elif fault.kind == "garbage":
            self._send(200, GARBAGE)
        else:
            self.close_connection = True
            while fault.kind == "hang" and not fault.released.wait(0.02) and not self.server.stopping.is_set():
                pass

    def _send(self, status: int, body: bytes, more: dict[str, str] | None = None) -> None:
        """All in one write: two would wait 40 ms for the other side's delayed acknowledgement."""
        self.send_response_only(status)
        for name, value in {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            **(more or {}),
        }.items():
            self.send_header(name, value)
        head: list[bytes] = self._headers_buffer  # type: ignore[attr-defined]
        head.extend((b"\r\n", body))
        self.flush_headers()


def main(arguments: list[str] | None = None) -> None:
    """Serve a store until killed; the first line of output is the URL."""
    parser = argparse.ArgumentParser(prog="python -m tests.kit.rest", description=main.__doc__)
    parser.add_argument("path")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--engine", choices=("embedded", "local"), default="embedded")
    parser.add_argument("--version", default=VERSION)
    given = parser.parse_args(arguments)
    with RestServer(lambda: _open(given.engine, given.path), version=given.version, port=given.port) as server:
        print(server.url, flush=True)
        with suppress(KeyboardInterrupt):
            Event().wait()


def _open(engine: str, path: str) -> QdrantClient:
    if engine == "local":
        return QdrantClient(path=path, force_disable_check_same_thread=True)
    from twofold.embedded import embedded_client

    return embedded_client(path)


if __name__ == "__main__":
    main()
