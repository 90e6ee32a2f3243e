"""Who comes in with which token, what a server does with requests that don't come, and sessions that nobody uses."""

from __future__ import annotations

import json
import logging
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.cli.runs import run
from tests.mcp.serving import serving
from tests.mcp.talking import HELLO, PATIENCE_SECONDS, http_server, twofold_mcp
from twofold import ConfigError
from twofold.mcp import Client, create_server, create_servers, http_app, read_clients
from twofold.mcp.http import MAX_REQUEST_BYTES
from twofold.testing import fake_memory

ACCEPT = {"accept": "application/json, text/event-stream"}
SOON = 0.5
"""A deadline that a test waits for."""

# --- tokens -------------------------------------------------------------------------------------


def written(folder: Path, content: Any) -> Path:
    path = folder / "tokens.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


def test_a_file_says_what_each_token_allows(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {"s3cret-a": {"user": "ada", "projects": ["apollo"]}, "s3cret-b": {"user": "b", "agent": "x", "write": False}},
    )
    assert read_clients(path) == {
        "s3cret-a": Client(user="ada", projects=("apollo",)),
        "s3cret-b": Client(user="b", agent="x", write=False),
    }


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "can't be read"),
        ("{", "can't be read"),
        ("[]", "a token or more"),
        ("{}", "a token or more"),
        ('"s3cret"', "a token or more"),
        ('["s3cret"]', "a token or more"),
        ({"s3cret": "ada"}, "entry 1 .* must be an object"),
        ({"s3cret": None}, "entry 1 .* must be an object"),
        ({"s3cret": {}}, "user: Field required"),
        ({"s3cret": {"user": ""}}, "user: Value error, must be a name"),
        ({"s3cret": {"user": 7}}, "user: Input should be a valid string"),
        ({"s3cret": {"user": "ada", "projects": "apollo"}}, "projects: "),
        ({"s3cret": {"user": "ada", "projects": [" "]}}, "projects.0: "),
        ({"s3cret": {"user": "ada", "write": "no"}}, "write: Input should be a valid boolean"),
        ({"s3cret": {"user": "ada", "project": "apollo"}}, "project: Extra inputs are not permitted"),
        ({"s3cret": {"user": "ada"}, "": {"user": "bob"}}, "entry 2 .*the token is empty"),
        ({"   ": {"user": "bob"}}, "entry 1 .*the token is empty"),
        ({"s3cret a": {"user": "bob"}}, "no blanks"),
        ({"s3crét": {"user": "bob"}}, "ASCII"),
        ('{"s3cret": {"user": "ada"}, "s3cret": {"user": "bob"}}', "stands twice"),
    ],
)
def test_what_is_wrong_in_it_is_told_without_the_token(tmp_path: Path, content: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as raised:
        read_clients(written(tmp_path, content))
    assert "s3cr" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_a_file_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="FileNotFoundError"):
        read_clients(tmp_path / "nowhere.json")


@pytest.mark.parametrize("token", ["", " ", "\t\n", "two words", "ümlaut", "a\nb"])
def test_a_token_that_no_client_could_send_is_refused_at_start(token: str) -> None:
    with pytest.raises(ConfigError, match="token") as raised:
        http_app(create_server(fake_memory), token=token)
    assert repr(token) not in str(raised.value)
    with pytest.raises(ConfigError, match="token"):
        http_app({token: create_server(fake_memory)})
    with pytest.raises(ConfigError, match="token"):
        create_servers(fake_memory, {token: Client(user="ada")})


def test_tokens_need_servers_and_servers_tokens() -> None:
    one = create_server(fake_memory)
    for server, token in (({}, None), ({"a": one}, "b")):
        with pytest.raises(ConfigError, match="leave it out"):
            http_app(server, token=token)
    with pytest.raises(ConfigError, match="at least one token"):
        create_servers(fake_memory, {})
    assert http_app({"a": one}, host="0.0.0.0").routes, "with tokens others may reach it"
    wrongs: list[Any] = [{"session_seconds": 0}, {"request_seconds": -1}]
    for wrong in wrongs:
        with pytest.raises(ConfigError, match="more than 0"):
            http_app(one, **wrong)


@pytest.mark.parametrize(
    ("options", "env", "says"),
    [
        (("--user", "ada", "-t", "http", "--token", ""), {}, "the token is empty"),
        (("--user", "ada", "-t", "http"), {"TWOFOLD_MCP_TOKEN": ""}, "TWOFOLD_MCP_TOKEN is empty"),
        (("--user", "ada", "-t", "http"), {"TWOFOLD_MCP_TOKENS": ""}, "TWOFOLD_MCP_TOKENS is empty"),
        (("-t", "http", "--tokens", "nowhere.json"), {}, "can't be read"),
        (("--tokens", "tokens.json"), {}, "add --transport http"),
        (("-t", "http", "--tokens", "tokens.json", "--user", "ada", "--token", "x"), {}, "leave out --user, --token"),
        (("-t", "http", "--tokens", "tokens.json", "--project", "apollo"), {}, "leave out --project"),
    ],
)
def test_the_command_refuses_to_start_without_a_lock_on_the_door(
    options: tuple[str, ...], env: dict[str, str], says: str, tmp_path: Path
) -> None:
    done = run("mcp", "--location", tmp_path, *options, env=env)
    assert done.code == 2
    assert says in " ".join(done.err.split())


