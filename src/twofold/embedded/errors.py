"""Errors of the embedded engine.

    EmbeddedError (ValueError)                  a request the engine can't serve
    ├── BadRequest (400)                        wrong dimension, unknown vector name, bad payload …: nothing was written
    ├── NotFound (404)                          no such collection, point or alias
    └── Conflict (409)                          the collection exists already
    StoreError (TwofoldError, RuntimeError)     the directory as a whole can't be used
    ├── StoreLocked                             another process has it open, and doesn't share it
    ├── StoreClosed                             used after close()
    ├── DiskFull                                no room for a write: nothing was lost, call again later
    ├── StoreFormatError                        written by a newer Twofold, or damaged settings
    └── LocalStoreFound                         written by qdrant-client's local mode: import it
    EngineFailure (TwofoldError, RuntimeError)  the Rust core panicked

Where the client (`twofold.embedded.client`) raises one of the first group, it is also what the server's client
raises: `UnexpectedResponse`, with a status code.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, field

from twofold.errors import TwofoldError


class EmbeddedError(ValueError):
    """A request that can't be served; `status_code` is the one a Qdrant server would answer with."""

    status_code = 500
    reason_phrase = "Internal Server Error"

    @property
    def message(self) -> str:
        """What is wrong, and what to do."""
        return str(self)


class BadRequest(EmbeddedError):
    status_code, reason_phrase = 400, "Bad Request"


class NotFound(EmbeddedError):
    status_code, reason_phrase = 404, "Not Found"


class Conflict(EmbeddedError):
    status_code, reason_phrase = 409, "Conflict"


class StoreError(TwofoldError, RuntimeError):
    """The store's directory as a whole can't be used."""


class StoreClosed(StoreError):
    """The client was closed, or its store was in the memory of another process."""


class StoreFormatError(StoreError):
    """The files are newer than this version, or damaged."""


class EngineFailure(TwofoldError, RuntimeError):
    """The Rust core panicked: a bug in the engine. Reopen the store before going on."""


@dataclass(frozen=True)
class Holder:
    """The process that has a store open."""

    pid: int
    host: str
    since: str
    program: str
    address: str = ""
    """Where it lets others in: a Unix socket, or a port on loopback; empty if it doesn't."""
    secret: str = field(default="", repr=False)
    """What they have to bring along where the address alone keeps nobody out."""
    protocol: int = 0
    """What is spoken there; it changes when two versions of Twofold can't understand each other."""
    version: str = ""
    durability: str = ""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} ({self.program}), since {self.since}"


class StoreLocked(StoreError):
    """Another process has the store open, and this one can't join it; `why` says what is in the way."""

    def __init__(self, path: str, holder: Holder | None, why: str = "which doesn't share it") -> None:
        self.path, self.holder = path, holder
        super().__init__(
            f"The store {path} is open in {holder or 'another process'}, {why}. Close that one, or let both talk to a "
            "Qdrant server by its URL."
        )


class LocalStoreFound(StoreError):
    """The directory was written by qdrant-client's local mode."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(
            f"{path} was written by qdrant-client's local mode, another format. Import it into a new "
            f"directory: `python -m twofold.embedded import {shlex.quote(path)} NEW_DIRECTORY`, or "
            "twofold.embedded.import_local_store(source, destination)."
        )


class DiskFull(StoreError):
    """There is no room on the disk for a write; it may be made once more when there is."""


# Errors of a store that the process which joined it raises as the same ones: the most special comes first.
_TOLD: tuple[type[TwofoldError], ...] = (DiskFull, StoreFormatError, StoreError, EngineFailure)


def kind_to_tell(error: Exception) -> str | None:
    """What the holder calls an error for those that joined; None for the refusal of a request."""
    return next((kind.__name__ for kind in _TOLD if isinstance(error, kind)), None)


def read_told(body: bytes) -> str:
    """What a holder says in its refusal of a request; what it called by its kind is raised as that."""
    try:
        status = json.loads(body)["status"]
        said, name = str(status["error"]), status.get("kind")
    except (ValueError, KeyError, TypeError, AttributeError):
        return body.decode("utf-8", "replace")
    for kind in _TOLD:
        if kind.__name__ == name:
            raise kind(said)
    return said
