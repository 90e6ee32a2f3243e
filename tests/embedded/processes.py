"""Python processes for tests that need more than one."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"


def start(code: str, *args: object) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")]),
    }
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
