"""Tools on a memory that sees projects, and on one of an agent: what a model can name, and where things go."""

from __future__ import annotations

import uuid
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from twofold import Memory
from twofold.testing import fake_memory
from twofold.tools import LazyMemory, Tool, call, json_schemas, memory_tools


@pytest.fixture
def project() -> str:
    return f"apollo {uuid.uuid4().hex}"


@pytest.fixture
def ada(memory: Memory, project: str) -> Memory:
    return memory.for_user(memory.user, projects=project)


@pytest.fixture
def bob(memory: Memory, project: str) -> Memory:
    return memory.for_user(f"{memory.user} bob", projects=project)


def found(memory: Memory, **arguments: Any) -> dict[str, str | None]:
    """What a search shows: texts, and where they belong."""
    data = call(memory, "memory_search", {"query": "tunnel", **arguments}).data
    return {each["text"]: each["project"] for each in data["memories"]}


def test_writing_goes_where_the_tool_says(ada: Memory, bob: Memory, project: str) -> None:
    own = call(ada, "memory_save", {"text": "Ada's tunnel listens on 1111"})
    shared = call(ada, "memory_save", {"text": "Apollo's tunnel listens on 2222", "project": project})
    assert not own.is_error
    assert not shared.is_error
    everything = {"Ada's tunnel listens on 1111": None, "Apollo's tunnel listens on 2222": project}
    assert found(ada) == everything
    assert found(ada, project=project) == found(bob) == {"Apollo's tunnel listens on 2222": project}
    assert f'project="{project}"' in call(bob, "memory_search", {"query": "tunnel"}).text
    for arguments, number in (({}, 2), ({"project": project}, 1), ({"project": None}, 2)):
        assert len(call(ada, "memory_list", arguments).data["memories"]) == number
    updated = call(bob, "memory_update", {"id": shared.data["id"], "text": "Apollo's tunnel listens on 3333"})
    assert updated.data["memory"]["project"] == project
    assert call(bob, "memory_forget", {"ids": [own.data["id"]]}).is_error
    assert call(bob, "memory_feedback", {"query": "tunnel", "id": shared.data["id"], "useful": True}).data["useful"]
    assert call(bob, "memory_forget", {"ids": [shared.data["id"]]}).data["forgotten"] == [shared.data["id"]]
    assert found(ada) == {"Ada's tunnel listens on 1111": None}


def test_what_is_replaced_has_to_belong_to_the_same(ada: Memory, project: str) -> None:
    own = call(ada, "memory_save", {"text": "Ada's tunnel listens on 1111"}).data["id"]
    new = {"text": "Apollo's tunnel listens on 2222", "replaces": [own]}
    refused = call(ada, "memory_save", {**new, "project": project})
    assert refused.is_error
    assert f"{own!r} belongs to the user, and the new memory would belong to the project {project!r}" in refused.text
    assert len(ada.list()) == 1, "nothing was done"
    assert not call(ada, "memory_save", new).is_error


def test_no_other_project_can_be_named(ada: Memory, memory: Memory, project: str) -> None:
    memory.for_user("eve", projects="zeus").in_project("zeus").remember("Zeus' tunnel")
    for name in ("memory_search", "retrieve_memory", "memory_list", "memory_save"):
        given = {"memory_search": {"query": "tunnel"}, "retrieve_memory": {"query": "tunnel"}}
        arguments = given.get(name, {"text": "x"} if name == "memory_save" else {})
        refused = call(ada, name, {**arguments, "project": "zeus"})
        assert refused.is_error
        assert "Zeus" not in refused.text
        assert "project must be" in refused.text
        assert project in refused.text, "it says what can be named"
        assert call(memory, name, {**arguments, "project": "zeus"}).is_error, "a memory without projects names none"
    assert "Zeus' tunnel" not in found(ada)


def test_only_a_memory_with_projects_asks_for_one(ada: Memory, memory: Memory, project: str) -> None:
    def asking(tools: list[Tool]) -> set[str]:
        return {tool.name for tool in tools if "project" in tool.schema["properties"]}

    assert asking(memory_tools(memory, aliases=True)) == set()
    names = {"memory_search", "retrieve_memory", "memory_list", "memory_save"}
    assert asking(memory_tools(ada, aliases=True)) == names
    lazy = LazyMemory(lambda: ada, projects=[project])
    assert asking(memory_tools(lazy, aliases=True)) == names, "before it is opened"
    schema = next(each for each in json_schemas(ada) if each["function"]["name"] == "memory_save")["function"]
    parameters = schema["parameters"]
    assert parameters["required"] == list(parameters["properties"])
    whole = dict.fromkeys(parameters["properties"], None) | {"text": "x"}
    jsonschema.validate({**whole, "project": project}, parameters)
    jsonschema.validate(whole, parameters)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**whole, "project": "zeus"}, parameters)


def test_answers_fit_their_schema(ada: Memory, project: str) -> None:
    for tool in memory_tools(ada, only=["memory_save", "memory_search", "memory_list"]):
        arguments = {"memory_save": {"text": "tunnel", "project": project}, "memory_search": {"query": "tunnel"}}
        jsonschema.validate(dict(tool.call(arguments.get(tool.name, {})).data), tool.output_schema)


def test_an_agents_session_sees_the_users_general_memories_unless_told_not_to(memory: Memory) -> None:
    memory.remember("The user's tunnel")
    memory.for_user(memory.user, agent="writer").remember("The writer's tunnel")
    coder = memory.for_user(memory.user, agent="coder", session="today")
    assert not call(coder, "memory_save", {"text": "The coder's tunnel"}).is_error
    assert set(found(coder)) == {"The user's tunnel", "The coder's tunnel"}
    (search,) = memory_tools(coder, only="memory_search", general=False)
    assert [each["text"] for each in search.run(query="tunnel").data["memories"]] == ["The coder's tunnel"]
    stored = coder.recall("tunnel")[0].memory
    assert (stored.agent, stored.session) == ("coder", "today"), "what it stores is its own"


def test_a_memory_that_is_opened_late_is_no_wider_than_it_said() -> None:
    with fake_memory() as store:
        store.for_user("eve", projects="zeus").in_project("zeus").remember("Zeus' tunnel")
        told = LazyMemory(lambda: store.for_user("ada"), projects=["zeus"])
        (search,) = memory_tools(told, only="memory_search")
        assert search.run(query="tunnel").data["memories"] == []
        refused = search.run(query="tunnel", project="zeus")
        assert refused.is_error
        assert "does not see a project 'zeus'" in refused.text
