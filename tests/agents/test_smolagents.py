"""Memory in smolagents, in its own agent loops, with a scripted model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from smolagents import ChatMessage, CodeAgent, LogLevel, ToolCallingAgent
from smolagents.models import MessageRole, get_tool_json_schema

from twofold import Memory
from twofold.smolagents import memory_tools
from twofold.testing import HashEmbedding, Script, ToolCall

Example = Callable[[str], dict[str, Any]]


@pytest.fixture
def model(example: Example) -> Any:
    return example("smolagents_memory")["ScriptedModel"]


def ask(memory: Memory, model: Any, prompt: str, script: Script) -> str:
    agent = ToolCallingAgent(memory_tools(memory), model(script), verbosity_level=LogLevel.OFF)
    return str(agent.run(prompt))


def test_what_one_run_saves_the_next_one_recalls(tmp_path: Path, model: Any) -> None:
    script = Script(ToolCall("memory_save", {"text": "Ada drinks her coffee black", "tags": ["coffee"]}), "Noted.")
    with Memory.open(tmp_path, user="ada", dense=HashEmbedding()) as memory:
        assert ask(memory, model, "I drink my coffee black", script) == "Noted."
    assert "Saved as " in script.shown[1]
    script = Script(ToolCall("memory_search", {"query": "how does Ada drink coffee?"}), "Black.")
    with Memory.open(tmp_path, user="ada", dense=HashEmbedding()) as memory:
        assert ask(memory, model, "How do I drink my coffee?", script) == "Black."
    assert "Ada drinks her coffee black" in script.shown[1]


def test_a_mistake_goes_back_to_the_model(memory: Memory, model: Any) -> None:
    script = Script(ToolCall("memory_forget", {"ids": ["nonsense"]}), "I give up.")
    assert ask(memory, model, "try", script) == "I give up."
    assert "no memory has the id 'nonsense'" in script.shown[1]


def test_a_code_agent_calls_the_tools_as_functions(memory: Memory, model: Any) -> None:
    code = 'memory_save("Ada drinks her coffee black", tags=["coffee"])\nfinal_answer(memory_search("coffee"))'

    class Coder(model):  # type: ignore[misc]
        def generate(self, messages: list[ChatMessage], *_: Any, **__: Any) -> ChatMessage:
            return ChatMessage(role=MessageRole.ASSISTANT, content=f"Thought: easy.\n<code>\n{code}\n</code>")

    agent = CodeAgent(memory_tools(memory), Coder(Script()), max_steps=2, verbosity_level=LogLevel.OFF)
    assert "Ada drinks her coffee black" in str(agent.run("remember that I drink my coffee black"))
    assert [item.tags for item in memory.list()] == [("coffee",)]


def test_arguments_by_place_are_neither_lost_nor_overruled(memory: Memory) -> None:
    tools = {tool.name: tool for tool in memory_tools(memory)}
    assert tools["memory_save"]("Ada drinks tea", "note", ["tea"]).startswith("Saved as ")
    assert [(item.text, item.tags) for item in memory.list()] == [("Ada drinks tea", ("tea",))]
    surplus = tools["memory_forget"](["some id"], "another")
    assert surplus == "memory_forget: 2 arguments. Call it again with at most ids."
    assert "query given twice" in tools["memory_search"]("tea", query="coffee")


def test_schemas_say_what_is_optional(memory: Memory) -> None:
    schemas = {tool.name: get_tool_json_schema(tool)["function"]["parameters"] for tool in memory_tools(memory)}
    assert schemas["memory_search"]["required"] == ["query"]
    assert schemas["memory_search"]["properties"]["tags"]["type"] == "array"
    assert schemas["memory_search"]["properties"]["max_results"]["type"] == "integer"
    assert schemas["memory_feedback"]["required"] == ["query", "id", "useful"]
