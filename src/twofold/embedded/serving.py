"""The holder of a store lets other processes of its user in: Qdrant's own REST, over a socket that only they can reach.

On Unix that is a socket in a directory of this user's alone, which is also short enough for the 107 bytes that the
system allows; its name follows from the folder, so that one which a killed process has left behind is replaced. The
system says whose process is at the other end. On Windows it is a port on loopback, with a secret that stands in the
lock file. What a request is answered is said in `client/routes.py`, which is imported when the first one comes.

A request that was begun while the store closes gets no answer: whoever sent it asks the next holder.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import secrets
import socket
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from .errors import Holder, StoreClosed, StoreError

if TYPE_CHECKING:
    from .store import Store

PROTOCOL = 1
SECRET_HEADER = "api-key"  # noqa: S105 - its name, which is Qdrant's
_LOG = logging.getLogger("twofold.embedded")
_UNIX = hasattr(socket, "AF_UNIX") and sys.platform != "win32"
_MAX_SOCKET_PATH_BYTES = 100
_WAITING_CONNECTIONS = 128
_READ_BYTES = 1 << 16
_ACCEPT_AGAIN_SECONDS = 0.1


class Message(NamedTuple):
    """A request or an answer: the three words of its first line, its headers in lower case, and its body."""

    start: list[str]
    headers: dict[str, str]
    body: bytes


def read_message(stream: BinaryIO) -> Message | None:
    """The next request or answer on a connection; None where it ended before there was a whole one."""
    start = stream.readline(_READ_BYTES)
    headers = {}
    while True:
        line = stream.readline(_READ_BYTES)
        if not line.endswith(b"\n"):
            return None
        if line in (b"\r\n", b"\n"):
            break
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    length = int(headers.get("content-length", 0))
    body = stream.read(length)
    return Message(start.decode("latin-1").split(None, 2), headers, body) if len(body) == length else None


def to_bytes(start: str, headers: Iterable[tuple[str, str]], body: bytes) -> bytes:
    """A request or an answer in one piece: two would be two waits."""
    lines = [start, *(f"{name}: {value}" for name, value in headers), f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


# --- The holder's side ---


class Server:
    """Lets others in from `start` to `close`; who connects before waits for the first, and isn't refused."""

    def __init__(self, listener: socket.socket, address: str, secret: str) -> None:
        self._listener, self._address, self._secret = listener, address, secret
        self._connections: set[socket.socket] = set()
        self._guard = threading.Lock()
        self._closing = False
        self._client: Any = None

    @classmethod
    def at(cls, directory: Path) -> Server | None:
        """A server for the store in a directory; None where the system won't have it, and nobody else gets in."""
        try:
            if not _UNIX:
                listener = socket.create_server(("127.0.0.1", 0), backlog=_WAITING_CONNECTIONS)
                return cls(listener, f"127.0.0.1:{listener.getsockname()[1]}", secrets.token_hex(16))
            path = _socket_path(directory)
            path.unlink(missing_ok=True)  # a killed holder's: this one has the lock
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listener.bind(str(path))
            path.chmod(0o600)
            listener.listen(_WAITING_CONNECTIONS)
            return cls(listener, str(path), "")
        except (OSError, StoreError) as error:
            _LOG.warning("%s can't be shared with other processes: %s", directory, error)
            return None

    @property
    def announcement(self) -> dict[str, Any]:
        """What the lock file says to those who want to join."""
        told = {"protocol": PROTOCOL, "version": version("twofold")}
        return {"address": self._address, "secret": self._secret, **told}

    def start(self, store: Store) -> None:
        threading.Thread(target=self._accept, args=(store,), name="twofold-server", daemon=True).start()

    def _accept(self, store: Store) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed, or too many files are open just now, or who came has gone
                if self._closing:
                    return
                time.sleep(_ACCEPT_AGAIN_SECONDS)
                continue
            with self._guard:
                if self._closing or not _is_ours(connection):
                    connection.close()
                    continue
                self._connections.add(connection)
            serving = threading.Thread(
                target=self._serve, args=(connection, store), name="twofold-serving", daemon=True
            )
            try:
                serving.start()
            except RuntimeError as error:  # too many threads
                _LOG.warning("a process that joins %s is turned away: %s", store.path, error)
                with self._guard:
                    self._connections.discard(connection)
                connection.close()

    def _serve(self, connection: socket.socket, store: Store) -> None:
        try:
            with connection, connection.makefile("rb") as stream:
                while not self._closing and (request := read_message(stream)) is not None:
                    status, body = self._answer(store, request)
                    content = [("Content-Type", "application/json")]
                    connection.sendall(to_bytes(f"HTTP/1.1 {status} -", content, body))
        except (OSError, StoreClosed):
            pass  # they are gone, or the store is
        except Exception:
            _LOG.exception("a request of another process failed")
        finally:
            with self._guard:
                self._connections.discard(connection)

    def _answer(self, store: Store, request: Message) -> tuple[int, bytes]:
        if self._secret and not hmac.compare_digest(request.headers.get(SECRET_HEADER, ""), self._secret):
            return 401, json.dumps({"status": {"error": "the secret in the lock file is missing"}}).encode()
        if self._client is None:
            try:
                from .client.routes import OverStore
            except ImportError as error:  # another version of qdrant-client
                return 501, json.dumps({"status": {"error": str(error)}}).encode()
            self._client = OverStore(store)
        method, path, _ = request.start
        answer: tuple[int, bytes] = self._client.answer(method, path, request.body)
        return answer

    def close(self) -> None:
        """Let nobody in any more. Requests that are being answered may end, or fail with the store."""
        with self._guard:
            self._closing = True
            connections = list(self._connections)
        with suppress(OSError), _connected(self._address, 0.1):  # wakes the thread that accepts
            pass
        self._listener.close()
        if _UNIX:
            Path(self._address).unlink(missing_ok=True)
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RD)  # nothing more is read, what is being answered may be sent

    def abandon(self) -> None:
        """In a forked child: all of it is the parent's, and a copy kept open here would hide its death from others."""
        self._guard = threading.Lock()
        for each in (self._listener, *self._connections):
            with suppress(OSError):  # one that was just ended
                os.close(each.detach())  # `close` would wait for whoever reads from it


