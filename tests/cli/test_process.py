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


def test_an_error_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    answer = run_apart("search", "x", cwd=tmp_path)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == (
        "error: there is no index at ./index: make one with `twofold add notes.md`, or name another with "
        "--location or --collection\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_what_is_wrong_is_said_before_the_engine_is_loaded() -> None:
    script = "import sys; from twofold.cli.app import app; app(['search', 'x', '-l', 'nope'], standalone_mode=False)"
    check = f"\nsys.exit(' '.join(m for m in {HEAVY[:3]!r} if m in sys.modules) or 0)"
    done = subprocess.run([sys.executable, "-c", script + check], capture_output=True, env=QUIET_ENV)
    assert b"there is no index" in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_a_reader_that_leaves_early_is_no_error(index: Path) -> None:
    command = [sys.executable, "-m", "twofold", "search", "port", "-l", str(index)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=QUIET_ENV) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode in (0, 1)


def test_help_loads_nothing_heavy() -> None:
    script = (
        "import sys, twofold.cli\n"
        "sys.argv = ['twofold', 'add', '--help']\n"
        "try: twofold.cli.main()\n"
        f"except SystemExit: sys.exit(' '.join(m for m in {HEAVY!r} if m in sys.modules) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, env=QUIET_ENV)
    assert done.stderr == b""
    assert b"--split" in done.stdout


def test_version_and_bare_command() -> None:
    assert run("--version").out.startswith("twofold ")
    assert "demo" in run().out + run().err
    assert run("search").code == 2
