"""Manners on the network: what is tried again and what isn't, a dead server left alone, keys, versions, strict mode."""

from __future__ import annotations

import logging
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import QdrantClient

from tests.faces import STYLES, Face, Pauses
from tests.kit.rest import RestServer
from twofold import (
    CollectionMismatch,
    ConfigError,
    EngineError,
    EngineUnavailable,
    HybridIndex,
    Memory,
    embedded_client,
)
from twofold.engine import remote
from twofold.testing import HashEmbedding

PATIENT, HASTY = 60.0, 1.0
TEXTS = ["the tunnel listens on port 2333", "a tunnel of ivy", "checkRateLimit fails with 429"]


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that was dead in one test is asked again in the next."""
    monkeypatch.setattr(remote, "PAUSE_SECONDS", 0.05)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestServer]:
    folder = tmp_path_factory.mktemp("manners")
    with RestServer(lambda: embedded_client(folder)) as running:
        yield running


@pytest.fixture(params=STYLES)
def style(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def collection() -> str:
    return f"manners-{uuid.uuid4().hex}"


@pytest.fixture
def opened(server: RestServer, style: str, collection: str) -> Iterator[Callable[..., Face]]:
    """Opens one collection of the endpoint, which is well again afterwards."""
    faces: list[Face] = []

    def opener(timeout: float = PATIENT, url: str = "", **arguments: Any) -> Face:
        opening: Callable[..., Any] = HybridIndex.aopen if style == "async" else HybridIndex.open
        arguments = {"dense": HashEmbedding(), "timeout": timeout, **arguments}
        faces.append(Face(lambda: opening(url or server.url, collection, **arguments), style))
        return faces[-1]

    yield opener
    server.start()
    server.faults.clear()
    server.api_key = server.read_key = None
    server.version, server.status = "1.20.0", "green"
    for face in faces:
        face.shut()


def _until_it_answers(call: Callable[[], Any]) -> Any:
    """A server that is back is noticed within seconds; `Event` waits where sleeping takes no time."""
    for _ in range(200):
        try:
            return call()
        except EngineUnavailable:
            threading.Event().wait(0.05)
    return call()


# --- What is tried again ---

ANSWERED, GIVEN_UP, REFUSED = "answered", "given up", "refused"
IN_A_MOMENT = format_datetime(datetime.now(timezone.utc) - timedelta(seconds=1), usegmt=True)
NEXT_YEAR = format_datetime(datetime.now(timezone.utc) + timedelta(days=365), usegmt=True)
FAULTS: dict[str, tuple[Callable[[RestServer], object], str]] = {
    "429, after seconds": (lambda server: server.faults.status(429, retry_after=0, times=2), ANSWERED),
    "429, at a date": (lambda server: server.faults.status(429, retry_after=IN_A_MOMENT, times=2), ANSWERED),
    "429, at a far date": (lambda server: server.faults.status(429, retry_after=NEXT_YEAR), GIVEN_UP),
    "429, nonsense": (lambda server: server.faults.status(429, retry_after="soon, honestly", times=2), ANSWERED),
    "500": (lambda server: server.faults.status(500, times=2), ANSWERED),
    "503, at a far date": (lambda server: server.faults.status(503, retry_after=NEXT_YEAR), GIVEN_UP),
    "dropped": (lambda server: server.faults.drop(times=2), ANSWERED),
    "answer lost": (lambda server: server.faults.drop(after=True, times=2), ANSWERED),
    "no JSON": (lambda server: server.faults.garbage(times=2), ANSWERED),
    "no answer": (lambda server: server.faults.hang(), GIVEN_UP),
    "not there": (lambda server: server.stop(), GIVEN_UP),
    "wrong key": (lambda server: server.faults.status(401), REFUSED),
}


@pytest.mark.parametrize("operation", ["read", "write"])
@pytest.mark.parametrize("fault", FAULTS)
def test_faults(opened: Callable[..., Face], server: RestServer, pauses: Pauses, fault: str, operation: str) -> None:
    face = opened()
    face.add(TEXTS, ids=["a", "b", "c"])
    face.search("tunnel")
    if fault == "no answer":
        face = _until_it_answers(lambda: opened(HASTY))
        _until_it_answers(lambda: face.search("tunnel"))
    calls: dict[str, Callable[[], Any]] = {
        "read": lambda: face.search("tunnel", 2).ids,
        "write": lambda: face.add(["another tunnel"], ids=["d"]),
    }
    expected = {"read": face.search("tunnel", 2).ids, "write": ["d"]}
    begin, outcome = FAULTS[fault]
    begin(server)
    if outcome == ANSWERED:
        assert calls[operation]() == expected[operation]
        assert len(pauses.taken) == 2
    else:
        with pytest.raises(EngineError) as caught:
            calls[operation]()
        assert isinstance(caught.value, EngineUnavailable) == (outcome == GIVEN_UP)
        assert outcome != REFUSED or (caught.value.status == 401 and "check api_key" in str(caught.value))
    server.start()
    server.faults.clear()
    assert _until_it_answers(calls[operation]) == expected[operation]
    assert face.count() == 3 + (operation == "write")


# --- A dead server is left alone ---


def test_a_dead_server_is_not_asked_for_every_search(
    opened: Callable[..., Face], pauses: Pauses, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = RestServer(lambda: embedded_client(":memory:")).start()
    face = opened(url=server.url)
    face.add(TEXTS)
    face.search("tunnel")
    monkeypatch.setattr(remote, "PAUSE_SECONDS", 3600.0)
    server.faults.drop()
    with pytest.raises(EngineUnavailable, match="gave up after 7 tries"):
        face.search("tunnel")
    asked, took = len(server.requests), []
    for _ in range(5):  # the machine may be busy in some of them
        began = time.perf_counter()
        for _ in range(4):
            with pytest.raises(EngineUnavailable, match="did not answer 7 times in a row, so it is left alone"):
                face.search("tunnel")
        took.append(time.perf_counter() - began)
    assert min(took) < 0.1
    with pytest.raises(EngineUnavailable):  # whoever asks that server in this process
        opened(url=server.url)
    assert len(server.requests) == asked
    server.close()


def test_one_call_at_a_time_looks_whether_it_is_back() -> None:
    now = [0.0]
    breaker = remote.ServerBreaker(clock=lambda: now[0])

    def attempts() -> remote.Attempts:
        return remote.Attempts("query", "there", 100.0, clock=lambda: now[0])

    def fail() -> None:
        tries = attempts()
        with breaker.watching(tries):
            while True:
                tries.pause_after(OSError("refused"))

    with pytest.raises(EngineUnavailable, match="7 tries"):
        fail()
    with pytest.raises(EngineUnavailable, match="left alone"):
        fail()
    now[0] = 1.0
    with pytest.raises(EngineUnavailable, match="1 try in"):
        fail()
    now[0] = 2.0
    with breaker.watching(attempts()), pytest.raises(EngineUnavailable, match="left alone"):
        fail()
    with pytest.raises(EngineUnavailable, match="7 tries"):
        fail()


def test_a_request_that_takes_too_long_says_nothing_about_the_server() -> None:
    breaker = remote.ServerBreaker()

    def answered() -> None:
        with breaker.watching(remote.Attempts("count", "there", 0.0)):
            pass

    def timed_out() -> None:
        slow = remote.Attempts("query", "there", 0.0)
        with breaker.watching(slow):
            answered()  # somebody else, meanwhile
            raise slow.timed_out()

    for _ in range(5):
        with pytest.raises(EngineUnavailable, match="did not answer before the deadline"):
            timed_out()
    answered()


# --- Addresses, and what stands in them ---


@pytest.mark.parametrize("location", ["ftp://host/folder", "file:///folder", "qdrant://u:secret@host:6333"])
def test_other_schemes_are_no_folders(location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="leads to no engine: a server's address begins with http://") as caught:
        HybridIndex.open(location, dense=HashEmbedding())
    assert "secret" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_password_in_a_url_is_sent_and_never_shown(
    opened: Callable[..., Face], server: RestServer, pauses: Pauses, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    face = opened(url=server.url.replace("http://", "HTTP://ada:s%65cret@"))
    face.add(TEXTS)
    assert len(face.search("tunnel", 2)) == 2
    assert server.last_headers["authorization"] == "Basic YWRhOnNlY3JldA=="
    server.stop()
    with pytest.raises(EngineUnavailable) as caught:
        face.search("tunnel")
    shown = f"{caught.value} {caught.value.location} {face.index!r} {caplog.text}"
    assert server.url in shown
    assert not any(secret in shown for secret in ("s%65cret", "secret", "YWRhOnNlY3JldA"))


@pytest.mark.parametrize(
    "url", ["http://ada:sec/ret@host:6333", "http://ada:secret@host:port", "http://host?api_key=secret", "http://"]
)
def test_a_url_that_makes_no_sense_is_not_shown_with_its_password(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        HybridIndex.open(url, dense=HashEmbedding())
    assert "secret" not in str(caught.value)
    assert "sec/ret" not in str(caught.value)


# --- A collection made anew under an open index ---


def test_a_collection_made_anew_is_noticed_before_anything_is_written(
    server: RestServer, opened: Callable[..., Face], collection: str
) -> None:
    face = opened()
    face.add(TEXTS, ids=["a", "b", "c"])
    QdrantClient(url=server.url, check_compatibility=False).delete_collection(collection)
    with pytest.raises(EngineError, match="has the collection been deleted"):
        face.add(["gone"])
    other = opened(dense=HashEmbedding(dim=32))
    other.add(["of another model"], ids=["a"])
    for change in (
        lambda: face.add(["gone"]),
        lambda: face.delete("a"),
        lambda: face._call("update_metadata", {"year": 1}, "a"),
    ):
        with pytest.raises(CollectionMismatch, match="made anew since this index was opened"):
            change()
    assert (other.count(), other.get("a").metadata) == (1, {})


# --- Keys, versions, strict mode, states ---


def test_a_key_that_may_only_read_can_recall(
    server: RestServer, opened: Callable[..., Face], collection: str, caplog: pytest.LogCaptureFixture
) -> None:
    about: dict[str, Any] = {"user": "ada", "dense": HashEmbedding(), "collection": f"{collection}-memories"}
    opened()
    server.api_key, server.read_key = "all", "read"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # qdrant-client's own, about keys without TLS
        with Memory.open(server.url, **about, api_key="all") as memory:
            memory.remember("The tunnel listens on port 2333")
        with Memory.open(server.url, **about, api_key="read") as reader:
            for _ in range(2):
                assert [hit.text for hit in reader.recall("tunnel port")] == ["The tunnel listens on port 2333"]
                reader.flush()
            with pytest.raises(EngineError, match="may be one that can only read"):
                reader.remember("Something else")
            assert reader.recall("tunnel port").degraded is None
        with pytest.raises(EngineError, match="401 Unauthorized: check api_key"):
            HybridIndex.open(server.url, dense=HashEmbedding(), api_key="wrong")
    told = [record for record in caplog.records if "recalls are not counted" in record.getMessage()]
    assert len(told) == 1


def test_a_server_of_1_16_says_what_it_can_not_do(server: RestServer, opened: Callable[..., Face]) -> None:
    server.version = "1.16.3"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        face = opened()
        face.add(TEXTS, metadatas=[{"kind": "note"}, {"kind": "note"}, {"kind": "code"}])
        assert face.search("tunnel").degraded is None
        found = face.search("tunnel", filter={"kind": "note"})
    assert len(found) == 2
    assert "counted in the whole collection" in (found.degraded or "")
    assert "1.19 or newer" in (found.degraded or "")


def test_a_fused_query_that_is_refused_is_fused_here_and_said(server: RestServer, opened: Callable[..., Face]) -> None:
    face = opened()
    face.add(TEXTS, ids=["a", "b", "c"])
    natively = face.search("tunnel port", explain=True)
    server.faults.status(400, body='"formula"')
    found = face.search("tunnel port", explain=True)
    assert found.ids == natively.ids
    assert [hit.score for hit in found] == pytest.approx([hit.score for hit in natively], abs=1e-5)
    assert natively.degraded is None
    assert "the engine refused to fuse, so that was done here: query on" in (found.degraded or "")


@pytest.mark.parametrize("status", ["yellow", "grey", "red"])
def test_a_collection_that_is_not_green_answers(server: RestServer, opened: Callable[..., Face], status: str) -> None:
    server.status = status
    face = opened()
    face.add(TEXTS)
    found = face.search("tunnel", 2)
    assert (len(found), found.degraded) == (2, None)
    assert any("optimis" in note for note in face._call("info").notes)


def test_a_node_that_lags_behind_is_waited_for(
    server: RestServer, opened: Callable[..., Face], collection: str
) -> None:
    opened().add(TEXTS)
    client = QdrantClient(url=server.url, check_compatibility=False)
    client.update_collection(collection, metadata={"twofold": None})  # as if something else had written it
    client.get_collection(collection)
    server.stale_reads = 3
    opened(adopt=True)
    assert server.stale_reads == 0
    opened().add(["now it is ours"])


def test_strict_mode_takes_no_large_batches(server: RestServer, opened: Callable[..., Face]) -> None:
    face = opened()
    face.add(TEXTS)
    server.faults.status(400, times=1, path="/points/query/batch")
    found = face.search("tunnel", 2)
    assert (len(found), found.degraded) == (2, None)
