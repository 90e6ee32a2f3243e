"""A folder, as its users in this process have it: the store itself, or a way to the process that holds it.

`Folder` asks for the lock. Who gets it opens the store, and serves it (`serving.py`). Everybody else joins: a client of
qdrant-client's own, whose requests go to the holder over its socket. When the holder is gone, closed or killed, whoever
notices asks for the lock again: one takes over, with the store under its own hands from then on, and the others find
it in the lock file. A request that got no answer is sent again; all that change something may be carried out twice.
"""

from __future__ import annotations

import os
import platform
import socket
import threading
import time
import weakref
from typing import TYPE_CHECKING

from twofold.errors import EngineUnavailable

from .errors import Holder, StoreClosed, StoreError, StoreLocked
from .serving import PROTOCOL, SECRET_HEADER, reach, read_message, to_bytes
from .store import Options, Store, open_store

if TYPE_CHECKING:
    from .client.joined import JoinedClient

ANSWER_SECONDS = 30.0
# A holder that closes lets go of its socket first, and of the lock when everything is on disk.
_OPENING_SECONDS = 5.0
_POLL_SECONDS = 0.02
# What was sent so often, and each time ended the connection, may be what ends the holders.
_MAX_BROKEN = 5


class Folder:
    """One user's share of a folder, or of memory: `store` while this process holds it, `client` while another does."""

    def __init__(self, path: str | os.PathLike[str], options: Options, seconds: float = ANSWER_SECONDS) -> None:
        self.path = path
        self.options = options
        self.store: Store | None = None
        self._seconds = seconds
        self._guard = threading.Lock()
        self._released = False
        self._has_joined = False
        self._idle: list[_Line] = []
        self._client: JoinedClient | None = None
        line = self._enter(time.monotonic() + _OPENING_SECONDS)
        if line is not None:
            self._idle.append(line)
        _folders.add(self)

    @property
    def client(self) -> JoinedClient:
        """A QdrantClient of whoever holds the store."""
        if self._client is None:
            from .client.joined import JoinedClient

            self._client = JoinedClient(self)
        return self._client

    def request(self, method: str, path: str, body: bytes = b"", *, wait: bool = False) -> tuple[int, bytes]:
        """The status and body of an answer, from the holder or, if this process becomes it, from here.

        It raises an `EngineUnavailable` when there is none in time, unless it is to `wait` for as long as it takes.
        """
        deadline = time.monotonic() + self._seconds
        broken = 0
        while (line := self._line(deadline)) is not None:
            try:
                answer = line.ask(method, path, body, None if wait else max(deadline - time.monotonic(), 0.001))
            except TimeoutError as error:
                line.close()
                raise self._unavailable(method, path, f"did not answer within {self._seconds:g} s") from error
            except OSError as error:
                line.close()
                broken += line.fresh
                if broken >= _MAX_BROKEN:
                    raise self._unavailable(method, path, f"ended the connection {broken} times") from error
                if wait:
                    deadline = time.monotonic() + self._seconds  # it may have been under way for long
                continue
            line.fresh = False
            with self._guard:
                if self._released:
                    line.close()
                else:
                    self._idle.append(line)
            return answer
        from .client.routes import OverStore

        return OverStore(self._held()).answer(method, path, body)

    def _held(self) -> Store:
        store = self.store
        if store is None:  # let go of meanwhile
            raise self._closed()
        return store

    def _closed(self) -> StoreClosed:
        return StoreClosed(f"The client for {self.path} is closed: open another with embedded_client(path).")

    def _line(self, deadline: float) -> _Line | None:
        """A connection to the holder; None if this process is it."""
        try:
            line = self._idle.pop()
        except IndexError:
            return self._enter(deadline)
        if line.ended():
            line.close()
            return self._line(deadline)
        return line

    def _enter(self, deadline: float) -> _Line | None:
        """Take the lock and open the store, if nobody has it, or connect to who does."""
        seen: Holder | None = None
        while True:
            locked = self._open()
            if locked is None:
                return None
            holder = locked.holder
            if holder is None or not holder.address or not self.options.share:
                raise locked
            try:
                self._check(locked.path, holder)
            except StoreError:
                if holder == seen:
                    raise
                seen = holder  # it may be one that was killed, and the next is about to write there
                time.sleep(_POLL_SECONDS)
                continue
            try:
                line = _Line(holder, max(deadline - time.monotonic(), 0.001))
                self._has_joined = True
                return line
            except OSError as error:
                if time.monotonic() >= deadline:
                    why = f"which can't be reached at {holder.address} ({error})"
                    raise StoreLocked(locked.path, holder, why) from error
            except StoreError as error:
                raise StoreLocked(locked.path, holder, f"which isn't joined: {error}") from error
            time.sleep(_POLL_SECONDS)

    def _open(self) -> StoreLocked | None:
        """Have the store here; who has it, if that is another process."""
        with self._guard:  # several threads notice at once that the holder is gone
            if self._released:
                raise self._closed()
            try:
                self.store = self.store or open_store(self.path, self.options, joined=self._has_joined)
            except StoreLocked as error:
                return error
        return None

    def _check(self, path: str, holder: Holder) -> None:
        if holder.host != platform.node():
            raise StoreLocked(path, holder, "on another machine or in another container")
        if holder.protocol != PROTOCOL:
            why = f"with Twofold {holder.version}, which shares it in another way: run the same version in both"
            raise StoreLocked(path, holder, why)
        if self.options.durability == "power" and holder.durability != "power":
            raise StoreError(
                f"{path} is open in {holder} with durability={holder.durability!r}: open it with the same, or close "
                "it there first."
            )

    def _unavailable(self, method: str, path: str, what: str) -> EngineUnavailable:
        return EngineUnavailable(
            f"{method} {path}: the process that holds {self.path} {what}. Has it been stopped, or is it very busy? Its "
            f"number is in twofold.lock there.",
            operation=f"{method} {path}",
            location=str(self.path),
        )

    def release(self) -> None:
        """Let go; whoever is the last of this process to do so closes the store."""
        with self._guard:
            self._released = True
            store, self.store = self.store, None
        self._drop_lines()
        if store is not None:
            store.release()

    def forget(self) -> None:
        """As `release`, a moment later and without waiting: for finalisers."""
        self._released = True
        if self.store is not None:
            self.store.forget()
        self._drop_lines()

    def _drop_lines(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def after_fork(self) -> None:
        """In the child: the store is the parent's, who lets others in, and so are the connections."""
        self._guard = threading.Lock()
        if self.store is not None and not self.store.in_memory:
            self.store = None
        self._drop_lines()


class _Line:
    """A connection to the holder, for one request at a time."""

    def __init__(self, holder: Holder, timeout: float) -> None:
        self._socket = reach(holder, timeout)
        self._stream = self._socket.makefile("rb")
        self._headers = [("Host", "twofold"), ("Content-Type", "application/json")]
        if holder.secret:
            self._headers.append((SECRET_HEADER, holder.secret))
        self.fresh = True
        """Nothing was answered on it yet."""

    def ask(self, method: str, path: str, body: bytes, timeout: float | None) -> tuple[int, bytes]:
        self._socket.settimeout(timeout)
        self._socket.sendall(to_bytes(f"{method} {path} HTTP/1.1", self._headers, body))
        answer = read_message(self._stream)
        if answer is None:
            raise ConnectionResetError("the connection ended without an answer")
        return int(answer.start[1]), answer.body

    def ended(self) -> bool:
        """Whether the other side has let go of it: nothing else is ever to be read between two requests."""
        self._socket.settimeout(0)
        try:
            return not self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


_folders: weakref.WeakSet[Folder] = weakref.WeakSet()


def _after_fork() -> None:
    for folder in list(_folders):
        folder.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
