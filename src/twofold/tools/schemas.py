"""JSON schemas of arguments, for models that guess and for APIs that are strict."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

# Strict modes refuse schemas with keywords they don't know, and differ in which they know. The descriptions say the
# same in words, and arguments are checked here in any case.
_TOO_MUCH = {"title", "default", "minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength"}


def natural(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of a model without what a reader doesn't need."""
    schema: dict[str, Any] = _without(model.model_json_schema(), {"title"})
    schema.pop("description", None)  # the docstring of the class: the tool has its own description
    return schema


def strict(model: type[BaseModel]) -> dict[str, Any]:
    """The schema with every property required; what is optional can be null."""
    schema: dict[str, Any] = _without(natural(model), _TOO_MUCH)
    schema["required"] = list(schema.get("properties", {}))
    schema["additionalProperties"] = False
    return schema


def _without(value: Any, names: set[str]) -> Any:
    if isinstance(value, list):
        return [_without(each, names) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {key: each for key, each in value.items() if key not in names}
    return {
        key: {name: _without(one, names) for name, one in each.items()}  # an argument may be called "title"
        if key in ("properties", "$defs")
        else _without(each, names)
        for key, each in kept.items()
    }