def test_the_command_serves_each_token_its_own(tmp_path: Path) -> None:
    """The real command with the bundled model, and nothing of a token in what it says."""
    tokens = {
        "s3cret-of-ada": {"user": "ada", "projects": ["apollo"]},
        "s3cret-of-bob": {"user": "bob", "projects": ["apollo"], "write": False},
        "s3cret-of-eve": {"user": "eve"},
    }
    options = ("--tokens", written(tmp_path, tokens), "-l", tmp_path / "store", "-t", "http")

    def tool(url: str, token: str, name: str, **arguments: Any) -> dict[str, Any]:
        headers = {**ACCEPT, "authorization": f"Bearer {token}"}
        begun = httpx.post(url, json=HELLO, headers=headers)
        headers["mcp-session-id"] = begun.headers["mcp-session-id"]
        httpx.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
        answer = httpx.post(url, json=call, headers=headers, timeout=PATIENCE_SECONDS).text
        line = next(line for line in answer.splitlines() if line.startswith("data: {"))
        return dict(json.loads(line.removeprefix("data: "))["result"])

    with http_server(lambda port: twofold_mcp(*options, "--port", port)) as url:
        assert httpx.post(url, json=HELLO, headers=ACCEPT).status_code == 401
        saved = tool(url, "s3cret-of-ada", "memory_save", text="Apollo's tunnel listens on 2333", project="apollo")
        tool(url, "s3cret-of-ada", "memory_save", text="Ada's tunnel listens on 1111")
        seen = tool(url, "s3cret-of-bob", "memory_search", query="which port does the tunnel use?")
        assert [each["id"] for each in seen["structuredContent"]["memories"]] == [saved["structuredContent"]["id"]]
        assert "there is no tool" in str(tool(url, "s3cret-of-bob", "memory_save", text="x"))
        assert tool(url, "s3cret-of-eve", "memory_list")["structuredContent"]["memories"] == []
        refused = tool(url, "s3cret-of-eve", "memory_search", query="tunnel", project="apollo")
        assert "there is no argument 'project'" in str(refused)


def test_tokens_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with fake_memory() as store, serving(create_servers(store, {"s3cret": Client(user="ada")})) as url:
        for token, status in (("s3cret", 200), ("s3cret-or-so", 401)):
            headers = {**ACCEPT, "authorization": f"Bearer {token}"}
            assert httpx.post(url, json=HELLO, headers=headers).status_code == status
    ours = [record for record in caplog.records if not record.name.startswith(("httpx", "httpcore"))]
    assert "s3cret" not in " ".join(record.getMessage() for record in ours)


# --- requests that don't come -------------------------------------------------------------------


@pytest.fixture(scope="module")
def impatient() -> Iterator[str]:
    with serving(create_server(fake_memory), request_seconds=SOON, session_seconds=SOON) as url:
        yield url


def connect(url: str) -> socket.socket:
    host, _, port = urlsplit(url).netloc.partition(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS)


def read_to_end(connection: socket.socket) -> bytes:
    """What the server says until it hangs up; a test that waits for nothing fails by its timeout."""
    said = b""
    while more := connection.recv(65536):
        said += more
    return said


HEAD = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: application/json, text/event-stream\r\n"
BODY = HEAD + b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"


@pytest.mark.parametrize("begun", [b"", b"P", HEAD, BODY, BODY + b'{"jsonrpc"', b"GET /elsewhere HTTP/1.1\r\nHo"])
def test_a_request_that_is_never_sent_whole_is_given_up(impatient: str, begun: bytes) -> None:
    with connect(impatient) as connection:
        connection.sendall(begun)
        said = read_to_end(connection)
    if begun.startswith(BODY):
        assert said.startswith(b"HTTP/1.1 408 ")
        assert b"was not there as a whole within 0.5 seconds" in said
    assert httpx.post(impatient, json=HELLO, headers=ACCEPT).status_code == 200, "others are served"


@pytest.mark.parametrize("slowly", [HEAD + b"X-Long: " + b"x" * 10_000, BODY + b"x" * 100])
def test_sending_slowly_wins_no_time(impatient: str, slowly: bytes) -> None:
    started, sent = BODY if slowly.startswith(BODY) else HEAD, 0
    with connect(impatient) as connection, suppress(OSError):
        connection.sendall(started)
        for byte in slowly[len(started) :]:  # all of them would take many times as long as there is
            connection.sendall(bytes([byte]))
            sent += 1
            time.sleep(SOON / 10)
    assert len(started) + sent < len(slowly), "it hung up on the way"


def test_what_is_refused_ends_the_connection() -> None:
    with serving(create_server(fake_memory), token="s3cret") as url:
        with connect(url) as connection:
            connection.sendall(BODY + b"half")
            assert read_to_end(connection).startswith(b"HTTP/1.1 401 ")
        large = httpx.post(url, content=b"0" * (MAX_REQUEST_BYTES + 1), headers={"authorization": "Bearer s3cret"})
        assert (large.status_code, "bytes at most" in large.text) == (413, True)


# --- sessions that nobody uses ------------------------------------------------------------------


def test_an_idle_session_ends_and_another_can_begin(impatient: str) -> None:
    begun = httpx.post(impatient, json=HELLO, headers=ACCEPT)
    headers = {**ACCEPT, "mcp-session-id": begun.headers["mcp-session-id"]}
    status, pause = 200, SOON
    while status != 404 and pause < PATIENCE_SECONDS:
        pause *= 2  # asking is using it: so wait longer than it lives
        time.sleep(pause)
        listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        status = httpx.post(impatient, json=listing, headers=headers).status_code
    assert status == 404
    again = httpx.post(impatient, json=HELLO, headers=ACCEPT)
    assert (again.status_code, again.headers["mcp-session-id"] != begun.headers["mcp-session-id"]) == (200, True)
