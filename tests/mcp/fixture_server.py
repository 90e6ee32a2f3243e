"""An MCP server on a quick stand-in for the model, which also makes noise where servers often do.

usage: python -m tests.mcp.fixture_server FOLDER [PORT]
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from twofold.mcp import create_server, serve_http, serve_stdio
from twofold.tools import LazyMemory

HEAVY = ("qdrant_client", "qdrant_edge", "fastembed", "onnxruntime", "numpy")


def main(folder: Path, port: int | None) -> None:
    def opener():  # type: ignore[no-untyped-def]  # Memory is not to be imported yet
        from twofold import Memory
        from twofold.testing import HashEmbedding

        print("noise on stdout from Python")
        os.system("echo noise on stdout from a child process")
        sys.stdout.write("noise without an end")
        return Memory.open(folder, user="ada", dense=HashEmbedding())

    memory = LazyMemory(opener)
    server = create_server(memory)
    if port is None:
        serve_stdio(server)
    else:
        serve_http(server, port=port)
    print("loaded:", *[name for name in HEAVY if name in sys.modules], file=sys.stderr)
    memory.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None)
