"""Memories on every engine."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.kit.engines import needs
from tests.memory.faces import EVERY, Opener, opening
from tests.memory.scenarios import Model, Store


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of whoever runs the tests are not those of the tests."""
    for name in [name for name in os.environ if name.startswith(("TWOFOLD_", "MCP_MEMORY_"))]:
        monkeypatch.delenv(name)


@pytest.fixture(params=EVERY)
def open_memory(request: pytest.FixtureRequest) -> Iterator[Opener]:
    """Opens memories on each engine, blocking and awaited."""
    with opening(request.param) as opener:
        yield opener


@pytest.fixture
def _own_words(request: pytest.FixtureRequest) -> None:
    """Not on servers that can't tell how rare a word is among a user's own memories, and say so."""
    needs(request.node.callspec.params["open_memory"].rpartition("-")[0], 1, 19)


@pytest.fixture
def open_here() -> Iterator[Opener]:
    """Opens memories on the embedded engine alone, where the engine makes no difference."""
    with opening("embedded-sync") as opener:
        yield opener


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    """Many users in one embedded store, with the bundled model."""
    opened = Store()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def quick() -> Iterator[Store]:
    """The same with a model that takes no time."""
    opened = Store(dense=Model())
    yield opened
    opened.close()
