"""The memory tools as LangChain tools: text for the model, plain values as the artifact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool, ToolException

from twofold import Memory
from twofold import tools as neutral

MemorySource = Memory | neutral.LazyMemory | Callable[[], Memory]
"""A memory, one that is opened at first use, or a function that says at each use whose memory it is now."""


def memory_tools(
    memory: MemorySource,
    *,
    only: Sequence[str] | None = None,
    read_only: bool = False,
    aliases: bool = False,
    trust: str = "agent",
) -> list[BaseTool]:
    """The tools of a memory, for `create_agent` or `bind_tools`.

    A call that went wrong answers with a message of status "error", which says what to do differently.

    Args:
        memory: What they work on. A function is asked at each call, for an agent that serves many users.
        only: Just the tools with these names.
        read_only: Leave out those that store, change or delete.
        aliases: Offer tools under their other names too, such as `retrieve_memory` for `memory_search`.
        trust: The trust of what they store: it comes from a model, so "agent" unless you know better.
    """
    asked = None if isinstance(memory, (Memory, neutral.LazyMemory)) else memory
    held = memory if isinstance(memory, (Memory, neutral.LazyMemory)) else neutral.LazyMemory(memory)
    made = neutral.memory_tools(held, only=only, read_only=read_only, aliases=aliases, trust=trust)
    return [_wrapped(tool, asked) for tool in made]


def _wrapped(tool: neutral.Tool, ask: Callable[[], Memory] | None) -> BaseTool:
    def now() -> neutral.Tool:
        return tool if ask is None else replace(tool, memory=ask())

    def run(**arguments: Any) -> tuple[str, dict[str, Any]]:
        return _answer(now().call(arguments))

    async def arun(**arguments: Any) -> tuple[str, dict[str, Any]]:
        return _answer(await now().acall(arguments))

    return StructuredTool(
        name=tool.name,
        description=tool.description,
        args_schema=tool.arguments,
        func=run,
        coroutine=arun,
        response_format="content_and_artifact",
        handle_tool_error=True,
        handle_validation_error=tool.explain,  # type: ignore[arg-type]
        metadata={"read_only": tool.read_only, "destructive": tool.destructive, "idempotent": tool.idempotent},
    )


def _answer(result: neutral.ToolResult) -> tuple[str, dict[str, Any]]:
    if result.is_error:
        raise ToolException(result.text)
    return result.text, dict(result.data)
