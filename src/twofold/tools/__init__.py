"""Memory as tools for a model: defined once, for every agent framework, the raw chat APIs and MCP.

    tools = memory_tools(memory)
    result = tools[0].run(query="where does the tunnel listen?")
    result.text        # for the model
    result.data        # the same as plain values
    result.is_error    # the text then says what to do differently

A tool never raises for what a model does wrong.
"""

from __future__ import annotations

from twofold.tools.actions import ALIASES, NAMES, Format, ToolOptions, acall, call, json_schemas, memory_tools
from twofold.tools.tool import AnyMemory, LazyMemory, Tool, ToolResult

__all__ = [
    "ALIASES",
    "NAMES",
    "AnyMemory",
    "Format",
    "LazyMemory",
    "Tool",
    "ToolOptions",
    "ToolResult",
    "acall",
    "call",
    "json_schemas",
    "memory_tools",
]
