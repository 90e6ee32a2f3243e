"""The tools as the raw chat APIs want them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from twofold.errors import ConfigError
from twofold.tools.definitions import memory_tools
from twofold.tools.lazy import LazyMemory
from twofold.tools.tool import Tool

if TYPE_CHECKING:
    from twofold.memory import Memory

Format: TypeAlias = Literal["openai", "openai-responses", "anthropic"]


def json_schemas(tools: Memory | LazyMemory | Sequence[Tool], format: Format = "openai") -> list[dict[str, Any]]:
    """What to give a chat API as `tools`.

    Args:
        tools: A memory for all of its tools, or some of them from `memory_tools`.
        format: "openai" for chat completions and whatever speaks their protocol, "openai-responses", or "anthropic".
    """
    if format not in _FORMATS:
        raise ConfigError(f"format must be one of {', '.join(_FORMATS)}, got {format!r}")
    return [_FORMATS[format](tool) for tool in as_tools(tools)]


def as_tools(given: Memory | LazyMemory | Sequence[Tool]) -> list[Tool]:
    """All tools of a memory, or those that were given."""
    return list(given) if isinstance(given, Sequence) else memory_tools(given)


def _function(tool: Tool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.strict_schema, "strict": True}


def _anthropic(tool: Tool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.schema}


_FORMATS = {
    "openai": lambda tool: {"type": "function", "function": _function(tool)},
    "openai-responses": lambda tool: {"type": "function", **_function(tool)},
    "anthropic": _anthropic,
}
