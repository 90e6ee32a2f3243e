from __future__ import annotations

import runpy
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.docs.pages import ROOT
from twofold import Memory
from twofold.testing import fake_memory


@pytest.fixture(scope="package")
def store() -> Iterator[Memory]:
    with fake_memory() as made:
        yield made


@pytest.fixture
def memory(store: Memory) -> Memory:
    """A user nobody has heard of, in a store that all tests share."""
    return store.for_user(uuid.uuid4().hex)


@pytest.fixture(scope="package")
def example() -> Callable[[str], dict[str, Any]]:
    """What one of the example scripts defines: each has the scripted model of its framework."""
    return lambda name: runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="example")