def _socket_path(directory: Path) -> Path:
    """The socket for the store in a directory, in a directory of this user's alone."""
    place = directory.stat()
    name = hashlib.sha256(f"{place.st_dev}:{place.st_ino}".encode()).hexdigest()[:16]
    for parent in (tempfile.gettempdir(), "/tmp"):  # noqa: S108 - what is made there is nobody else's
        path = Path(parent) / f"twofold-{os.geteuid()}" / f"{name}.sock"
        if len(os.fsencode(path)) <= _MAX_SOCKET_PATH_BYTES:
            break
    path.parent.mkdir(mode=0o700, exist_ok=True)
    check_own(path.parent)
    return path


# --- Whom to trust ---


def check_own(path: Path) -> None:
    """Refuse what isn't this user's alone: anybody may put anything into the system's temporary directory."""
    status = path.lstat()
    if status.st_uid != os.geteuid() or (status.st_mode & 0o077 and not path.is_socket()) or path.is_symlink():
        raise StoreError(f"{path} isn't this user's alone, so nothing is sent or kept there")


def _is_ours(connection: socket.socket) -> bool:
    """Whether the process at the other end belongs to this user, as far as the system tells."""
    peer = getattr(socket, "SO_PEERCRED", None)
    if peer is None or connection.family != getattr(socket, "AF_UNIX", None):
        return True
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, peer, struct.calcsize("3i")))
    return bool(user == os.geteuid())


def reach(holder: Holder, timeout: float | None) -> socket.socket:
    """A connection to who holds a store. `OSError` if nobody is there, `StoreError` if it is somebody else."""
    if _UNIX:
        path = Path(holder.address)
        check_own(path.parent)
        check_own(path)
    connection = _connected(holder.address, timeout)
    if not _is_ours(connection):
        connection.close()
        raise StoreError(f"{holder.address} is served by another user, so nothing is sent there")
    return connection


def _connected(address: str, timeout: float | None) -> socket.socket:
    host, _, port = address.rpartition(":")
    target: Any = address if _UNIX else (host, int(port))
    connection = socket.socket(socket.AF_UNIX if _UNIX else socket.AF_INET)
    try:
        connection.settimeout(timeout)
        connection.connect(target)
    except BaseException:
        connection.close()
        raise
    return connection
