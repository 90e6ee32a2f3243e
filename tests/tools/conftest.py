from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from twofold import Memory
from twofold.testing import fake_memory
from twofold.tools import ToolResult, acall, call, memory_tools

Ask = Callable[..., Awaitable[ToolResult]]


@pytest.fixture(scope="package")
def store() -> Iterator[Memory]:
    with fake_memory() as made:
        yield made


@pytest.fixture
def memory(store: Memory) -> Memory:
    """A user nobody has heard of, in a store that all tests share: opening one takes longer than a test."""
    return store.for_user(uuid.uuid4().hex)


@pytest.fixture(params=["blocking", "awaited", "by name", "by name, awaited"])
def ask(request: pytest.FixtureRequest, memory: Memory) -> Ask:
    """Calls a tool in each of the four ways."""
    tools = {tool.name: tool for tool in memory_tools(memory, aliases=True)}

    async def asked(name: str, **arguments: Any) -> ToolResult:
        if request.param == "blocking":
            return tools[name].run(**arguments)
        if request.param == "awaited":
            return await tools[name].arun(**arguments)
        if request.param == "by name":
            return call(memory, name, arguments)
        return await acall(list(tools.values()), name, arguments)

    return asked
