"""A Qdrant server by URL: bounded retries, and one deadline for each call of the index.

`RemoteConnection` holds the clients; `_Deadlined` sends the requests of one call of the index, again where a fault
passes; `Attempts` decides about that, and says at the end what was tried.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from threading import Lock, Thread
from typing import Any
from weakref import WeakKeyDictionary

from qdrant_client import AsyncQdrantClient, QdrantClient
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from twofold.engine.client import SERVER, asend, grpc_code, send, translated
from twofold.engine.connection import Connection
from twofold.errors import EngineUnavailable
from twofold.flow import Call, Caller

_PASSING_STATUS = {429, 500, 502, 503, 504}
_PASSING_GRPC = {"UNAVAILABLE", "RESOURCE_EXHAUSTED", "ABORTED"}
_BROKEN = (ResponseHandlingException, OSError, json.JSONDecodeError)
_FIRST_PAUSE_SECONDS = 0.1
_MAX_PAUSE_SECONDS = 5.0
# With the pauses between them about six seconds: as long as a server takes to start again.
MAX_ATTEMPTS = 7


class RemoteConnection(Connection):
    """One blocking client, and one async client for each event loop, since an async one belongs to its first loop."""

    def __init__(self, url: str, timeout: float, options: dict[str, Any]) -> None:
        super().__init__(url, SERVER)
        self.timeout = timeout
        # The version is checked when the index opens; the client would do it in a thread, with a warning. Its own
        # timeout only ends what the deadline has already given up on.
        self._options = {"url": url, "timeout": math.ceil(timeout) + 1, "check_compatibility": False, **options}
        self._sync: QdrantClient | None = None
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncQdrantClient] = WeakKeyDictionary()
        self._lock = Lock()

    def begin(self) -> Caller:
        return _Deadlined(self)

    def client(self) -> QdrantClient:
        """The blocking client."""
        with self._lock:
            if self._sync is None:
                self._sync = QdrantClient(**self._options)
            return self._sync

    def async_client(self) -> AsyncQdrantClient:
        """The client of the running event loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._by_loop:
            self._by_loop[loop] = AsyncQdrantClient(**self._options)
        return self._by_loop[loop]

    def close(self) -> None:
        if not self.closed and self._sync is not None:
            self._sync.close()
        super().close()

    async def aclose(self) -> None:
        client = self._by_loop.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()
        await super().aclose()


class _Deadlined(Caller):
    """One call of the index: its requests share a deadline."""

    def __init__(self, connection: RemoteConnection) -> None:
        self._connection = connection
        self.renew()

    def renew(self) -> None:
        self._deadline = time.monotonic() + self._connection.timeout

    def extend(self, seconds: float) -> None:
        self._deadline += seconds

    def call(self, call: Call) -> Any:
        self._connection.check_open()
        attempts = Attempts(call.verb, self._connection.location, self._deadline)
        with translated(call.verb, self._connection.location):
            client = self._connection.client()
            while True:
                try:
                    return _in_thread(client, call).result(timeout=attempts.remaining())
                except FutureTimeout:
                    raise attempts.timed_out() from None
                except Exception as error:
                    time.sleep(attempts.pause_after(error))

    async def acall(self, call: Call) -> Any:
        self._connection.check_open()
        attempts = Attempts(call.verb, self._connection.location, self._deadline)
        with translated(call.verb, self._connection.location):
            client = self._connection.async_client()
            while True:
                try:
                    return await asyncio.wait_for(asend(client, call), attempts.remaining())
                except (asyncio.TimeoutError, TimeoutError):
                    raise attempts.timed_out() from None
                except Exception as error:
                    await asyncio.sleep(attempts.pause_after(error))


def _in_thread(client: QdrantClient, call: Call) -> Future[Any]:
    """Send from a thread, so that the caller can stop waiting: a socket that trickles never times out."""
    answer: Future[Any] = Future()

    def settle() -> None:
        try:
            answer.set_result(send(client, call))
        except BaseException as error:
            answer.set_exception(error)

    # A daemon: one that a dead server holds forever must not keep the process from ending.
    Thread(target=settle, name="twofold-remote", daemon=True).start()
    return answer


@dataclass
class Attempts:
    """The tries of one request. All requests of the index are idempotent, so trying again is safe."""

    operation: str
    location: str
    deadline: float
    clock: Callable[[], float] = time.monotonic
    jitter: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        self._started = self.clock()
        self._faults: list[str] = []

    def remaining(self) -> float:
        """Seconds left until the deadline; never negative."""
        return max(0.0, self.deadline - self.clock())

    def pause_after(self, error: Exception) -> float:
        """How long to wait before the next try. Raises if there is none."""
        fault = _passing(error)
        if fault is None:
            raise error
        said, least = fault
        usual = min(_FIRST_PAUSE_SECONDS * 2.0 ** len(self._faults), _MAX_PAUSE_SECONDS) * (0.5 + self.jitter())
        pause = max(usual, least)
        self._faults.append(said)
        if len(self._faults) >= MAX_ATTEMPTS or pause >= self.remaining():
            advice = "Is the server running, and is the address right?"
            # Without a cause: `attempts` has what every one of them ended with.
            raise self._unavailable("does not answer: gave up after", advice) from None
        return pause

    def timed_out(self) -> EngineUnavailable:
        """The error for a deadline that has passed while a request was under way."""
        self._faults.append("no answer")
        advice = "Give it more time with timeout=, or look at the server's load"
        return self._unavailable("did not answer before the deadline:", advice)

    def _unavailable(self, what: str, advice: str) -> EngineUnavailable:
        took = self.clock() - self._started
        return EngineUnavailable(
            f"{self.operation}: {self.location} {what} {len(self._faults)} tries in {took:.1f} s "
            f"({'; '.join(self._faults)}). {advice}",
            operation=self.operation,
            location=self.location,
            attempts=self._faults,
        )


def _passing(error: Exception) -> tuple[str, float] | None:
    """A fault that passes, in short, and how many seconds to wait at least; None for one that will stay."""
    if isinstance(error, ResourceExhaustedResponse):
        return f"429, try again in {error.retry_after_s} s", float(error.retry_after_s)
    if isinstance(error, UnexpectedResponse):
        said = f"{error.status_code} {error.reason_phrase}".strip()
        return (said, 0.0) if error.status_code in _PASSING_STATUS else None
    # No connection, a broken one, or (through a proxy) an answer that isn't one.
    if isinstance(error, _BROKEN) or grpc_code(error) in _PASSING_GRPC:
        return str(getattr(error, "source", error)) or type(error).__name__, 0.0
    return None
