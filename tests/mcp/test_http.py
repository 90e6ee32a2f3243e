"""The server over HTTP: many clients, one store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from tests.mcp.talking import HELLO, READY, ask, fixture_server, http_server, http_session, twofold_mcp
from twofold import ConfigError
from twofold.mcp import create_server, http_app
from twofold.mcp.http import is_loopback
from twofold.testing import fake_memory

ACCEPT = {"accept": "application/json, text/event-stream"}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("http") / "store"
    with http_server(lambda port: fixture_server(folder, port)) as address:
        yield address


async def test_many_clients_share_a_store(url: str) -> None:
    async def one(number: int) -> str:
        async with http_session(url) as session:
            saved = await ask(session, "memory_save", text=f"client number {number} was here")
            return str(saved["structuredContent"]["id"])

    ids = await asyncio.gather(*(one(number) for number in range(8)))
    async with http_session(url) as session:
        listed = await ask(session, "memory_list", max_results=50)
        assert {each["id"] for each in listed["structuredContent"]["memories"]} >= set(ids)


async def test_clients_work_at_the_same_time(url: str) -> None:
    async with http_session(url) as one, http_session(url) as other:
        saved = await ask(one, "memory_save", text="Rathole tunnels listen on port 2333")
        answers = await asyncio.gather(*(ask(each, "memory_search", query="rathole") for each in (one, other) * 5))
        for answer in answers:
            assert answer["structuredContent"]["memories"][0]["id"] == saved["structuredContent"]["id"]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"\xff\xfe", b'{"jsonrpc": "2.0"}', b'"\\ud800"', b"[" * 10_000, b"0" * 1_000_000]
)
async def test_garbage_is_refused_and_survived(url: str, body: bytes) -> None:
    headers = {**ACCEPT, "content-type": "application/json"}
    async with httpx.AsyncClient() as client:
        refused = await client.post(url, content=body, headers=headers)
        assert refused.status_code >= 400
        assert (await client.post(url, json=HELLO, headers=ACCEPT)).status_code == 200


async def test_other_sites_in_a_browser_are_kept_out(url: str) -> None:
    async with httpx.AsyncClient() as client:
        for headers in ({"host": "evil.example"}, {"origin": "http://evil.example"}):
            refused = await client.post(url, json=HELLO, headers={**ACCEPT, **headers})
            assert refused.status_code in (403, 421)


def test_a_token_is_asked_for(tmp_path: Path) -> None:
    options = ("--user", "ada", "-l", tmp_path, "-t", "http", "--token", "s3cret")
    with http_server(lambda port: twofold_mcp(*options, "--port", port)) as address:
        for given, status in ((None, 401), ("Bearer wrong", 401), ("s3cret", 401), ("Bearer s3cret", 200)):
            headers = {**ACCEPT, **({"authorization": given} if given else {})}
            assert httpx.post(address, json=HELLO, headers=headers).status_code == status, given


def test_it_can_be_mounted_in_another_application() -> None:
    mounted = Starlette(routes=[Mount("/memory", http_app(create_server(fake_memory)))])
    for _ in range(2):  # an application can be started again
        with TestClient(mounted, "http://localhost") as client:
            first = client.post("/memory/mcp", json=HELLO, headers=ACCEPT)
            session = {**ACCEPT, "mcp-session-id": first.headers["mcp-session-id"]}
            client.post("/memory/mcp", json=READY, headers=session)
            listed = client.post("/memory/mcp", json=LIST, headers=session)
            assert (first.status_code, listed.status_code) == (200, 200)
            assert "memory_search" in listed.text


async def test_first_requests_at_the_same_time_share_the_beginning() -> None:
    mounted = Starlette(routes=[Mount("/memory", http_app(create_server(fake_memory)))])
    transport = httpx.ASGITransport(mounted)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        asked = [client.post("/memory/mcp", json=HELLO, headers=ACCEPT) for _ in range(3)]
        assert [answer.status_code for answer in await asyncio.gather(*asked)] == [200] * 3


def test_the_same_application_can_be_started_twice() -> None:
    app = http_app(create_server(fake_memory))
    for _ in range(2):
        with TestClient(app, "http://localhost") as client:
            assert client.post("/mcp", json=HELLO, headers=ACCEPT).status_code == 200


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("127.3.2.1", True), ("localhost", True), ("::1", True), ("[::1]", True), ("0.0.0.0", False),
     ("192.168.0.7", False), ("example.org", False)],
)  # fmt: skip
def test_an_address_that_others_reach_needs_a_token(host: str, local: bool) -> None:
    assert is_loopback(host) is local
    server = create_server(fake_memory)
    if not local:
        with pytest.raises(ConfigError, match="give a token"):
            http_app(server, host=host)
    assert http_app(server, host=host, token=None if local else "x").routes
