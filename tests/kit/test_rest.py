"""The endpoint itself: Qdrant's answers and errors, and every way to fail."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from json import JSONDecodeError
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from tests.kit.process import RestProcess
from tests.kit.rest import VERSION, RestServer
from twofold.embedded import embedded_client

SMALL = models.VectorParams(size=2, distance=models.Distance.DOT)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestServer]:
    folder = tmp_path_factory.mktemp("rest")
    with RestServer(lambda: embedded_client(folder)) as running:
        client = QdrantClient(url=running.url, timeout=10, check_compatibility=False)
        client.create_collection("c", SMALL)
        client.close()
        yield running


@pytest.fixture
def client(shared: RestServer) -> Iterator[QdrantClient]:
    """A client of the server, which is well and has an empty collection `c`."""
    shared.faults.clear()
    shared.start()
    opened = QdrantClient(url=shared.url, timeout=10, check_compatibility=False)
    opened.delete("c", models.Filter())
    yield opened
    opened.close()


@pytest.fixture
def server(shared: RestServer, client: QdrantClient) -> RestServer:
    shared.version = VERSION
    shared.requests.clear()
    shared.handled.clear()
    return shared


def put(client: QdrantClient, key: int) -> None:
    client.upsert("c", [models.PointStruct(id=key, vector=[1.0, 2.0])])


def stored(client: QdrantClient) -> int:
    return client.count("c").count


def raw(server: RestServer, method: str, path: str, body: str | None = None) -> tuple[int, Any]:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request(method, path, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read())
    connection.close()
    return found


def test_a_version_to_choose(server: RestServer) -> None:
    assert raw(server, "GET", "/")[1]["version"] == VERSION
    server.version = "1.9.2"
    assert QdrantClient(url=server.url, check_compatibility=False).info().version == "1.9.2"


def test_an_answer_has_result_status_and_time(server: RestServer) -> None:
    status, body = raw(server, "POST", "/collections/c/points/count", "{}")
    assert (status, body["result"], body["status"]) == (200, {"count": 0}, "ok")
    assert 0 < body["time"] < 10


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/collections/nobody", None, 404),
        ("POST", "/collections/nobody/points/count", "{}", 404),
        ("PUT", "/collections/c", '{"vectors": {"size": 2, "distance": "Dot"}}', 409),
        ("POST", "/collections/c/points/count", "{not json", 400),
        ("POST", "/collections/c/points/count", '{"filter": {"must": [{"x": 1}]}}', 400),
        ("PUT", "/collections/c/points", '{"points": [{"id": 1, "vector": [1, 2, 3]}]}', 400),
        ("POST", "/collections/c/points/payload", '{"payload": {"a": 1}}', 400),
        ("GET", "/collections/c/points/17", None, 404),
        ("GET", "/nowhere", None, 404),
        ("PUT", "/collections/c/points/count", "{}", 405),
    ],
    ids=["collection", "points", "taken", "json", "filter", "vector", "selector", "point", "path", "method"],
)
def test_refusals_say_why(
    server: RestServer, client: QdrantClient, method: str, path: str, body: str | None, status: int
) -> None:
    found, answer = raw(server, method, path, body)
    assert found == status
    assert len(answer["status"]["error"]) > 10


def test_a_request_may_leave_out_what_has_a_default(server: RestServer, client: QdrantClient) -> None:
    client.upsert("c", [models.PointStruct(id=key, vector=[1.0, float(key)], payload={"a": None}) for key in range(12)])
    _, answer = raw(server, "POST", "/collections/c/points/query", '{"query": [0, 1]}')
    assert [point["id"] for point in answer["result"]["points"]] == list(range(11, 1, -1))
    assert set(answer["result"]["points"][0]) <= {"id", "version", "score", "payload"}
    assert not answer["result"]["points"][0].get("payload")
    _, answer = raw(server, "POST", "/collections/c/points/scroll", '{"limit": 1}')
    assert answer["result"]["points"][0]["payload"] == {"a": None}
    assert answer["result"]["next_page_offset"] == 1


def test_requests_are_counted(server: RestServer, client: QdrantClient) -> None:
    server.faults.status(503, times=1)
    with pytest.raises(UnexpectedResponse):
        put(client, 1)
    put(client, 1)
    assert server.requests == [("PUT", "/collections/c/points")] * 2
    assert server.handled == [("PUT", "/collections/c/points")]


def test_503_for_the_next_two(server: RestServer, client: QdrantClient) -> None:
    server.faults.status(503, times=2)
    for _ in range(2):
        with pytest.raises(UnexpectedResponse) as raised:
            put(client, 1)
        assert raised.value.status_code == 503
    assert stored(client) == 0


def test_429_says_when_to_come_back(server: RestServer, client: QdrantClient) -> None:
    server.faults.status(429, retry_after=3, times=1)
    with pytest.raises(ResourceExhaustedResponse) as raised:
        put(client, 1)
    assert raised.value.retry_after_s == 3


def test_a_fault_now_and_then_is_the_same_each_time(server: RestServer, client: QdrantClient) -> None:
    def pattern() -> list[bool]:
        server.faults.clear()
        server.faults.status(503, probability=0.4, seed=5)
        return [raw(server, "GET", "/collections")[0] == 503 for _ in range(40)]

    first = pattern()
    assert 5 < sum(first) < 30
    assert pattern() == first


def test_a_fault_can_be_aimed(server: RestServer, client: QdrantClient) -> None:
    server.faults.status(503, path="/points/query")
    server.faults.status(500, method="DELETE")
    put(client, 1)
    assert stored(client) == 1
    for ask, status in (
        (lambda: client.query_points("c", [1.0, 1.0]), 503),
        (lambda: client.delete_collection("c"), 500),
    ):
        with pytest.raises(UnexpectedResponse) as raised:
            ask()
        assert raised.value.status_code == status


def test_delay(server: RestServer, client: QdrantClient) -> None:
    server.faults.delay(0.3, times=1)
    started = time.monotonic()
    put(client, 1)
    assert time.monotonic() - started >= 0.3
    assert stored(client) == 1


@pytest.mark.parametrize(("after", "there"), [(False, 0), (True, 1)], ids=["before", "after"])
def test_a_dropped_connection(server: RestServer, client: QdrantClient, after: bool, there: int) -> None:
    server.faults.drop(after=after, times=1)
    with pytest.raises(ResponseHandlingException):
        put(client, 1)
    assert stored(client) == there


def test_garbage(server: RestServer, client: QdrantClient) -> None:
    server.faults.garbage(times=1)
    with pytest.raises(JSONDecodeError):  # what qdrant-client makes of it
        put(client, 1)
    assert stored(client) == 0


def test_hanging_until_the_client_gives_up(server: RestServer, client: QdrantClient) -> None:
    hasty = QdrantClient(url=server.url, timeout=1, check_compatibility=False)
    server.faults.hang(path="/points")
    started = time.monotonic()
    with pytest.raises(ResponseHandlingException):
        put(hasty, 1)
    assert time.monotonic() - started > 0.9
    server.faults.clear()
    put(hasty, 1)
    assert stored(hasty) == 1
    hasty.close()


def test_stopping_frees_what_hangs(server: RestServer, client: QdrantClient) -> None:
    server.faults.hang()
    errors: list[BaseException] = []

    def ask() -> None:
        try:
            stored(client)
        except ResponseHandlingException as error:
            errors.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    while not server.requests:
        time.sleep(0.01)
    server.stop()
    asking.join(60)
    assert not asking.is_alive()
    assert len(errors) == 1


def test_stopped_and_started_on_the_same_port(server: RestServer, client: QdrantClient) -> None:
    put(client, 1)
    url = server.url
    server.stop()
    assert not server.running
    with pytest.raises(ResponseHandlingException):
        stored(client)
    server.start()
    assert server.url == url
    assert stored(client) == 1


def test_many_clients_at_once(server: RestServer, client: QdrantClient) -> None:
    def write(start: int) -> None:
        own = QdrantClient(url=server.url, timeout=30, check_compatibility=False)
        for key in range(start, start + 10):
            put(own, key)
        own.close()

    writers = [threading.Thread(target=write, args=(start * 10,)) for start in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert stored(client) == 80


def test_local_mode_can_be_served_too(tmp_path: Path) -> None:
    with RestServer(lambda: QdrantClient(path=str(tmp_path), force_disable_check_same_thread=True)) as server:
        client = QdrantClient(url=server.url, check_compatibility=False)
        client.create_collection("c", SMALL)
        put(client, 1)
        server.restart()
        assert stored(client) == 1
        with pytest.raises(UnexpectedResponse) as raised:
            client.count("nobody")
        assert raised.value.status_code == 404
        client.close()


def test_a_process_that_is_killed(tmp_path: Path) -> None:
    with RestProcess(tmp_path) as process:
        client = QdrantClient(url=process.url, timeout=10, check_compatibility=False)
        client.create_collection("c", SMALL)
        put(client, 1)
        process.kill()
        with pytest.raises(ResponseHandlingException):
            stored(client)
        process.start()
        assert stored(client) == 1
        client.close()
