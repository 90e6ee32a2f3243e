"""What a tool is: what a model is told about it, and what happens when the model calls it.

A call takes these steps, each of them in `Tool.steps`: lone surrogates are replaced, the arguments are checked, the
memory is opened if it isn't yet, the tool's action runs, and its outcome becomes a `ToolResult`. A mistake or a failure
on the way becomes a `ToolResult` too, with a text that says what to do differently.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import BaseModel, ValidationError

from twofold import flow
from twofold.errors import ConfigError, FilterError, IndexClosed, InvalidQuery, TwofoldError
from twofold.text import replace_surrogates

if TYPE_CHECKING:
    from twofold.memory import Memory

log = logging.getLogger("twofold.tools")

# Strict modes refuse schemas with keywords they don't know, and differ in which they know. The descriptions say the
# same in words, and arguments are checked here in any case.
_KEYWORDS_NOT_STRICT = {"title", "default", "minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength"}
MAX_QUOTED_CHARACTERS = 80
"""So much of a wrong value or id is repeated to the model."""


@dataclass(frozen=True)
class ToolResult:
    """The answer of a tool, for the model and for programs."""

    text: str
    """What the model reads. Stored texts in it stand between marks that say they are data."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """The same as JSON values; it fits the tool's `output` model. Empty for an error."""
    is_error: bool = False
    """The call did nothing; the text says why, and what to do differently."""

    def __str__(self) -> str:
        return self.text


class LazyMemory:
    """Opens a memory at the first use of a tool, so that a server answers before a model is loaded.

    If it can't be opened, the tool says why, and the next use tries again.
    """

    def __init__(self, opener: Callable[[], Memory], *, projects: Sequence[str] = ()) -> None:
        """`projects` are those that the memory will be opened for: tools tell a model before it is."""
        if not callable(opener):
            raise ConfigError(f"give a function that opens a Memory, or a Memory itself, got {type(opener).__name__}")
        self._opener = opener
        self.projects = tuple(projects)
        self._memory: Memory | None = None
        self._closed = False
        self._lock = threading.Lock()

    def get(self) -> Memory:
        """The open memory."""
        with self._lock:
            if self._closed:
                raise IndexClosed("the memory was closed: start again, or open another one")
            if self._memory is None:
                self._memory = self._opener()
            return self._memory

    async def aget(self) -> Memory:
        """`get` without blocking the event loop."""
        return await asyncio.to_thread(self.get)

    def close(self) -> None:
        """Close the memory if it was opened. Closing twice is fine."""
        with self._lock:
            self._closed = True
            if self._memory is not None:
                self._memory.close()


AnyMemory: TypeAlias = "Memory | LazyMemory"
"""One that is open, or that will be opened when it is needed."""


