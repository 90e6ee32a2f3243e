"""A call as a model makes it: a name, and arguments that may be anything."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from twofold.tools.definitions import ALIASES
from twofold.tools.formats import as_tools
from twofold.tools.lazy import LazyMemory
from twofold.tools.results import ToolResult
from twofold.tools.tool import Tool, failure

if TYPE_CHECKING:
    from twofold.memory import Memory


def call(tools: Memory | LazyMemory | Sequence[Tool], name: str, arguments: str | Mapping[str, Any]) -> ToolResult:
    """Run the tool that a model named, with the arguments it wrote: JSON, or a mapping made of it."""
    asked = _read(as_tools(tools), name, arguments)
    return asked if isinstance(asked, ToolResult) else asked[0].call(asked[1])


async def acall(
    tools: Memory | LazyMemory | Sequence[Tool], name: str, arguments: str | Mapping[str, Any]
) -> ToolResult:
    """`call` without blocking the event loop."""
    asked = _read(as_tools(tools), name, arguments)
    return asked if isinstance(asked, ToolResult) else await asked[0].acall(asked[1])


def _read(
    tools: Sequence[Tool], name: str, arguments: str | Mapping[str, Any]
) -> tuple[Tool, Mapping[str, Any]] | ToolResult:
    """The tool and its arguments, or in their place what to answer."""
    known = {tool.name: tool for tool in tools}
    tool = known.get(name) or known.get(ALIASES.get(name, ""))
    if tool is None:
        return failure(f"there is no tool {name[:80]!r}: call one of {', '.join(known)}")
    try:
        given = json.loads(arguments or "{}") if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError) as error:
        return failure(f"{tool.name}: the arguments are not JSON ({error}). Call it again with a JSON object.")
    if not isinstance(given, Mapping):
        return failure(f"{tool.name}: the arguments are a {type(given).__name__}. Call it again with a JSON object.")
    return tool, given
