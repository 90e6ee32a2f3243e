"""Memory for CrewAI.

agent = Agent(role="assistant", tools=memory_tools(memory), …)
"""

from __future__ import annotations

from typing import Any

try:
    from crewai.tools import BaseTool
except ImportError as error:
    raise ImportError('memory for CrewAI needs the crewai package: pip install "twofold[crewai]"') from error

from pydantic import PrivateAttr
from typing_extensions import Unpack

from twofold import tools as neutral

__all__ = ["MemoryTool", "memory_tools"]


class MemoryTool(BaseTool):  # type: ignore[misc]  # crewai is not part of the development environment
    """One of the tools of a memory."""

    _tool: neutral.Tool = PrivateAttr()

    def __init__(self, tool: neutral.Tool) -> None:
        super().__init__(name=tool.name, description=tool.description, args_schema=tool.arguments)
        self._tool = tool

    def _run(self, **arguments: Any) -> str:
        return self._tool.call(arguments).text

    async def _arun(self, **arguments: Any) -> str:
        return (await self._tool.acall(arguments)).text


def memory_tools(memory: neutral.AnyMemory, **options: Unpack[neutral.ToolOptions]) -> list[MemoryTool]:
    """The tools of a memory. Options are those of `twofold.tools.memory_tools`."""
    return [MemoryTool(tool) for tool in neutral.memory_tools(memory, **options)]
