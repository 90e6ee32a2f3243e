"""The server over stdin and stdout, as a client starts it."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest

from tests.cli.runs import QUIET_ENV, run
from tests.kit.rest import RestServer
from tests.mcp.talking import Wire, ask, fixture_server, stdio_session, twofold_mcp, wire
from twofold import HybridIndex, embedded_client
from twofold.mcp.server import replace_surrogate_escapes
from twofold.testing import HashEmbedding
from twofold.tools import NAMES, LazyMemory, memory_tools

TUNNEL = "Rathole tunnels listen on port 2333"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stdio") / "store"


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Wire]:
    """One process for all tests that only ask it something."""
    with wire(fixture_server(folder)) as made:
        yield made


async def test_the_command_serves_tools_and_remembers(tmp_path: Path) -> None:
    """The real command with the bundled model, twice on one folder."""
    command = twofold_mcp("--user", "ada", "--location", tmp_path / "store")
    async with stdio_session(command) as session:
        tools = (await session.list_tools()).tools
        assert [tool.name for tool in tools] == list(NAMES)
        saved = await ask(session, "memory_save", text=TUNNEL, tags=["infra"])
        assert saved["isError"] is False
    async with stdio_session(command) as session:
        found = await ask(session, "memory_search", query="which port does the tunnel use?")
        assert [each["id"] for each in found["structuredContent"]["memories"]] == [saved["structuredContent"]["id"]]
        assert TUNNEL in found["content"][0]["text"]


def test_tools_are_described_in_full(server: Wire) -> None:
    ours = {tool.name: tool for tool in memory_tools(LazyMemory(lambda: pytest.fail("opened")))}
    listed = server.request("tools/list")["result"]["tools"]
    assert [each["name"] for each in listed] == list(NAMES)
    for each in listed:
        tool = ours[each["name"]]
        assert each["inputSchema"] == tool.schema
        assert each["description"] == tool.description
        jsonschema.Draft202012Validator.check_schema(each["outputSchema"])
        marks = each["annotations"]
        assert (marks["readOnlyHint"], marks["destructiveHint"]) == (tool.read_only, tool.destructive)
        assert (marks["idempotentHint"], marks["openWorldHint"]) == (tool.idempotent, False)


def test_answers_are_structured_and_mistakes_are_told(server: Wire) -> None:
    schemas = {each["name"]: each["outputSchema"] for each in server.request("tools/list")["result"]["tools"]}
    saved = server.tool("memory_save", text=TUNNEL)
    found = server.tool("retrieve_memory", query="tunnels")
    jsonschema.validate(saved["structuredContent"], schemas["memory_save"])
    jsonschema.validate(found["structuredContent"], schemas["memory_search"])
    for name, arguments, says in (
        ("memory_search", {"querry": "x"}, "did you mean 'query'?"),
        ("memory_search", {"query": "x", "max_results": 1000}, "less than or equal to 50"),
        ("memory_forget", {"ids": ["nonsense"]}, "no memory has the id 'nonsense'"),
        ("nothing", {}, "there is no tool 'nothing'"),
    ):
        wrong = server.tool(name, **arguments)
        assert wrong["isError"] is True
        assert says in wrong["content"][0]["text"]
        assert "structuredContent" not in wrong


def test_nothing_is_loaded_before_a_tool_is_called(tmp_path: Path) -> None:
    with wire(fixture_server(tmp_path / "store")) as server:
        assert len(server.request("tools/list")["result"]["tools"]) == len(NAMES)
        said = server.leave()
    assert "loaded:\n" in said
    assert not (tmp_path / "store").exists()


OFFLINE = """
import socket

def refuse(*_):
    raise OSError("the network is away")

def connect(self, address, _real=socket.socket.connect):
    local = self.family == getattr(socket, "AF_UNIX", None) or address[0] in ("127.0.0.1", "::1")
    return _real(self, address) if local else refuse()

socket.socket.connect = connect
socket.getaddrinfo = refuse
"""
IMPORTING = """
import socket
import mcp.server.lowlevel
try:
    socket.create_connection(("192.0.2.1", 80), timeout=1)
except OSError as error:
    print(error)
