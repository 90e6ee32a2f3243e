"""What is wrong with arguments, in words that help a model to correct them."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

_LONGEST = 80


def explain(tool: str, schema: dict[str, Any], error: ValidationError) -> str:
    """All that is wrong, and what the tool takes."""
    known = schema["properties"]
    said = list(dict.fromkeys(_one(each, list(known)) for each in error.errors()))
    needed = set(schema.get("required", ()))
    takes = ", ".join(name if name in needed else f"{name} (optional)" for name in known)
    return f"{tool}: {'; '.join(said)}. Call it again with {takes}."


def _one(each: Any, known: list[str]) -> str:
    place, kind = [str(part) for part in each["loc"]], each["type"]
    name = place[0] if place else "the arguments"
    if kind == "extra_forbidden":
        near = get_close_matches(name, known, 1)
        return f"there is no argument {_short(name)}" + (f" (did you mean {near[0]!r}?)" if near else "")
    if kind == "missing":
        return f"{name} is missing"
    reason = each["msg"].removeprefix("Value error, ").removeprefix("Input ").removeprefix("should ")
    reason = f"must {reason}" if "should" in each["msg"] else reason
    return f"{name} {reason}, got {_short(each['input'])}"


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"
