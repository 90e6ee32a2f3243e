"""The stand-ins that users test their own agents with."""

from __future__ import annotations

import pytest

from twofold.testing import Script, ToolCall, fake_memory


def test_a_fake_memory_ranks_by_words_and_takes_options() -> None:
    known: list[str | dict[str, str]] = [
        "Rathole tunnels listen on port 2333",
        {"text": "Ada drinks her coffee black", "type": "preference"},
    ]
    with fake_memory(known, user="bob", agent="helper") as memory:
        assert memory.user == "bob"
        assert memory.recall("how does Ada drink coffee?")[0].memory.type == "preference"
        assert memory.recall("tunnels and ports")[0].text == known[0]
        assert {item.agent for item in memory.list()} == {"helper"}


def test_fake_memories_are_apart() -> None:
    with fake_memory(["Rathole tunnels"]) as one, fake_memory() as other:
        assert len(one.list()) == 1
        assert len(other.list()) == 0


def test_a_script_says_its_lines_and_notes_what_it_was_shown() -> None:
    script = Script(ToolCall("memory_list"), lambda shown: f"I saw {shown}", "Bye.")
    first = script.next("hello")
    assert first == ToolCall("memory_list", {})
    assert isinstance(first, ToolCall)
    assert first.json == "{}"
    assert script.next("a list") == "I saw a list"
    assert script.next() == "Bye."
    assert script.shown == ["hello", "a list", ""]


def test_a_script_that_is_asked_for_more_says_so() -> None:
    script = Script("Bye.")
    script.next()
    with pytest.raises(AssertionError, match="the script has 1 lines, and the agent asked for one more: and now"):
        script.next("and now?")
