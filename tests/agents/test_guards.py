"""A framework that isn't installed is named with the line that installs it."""

from __future__ import annotations

import importlib
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("openai_agents", "agents", "openai-agents"),
        ("pydantic_ai", "pydantic_ai", "pydantic-ai"),
        ("smolagents", "smolagents", "smolagents"),
        ("crewai", "crewai", "crewai"),
        ("mcp", "mcp", "mcp"),
    ],
)
def test_a_missing_framework_names_the_pip_line(
    monkeypatch: pytest.MonkeyPatch, module: str, package: str, extra: str
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    for name in [name for name in sys.modules if name.startswith(f"twofold.{module}")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ImportError, match=rf'pip install "twofold\[{extra}\]"'):
        importlib.import_module(f"twofold.{module}")
