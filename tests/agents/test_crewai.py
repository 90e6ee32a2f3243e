"""Memory in CrewAI, in its own agent loop, with a scripted model.

It wants an environment of its own, which `make crewai` builds, so this is skipped where it isn't installed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("CREWAI_DISABLE_TELEMETRY", "true")
pytest.importorskip("crewai")

from crewai import Agent

from twofold import Memory
from twofold.crewai import memory_tools
from twofold.testing import HashEmbedding, Script, ToolCall
from twofold.tools import NAMES

Example = Callable[[str], dict[str, Any]]


def test_tools_save_and_find(memory: Memory) -> None:
    tools = {tool.name: tool for tool in memory_tools(memory)}
    assert list(tools) == list(NAMES)
    assert tools["memory_save"].run(text="Ada drinks her coffee black", tags=["coffee"]).startswith("Saved as ")
    assert "Ada drinks her coffee black" in tools["memory_search"].run(query="coffee")
    assert "no memory has the id" in tools["memory_forget"].run(ids=["nonsense"])


async def test_tools_can_be_awaited(memory: Memory) -> None:
    tools = {tool.name: tool for tool in memory_tools(memory)}
    assert (await tools["memory_save"].arun(text="Ada drinks tea")).startswith("Saved as ")


def test_schemas_reach_the_model(memory: Memory) -> None:
    search = memory_tools(memory)[0]
    assert list(search.args_schema.model_json_schema()["properties"]) == ["query", "max_results", "types", "tags"]
    assert "long-term memory" in search.description


@pytest.fixture
def model(example: Example) -> Any:
    return example("crewai_memory")["ScriptedModel"]


def ask(memory: Memory, model: Any, prompt: str, script: Script) -> str:
    agent = Agent(
        role="assistant", goal="help", backstory="You remember.", tools=memory_tools(memory), llm=model(script)
    )
    return str(agent.kickoff(prompt).raw)


def test_what_one_run_saves_the_next_one_recalls(tmp_path: Path, model: Any) -> None:
    script = Script(ToolCall("memory_save", {"text": "Ada drinks her coffee black"}), "Noted.")
    with Memory.open(tmp_path, user="ada", dense=HashEmbedding()) as memory:
        assert ask(memory, model, "I drink my coffee black", script) == "Noted."
    assert "Saved as " in script.shown[1]
    script = Script(ToolCall("memory_search", {"query": "how does Ada drink coffee?"}), "Black.")
    with Memory.open(tmp_path, user="ada", dense=HashEmbedding()) as memory:
        assert ask(memory, model, "How do I drink my coffee?", script) == "Black."
    assert "Ada drinks her coffee black" in script.shown[1]
