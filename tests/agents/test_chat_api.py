"""Memory in a plain loop over a chat API, with a scripted model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from twofold import Memory
from twofold.testing import HashEmbedding, Script, ToolCall

Example = Callable[[str], dict[str, Any]]


@pytest.fixture
def ask(example: Example) -> Callable[[Memory, str, Script], str]:
    made = example("chat_api_memory")
    return lambda memory, prompt, script: str(made["run"](memory, prompt, made["scripted"](script)))


def test_what_one_run_saves_the_next_one_recalls(tmp_path: Path, ask: Callable[..., str]) -> None:
    script = Script(ToolCall("memory_save", {"text": "Ada drinks her coffee black"}), "Noted.")
    with Memory.open(tmp_path, user="ada", dense=HashEmbedding()) as memory:
        assert ask(memory, "I drink my coffee black", script) == "Noted."
    assert "Saved as " in script.shown[1]
    script = Script(ToolCall("memory_search", {"query": "how does Ada drink coffee?"}), "Black.")
    with Memory.open(tmp_path, user="ada", dense=HashEmbedding()) as memory:
        assert ask(memory, "How do I drink my coffee?", script) == "Black."
    assert "Ada drinks her coffee black" in script.shown[1]


def test_a_mistake_goes_back_to_the_model(memory: Memory, ask: Callable[..., str]) -> None:
    script = Script(ToolCall("no_such_tool"), ToolCall("memory_forget", {"ids": ["nonsense"]}), "I give up.")
    assert ask(memory, "try", script) == "I give up."
    assert "there is no tool 'no_such_tool'" in script.shown[1]
    assert "no memory has the id 'nonsense'" in script.shown[2]
