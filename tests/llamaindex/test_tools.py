"""The memory tools in LlamaIndex, and an agent that saves with them in one run and recalls in the next."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from llama_index.core.agent.workflow import AgentOutput, FunctionAgent, ToolCallResult
from llama_index.core.tools import FunctionTool

from tests.llamaindex.agents import Script, call, say
from twofold import Memory
from twofold import tools as neutral
from twofold.llamaindex import memory_tools
from twofold.testing import HashEmbedding


def named(memory: Memory, name: str) -> FunctionTool:
    (tool,) = memory_tools(memory, only=[name])
    return tool


def test_every_tool_is_there_as_it_is_described(memory: Memory) -> None:
    ours = {tool.name: tool for tool in neutral.memory_tools(memory)}
    theirs = {tool.metadata.get_name(): tool for tool in memory_tools(memory)}
    assert set(theirs) == set(ours)
    for name, tool in theirs.items():
        assert isinstance(tool, FunctionTool)
        assert tool.metadata.description == ours[name].description
        assert set(tool.metadata.get_parameters_dict()["properties"]) == set(ours[name].schema["properties"])
    assert {tool.metadata.name for tool in memory_tools(memory, read_only=True)} < set(ours)


@pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
async def test_saving_and_searching(memory: Memory, awaited: bool) -> None:
    save, search = named(memory, "memory_save"), named(memory, "memory_search")
    text = "The rathole tunnel of Ada listens on port 2333"
    saved = await save.acall(text=text) if awaited else save.call(text=text)
    assert not saved.is_error
    assert saved.raw_output["is_new"] is True
    found = await search.acall(query="rathole port") if awaited else search.call(query="rathole port")
    assert [each["text"] for each in found.raw_output["memories"]] == [text]
    assert text in found.content
    assert found.tool_name == "memory_search"
    assert found.raw_input["kwargs"] == {"query": "rathole port"}
    assert memory.recall("rathole port")[0].memory.trust == "agent"


@pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
async def test_what_a_model_does_wrong_is_an_answer(memory: Memory, awaited: bool) -> None:
    tool = named(memory, "memory_search")
    for arguments in ({}, {"query": "x", "max_results": -1}, {"query": "x", "limit": 3}):
        answer = await tool.acall(**arguments) if awaited else tool.call(**arguments)
        assert answer.is_error
        assert "memory_search" in answer.content


async def test_an_agent_saves_in_one_run_and_recalls_in_the_next(tmp_path: Path) -> None:
    saving = Script(call("memory_save", text="The rathole tunnel of Ada listens on port 2333"), say("Noted."))
    async with await Memory.aopen(tmp_path / "memories", user="ada", dense=HashEmbedding()) as memory:
        agent = FunctionAgent(tools=[*memory_tools(memory)], llm=saving.model, streaming=False)
        assert str(await agent.run("My rathole tunnel listens on port 2333")) == "Noted."
    asking = Script(call("memory_search", query="which port does the rathole tunnel use"), say("It is 2333."))
    async with await Memory.aopen(tmp_path / "memories", user="ada", dense=HashEmbedding()) as memory:
        agent = FunctionAgent(tools=[*memory_tools(memory)], llm=asking.model, streaming=False)
        result: AgentOutput = await agent.run("Which port was it?")
    assert str(result) == "It is 2333."
    assert "The rathole tunnel of Ada listens on port 2333" in asking.last_shown()
    (used,) = cast("list[ToolCallResult]", result.tool_calls)
    assert used.tool_name == "memory_search"
    assert not used.tool_output.is_error
