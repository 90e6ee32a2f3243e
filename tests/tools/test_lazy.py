"""A memory that the first tool opens, wherever it is."""

from __future__ import annotations

import asyncio
import uuid

from tests.kit.rest import RestServer
from twofold import ConfigError, Memory, embedded_client
from twofold.testing import HashEmbedding, fake_memory
from twofold.tools import LazyMemory, acall, call, memory_tools


async def test_many_first_calls_open_it_once() -> None:
    opened: list[int] = []

    def opener() -> Memory:
        opened.append(1)
        return fake_memory(["Rathole tunnels listen on port 2333"])

    lazy = LazyMemory(opener)
    tools = memory_tools(lazy)
    results = await asyncio.gather(*(acall(tools, "memory_search", {"query": "tunnels"}) for _ in range(8)))
    assert opened == [1]
    assert all("2333" in result.text for result in results)
    lazy.close()


def test_a_failure_is_told_and_tried_again() -> None:
    opened: list[int] = []

    def opener() -> Memory:
        opened.append(1)
        if len(opened) == 1:
            raise ConfigError("not yet: try again")
        return fake_memory()

    lazy = LazyMemory(opener)
    tools = memory_tools(lazy)
    assert call(tools, "memory_search", {"quer": "x"}).is_error
    assert not opened, "wrong arguments need no memory"
    assert call(tools, "memory_list", {}).text == "memory_list: not yet: try again"
    assert not call(tools, "memory_list", {}).is_error
    assert not call(tools, "memory_list", {}).is_error
    assert len(opened) == 2
    lazy.close()
    lazy.close()
    assert "closed" in call(tools, "memory_list", {}).text


async def test_on_a_server_opened_in_a_thread_and_awaited_here() -> None:
    """As the MCP server does it."""
    with RestServer(lambda: embedded_client(":memory:")) as server:
        lazy = LazyMemory(
            lambda: Memory.open(server.url, user="ada", collection=uuid.uuid4().hex, dense=HashEmbedding())
        )
        tools = memory_tools(lazy)
        saved = await acall(tools, "memory_save", {"text": "Rathole tunnels listen on port 2333"})
        found = await acall(tools, "memory_search", {"query": "tunnels"})
        assert [each["id"] for each in found.data["memories"]] == [saved.data["id"]]
        await asyncio.to_thread(lazy.close)
