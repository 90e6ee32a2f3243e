"""What goes wrong in a client, in the library's own words."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from twofold.errors import EngineError, EngineUnavailable, TwofoldError

# --- What goes wrong in a client, in the library's own words ---

_UNREACHABLE_GRPC = {"UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"}


@contextmanager
def translated(operation: str, location: str) -> Iterator[None]:
    """Raise what a client raises as an `EngineError` that says what to look at."""
    try:
        yield
    except TwofoldError:
        raise
    except UnexpectedResponse as error:
        raise _refused(error, operation, location) from error
    except (ResponseHandlingException, json.JSONDecodeError) as error:
        raise _unreachable(error, operation, location) from error
    except Exception as error:
        if grpc_code(error) in _UNREACHABLE_GRPC:
            raise _unreachable(error, operation, location) from error
        raise EngineError(
            f"{operation} on {location} failed: {type(error).__name__}: {error}",
            operation=operation,
            location=location,
        ) from error


def _refused(error: UnexpectedResponse, operation: str, location: str) -> EngineError:
    advice = ": check api_key" if error.status_code in (401, 403) else ""
    content = getattr(error, "message", None) or error.content.decode("utf-8", "replace")[:300]
    return EngineError(
        f"{operation} on {location} was refused with {error.status_code} {error.reason_phrase}{advice}. {content}",
        operation=operation,
        location=location,
    )


def _unreachable(error: Exception, operation: str, location: str) -> EngineUnavailable:
    return EngineUnavailable(
        f"{operation}: {location} does not answer ({error}). Is the server running, and is the address right?",
        operation=operation,
        location=location,
    )


def grpc_code(error: Exception) -> str:
    """The name of the status that a gRPC call ended with; empty for any other error."""
    code = getattr(error, "code", None)
    return str(getattr(code(), "name", "")) if callable(code) else ""


# --- When to try a request again, and when to give up: bounded in number and in time ---

_PASSING_STATUS = {429, 500, 502, 503, 504}
_PASSING_GRPC = {"UNAVAILABLE", "RESOURCE_EXHAUSTED", "ABORTED"}
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
# With the pauses between them about six seconds: as long as a server takes to start again.
MOST_ATTEMPTS = 7


class Attempts:
    """The tries of one request. All requests of the index are idempotent, so trying again is safe."""

    def __init__(
        self,
        operation: str,
        location: str,
        deadline: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._operation = operation
        self._location = location
        self._deadline = deadline
        self._clock = clock
        self._jitter = jitter
        self._started = clock()
        self._faults: list[str] = []

    def remaining(self) -> float:
        """Seconds left until the deadline; never negative."""
        return max(0.0, self._deadline - self._clock())

    def pause_after(self, error: Exception) -> float:
        """How long to wait before the next try. Raises if there is none."""
        pause = self._passing(error)
        if pause is None:
            raise error
        self._faults.append(_short(error))
        if len(self._faults) >= MOST_ATTEMPTS or pause >= self.remaining():
            raise self._given_up() from error
        return pause

    def _passing(self, error: Exception) -> float | None:
        """The pause that a passing fault asks for; None for a fault that will stay."""
        pause: float = min(_FIRST_PAUSE * 2 ** len(self._faults), _LONGEST_PAUSE) * (0.5 + self._jitter())
        if isinstance(error, ResourceExhaustedResponse):
            return max(pause, float(error.retry_after_s))
        if isinstance(error, UnexpectedResponse):
            return pause if error.status_code in _PASSING_STATUS else None
        if isinstance(error, (ResponseHandlingException, OSError, json.JSONDecodeError)):
            return pause  # no connection, a broken one, or (through a proxy) an answer that isn't one
        return pause if grpc_code(error) in _PASSING_GRPC else None

    def _given_up(self) -> EngineUnavailable:
        took = self._clock() - self._started
        return EngineUnavailable(
            f"{self._operation}: {self._location} does not answer: gave up after {len(self._faults)} "
            f"tries in {took:.1f} s ({'; '.join(self._faults)}). Is the server running, and is the address right?",
            operation=self._operation,
            location=self._location,
            attempts=self._faults,
        )

    def timed_out(self) -> EngineUnavailable:
        """The error for a deadline that has passed while a request was under way."""
        took = self._clock() - self._started
        tried = "; ".join([*self._faults, "no answer"])
        return EngineUnavailable(
            f"{self._operation}: {self._location} did not answer before the deadline: {len(self._faults) + 1} tries in "
            f"{took:.1f} s ({tried}). Give it more time with timeout=, or look at the server's load",
            operation=self._operation,
            location=self._location,
            attempts=[*self._faults, "no answer"],
        )


def _short(error: Exception) -> str:
    if isinstance(error, ResourceExhaustedResponse):
        return f"429, try again in {error.retry_after_s} s"
    if isinstance(error, UnexpectedResponse):
        return f"{error.status_code} {error.reason_phrase}".strip()
    return str(getattr(error, "source", error)) or type(error).__name__
