"""The memory tools as LlamaIndex tools: text for the model, plain values as the raw output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.tools import FunctionTool, ToolMetadata, ToolOutput

from twofold import tools as neutral
from twofold.memory.memory import Memory


class MemoryTool(FunctionTool):
    """A tool of a memory. What a model does wrong is an answer with `is_error`, which says what to do differently."""

    def call(self, *args: Any, **kwargs: Any) -> ToolOutput:
        """Run the tool."""
        return _settled(super().call(*args, **kwargs))

    async def acall(self, *args: Any, **kwargs: Any) -> ToolOutput:
        """`call` without blocking the event loop."""
        return _settled(await super().acall(*args, **kwargs))


def memory_tools(
    memory: Memory | neutral.LazyMemory,
    *,
    only: Sequence[str] | None = None,
    read_only: bool = False,
    aliases: bool = False,
    trust: str = "agent",
) -> list[FunctionTool]:
    """The tools of a memory, for a `FunctionAgent` or any other.

    Args:
        memory: What they work on.
        only: Just the tools with these names.
        read_only: Leave out those that store, change or delete.
        aliases: Offer tools under their other names too, such as `retrieve_memory` for `memory_search`.
        trust: The trust of what they store: it comes from a model, so "agent" unless you know better.
    """
    made = neutral.memory_tools(memory, only=only, read_only=read_only, aliases=aliases, trust=trust)
    return [_wrapped(tool) for tool in made]


def _wrapped(tool: neutral.Tool) -> FunctionTool:
    def run(**arguments: Any) -> neutral.ToolResult:
        return tool.call(arguments)

    async def arun(**arguments: Any) -> neutral.ToolResult:
        return await tool.acall(arguments)

    metadata = ToolMetadata(name=tool.name, description=tool.description, fn_schema=tool.arguments)
    return MemoryTool(fn=run, async_fn=arun, metadata=metadata)


def _settled(output: ToolOutput) -> ToolOutput:
    result: neutral.ToolResult = output.raw_output
    output.raw_output, output.is_error = dict(result.data), result.is_error
    return output
