"""What a tool answers with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ToolResult:
    """The answer of a tool, for the model and for programs."""

    text: str
    """What the model reads. Stored texts in it stand between marks that say they are data."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """The same as JSON values; it fits the tool's `output` model. Empty for an error."""
    is_error: bool = False
    """The call did nothing; the text says why, and what to do differently."""

    def __str__(self) -> str:
        return self.text
