"""The index over HTTP when things go wrong: nothing acknowledged is lost, and no call outlives its deadline."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import grpc  # type: ignore[import-untyped]
import pytest

from tests.faces import Face, Pauses
from tests.kit.process import RestProcess
from tests.kit.rest import RestServer
from twofold import (
    Document,
    EngineError,
    EngineUnavailable,
    HybridIndex,
    PartialAdd,
    TwofoldError,
    embedded_client,
)
from twofold.engine.remote import MAX_ATTEMPTS, Attempts
from twofold.testing import HashEmbedding

T = TypeVar("T")

# A deadline that no test reaches, on however busy a machine: what ends a call is then the number of its tries.
PATIENT = 60.0
# A deadline that is there to be reached. A whole second more than this is what the HTTP client itself waits.
HASTY = 1.2
# What a call may take beyond its deadline: the scheduling of a busy machine. That there was no other try is seen
# from what was tried, not from the clock.
GRACE = 60.0
# Longer than any deadline: told to come back so late, a call gives up at once.
NEVER = 3600


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RestServer]:
    with RestServer(lambda: embedded_client(tmp_path / "store")) as running:
        yield running


@pytest.fixture(params=["sync", "async"])
def index(request: pytest.FixtureRequest, server: RestServer) -> Iterator[Face]:
    face = _open(server.url, request.param, PATIENT)
    face.add([Document(text=f"memory {i} of the tunnel", id=f"m{i}") for i in range(5)])
    face.search("tunnel")  # from now on it knows what is stored, and a search is one request
    yield face
    server.faults.clear()
    face.shut()


@pytest.fixture
def hasty(request: pytest.FixtureRequest, index: Face, server: RestServer) -> Iterator[Face]:
    """The same index, opened a second time with a deadline that a test can wait for."""
    style = request.node.callspec.params["index"]
    face: Face = _until_it_answers(lambda: _open(server.url, style, HASTY))
    _until_it_answers(lambda: face.search("tunnel"))
    yield face
    server.faults.clear()
    face.shut()


def _open(url: str, style: str, timeout: float) -> Face:
    opening: Callable[..., Any] = HybridIndex.aopen if style == "async" else HybridIndex.open
    return Face(lambda: opening(url, dense=HashEmbedding(), timeout=timeout), style)


def _until_it_answers(call: Callable[[], T], tries: int = 100) -> T:
    """For a short deadline on a busy machine, and a server that was left alone. What is wrong fails every time."""
    for _ in range(tries - 1):
        with suppress(EngineUnavailable):
            return call()
        threading.Event().wait(0.05)
    return call()


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.monotonic()
    try:
        result = call()
    except TwofoldError as error:
        result = error
    return time.monotonic() - began, result


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_passing_fault_is_tried_again(index: Face, server: RestServer, status: int) -> None:
    wait = 0 if status == 429 else None
    server.faults.status(status, retry_after=wait, times=2)
    assert len(index.search("tunnel", 5)) == 5
    server.faults.status(status, retry_after=wait, times=1, method="PUT")
    index.add([Document(text="one more tunnel", id="more")])
    assert index.count() == 6


def test_a_write_whose_answer_was_lost_is_stored_once(index: Face, server: RestServer) -> None:
    server.faults.drop(after=True, times=1, method="PUT")
    index.add([Document(text="stored before the line broke", id="once")])
    assert index.count() == 6
    assert index.get("once").text == "stored before the line broke"


def test_too_many_requests_waits_as_long_as_it_is_told(index: Face, server: RestServer) -> None:
    server.faults.status(429, times=1, retry_after=1)
    took, result = timed(lambda: index.search("tunnel", 5))
    assert len(result) == 5
    assert took >= 1


def test_a_wait_beyond_the_deadline_is_not_waited_for(index: Face, server: RestServer) -> None:
    server.faults.status(429, retry_after=NEVER)
    took, error = timed(lambda: index.search("tunnel"))
    assert isinstance(error, EngineUnavailable)
    assert error.attempts == [f"429, try again in {NEVER} s"]
    assert took < PATIENT + GRACE


def test_a_server_that_stays_down_is_given_up_and_the_error_says_what_was_tried(
    index: Face, server: RestServer, pauses: Pauses
) -> None:
    server.faults.status(503)
    took, error = timed(lambda: index.search("tunnel"))
    assert isinstance(error, EngineUnavailable)
    assert took < PATIENT + GRACE
    assert error.attempts == ["503 Service Unavailable"] * MAX_ATTEMPTS
    assert len(pauses.taken) == MAX_ATTEMPTS - 1
    assert f"gave up after {MAX_ATTEMPTS} tries" in str(error)
    assert error.operation == "query"


@pytest.mark.parametrize("call", ["search", "add", "get", "count", "delete"])
def test_a_server_that_hangs_never_hangs_a_call(hasty: Face, server: RestServer, call: str) -> None:
    server.faults.hang()
    arguments: dict[str, Any] = {"search": "tunnel", "add": ["x"], "get": "m1", "count": None, "delete": "m1"}
    took, error = timed(lambda: getattr(hasty, call)(arguments[call]))
    assert isinstance(error, EngineUnavailable)
    assert "did not answer before the deadline" in str(error)
    assert error.attempts == ["no answer"]
    assert HASTY - 0.5 <= took < HASTY + GRACE


def test_a_slow_server_is_waited_for(index: Face, server: RestServer) -> None:
    server.faults.delay(0.6)
    assert len(index.search("tunnel", 5)) == 5


def test_a_refusal_is_not_tried_again(index: Face, server: RestServer) -> None:
    server.faults.status(403)
    before = len(server.requests)
    _, error = timed(lambda: index.search("tunnel"))
    assert isinstance(error, EngineError)
    assert not isinstance(error, EngineUnavailable)
    assert "check api_key" in str(error)
    assert len(server.requests) == before + 1


def test_a_stopped_server_is_said_plainly_and_used_again_when_it_is_back(
    index: Face, server: RestServer, pauses: Pauses
) -> None:
    server.stop()
    took, error = timed(lambda: index.search("tunnel"))
    assert isinstance(error, EngineUnavailable)
    assert len(error.attempts) == MAX_ATTEMPTS
    assert took < PATIENT + GRACE
    server.start()
    assert len(_until_it_answers(lambda: index.search("tunnel", 5))) == 5


def test_a_server_that_comes_back_in_time_is_never_noticed(index: Face, server: RestServer, pauses: Pauses) -> None:
    server.stop()
    pauses.meanwhile = server.start
    assert len(index.search("tunnel", 5)) == 5
    assert len(pauses.taken) == 2


def test_what_was_acknowledged_before_a_fault_is_there(index: Face, server: RestServer) -> None:
    def documents() -> Iterator[Document]:
        for i in range(40):
            if i == 20:
                server.faults.status(429, retry_after=NEVER)
            yield Document(text=f"streamed {i}", id=f"s{i}")

    with pytest.raises(PartialAdd, match="does not answer") as caught:
        index.add(documents(), batch_size=10)
    server.faults.clear()
    assert caught.value.written == [f"s{i}" for i in range(20)]
    assert all(index.get(caught.value.written))
    index.add([Document(text=f"streamed {i}", id=f"s{i}") for i in range(40)])
    assert index.count() == 45


@pytest.mark.parametrize("style", ["sync", "async"])
def test_kills_and_restarts_lose_nothing_that_was_acknowledged(tmp_path: Path, style: str) -> None:
    """kill -9 of the server between and during batches, three times over. What was given up is added again."""
    rng = random.Random(5)
    acknowledged: set[str] = set()
    with RestProcess(tmp_path / "store") as process:
        face = _open(process.url, style, PATIENT)
        for round_ in range(3):
            killer = threading.Timer(rng.uniform(0.0, 0.2), process.restart)
            killer.start()
            for batch in range(6):
                documents = [Document(text=f"memory {n}", id=f"r{round_}b{batch}n{n}") for n in range(8)]
                acknowledged.update(_acknowledged(lambda documents=documents: face.add(documents), killer))  # type: ignore[misc]
            killer.join()
        assert face.count() == len(acknowledged) == 3 * 6 * 8
        assert all(face.get(sorted(acknowledged)))
        face.shut()


def _acknowledged(add: Callable[[], list[str]], killer: threading.Thread) -> list[str]:
    """The ids that were written. While the server starts again a call may give up; soon after that, no more."""
    while killer.is_alive():
        took, result = timed(add)
        assert took < PATIENT + GRACE
        if not isinstance(result, EngineUnavailable):
            return list(result)
    return _until_it_answers(add)


def test_random_faults_over_many_writes(server: RestServer) -> None:
    """One request in four fails in some way; every write that returned is there, every call ended in time."""
    acknowledged: dict[str, str] = {}
    with HybridIndex.open(server.url, dense=HashEmbedding(), timeout=PATIENT) as index:
        server.faults.status(503, probability=0.1, seed=1)
        server.faults.status(429, probability=0.05, seed=2, retry_after=0)
        server.faults.drop(probability=0.05, seed=3)
        server.faults.drop(after=True, probability=0.05, seed=4)
        for i in range(60):
            text = f"write {i}"
            took, result = timed(lambda text=text, i=i: index.add([Document(text=text, id=f"w{i % 40}")]))  # type: ignore[misc]
            assert took < PATIENT + GRACE
            if not isinstance(result, TwofoldError):
                acknowledged[f"w{i % 40}"] = text
        server.faults.clear()
        assert len(acknowledged) >= 38
        stored = {d.id: d.text for d in index.get(sorted(acknowledged)) if d}
        assert stored == acknowledged


async def test_a_hanging_server_does_not_block_the_event_loop(server: RestServer) -> None:
    async with await HybridIndex.aopen(server.url, dense=HashEmbedding(), timeout=PATIENT) as index:
        server.faults.hang(times=1)
        server.faults.status(429, retry_after=NEVER)
        search = asyncio.create_task(index.asearch("tunnel"))
        for _ in range(20):
            await asyncio.sleep(0.02)
            assert not search.done()
        server.faults.release()
        with pytest.raises(EngineUnavailable):
            await search
        server.faults.clear()


def test_one_url_serves_several_event_loops(server: RestServer) -> None:
    index = HybridIndex.open(server.url, dense=HashEmbedding())
    index.add(["tunnel"])
    for _ in range(3):
        assert len(asyncio.run(index.asearch("tunnel"))) == 1
    index.close()


def test_a_server_that_is_too_old_is_refused(server: RestServer) -> None:
    server.version = "1.15.4"
    with pytest.raises(EngineError, match=r"this Qdrant server is 1.15.4, and Twofold needs 1.16 or newer"):
        HybridIndex.open(server.url, dense=HashEmbedding())


def test_pauses_grow_and_end() -> None:
    now = [0.0]
    attempts = Attempts("upsert", "somewhere", 100.0, clock=lambda: now[0], jitter=lambda: 0.5)
    pauses = [attempts.pause_after(OSError("refused")) for _ in range(MAX_ATTEMPTS - 1)]
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2]
    with pytest.raises(EngineUnavailable):
        attempts.pause_after(OSError("refused"))
    assert attempts.remaining() == 100.0


@pytest.mark.parametrize("code", ["UNAVAILABLE", "INTERNAL", "DEADLINE_EXCEEDED"])
def test_what_passes_over_http_passes_over_grpc(code: str) -> None:
    class Refused(grpc.RpcError):  # type: ignore[misc]
        def code(self) -> grpc.StatusCode:
            return grpc.StatusCode[code]

    attempts = Attempts("upsert", "somewhere", time.monotonic() + 100)
    assert attempts.pause_after(Refused()) > 0
    assert attempts.unanswered == (code == "UNAVAILABLE")


def test_what_will_not_pass_is_raised_as_it_is() -> None:
    attempts = Attempts("upsert", "somewhere", time.monotonic() + 10)
    with pytest.raises(KeyError):
        attempts.pause_after(KeyError("a bug of ours"))


def test_a_slow_model_does_not_use_up_the_servers_time(server: RestServer) -> None:
    class Slow(HashEmbedding):
        def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
            time.sleep(HASTY + 0.2)
            return super().embed_documents(texts)

    with _until_it_answers(lambda: HybridIndex.open(server.url, dense=Slow(), timeout=HASTY)) as index:
        assert _until_it_answers(lambda: index.add(["slowly embedded"]))


def test_a_key_that_may_only_read_can_search_with_a_filter(server: RestServer) -> None:
    with HybridIndex.open(server.url, dense=HashEmbedding()) as index:
        index.add([Document(text="tunnel", metadata={"kind": "note"})])
        server.faults.status(403, method="PUT", path="/index")
        assert len(index.search("tunnel", filter={"kind": "note"})) == 1


def test_a_process_ends_although_the_server_never_answers(server: RestServer) -> None:
    with HybridIndex.open(server.url, dense=HashEmbedding()):
        server.faults.hang()
    code = (
        "import sys; from twofold import HybridIndex; from twofold.testing import HashEmbedding\n"
        "try: HybridIndex.open(sys.argv[1], dense=HashEmbedding(), timeout=1.0)\n"
        "except Exception as error: print(type(error).__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code, server.url], capture_output=True, text=True, timeout=200)
    assert done.stdout.strip() == "EngineUnavailable"
    server.faults.clear()
