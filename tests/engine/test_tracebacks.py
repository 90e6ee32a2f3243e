"""What somebody sees whose server is down: one error with its attempts, and our frames alone."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import QdrantClient

from tests.kit.rest import RestServer
from twofold import EngineError, EngineUnavailable, HybridIndex, embedded_client
from twofold.engine import remote
from twofold.testing import HashEmbedding

CHAINS = ("During handling of the above exception", "direct cause of the following exception")


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_FIRST_PAUSE_SECONDS", 0.0)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RestServer]:
    with RestServer(lambda: embedded_client(tmp_path)) as started:
        yield started


@pytest.fixture
def index(server: RestServer) -> Iterator[HybridIndex]:
    with HybridIndex.open(server.url, dense=HashEmbedding(), timeout=60) as opened:
        opened.add(["the tunnel"])
        yield opened


def raised(call: Callable[[], Any]) -> EngineError:
    with pytest.raises(EngineError) as caught:
        call()
    return caught.value


def chains(error: BaseException) -> int:
    text = "".join(traceback.format_exception(error))
    return sum(text.count(chain) for chain in CHAINS)


def library_frames(error: BaseException) -> list[tuple[str, str]]:
    """(package, function) of every frame below this test."""
    frames = traceback.extract_tb(error.__traceback__)
    paths = [(Path(frame.filename).parts, frame.name) for frame in frames if frame.filename != __file__]
    known = ("twofold", "qdrant_client", "httpx", "httpcore", "concurrent", "asyncio", "_pytest")
    found = [(next((name for name in known if name in parts), parts[-1]), name) for parts, name in paths]
    return [frame for frame in found if frame[0] != "_pytest"]


def check_short(error: EngineError, method: str) -> None:
    assert chains(error) == 0
    frames = library_frames(error)
    assert frames[0] == ("twofold", method)
    assert not {package for package, _ in frames} & {"qdrant_client", "httpx", "httpcore"}
    assert len("".join(traceback.format_exception(error)).splitlines()) < 80


def test_a_dead_server(server: RestServer, index: HybridIndex) -> None:
    server.stop()
    error = raised(lambda: index.search("tunnel"))
    assert isinstance(error, EngineUnavailable)
    assert len(error.attempts) == remote.MAX_ATTEMPTS
    check_short(error, "search")


def test_a_dead_server_awaited(server: RestServer, index: HybridIndex) -> None:
    server.stop()
    error = raised(lambda: asyncio.run(index.asearch("tunnel")))
    assert isinstance(error, EngineUnavailable)
    assert len(error.attempts) == remote.MAX_ATTEMPTS
    assert chains(error) == 0
    assert not {package for package, _ in library_frames(error)} & {"qdrant_client", "httpx", "httpcore"}


def test_a_request_that_is_refused(server: RestServer, index: HybridIndex) -> None:
    server.faults.status(403)
    error = raised(lambda: index.count())
    assert "check api_key" in str(error)
    check_short(error, "count")


def test_what_the_embedded_engine_refuses(tmp_path: Path) -> None:
    with HybridIndex.open(tmp_path / "own", dense=HashEmbedding()) as index:
        index.add(["the tunnel"])
        client = embedded_client(tmp_path / "own")
        client.delete_collection("twofold")
        error = raised(lambda: index.search("tunnel"))
        client.close()
    assert "404 Not Found" in str(error)
    assert chains(error) == 0
    assert library_frames(error)[0] == ("twofold", "search")


def test_what_a_brought_client_refuses() -> None:
    client = QdrantClient(":memory:")
    index = HybridIndex.open(client, dense=HashEmbedding())
    client.delete_collection("twofold")
    error = raised(lambda: index.count())
    assert chains(error) <= 1
    assert library_frames(error)[0] == ("twofold", "count")
