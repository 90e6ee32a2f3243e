"""Memory for smolagents.

agent = ToolCallingAgent(tools=memory_tools(memory), model=model)
"""

from __future__ import annotations

from typing import Any

try:
    from smolagents import Tool
except ImportError as error:
    raise ImportError(
        'memory for smolagents needs the smolagents package: pip install "twofold[smolagents]"'
    ) from error

from typing_extensions import Unpack

from twofold import tools as neutral

__all__ = ["MemoryTool", "memory_tools"]


class MemoryTool(Tool):  # type: ignore[misc]  # smolagents has no types
    """One of the tools of a memory. It works in tool-calling and in code agents."""

    output_type = "string"
    skip_forward_signature_validation = True  # `inputs` says what it takes

    def __init__(self, tool: neutral.Tool) -> None:
        self.name = tool.name
        self.description = tool.description
        self.inputs = {name: _input(each) for name, each in tool.schema["properties"].items()}
        self._tool = tool
        super().__init__()

    def forward(self, *positional: Any, **arguments: Any) -> str:
        """Call the tool; the text for the model."""
        places = list(self.inputs)
        if len(positional) > len(places):
            return f"{self.name}: {len(positional)} arguments. Call it again with at most {', '.join(places)}."
        twice = [name for name in places[: len(positional)] if name in arguments]
        if twice:
            return f"{self.name}: {', '.join(twice)} given twice, by place and by name. Call it again with one of them."
        return self._tool.call({**dict(zip(places, positional, strict=False)), **arguments}).text


def memory_tools(memory: neutral.AnyMemory, **options: Unpack[neutral.ToolOptions]) -> list[MemoryTool]:
    """The tools of a memory. Options are those of `twofold.tools.memory_tools`."""
    return [MemoryTool(tool) for tool in neutral.memory_tools(memory, **options)]


def _input(schema: dict[str, Any]) -> dict[str, Any]:
    kinds = schema.get("anyOf", [schema])
    optional = {"nullable": True} if any(kind["type"] == "null" for kind in kinds) else {}
    items = next(({"items": kind["items"]} for kind in kinds if "items" in kind), {})
    return {"type": kinds[0]["type"], "description": schema["description"], **optional, **items}
