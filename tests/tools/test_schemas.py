"""The schemas that models and APIs see."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from twofold import ConfigError, Memory
from twofold.testing import fake_memory
from twofold.tools import NAMES, LazyMemory, Tool, json_schemas, memory_tools

TOOLS = memory_tools(LazyMemory(fake_memory))
STRICT_KEYWORDS = {"type", "properties", "required", "additionalProperties", "description", "anyOf", "items", "enum"}


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_strict_schemas_are_strict(tool: Tool) -> None:
    schema = tool.strict_schema
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert schema["required"] == list(schema["properties"])
    for name, each in schema["properties"].items():
        assert _keywords(each) <= STRICT_KEYWORDS, name
        assert _types(each) <= {"string", "integer", "number", "boolean", "array", "null"}, "flat: no objects"
        assert each["description"]
        optional = name not in tool.schema.get("required", [])
        assert ("null" in _types(each)) is optional


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_what_fits_the_strict_schema_is_accepted(tool: Tool) -> None:
    """Null for everything that can be null."""
    samples: dict[str, Any] = {"string": "x", "boolean": True, "array": ["x"]}
    arguments = {
        name: None if "null" in _types(each) else samples[each["type"]]
        for name, each in tool.strict_schema["properties"].items()
    }
    jsonschema.validate(arguments, tool.strict_schema)
    assert "Call it again with" not in tool.call(arguments).text


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_natural_schemas_ask_for_little(tool: Tool) -> None:
    jsonschema.Draft202012Validator.check_schema(tool.schema)
    assert len(tool.schema.get("required", [])) <= 3
    assert tool.schema["additionalProperties"] is False
    assert "title" not in json.dumps(tool.schema)
    assert len(tool.description) > 40


def test_flags_say_which_tools_are_dangerous() -> None:
    flags = {tool.name: (tool.read_only, tool.destructive) for tool in TOOLS}
    assert flags == {
        "memory_search": (True, False),
        "memory_save": (False, True),
        "memory_update": (False, True),
        "memory_forget": (False, True),
        "memory_list": (True, False),
        "memory_feedback": (False, False),
    }


def test_chat_completions(memory: Memory) -> None:
    made = json_schemas(memory)
    assert [each["function"]["name"] for each in made] == list(NAMES)
    assert all(each["type"] == "function" and each["function"]["strict"] is True for each in made)
    assert made[0]["function"]["parameters"] == TOOLS[0].strict_schema


def test_responses(memory: Memory) -> None:
    made = json_schemas(memory_tools(memory, only=["memory_search"]), "openai-responses")
    assert made == [
        {
            "type": "function",
            "name": "memory_search",
            "description": TOOLS[0].description,
            "parameters": TOOLS[0].strict_schema,
            "strict": True,
        }
    ]


def test_anthropic(memory: Memory) -> None:
    made = json_schemas(memory, "anthropic")
    assert set(made[0]) == {"name", "description", "input_schema"}
    assert made[0]["input_schema"] == TOOLS[0].schema


def test_an_unknown_format(memory: Memory) -> None:
    with pytest.raises(ConfigError, match="format must be one of openai, openai-responses, anthropic"):
        json_schemas(memory, "gemini")  # type: ignore[arg-type]


@pytest.mark.slow
def test_describing_tools_loads_no_engine() -> None:
    code = (
        "import sys; from twofold.tools import *; t = memory_tools(LazyMemory(lambda: None)); json_schemas(t); "
        "print([m for m in ('qdrant_client', 'numpy', 'fastembed', 'onnxruntime', 'mcp') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def _keywords(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return {word for each in schema for word in _keywords(each)}
    if not isinstance(schema, dict):
        return set()
    return set(schema) | {word for each in schema.values() for word in _keywords(each)}


def _types(schema: dict[str, Any]) -> set[str]:
    return {each["type"] for each in schema.get("anyOf", [schema])} | ({"string"} if "items" in schema else set())
