"""What goes wrong in a client, in the library's own words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from twofold.errors import EngineError, EngineUnavailable, TwofoldError

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
