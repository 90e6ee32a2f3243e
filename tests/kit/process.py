"""The endpoint as a process of its own, to be killed without warning."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from typing_extensions import Self

from tests.kit.rest import reserve

ROOT = Path(__file__).parents[2]


class RestProcess:
    """`python -m tests.kit.rest` over a folder; kill() is kill -9, start() serves the same folder and port again."""

    def __init__(self, folder: Path, engine: str = "embedded") -> None:
        self.folder = folder
        self.engine = engine
        self._reservation, self.port = reserve()
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Returns when the endpoint listens."""
        words = ["-m", "tests.kit.rest", str(self.folder), "--port", str(self.port), "--engine", self.engine]
        process = subprocess.Popen([sys.executable, *words], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        self._process = process
        if process.stdout is None or not process.stdout.readline():
            raise RuntimeError(f"the endpoint ended with {process.wait()} before it listened")
        return self

    def kill(self) -> None:
        """As when the power of the machine's process is cut: nothing is flushed or closed."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def restart(self) -> None:
        """Killed, and up again."""
        self.kill()
        self.start()

    def close(self) -> None:
        self.kill()
        self._reservation.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()
