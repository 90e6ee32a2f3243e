"""Memory in Pydantic AI, in its own agent loop, with a scripted model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

from twofold import Memory
from twofold.pydantic_ai import memory_tools
from twofold.testing import HashEmbedding, Script, ToolCall
from twofold.tools import NAMES

Example = Callable[[str], dict[str, Any]]


@pytest.fixture
def model(example: Example) -> Any:
    return example("pydantic_ai_memory")["scripted_model"]


async def ask(memory: Memory, model: Any, prompt: str, script: Script) -> str:
    agent = Agent(model(script), tools=memory_tools(memory))
    return str((await agent.run(prompt)).output)


async def test_what_one_run_saves_the_next_one_recalls(tmp_path: Path, model: Any) -> None:
    script = Script(ToolCall("memory_save", {"text": "Ada drinks her coffee black", "tags": None}), "Noted.")
    with Memory.open(tmp_path, user="ada", dense=HashEmbedding()) as memory:
        assert await ask(memory, model, "I drink my coffee black", script) == "Noted."
    assert script.shown[1].startswith("Saved as ")
    script = Script(ToolCall("memory_search", {"query": "how does Ada drink coffee?"}), "Black.")
    with Memory.open(tmp_path, user="ada", dense=HashEmbedding()) as memory:
        assert await ask(memory, model, "How do I drink my coffee?", script) == "Black."
    assert "Ada drinks her coffee black\n</memory>" in script.shown[1]


async def test_mistakes_go_back_to_the_model_and_never_end_the_run(memory: Memory, model: Any) -> None:
    wrong = ToolCall("memory_search", {"querry": "x"})
    script = Script(wrong, wrong, wrong, ToolCall("memory_update", {"id": "x"}), "I give up.")
    assert await ask(memory, model, "try", script) == "I give up."
    assert all("did you mean 'query'?" in shown for shown in script.shown[1:4])
    assert "nothing to change" in script.shown[4]


async def test_a_model_that_only_reads_schemas_can_call_every_tool(memory: Memory) -> None:
    model = TestModel()
    await Agent(model, tools=memory_tools(memory)).run("use everything")
    parameters = model.last_model_request_parameters
    assert parameters is not None
    assert [tool.name for tool in parameters.function_tools] == list(NAMES)
    assert len(memory.list()) == 1
