"""Running commands, in this process or in one of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from twofold.cli.app import app

QUIET_ENV = {key: value for key, value in os.environ.items() if not key.startswith("TWOFOLD_")}


class Answer:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def __repr__(self) -> str:
        return f"exit {self.code}\n--- out\n{self.out}\n--- err\n{self.err}"


def run(*words: object, stdin: str | bytes | None = None, env: dict[str, str] | None = None) -> Answer:
    """A command, answered in this process."""
    cleared = {key: None for key in os.environ if key.startswith("TWOFOLD_")}
    result = CliRunner().invoke(app, [str(w) for w in words], input=stdin, env={**cleared, **(env or {})})
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Answer(result.exit_code, result.stdout, result.stderr)


def run_apart(
    *words: object, stdin: bytes | None = None, env: dict[str, str] | None = None, cwd: Path | None = None
) -> Answer:
    """A command in a process of its own, its output piped."""
    command = [sys.executable, "-m", "twofold", *map(str, words)]
    done = subprocess.run(command, input=stdin, capture_output=True, env={**QUIET_ENV, **(env or {})}, cwd=cwd)
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())
