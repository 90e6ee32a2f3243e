"""Memory for the OpenAI Agents SDK.

agent = Agent(name="assistant", tools=memory_tools(memory))
"""

from __future__ import annotations

from typing import Any

try:
    from agents import FunctionTool
    from agents.tool_context import ToolContext
except ImportError as error:
    raise ImportError(
        'memory for the OpenAI Agents SDK needs the openai-agents package: pip install "twofold[openai-agents]"'
    ) from error

from typing_extensions import Unpack

from twofold import tools as neutral

__all__ = ["memory_tools"]


def memory_tools(memory: neutral.AnyMemory, **options: Unpack[neutral.ToolOptions]) -> list[FunctionTool]:
    """The tools of a memory, with strict schemas. Options are those of `twofold.tools.memory_tools`."""
    return [_native(tool) for tool in neutral.memory_tools(memory, **options)]


def _native(tool: neutral.Tool) -> FunctionTool:
    async def invoke(_: ToolContext[Any], arguments: str) -> str:
        return (await neutral.acall([tool], tool.name, arguments)).text

    return FunctionTool(tool.name, tool.description, tool.strict_schema, invoke, strict_json_schema=True)
