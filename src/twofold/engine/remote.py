"""A Qdrant server by URL: bounded retries, and one deadline for each call of the index."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from functools import partial
from threading import Lock, Thread
from typing import Any
from weakref import WeakKeyDictionary

from qdrant_client import AsyncQdrantClient, QdrantClient

from twofold.engine.calls import for_client
from twofold.engine.connection import SERVER, Connection
from twofold.engine.faults import translated
from twofold.engine.flow import Call, Caller
from twofold.engine.retries import Attempts


class RemoteConnection(Connection):
    """One blocking client, and one async client for each event loop that asks.

    An async HTTP client belongs to the loop it was first used in; a second `asyncio.run` would
    find it closed.
    """

    def __init__(self, url: str, timeout: float, options: dict[str, Any]) -> None:
        super().__init__(url, SERVER)
        self._timeout = timeout
        # The version is checked when the index opens; the client would do it in a thread, with a warning. Its own
        # timeout only ends what the deadline has already given up on.
        given = {"url": url, "timeout": max(1, round(timeout + 0.5)), "check_compatibility": False, **options}
        self._make_sync: Callable[[], QdrantClient] = partial(QdrantClient, **given)
        self._make_async: Callable[[], AsyncQdrantClient] = partial(AsyncQdrantClient, **given)
        self._sync: QdrantClient | None = None
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncQdrantClient] = WeakKeyDictionary()
        self._lock = Lock()

    def begin(self) -> Caller:
        return _Deadlined(self, self._timeout)

    def submit(self, call: Call) -> Future[Any]:
        """Send from a thread, so that the caller can stop waiting: a socket that trickles never times out."""
        with self._lock:
            if self._sync is None:
                self._sync = self._make_sync()
        answer: Future[Any] = Future()
        # A daemon: one that a dead server holds forever must not keep the process from ending.
        Thread(target=_settle, args=(answer, self._send, call), name="twofold-remote", daemon=True).start()
        return answer

    def _send(self, call: Call) -> Any:
        return getattr(self._sync, call.method)(**for_client(call))

    async def _asend(self, call: Call) -> Any:
        loop = asyncio.get_running_loop()
        if loop not in self._by_loop:
            self._by_loop[loop] = self._make_async()
        return await getattr(self._by_loop[loop], call.method)(**for_client(call))

    def close(self) -> None:
        if not self.closed and self._sync is not None:
            self._sync.close()
        super().close()

    async def aclose(self) -> None:
        client = self._by_loop.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()
        await super().aclose()


def _settle(answer: Future[Any], send: Callable[[Call], Any], call: Call) -> None:
    try:
        answer.set_result(send(call))
    except BaseException as error:
        answer.set_exception(error)


class _Deadlined:
    """One call of the index: its requests share a deadline."""

    def __init__(self, connection: RemoteConnection, timeout: float) -> None:
        self._connection = connection
        self._timeout = timeout
        self.renew()

    def renew(self) -> None:
        self._deadline = time.monotonic() + self._timeout

    def extend(self, seconds: float) -> None:
        self._deadline += seconds

    def call(self, call: Call) -> Any:
        self._connection.check_open()
        attempts = Attempts(call.method, self._connection.location, self._deadline)
        with translated(call.method, self._connection.location):
            while True:
                try:
                    return self._connection.submit(call).result(timeout=attempts.remaining())
                except FutureTimeout:
                    raise attempts.timed_out() from None
                except Exception as error:
                    time.sleep(attempts.pause_after(error))

    async def acall(self, call: Call) -> Any:
        self._connection.check_open()
        attempts = Attempts(call.method, self._connection.location, self._deadline)
        with translated(call.method, self._connection.location):
            while True:
                try:
                    return await asyncio.wait_for(self._connection._asend(call), attempts.remaining())
                except (asyncio.TimeoutError, TimeoutError):
                    raise attempts.timed_out() from None
                except Exception as error:
                    await asyncio.sleep(attempts.pause_after(error))
