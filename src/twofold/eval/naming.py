"""Parameters as people write them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from twofold.ranking.fusion import Strategy


def describe(parameters: Mapping[str, Any], between: str = " ") -> str:
    """Parameters as one types them: alpha=0.5 fusion=rrf(k=20)."""
    return between.join(f"{name}={written(value)}" for name, value in parameters.items())


def written(value: Any) -> str:
    """One value; a fusion with those of its settings that are not the usual ones."""
    if isinstance(value, Strategy):
        own = {each.name: getattr(value, each.name) for each in fields(value)}
        unusual = {each.name: own[each.name] for each in fields(value) if own[each.name] != each.default}
        return f"{value.name}({describe(unusual, ', ')})" if unusual else value.name
    return f"{value:g}" if isinstance(value, float) else str(value)
