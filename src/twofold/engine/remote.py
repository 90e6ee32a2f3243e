"""A Qdrant server by URL: bounded retries, one deadline for each call of the index, and no call to a dead server.

`RemoteConnection` holds the clients; `_Deadlined` sends the requests of one call of the index, again where a fault
passes; `Attempts` decides about that, and says at the end what was tried; a `ServerBreaker` remembers, for the whole
process, which server doesn't answer.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import re
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from threading import Lock, Thread
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit
from weakref import WeakKeyDictionary

from qdrant_client import AsyncQdrantClient, QdrantClient
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from twofold.engine.client import SERVER, asend, grpc_code, send, translated
from twofold.engine.connection import Connection
from twofold.errors import ConfigError, EngineUnavailable
from twofold.flow import Call, Caller
from twofold.text import without_secrets

_PASSING_STATUS = {408, 429, 500, 502, 503, 504}
_PASSING_GRPC = {"UNAVAILABLE", "RESOURCE_EXHAUSTED", "ABORTED", "INTERNAL", "DEADLINE_EXCEEDED"}
# What says that the server is away, not that it can't answer this.
_AWAY = {502, 503, 504}
_BROKEN = (ResponseHandlingException, OSError, json.JSONDecodeError)
_FIRST_PAUSE_SECONDS = 0.1
_MAX_PAUSE_SECONDS = 5.0
# With the pauses between them about six seconds: as long as a server takes to start again.
MAX_ATTEMPTS = 7
# So many failures in a row, and a call that was given up, and the server is left alone for a moment.
_MAX_FAILURES = 3
PAUSE_SECONDS = 1.0
_NO_NUMBER = re.compile(r"Retry-After header value is not a valid integer: (.*)", re.DOTALL)


class RemoteConnection(Connection):
    """One blocking client, and one async client for each event loop, since an async one belongs to its first loop."""

    def __init__(self, url: str, timeout: float, options: dict[str, Any]) -> None:
        address, headers = _address(url)
        super().__init__(address, SERVER)
        self.timeout = timeout
        # The version is checked when the index opens; the client would do it in a thread, with a warning. Its own
        # timeout only ends what the deadline has already given up on.
        self._options = {"url": address, "timeout": math.ceil(timeout) + 1, "check_compatibility": False, **options}
        if headers:
            self._options["headers"] = {**headers, **(options.get("headers") or {})}
        self.breaker = breaker_of(f"{address}, gRPC" if options.get("prefer_grpc") else address)
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


def _address(url: str) -> tuple[str, dict[str, str]]:
    """The URL without the name and password in it, and those as a header, since qdrant-client leaves them out."""
    try:
        parts = urlsplit(url)
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:  # whose words may hold the password
        raise ConfigError(
            "the URL can't be read: write it as https://host:6333, and percent-encode a password that stands in it"
        ) from None
    if not parts.hostname or parts.query or parts.fragment:
        raise ConfigError(
            f"{without_secrets(url)!r} must be a host, a port and perhaps a path; a key is given as api_key="
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    address = f"{parts.scheme}://{host}{port}{parts.path}"
    if parts.username is None:
        return address, {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return address, {"authorization": f"Basic {b64encode(pair.encode()).decode()}"}


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
        with translated(call.verb, self._connection.location), self._connection.breaker.watching(attempts):
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
        with translated(call.verb, self._connection.location), self._connection.breaker.watching(attempts):
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

    max_attempts: int = MAX_ATTEMPTS

    def __post_init__(self) -> None:
        self._started = self.clock()
        self._faults: list[str] = []
        self.unanswered = 0
        """How many tries found no server."""

    def remaining(self) -> float:
        """Seconds left until the deadline; never negative."""
        return max(0.0, self.deadline - self.clock())

    def pause_after(self, error: Exception) -> float:
        """How long to wait before the next try. Raises if there is none."""
        fault = _passing(error)
        if fault is None:
            raise error
        usual = min(_FIRST_PAUSE_SECONDS * 2.0 ** len(self._faults), _MAX_PAUSE_SECONDS) * (0.5 + self.jitter())
        pause = max(usual, fault.wait)
        self._faults.append(fault.said)
        self.unanswered += fault.away
        if len(self._faults) >= self.max_attempts or pause >= self.remaining():
            # Without a cause: `attempts` has what every one of them ended with.
            advice = "Is the server running, and is the address right?"
            raise self._gave_up("does not answer: gave up after", advice) from None
        return pause

    def timed_out(self) -> EngineUnavailable:
        """The error for a deadline that has passed while a request was under way."""
        self._faults.append("no answer")
        self.unanswered += 1
        advice = "Give it more time with timeout=, or look at the server's load"
        return self._gave_up("did not answer before the deadline:", advice)

    def _gave_up(self, what: str, advice: str) -> EngineUnavailable:
        tries = f"{len(self._faults)} tr{'y' if len(self._faults) == 1 else 'ies'}"
        took = f"{self.clock() - self._started:.1f} s"
        return self.unavailable(f"{what} {tries} in {took} ({'; '.join(dict.fromkeys(self._faults))}). {advice}")

    def unavailable(self, why: str) -> EngineUnavailable:
        """The error of this request."""
        return EngineUnavailable(
            f"{self.operation}: {self.location} {why}",
            operation=self.operation,
            location=self.location,
            attempts=self._faults,
        )


class _Fault(NamedTuple):
    """A fault that passes."""

    said: str
    wait: float = 0.0
    """How many seconds to wait at least before the next try."""
    away: bool = False
    """No server was found."""


def _passing(error: Exception) -> _Fault | None:
    """A fault that passes; None for one that will stay."""
    if isinstance(error, ResourceExhaustedResponse):
        return _Fault(f"429, try again in {error.retry_after_s} s", float(error.retry_after_s))
    if isinstance(error, QdrantException) and (found := _NO_NUMBER.search(str(error))):
        wait = _seconds_until(found[1])  # the client reads only numbers
        return _Fault(f"429, try again in {wait:.0f} s", wait)
    if isinstance(error, UnexpectedResponse):
        if error.status_code not in _PASSING_STATUS:
            return None
        wait = _seconds_until(error.headers.get("Retry-After", ""))
        return _Fault(f"{error.status_code} {error.reason_phrase}".strip(), wait, error.status_code in _AWAY)
    # No connection, a broken one, or (through a proxy) an answer that isn't one.
    code = grpc_code(error)
    if isinstance(error, _BROKEN) or code in _PASSING_GRPC:
        said = str(getattr(error, "source", error)) or type(error).__name__
        return _Fault(said, away=code in ("", "UNAVAILABLE"))
    return None


def _seconds_until(retry_after: str) -> float:
    """A number of seconds or a date, as HTTP has it; 0 for the past and for anything else."""
    try:
        if retry_after.strip().isdecimal():
            return float(retry_after)
        moment = parsedate_to_datetime(retry_after)
    except (ValueError, TypeError, OverflowError):
        return 0.0
    moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    return max(0.0, (moment - datetime.now(timezone.utc)).total_seconds())


class ServerBreaker:
    """What this process knows of a server that doesn't answer: calls then fail at once, and one by one try again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._guard = Lock()
        self._answers = 0
        self._failures = 0
        self._retry_at: float | None = None
        """When the next call may try; None while all of them may."""
        self._probing = False

    @contextmanager
    def watching(self, attempts: Attempts) -> Iterator[None]:
        """Send a request here. It raises while the server is left alone; the first one after that has one try."""
        probe = self._retry_at is not None and self._begin_probe(attempts)
        before = self._answers
        try:
            yield
        except EngineUnavailable:
            if not attempts.unanswered:  # it said when to come back, or that it failed
                self._count_answer()
            elif self._answers == before:  # else others were answered meanwhile, so it was this request
                self._count_failures(attempts.unanswered)
            raise
        except Exception as error:
            if isinstance(error, UnexpectedResponse) or grpc_code(error):  # a refusal is an answer
                self._count_answer()
            raise
        else:
            self._count_answer()
        finally:
            if probe:
                self._probing = False

    def _begin_probe(self, attempts: Attempts) -> bool:
        with self._guard:
            if self._retry_at is None:
                return False
            if self._probing or self._clock() < self._retry_at:
                raise attempts.unavailable(
                    f"did not answer {self._failures} times in a row, so it is left alone for a moment. Is the server "
                    "running, and is the address right?"
                )
            self._probing = True
        attempts.max_attempts = 1
        return True

    def _count_failures(self, number: int) -> None:
        with self._guard:
            self._failures += number
            if self._failures >= _MAX_FAILURES:
                self._retry_at = self._clock() + PAUSE_SECONDS

    def _count_answer(self) -> None:
        self._answers += 1
        if self._failures:
            with self._guard:
                self._failures, self._retry_at = 0, None


_breakers: dict[str, ServerBreaker] = {}


def breaker_of(server: str) -> ServerBreaker:
    """The breaker that all connections to a server share."""
    return _breakers.setdefault(server, ServerBreaker())
