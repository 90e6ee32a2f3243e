"""Shared by every test: no network beyond loopback, and one index fixture for every engine and style."""

from __future__ import annotations

import ipaddress
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.faces import ENGINES, STYLES, Face, open_face
from twofold.testing import HashEmbedding

_QUICK = Path("/dev/shm")
_ROOM = 8 * 2**30


def _stores_in_memory() -> None:
    """Hundreds of stores are made and thrown away: where there is room they lie in memory, and need no disk."""
    if _QUICK.is_dir() and os.access(_QUICK, os.W_OK) and shutil.disk_usage(_QUICK).free > _ROOM:
        os.environ.setdefault("TMPDIR", str(_QUICK))
        tempfile.tempdir = None  # so that the next look finds it


_stores_in_memory()
settings.register_profile(
    "twofold", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
settings.load_profile("twofold")


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
        face.shut()
