"""A tool: its description for a model, and how it runs, blocking or awaited."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from twofold.errors import TwofoldError
from twofold.tools.actions import Action, Step, Steps
from twofold.tools.lazy import LazyMemory
from twofold.tools.mending import mended
from twofold.tools.results import ToolResult
from twofold.tools.schemas import natural, strict
from twofold.tools.wrong import explain

if TYPE_CHECKING:
    from twofold.memory import Memory

log = logging.getLogger("twofold.tools")


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
    memory: Memory | LazyMemory
    action: Action
    trust: str = "agent"
    """The trust of what it stores."""
    read_only: bool = False
    """Changes nothing that a user would notice."""
    destructive: bool = False
    """May delete, overwrite or hide."""
    idempotent: bool = False
    """The same call twice is the same as once."""

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments; what is optional can be left out."""
        return natural(self.arguments)

    @cached_property
    def strict_schema(self) -> dict[str, Any]:
        """The JSON schema for strict modes: nothing can be left out, what is optional can be null."""
        return strict(self.arguments)

    def run(self, /, **arguments: Any) -> ToolResult:
        """Call the tool. What went wrong is in the result; nothing is raised."""
        return self.call(arguments)

    async def arun(self, /, **arguments: Any) -> ToolResult:
        """`run` without blocking the event loop."""
        return await self.acall(arguments)

    def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """`run` with the arguments as they came from the model."""
        try:
            steps, note = self._begin(arguments)
            memory = self.memory.get() if isinstance(self.memory, LazyMemory) else self.memory
            return _finished(_drive(steps, memory), note)
        except Exception as error:
            return self._failed(error)

    async def acall(self, arguments: Mapping[str, Any]) -> ToolResult:
        """`call` without blocking the event loop."""
        try:
            steps, note = self._begin(arguments)
            memory = await self.memory.aget() if isinstance(self.memory, LazyMemory) else self.memory
            return _finished(await _adrive(steps, memory), note)
        except Exception as error:
            return self._failed(error)

    def _begin(self, arguments: Mapping[str, Any]) -> tuple[Steps, str]:
        """The checked call, before anything is opened, and what had to be mended in it."""
        whole, broken = mended(arguments)
        note = "Half characters in the arguments were replaced by \ufffd." if broken else ""
        return self.action(self.arguments.model_validate(whole), self.trust), note

    def _failed(self, error: Exception) -> ToolResult:
        if isinstance(error, ValidationError):
            return failure(explain(self.name, self.schema, error))
        if isinstance(error, TwofoldError):
            return failure(f"{self.name}: {error}")
        log.exception("%s failed", self.name, exc_info=error)
        return failure(
            f"{self.name} failed for a reason of its own ({type(error).__name__}: {error}). Other arguments won't "
            "help: go on without it, and tell the user."
        )


def failure(text: str) -> ToolResult:
    """An error, as text that can be sent anywhere."""
    return ToolResult(mended(text)[0], is_error=True)


def _finished(result: ToolResult, note: str) -> ToolResult:
    """An answer that can be sent anywhere, whatever is stored."""
    text = f"{result.text}\n{note}" if note else result.text
    return ToolResult(mended(text)[0], mended(result.data)[0])


def _drive(steps: Steps, memory: Memory) -> ToolResult:
    value: Any = None
    while True:
        try:
            step: Step = steps.send(value)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        value = getattr(memory, step.method)(*step.args, **step.kwargs)


async def _adrive(steps: Steps, memory: Memory) -> ToolResult:
    value: Any = None
    while True:
        try:
            step: Step = steps.send(value)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        value = await getattr(memory, f"a{step.method}")(*step.args, **step.kwargs)
