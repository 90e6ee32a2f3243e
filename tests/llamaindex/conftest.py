from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from twofold import Memory
from twofold.testing import HashEmbedding


@pytest.fixture(scope="session")
def everybody() -> Iterator[Memory]:
    """One store for the whole run: opening it takes longer than a test."""
    with Memory.open(":memory:", user="everybody", dense=HashEmbedding()) as memory:
        yield memory


@pytest.fixture
def memory(everybody: Memory) -> Memory:
    """The memory of a user who has none yet."""
    return everybody.for_user(f"user-{uuid.uuid4()}")
