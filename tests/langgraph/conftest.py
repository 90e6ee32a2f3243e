from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.langgraph.stores import ALL, OURS, REFERENCE, Store, open_store


@pytest.fixture(scope="session")
def stores() -> Iterator[Callable[[str], Store]]:
    """One store of each kind for the whole run, emptied for each test: opening one takes longer than a test."""
    opened: dict[str, Store] = {}

    def empty(kind: str) -> Store:
        if kind not in opened:
            opened[kind] = open_store(kind)
        opened[kind].clear()
        return opened[kind]

    yield empty
    for store in opened.values():
        store.shut()


@pytest.fixture(params=ALL)
def store(request: pytest.FixtureRequest, stores: Callable[[str], Store]) -> Store:
    """An empty store of every kind."""
    return stores(request.param)


@pytest.fixture(params=OURS)
def ours(request: pytest.FixtureRequest, stores: Callable[[str], Store]) -> Store:
    """An empty store of ours, on every engine."""
    return stores(request.param)


@pytest.fixture
def reference(stores: Callable[[str], Store]) -> Store:
    """LangGraph's own store."""
    return stores(REFERENCE)


@pytest.fixture
def opened() -> Iterator[Callable[..., Store]]:
    """Opens stores of a kind, with arguments of their own."""
    opened: list[Store] = []

    def opener(kind: str = "embedded-sync", **arguments: Any) -> Store:
        opened.append(open_store(kind, **arguments))
        return opened[-1]

    yield opener
    for store in opened:
        store.shut()
