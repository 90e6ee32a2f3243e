"""Every script in examples/ runs by itself, in an empty folder. CrewAI's needs an environment of its own."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tests.docs.pages import EXAMPLES


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.name)
def test_example_runs(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if script.stem == "crewai_memory":
        pytest.importorskip("crewai", reason="run `make crewai`, which builds its environment")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out.strip()