@dataclass(frozen=True)
class Tool:
    """One thing that a model can do with a memory."""

    name: str
    description: str
    """What it does and when to use it, for the model."""
    arguments: type[BaseModel]
    """The model that arguments are checked with."""
    output: type[BaseModel]
    """The model of `ToolResult.data`."""
    memory: AnyMemory
    action: Callable[[Memory, Any, str], flow.Flow[ToolResult]]
    """What it does with the memory: from checked arguments, and the trust of what is stored, to an answer."""
    trust: str = "agent"
    """The trust of what it stores."""
    general: bool = True
    """Of an agent's or a session's memory: it sees the user's memories that belong to none as well."""
    read_only: bool = False
    """Changes nothing that a user would notice."""
    destructive: bool = False
    """May delete, overwrite or hide."""
    idempotent: bool = False
    """The same call twice is the same as once."""

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments; what is optional can be left out."""
        return _schema_of(self.arguments)

    @cached_property
    def strict_schema(self) -> dict[str, Any]:
        """The JSON schema for strict modes: nothing can be left out, what is optional can be null."""
        schema: dict[str, Any] = _without_keywords(self.schema, _KEYWORDS_NOT_STRICT)
        return {**schema, "required": list(schema.get("properties", {})), "additionalProperties": False}

    @cached_property
    def output_schema(self) -> dict[str, Any]:
        """The JSON schema of `ToolResult.data`."""
        return _schema_of(self.output)

    def run(self, /, **arguments: Any) -> ToolResult:
        """Call the tool. What went wrong is in the result; nothing is raised."""
        return flow.run(self.steps(arguments))

    async def arun(self, /, **arguments: Any) -> ToolResult:
        """`run` without blocking the event loop."""
        return await flow.arun(self.steps(arguments))

    def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """`run` with the arguments as they came from the model."""
        return flow.run(self.steps(arguments))

    async def acall(self, arguments: Mapping[str, Any]) -> ToolResult:
        """`call` without blocking the event loop."""
        return await flow.arun(self.steps(arguments))

    def steps(self, arguments: Mapping[str, Any]) -> flow.Flow[ToolResult]:
        """What `call` and `acall` do. The memory is opened last: a call with wrong arguments needs none."""
        try:
            cleaned = _clean(arguments)
            checked = self.arguments.model_validate(cleaned)
            memory = (yield flow.Work(self.memory.get)) if isinstance(self.memory, LazyMemory) else self.memory
            memory = memory.with_general() if self.general else memory
            result = yield from self.action(memory, checked, self.trust)
        except ValidationError as error:
            return failure(self.explain(error))
        except TwofoldError as error:
            return failure(f"{self.name}: {error}")
        except Exception as error:
            log.exception("%s failed", self.name)
            return failure(
                f"{self.name} failed for a reason of its own ({type(error).__name__}: {error}). Other arguments won't "
                "help: go on without it, and tell the user."
            )
        note = "\nHalf characters in the arguments were replaced by \ufffd." if cleaned != arguments else ""
        # What is stored may hold lone surrogates as well: an answer must be fit to be sent anywhere.
        return ToolResult(replace_surrogates(result.text + note), _clean(result.data))

    def explain(self, error: ValidationError) -> str:
        """Everything that is wrong with arguments, and which ones the tool takes, for the model to correct itself."""
        names = self.schema["properties"]
        mistakes = dict.fromkeys(_mistake(each, list(names)) for each in error.errors())
        required = self.schema.get("required", ())
        takes = ", ".join(name if name in required else f"{name} (optional)" for name in names)
        return f"{self.name}: {'; '.join(mistakes)}. Call it again with {takes}."


@contextmanager
def tolerating_failure(what: str) -> Iterator[None]:
    """Memory is a help: an agent answers without it when it fails. What is wrong in our arguments stays an error."""
    try:
        yield
    except (ConfigError, FilterError, InvalidQuery):
        raise
    except TwofoldError as error:
        message = "the agent goes on without memory, which failed to %s: %s"
        logging.getLogger("twofold").warning(message, what, error)


def failure(text: str) -> ToolResult:
    """An error, as text that can be sent anywhere."""
    return ToolResult(replace_surrogates(text), is_error=True)


def _mistake(error: Any, names: list[str]) -> str:
    """One error of pydantic's in words for a model; `names` are the arguments that there are."""
    name = str(error["loc"][0]) if error["loc"] else "the arguments"
    if error["type"] == "extra_forbidden":
        similar = get_close_matches(name, names, 1)
        return f"there is no argument {_quote(name)}" + (f" (did you mean {similar[0]!r}?)" if similar else "")
    if error["type"] == "missing":
        return f"{name} is missing"
    reason = error["msg"].removeprefix("Value error, ").removeprefix("Input ").removeprefix("should ")
    reason = f"must {reason}" if "should" in error["msg"] else reason
    return f"{name} {reason}, got {_quote(error['input'])}"


def _quote(value: Any) -> str:
    quoted = repr(value)
    return quoted if len(quoted) <= MAX_QUOTED_CHARACTERS else f"{quoted[:MAX_QUOTED_CHARACTERS]}…"


def _clean(value: Any) -> Any:
    """A JSON value with U+FFFD in place of every lone surrogate, which no UTF-8 can hold."""
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, Mapping):
        return {_clean(key): _clean(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        cleaned = [_clean(each) for each in value]
        return tuple(cleaned) if isinstance(value, tuple) else cleaned
    return value


def _schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a model, without what a reader doesn't need."""
    schema: dict[str, Any] = _without_keywords(model.model_json_schema(), {"title"})
    schema.pop("description", None)  # the docstring of the class: the tool has its own description
    return schema


def _without_keywords(schema: Any, keywords: set[str]) -> Any:
    if isinstance(schema, list):
        return [_without_keywords(each, keywords) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _without_keywords(one, keywords) for name, one in each.items()}  # an argument may be called "title"
        if key in ("properties", "$defs")
        else _without_keywords(each, keywords)
        for key, each in schema.items()
        if key not in keywords
    }