"""


def test_the_first_answer_comes_at_once_and_without_a_network(tmp_path: Path) -> None:
    """For the work of importing the mcp package, and a little.

    Processor time, the best of three: seconds on a clock would measure what else the machine is doing.
    """
    (tmp_path / "sitecustomize.py").write_text(OFFLINE, "utf-8")
    paths = [str(tmp_path), *filter(None, [QUIET_ENV.get("PYTHONPATH")])]
    env = {**QUIET_ENV, "PYTHONPATH": os.pathsep.join(paths)}
    command = twofold_mcp("--user", "ada", "--location", tmp_path / "store")
    answered, imported = [], []
    for _ in range(3):
        begin = _seconds_of_children()
        done = subprocess.run([sys.executable, "-c", IMPORTING], env=env, capture_output=True, text=True)
        imported.append(_seconds_of_children() - begin)
        assert done.stdout == "the network is away\n"
        begin = _seconds_of_children()
        with wire(command, env) as server:  # says hello
            assert server.leave() == ""
        answered.append(_seconds_of_children() - begin)
        if min(answered) < 1.5 * min(imported):
            break
    print(f"initialize: {min(answered):.2f} s, importing mcp alone: {min(imported):.2f} s")
    assert min(answered) < 2 * min(imported)


def _seconds_of_children() -> float:
    """The processor time of the child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_half_characters_get_an_answer(server: Wire) -> None:
    call = '{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "%s", "arguments": {%s}}}'
    server.send((call % ("memory_save", '"text": "half \\ud83d of a tunnel"')).encode())
    assert "replaced" not in server.answer(7)["result"]["content"][0]["text"]
    server.send((call % ("memory_search", '"query": "tunnel \\udc00"')).encode())
    assert "half \ufffd of a tunnel" in server.answer(7)["result"]["content"][0]["text"]
    server.send((call % ("tool\\ud800", "")).encode())
    assert "there is no tool" in server.answer(7)["result"]["content"][0]["text"]


@pytest.mark.parametrize(
    ("line", "cleaned"),
    [
        (r'"\ud83d\ude00"', r'"\ud83d\ude00"'),
        (r'"\ud83d"', r'"\ufffd"'),
        (r'"\uDE00 x"', r'"\ufffd x"'),
        (r'"\ud83d\ud83d\ude00"', r'"\ufffd\ud83d\ude00"'),
        (r'"\\ud83d"', r'"\\ud83d"'),
        (r'"\\\ud83d"', r'"\\\ufffd"'),
        (r'"é\u00e9"', r'"é\u00e9"'),
        ("plain", "plain"),
    ],
)
def test_only_half_characters_are_replaced(line: str, cleaned: str) -> None:
    assert replace_surrogate_escapes(line) == cleaned
    if line.startswith('"'):
        json.loads(cleaned).encode()


async def test_where_a_folder_is_not_shared_the_way_out_is_told(tmp_path: Path) -> None:
    options = "--agent coder --collection work --language german --model some/model --port 8766 --read-only --aliases"
    command = twofold_mcp("--location", tmp_path, "--user", "ada", *options.split(), "--token", "s3cret")
    with HybridIndex.open(tmp_path, dense=HashEmbedding(), share=False):
        async with stdio_session(command) as second:
            refused = await ask(second, "memory_list")
        text = refused["content"][0]["text"]
        assert refused["isError"] is True
        assert "is open in process" in text
        assert f"`twofold mcp --transport http --location {tmp_path} --user ada {options}`" in text
        assert "connect them to http://127.0.0.1:8766/mcp" in text
        assert "s3cret" not in text


async def test_five_servers_share_a_folder(tmp_path: Path) -> None:
    command = fixture_server(tmp_path / "store")
    async with AsyncExitStack() as ending:
        sessions = [await ending.enter_async_context(stdio_session(command)) for _ in range(5)]
        saves = (ask(s, "memory_save", text=f"{TUNNEL}{n}", tags=[f"tag{n}"]) for n, s in enumerate(sessions))
        saved = [each["structuredContent"]["id"] for each in await asyncio.gather(*saves)]
        for session in sessions:
            for number, identity in enumerate(saved):
                found = await ask(session, "memory_search", query=f"port 2333{number}")
                assert found["structuredContent"]["memories"][0]["id"] == identity
        assert len(set(saved)) == 5


def test_the_user_is_needed(tmp_path: Path) -> None:
    done = run("mcp", "--location", tmp_path)
    assert (done.code, done.out) == (2, "")
    assert "say whose, with --user ada or TWOFOLD_USER=ada" in done.err


def test_options_can_stand_in_the_environment() -> None:
    options = {"TWOFOLD_USER": "ada", "TWOFOLD_MCP_TRANSPORT": "http", "TWOFOLD_MCP_HOST": "0.0.0.0"}
    done = run("mcp", env=options)
    assert done.code == 2
    assert "give a token" in done.err


def test_memories_on_a_server() -> None:
    with (
        RestServer(lambda: embedded_client(":memory:")) as qdrant,
        wire(twofold_mcp("--user", "ada", "--url", qdrant.url)) as server,
    ):
        saved = server.tool("memory_save", text=TUNNEL)
        found = server.tool("memory_search", query="tunnels")
        assert found["structuredContent"]["memories"][0]["id"] == saved["structuredContent"]["id"]
        assert server.leave() == ""
        assert server.process.returncode == 0
