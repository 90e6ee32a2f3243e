"""The command as a shell sees it: start-up, pipes, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.runs import QUIET_ENV, run, run_apart

HEAVY = ("qdrant_client", "fastembed", "onnxruntime", "numpy", "twofold.index")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pipes")
    answer = run_apart(
        "add", "-", "--location", "index", stdin="Nøkkelen ligger under steinen\nport 2333\n".encode(), cwd=folder
    )
    assert answer.code == 0, answer
    assert answer.err == "", "no progress bar in a pipe"
    return folder / "index"


def test_piped_json_parses_and_keeps_every_character(index: Path) -> None:
    answer = run_apart("search", "nøkkelen", "-l", index, "--json")
    assert answer.json["hits"][0]["text"] == "Nøkkelen ligger under steinen"
    assert answer.err == ""


def test_a_stream_that_is_only_ascii_still_gets_everything(index: Path) -> None:
    env = {"PYTHONIOENCODING": "ascii"}
    found = json.loads(run_apart("search", "nøkkelen", "-l", index, "--json", env=env).out)
    assert found["hits"][0]["text"].startswith("Nøkkelen")
    table = run_apart("search", "nøkkelen", "-l", index, "--explain", env=env)
    assert table.code == 0
    assert "N?kkelen" in table.out
    assert table.out.isascii()


def run_main(cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, which ends by naming what it loaded of the heavy packages."""
    script = (
        "import sys, twofold.cli\n"
        f"sys.argv = ['twofold', *{words!r}]\n"
        "try: twofold.cli.main()\n"
        f"finally: print('loaded:', *(m for m in {HEAVY!r} if m in sys.modules))\n"
    )
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=QUIET_ENV, cwd=cwd)


def test_an_error_is_one_line_and_exit_code_2_before_the_engine_is_loaded(tmp_path: Path) -> None:
    done = run_main(tmp_path, "search", "x")
    assert (done.returncode, done.stdout) == (2, "loaded:\n")
    assert done.stderr == (
        "error: there is no index at ./index: make one with `twofold add notes.md`, or name another with "
        "--location or --collection\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_leaves_early_is_no_error(index: Path) -> None:
    command = [sys.executable, "-m", "twofold", "search", "port", "-l", str(index)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=QUIET_ENV) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode in (0, 1)


def test_help_loads_nothing_heavy(tmp_path: Path) -> None:
    done = run_main(tmp_path, "add", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "--split" in done.stdout
    assert done.stdout.endswith("loaded:\n")


def test_version_and_bare_command() -> None:
    assert run("--version").out.startswith("twofold ")
    assert "demo" in run().out + run().err
    assert run("search").code == 2
