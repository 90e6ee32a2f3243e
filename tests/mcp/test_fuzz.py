"""Whatever a client sends, and whatever else is printed, the server stays and answers the next request.

TWOFOLD_MCP_FUZZ sets the number of messages; `make mcp` sends 2,000.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

from tests.mcp.talking import fixture_server, wire

MESSAGES = int(os.environ.get("TWOFOLD_MCP_FUZZ", "250"))
METHODS = ["initialize", "tools/list", "tools/call", "ping", "resources/read", "prompts/get", "notifications/cancelled",
           "notifications/initialized", "logging/setLevel", "completion/complete", "no/such", ""]  # fmt: skip
TOOLS = ["memory_search", "memory_save", "memory_update", "memory_forget", "memory_list", "nothing", ""]
WORDS = ["query", "text", "ids", "id", "max_results", "useful", "x", "\ud800", "jsonrpc", "_meta"]
ATOMS: list[Any] = [None, True, 0, -1, 1e308, 10**40, "", "x", "\ud800", "\x00", "�" * 50, "9" * 5000, [], {}]


def test_malformed_messages_and_noise_on_stdout_leave_the_server_alive(tmp_path: Path) -> None:
    chance = random.Random(2026)
    with wire(fixture_server(tmp_path)) as server:
        assert server.tool("memory_list")["isError"] is False  # opens the memory with noise; every line read is checked
        for number in range(MESSAGES):
            server.send(malformed(chance))
            if number % 50 == 49:
                assert server.request("ping", identity=f"ping {number}")["result"] is not None
                assert server.process.poll() is None
        arguments = {"name": "memory_save", "arguments": {"text": "still here"}}
        assert server.request("tools/call", arguments, "last")["result"]["isError"] is False
        said = server.leave()
    assert "Traceback" not in said
    assert "noise on stdout from Python" in said
    assert "noise on stdout from a child process" in said
    assert "noise without an end" in said


def malformed(chance: random.Random) -> bytes:
    """One line that is wrong in one of many ways, or by luck in none."""
    kind = chance.randrange(6)
    if kind == 0:
        return bytes(chance.choices([byte for byte in range(256) if byte != 10], k=chance.randrange(200)))
    if kind == 1:
        return (b"[" if chance.random() < 0.5 else b'{"a":') * chance.randrange(1, 5000)
    if kind == 2:
        return encoded(value(chance, 3))
    message = request(chance)
    if kind == 3:
        return encoded(message)
    line = bytearray(encoded(message))
    if kind == 4:
        return bytes(line[: chance.randrange(len(line))])
    for _ in range(chance.randrange(1, 6)):
        line[chance.randrange(len(line))] = chance.choice(b'{}[]",:\\0aZ \xff')
    return bytes(line)


def request(chance: random.Random) -> dict[str, Any]:
    message: dict[str, Any] = {
        "jsonrpc": chance.choice(["2.0", "2.0", "2.0", "1.0", 2, None]),
        "id": chance.choice([1, "a", 1.5, None, [], {}, "\ud800", -(10**30)]),
        "method": chance.choice([*METHODS, *METHODS, value(chance, 1)]),
        "params": {"name": chance.choice([*TOOLS, value(chance, 1)]), "arguments": value(chance, 3)},
    }
    for key in chance.sample(list(message), chance.randrange(3)):
        message[key] = value(chance, 2)
    return message


def value(chance: random.Random, depth: int) -> Any:
    kind = chance.randrange(3) if depth else 2
    if kind == 0:
        return [value(chance, depth - 1) for _ in range(chance.randrange(4))]
    if kind == 1:
        return {chance.choice(WORDS): value(chance, depth - 1) for _ in range(chance.randrange(4))}
    return chance.choice(ATOMS)


def encoded(message: Any) -> bytes:
    return json.dumps(message, ensure_ascii=True).encode()
