"""What a model does wrong comes back as text that helps it on, never as an exception."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.conftest import Ask
from twofold import ConfigError, Memory
from twofold.testing import fake_memory
from twofold.tools import NAMES, LazyMemory, call, json_schemas, memory_tools

TAKES = "Call it again with query, max_results (optional), types (optional), tags (optional), explain (optional)."


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, f"memory_search: query is missing. {TAKES}"),
        (
            {"query": "x", "max_result": 3},
            f"memory_search: there is no argument 'max_result' (did you mean 'max_results'?). {TAKES}",
        ),
        ({"query": "x", "colour": 1}, f"memory_search: there is no argument 'colour'. {TAKES}"),
        ({"query": 3}, f"memory_search: query must be a valid string, got 3. {TAKES}"),
        ({"query": "x", "max_results": "many"}, "got 'many'"),
        ({"query": "x", "max_results": 0}, "max_results must be greater than or equal to 1, got 0"),
        ({"query": "x", "max_results": 51}, "max_results must be less than or equal to 50, got 51"),
        ({"query": "x", "tags": {"a": 1}}, "tags must be a valid list, got {'a': 1}"),
        ({"query": "x", "types": [["deep"]]}, "types must be a valid string, got ['deep']"),
        ({"query": ["x" * 500]}, "x…"),
    ],
)
async def test_wrong_arguments_say_what_is_right(ask: Ask, arguments: dict[str, Any], says: str) -> None:
    result = await ask("memory_search", **arguments)
    assert result.is_error
    assert says in result.text
    assert len(result.text) < 400
    assert result.data == {}


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("memory_save", {"text": "   "}, "a memory is a text with something in it"),
        ("memory_save", {"text": "x", "type": "log"}, "type is kept for the daily log"),
        ("memory_save", {"text": "x", "importance": 7}, "importance must be less than or equal to 1"),
        ("memory_save", {"text": "x", "importance": float("nan")}, "importance must be a finite number"),
        ("memory_save", {"text": "x", "tags": ["", "a"]}, "a tag is a word or a few"),
        ("memory_update", {"id": "x"}, "nothing to change: give at least one of text, type, tags, importance"),
        ("memory_update", {"id": "x", "text": "y"}, "no memory has the id 'x'"),
        ("memory_forget", {"ids": []}, "ids"),
        ("memory_list", {"since": "yesterday"}, "since must be a date"),
        ("memory_list", {"after": "zzz"}, "leave it out to begin anew"),
        ("memory_feedback", {"query": "x", "id": "y", "useful": "perhaps"}, "useful must be a valid boolean"),
        ("memory_feedback", {"query": "x", "id": "y", "useful": True}, "there is no memory 'y'"),
    ],
)
async def test_every_tool_explains_itself(ask: Ask, name: str, arguments: dict[str, Any], says: str) -> None:
    result = await ask(name, **arguments)
    assert result.is_error
    assert says in result.text
    assert result.text.startswith(f"{name}: ")


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("memory_serch", "{}", "there is no tool 'memory_serch': call one of memory_search, memory_save"),
        ("memory_search", '{"query": ', "the arguments are not JSON"),
        ("memory_search", "[" * 100_000, "the arguments are not JSON"),
        ("memory_search", '["x"]', "the arguments are a list"),
        ("memory_search", "null", "the arguments are a NoneType"),
        ("memory_search", "", "query is missing"),
    ],
)
def test_a_call_that_cannot_be_read(memory: Memory, name: str, arguments: str, says: str) -> None:
    result = call(memory, name, arguments)
    assert result.is_error
    assert says in result.text


def test_the_alias_is_known_even_if_it_is_not_offered(memory: Memory) -> None:
    memory.remember("Rathole tunnels")
    assert "Rathole tunnels" in call(memory, "retrieve_memory", '{"query": "rathole"}').text
    assert "retrieve_memory" not in [tool.name for tool in memory_tools(memory)]
    assert "retrieve_memory" in [tool.name for tool in memory_tools(memory, aliases=True)]


async def test_half_characters_are_replaced_and_that_is_said(ask: Ask, memory: Memory) -> None:
    saved = await ask("memory_save", text="broken \ud83d tunnel", tags=["a\udc00"])
    assert not saved.is_error
    assert "Half characters in the arguments were replaced" in saved.text
    stored = memory.get(saved.data["id"])
    assert stored is not None
    assert (stored.text, stored.tags) == ("broken \ufffd tunnel", ("a\ufffd",))
    wrong = await ask("memory_search", **{"quer\ud800": "x"})
    assert wrong.is_error
    wrong.text.encode()


def test_a_closed_memory_says_so() -> None:
    memory = fake_memory()
    memory.close()
    result = call(memory, "memory_search", {"query": "x"})
    assert result.is_error
    assert "closed" in result.text


def _broken(why: str) -> LazyMemory:
    def opening() -> Memory:
        raise OSError(why)

    return LazyMemory(opening)


@pytest.mark.parametrize("style", ["call", "acall"])
async def test_an_unexpected_failure_is_logged_and_told(caplog: pytest.LogCaptureFixture, style: str) -> None:
    tool = memory_tools(_broken("disk on fire"))[0]
    with caplog.at_level(logging.ERROR, "twofold.tools"):
        result = tool.call({"query": "x"}) if style == "call" else await tool.acall({"query": "x"})
    assert result.is_error
    assert "OSError: disk on fire" in result.text
    assert "Traceback" not in result.text
    assert caplog.records[0].exc_info is not None


def test_half_characters_in_a_failure_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    # Not logged here: pytest-xdist can't carry half characters from one process to another.
    monkeypatch.setattr(logging.getLogger("twofold.tools"), "disabled", True)
    result = memory_tools(_broken("disk \ud800 on fire"))[0].call({"query": "x"})
    assert "OSError: disk \ufffd on fire" in result.text


def test_only_and_trust_are_checked(memory: Memory) -> None:
    assert [tool.name for tool in memory_tools(memory, only=["memory_list", "memory_search"])] == [
        "memory_search",
        "memory_list",
    ]
    assert [tool.name for tool in memory_tools(memory, read_only=True)] == ["memory_search", "memory_list"]
    with pytest.raises(ConfigError, match="there is no tool 'search'"):
        memory_tools(memory, only=["search"])
    with pytest.raises(ConfigError, match="trust must be one of"):
        memory_tools(memory, trust="nobody")


def test_what_is_no_memory_is_told_at_once(memory: Memory) -> None:
    wrong: Any
    for wrong in (lambda: memory, Memory, "memories", None, memory.index):
        with pytest.raises(ConfigError, match="a Memory or a LazyMemory, got"):
            memory_tools(wrong)
    with pytest.raises(ConfigError, match=r"LazyMemory\(function\)"):
        json_schemas(cast(Any, lambda: memory))
    with pytest.raises(ConfigError, match="a function that opens a Memory"):
        LazyMemory(cast(Any, "memories"))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_KNOWN = st.sampled_from(["query", "max_results", "types", "tags", "text", "type", "id", "ids", "useful", "after"])


@given(name=st.sampled_from(NAMES), arguments=st.dictionaries(_KNOWN | st.text(max_size=5), _JSON, max_size=5))
def test_no_arguments_at_all_raise(store: Memory, name: str, arguments: dict[str, Any]) -> None:
    result = call(store, name, arguments)
    result.text.encode()
    assert result.text
    assert "for a reason of its own" not in result.text
