"""Memory for Pydantic AI.

agent = Agent("openai:gpt-5", tools=memory_tools(memory))
"""

from __future__ import annotations

from typing import Any

try:
    from pydantic_ai import Tool
except ImportError as error:
    raise ImportError(
        'memory for Pydantic AI needs the pydantic-ai-slim package: pip install "twofold[pydantic-ai]"'
    ) from error

from typing_extensions import Unpack

from twofold import tools as neutral

__all__ = ["memory_tools"]


def memory_tools(memory: neutral.AnyMemory, **options: Unpack[neutral.ToolOptions]) -> list[Tool[Any]]:
    """The tools of a memory. Options are those of `twofold.tools.memory_tools`."""
    return [_native(tool) for tool in neutral.memory_tools(memory, **options)]


def _native(tool: neutral.Tool) -> Tool[Any]:
    async def invoke(**arguments: Any) -> str:
        # Mistakes are answered with text as well: a ModelRetry would end the run after the second one.
        return (await tool.acall(arguments)).text

    native: Tool[Any] = Tool.from_schema(invoke, name=tool.name, description=tool.description, json_schema=tool.schema)
    return native
