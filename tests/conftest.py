"""Shared by every test: the network ends at loopback, what `make quick` leaves out, and an index on every engine."""

from __future__ import annotations

import ipaddress
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.faces import ENGINES, STYLES, Face, Pauses, clear_away, open_face
from twofold.testing import HashEmbedding

TESTS = Path(__file__).parent
_SHARED_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 8 * 2**30


def _stores_in_memory() -> None:
    """Hundreds of stores are made and thrown away: where there is room they lie in memory, and need no disk."""
    if (
        _SHARED_MEMORY.is_dir()
        and os.access(_SHARED_MEMORY, os.W_OK)
        and shutil.disk_usage(_SHARED_MEMORY).free > _ROOM_BYTES
    ):
        os.environ.setdefault("TMPDIR", str(_SHARED_MEMORY))
        tempfile.tempdir = None  # so that the next look finds it


_stores_in_memory()
settings.register_profile(
    "twofold", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
settings.load_profile("twofold")


# Left out by `make quick`: processes, notebooks, servers, random walks, and frameworks that take seconds to import.
SLOW = (
    "agents", "docs", "eval", "kit", "langchain", "langgraph", "llamaindex", "mcp", "transfer",
    "cli/test_demo.py", "cli/test_evaluate.py", "cli/test_process.py",
    "embedded/test_concurrency.py", "embedded/test_crash.py", "embedded/test_differential.py",
    "embedded/test_frameworks.py", "embedded/test_lock.py", "embedded/test_optimize.py",
    "filters/test_oracle.py", "index/test_doctor.py", "index/test_native_and_client_fusion.py",
    "memory/test_isolation.py",
    "test_benchmarks.py", "test_one_ranking.py",
)  # fmt: skip
# The engine and style that `make quick` keeps of a test that runs on all of them, by the names that the fixtures use.
_KEPT = ("memory-sync", "embedded-sync", "embedded", "sync", "blocking")
_ENGINE_AND_STYLE = re.compile(
    r"(memory|path|embedded|local|http|process|server|grpc)(-(sync|async))?|sync|async|blocking|awaited"
    r"|by name(, awaited)?"
)
_SERVER = re.compile(r"(server|grpc)(-(sync|async))?")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Not even imported in the quick run."""
    return True if config.option.markexpr == "not slow" and _is_slow(collection_path) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what `make quick` leaves out: these folders and files, other engines, the awaited style.

    And what runs on a real server, for `make server`.
    """
    for item in items:
        if _is_slow(item.path) or _runs_elsewhere(item):
            item.add_marker(pytest.mark.slow)
        if any(_SERVER.fullmatch(value) for value in _names(item)):
            item.add_marker(pytest.mark.server)


def _is_slow(path: Path) -> bool:
    return any(path == TESTS / each or TESTS / each in path.parents for each in SLOW)


def _runs_elsewhere(item: pytest.Item) -> bool:
    """Not on the embedded engine, or awaited. The same test stays in the quick run with the engine that it keeps."""
    return any(value not in _KEPT for value in _names(item) if _ENGINE_AND_STYLE.fullmatch(value))


def _names(item: pytest.Item) -> list[str]:
    """What a test is run with, as far as it has a name."""
    values = item.callspec.params.values() if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ()
    return [value for value in values if isinstance(value, str)]


@pytest.fixture(autouse=True, scope="session")
def _loopback_only() -> Iterator[None]:
    """Every socket of the test run stays on this machine."""
    real = socket.socket.connect

    def connect(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_loopback(str(address[0])):
            raise OSError(f"blocked by the tests: {address} is not on loopback")
        real(self, address)

    socket.socket.connect = connect  # type: ignore[assignment, method-assign]
    yield
    socket.socket.connect = real  # type: ignore[method-assign]


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@pytest.fixture
def embedding() -> HashEmbedding:
    return HashEmbedding()


@pytest.fixture(params=[f"{engine}-{style}" for engine in ENGINES for style in STYLES])
def open_index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Face]]:
    """Opens indexes on one engine, driven through the blocking or the awaited methods."""
    engine, style = request.param.rsplit("-", 1)
    faces: list[Face] = []

    def opener(collection: str = "twofold", **arguments: Any) -> Face:
        face = open_face(engine, style, tmp_path, collection, arguments)
        faces.append(face)
        return face

    yield opener
    for face in faces:
        clear_away(engine, face)
        face.shut()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Pauses:
    """The pauses between the tries of a request, which take no time."""
    return Pauses(monkeypatch)
