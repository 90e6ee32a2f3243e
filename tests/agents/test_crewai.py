"""Memory in CrewAI. It wants an environment of its own, so this is skipped where it isn't installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("crewai")

from crewai import Agent, BaseLLM
from pydantic import PrivateAttr

from twofold import Memory
from twofold.crewai import memory_tools
from twofold.testing import HashEmbedding, Script, ToolCall
from twofold.tools import NAMES


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


class ScriptedLLM(BaseLLM):  # type: ignore[misc]  # crewai is not part of the development environment
    """Says its lines in the way in which agents without native tool calls are asked to."""

    _script: Script = PrivateAttr()

    def __init__(self, script: Script) -> None:
        super().__init__(model="script")
        self._script = script

    def call(self, messages: Any, *_: Any, **__: Any) -> str:
        shown = [str(each["content"]) for each in messages]  # the result of a tool is not the last of them
        line = self._script.next("\n".join(shown))
        if isinstance(line, ToolCall):
            return f"Thought: I need a tool.\nAction: {line.name}\nAction Input: {line.json}"
        return f"Thought: I now know the final answer.\nFinal Answer: {line}"

    def supports_function_calling(self) -> bool:
        return False


def ask(memory: Memory, prompt: str, script: Script) -> str:
    agent = Agent(
        role="assistant", goal="help", backstory="You remember.", tools=memory_tools(memory), llm=ScriptedLLM(script)
    )
    return str(agent.kickoff(prompt).raw)


def test_what_one_run_saves_the_next_one_recalls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CREWAI_DISABLE_TELEMETRY", "true")
    script = Script(ToolCall("memory_save", {"text": "Ada drinks her coffee black"}), "Noted.")
    with Memory.open(tmp_path, user="ada", dense=HashEmbedding()) as memory:
        assert ask(memory, "I drink my coffee black", script) == "Noted."
    assert "Saved as " in script.shown[1]
    script = Script(ToolCall("memory_search", {"query": "how does Ada drink coffee?"}), "Black.")
    with Memory.open(tmp_path, user="ada", dense=HashEmbedding()) as memory:
        assert ask(memory, "How do I drink my coffee?", script) == "Black."
    assert "Ada drinks her coffee black" in script.shown[1]
