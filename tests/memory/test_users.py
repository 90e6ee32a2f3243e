"""Who has something in a store: for whoever opened it, and for nobody else."""

from __future__ import annotations

import asyncio

import pytest

from tests.faces import _endpoint
from twofold import ConfigError, Memory
from twofold.testing import HashEmbedding


@pytest.mark.parametrize("location", ["embedded", "http"])
def test_the_owner_lists_everybody_with_the_number_of_their_memories(location: str) -> None:
    place = ":memory:" if location == "embedded" else _endpoint().url
    collection = "users of a store"
    with Memory.open(place, user="owner", collection=collection, dense=HashEmbedding()) as memory:
        assert memory.users() == {}
        memory.for_user("ada").remember_many(["one", "two"])
        memory.for_user("ada", agent="coder", session="s").remember("three")
        colon = memory.for_user("a:b: c")
        colon.remember("old")
        colon.remember("new", supersedes=colon.list()[0].id)
        memory.for_user("émile").log("only a line of the log")
        expected = {"a:b: c": 1, "ada": 3, "émile": 0}
        assert memory.users() == expected
        assert asyncio.run(memory.ausers()) == expected
        assert memory.with_settings(recency_decay=0.0).users() == expected
        assert memory.knowledge().users() == {}
        memory.for_user("ada").forget(everything=True)
        assert memory.users() == {"a:b: c": 1, "émile": 0}


def test_a_view_that_was_handed_out_lists_nobody() -> None:
    with Memory.open(":memory:", user="owner", dense=HashEmbedding()) as memory:
        memory.remember("mine")
        view = memory.for_user("bob")
        for each in (view, view.with_settings(recency_decay=0.0), view.knowledge(), view.for_user("owner")):
            with pytest.raises(ConfigError, match="lists no users"):
                each.users()
            with pytest.raises(ConfigError, match="lists no users"):
                asyncio.run(each.ausers())


def test_opened_without_waiting() -> None:
    async def main() -> dict[str, int]:
        async with await Memory.aopen(":memory:", user="ada", dense=HashEmbedding()) as memory:
            await memory.aremember("mine")
            return await memory.ausers()

    assert asyncio.run(main()) == {"ada": 1}
