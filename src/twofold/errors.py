"""Everything Twofold raises.

TwofoldError
├── ConfigError          a wrong argument when opening something
├── InvalidQuery         a wrong argument to a search
├── FilterError          a filter that means nothing
├── InvalidDocument      a document that cannot be stored as it is
├── CollectionNotFound   opened with create=False, and it isn't there
├── CollectionMismatch   the collection was written with another model or other settings
├── EncoderError         a model failed
│   └── ModelUnavailable     a model could not be loaded or downloaded
├── EngineError          Qdrant refused a request
│   └── EngineUnavailable    Qdrant could not be reached
├── StoreError           a folder as a whole can't be used (in twofold.embedded)
│   ├── DiskFull             there is no room for a write
│   └── StoreLocked          another process has it open, and this one can't join it
├── MemoryNotFound       no memory of this user has that id
├── MemoryDamaged        something else changed what is stored of a memory
├── TransferError        a file that can't be exported or imported, or a move that did not come out right
├── PartialAdd           some batches of an `add` are stored, one failed
├── EvaluationError      questions, retrievers or runs that can't be evaluated (in twofold.eval)
└── IndexClosed          used after `close()`

Each message ends with what to do next. The argument errors are also `ValueError`s.
"""

from __future__ import annotations

import copyreg
from collections.abc import Sequence
from typing import Any


class TwofoldError(Exception):
    """The base of every error that Twofold raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors travel between processes, with their fields: made by `__new__`, since `__init__` asks for more."""
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class ConfigError(TwofoldError, ValueError):
    """An argument to `open` (or a setting) is wrong."""


class InvalidQuery(TwofoldError, ValueError):
    """An argument to `search` is wrong."""


class FilterError(TwofoldError, ValueError):
    """A filter has an unknown operator, or a value of the wrong kind."""


class InvalidDocument(TwofoldError, ValueError):
    """A document cannot be stored as it is; nothing of its batch was written."""

    def __init__(self, message: str, *, position: int | None = None) -> None:
        super().__init__(message if position is None else f"document {position}: {message}")
        self.position = position


class CollectionNotFound(TwofoldError):
    """There is no such collection, and `create=False` said not to make one."""

    def __init__(self, message: str, *, others: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.others = list(others)
        """Those that there are."""


class CollectionMismatch(TwofoldError):
    """The collection on disk and the settings it was opened with do not fit together."""

    def __init__(self, message: str, *, expected: object = None, found: object = None) -> None:
        super().__init__(message)
        self.expected = expected
        self.found = found


class EncoderError(TwofoldError):
    """A model failed on a text, or returned vectors that cannot be stored."""


class ModelUnavailable(EncoderError):
    """A model could not be loaded, here or from the hub."""

    def __init__(self, message: str, *, model: str) -> None:
        super().__init__(message)
        self.model = model


class EngineError(TwofoldError):
    """Qdrant refused or failed a request."""

    def __init__(
        self, message: str, *, operation: str, location: str, attempts: Sequence[str] = (), status: int | None = None
    ) -> None:
        super().__init__(message)
        self.operation = operation
        self.location = location
        self.status = status
        """The HTTP status of a refusal, over gRPC the one that means the same; None where there was none."""
        self.attempts = list(attempts)
        """What went wrong at each try, where there were several."""


class EngineUnavailable(EngineError):
    """Qdrant could not be reached, or did not answer in time."""


class MemoryNotFound(TwofoldError, LookupError):
    """No memory of this scope has that id."""


class MemoryDamaged(TwofoldError):
    """What is stored of a memory isn't what was written; `reason` says what is wrong with it."""

    def __init__(self, message: str, *, id: str, reason: str) -> None:
        super().__init__(message)
        self.id = id
        self.reason = reason


class PartialAdd(TwofoldError):
    """A batch failed after earlier ones had been stored; `written` holds the stored ids."""

    def __init__(self, message: str, *, written: Sequence[str]) -> None:
        super().__init__(message)
        self.written = list(written)


class TransferError(TwofoldError):
    """A file can't be written or is no export, or what was moved isn't what was there."""


class IndexClosed(TwofoldError):
    """The index was used after `close()`."""


class EvaluationError(TwofoldError, ValueError):
    """Questions that can't be read, a retriever that can't be asked, or runs that can't be compared."""
