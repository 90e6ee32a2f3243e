"""Memory in the OpenAI Agents SDK, in its own runner, with a scripted model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, RunConfig, Runner
from agents.strict_schema import ensure_strict_json_schema

from twofold import Memory
from twofold.openai_agents import memory_tools
from twofold.testing import HashEmbedding, Script, ToolCall
from twofold.tools import NAMES

Example = Callable[[str], dict[str, Any]]


@pytest.fixture
def model(example: Example) -> Any:
    return example("openai_agents_memory")["ScriptedModel"]


async def ask(memory: Memory, model: Any, prompt: str, script: Script) -> str:
    agent = Agent(name="assistant", tools=list(memory_tools(memory)), model=model(script))
    result = await Runner.run(agent, prompt, run_config=RunConfig(tracing_disabled=True))
    return str(result.final_output)


async def test_what_one_run_saves_the_next_one_recalls(tmp_path: Path, model: Any) -> None:
    script = Script(ToolCall("memory_save", {"text": "Ada drinks her coffee black"}), "Noted.")
    with Memory.open(tmp_path, user="ada", dense=HashEmbedding()) as memory:
        assert await ask(memory, model, "I drink my coffee black", script) == "Noted."
    assert script.shown[0] == "I drink my coffee black"
    assert script.shown[1].startswith("Saved as ")
    script = Script(ToolCall("memory_search", {"query": "how does Ada drink coffee?"}), "Black.")
    with Memory.open(tmp_path, user="ada", dense=HashEmbedding()) as memory:
        assert await ask(memory, model, "How do I drink my coffee?", script) == "Black."
    assert "Ada drinks her coffee black\n</memory>" in script.shown[1]
    assert 'trust="agent"' in script.shown[1]


async def test_a_mistake_goes_back_to_the_model(memory: Memory, model: Any) -> None:
    script = Script(
        ToolCall("memory_search", {"querry": "x"}),
        ToolCall("memory_forget", {"ids": ["nonsense"]}),
        "I give up.",
    )
    assert await ask(memory, model, "try", script) == "I give up."
    assert "did you mean 'query'?" in script.shown[1]
    assert "no memory has the id 'nonsense'" in script.shown[2]


def test_schemas_are_strict_as_they_are(memory: Memory) -> None:
    tools = memory_tools(memory)
    assert [tool.name for tool in tools] == list(NAMES)
    for tool in tools:
        assert tool.strict_json_schema is True
        assert ensure_strict_json_schema(dict(tool.params_json_schema)) == tool.params_json_schema


def test_options_reach_the_tools(memory: Memory) -> None:
    assert [tool.name for tool in memory_tools(memory, read_only=True)] == ["memory_search", "memory_list"]
