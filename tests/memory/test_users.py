"""Who has something in a store: for whoever opened it, and for nobody else."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.faces import _endpoint
from twofold import ConfigError, Document, Memory, embedded_client
from twofold.documents import is_memory
from twofold.memory.scope import EVERYTHING, Scope, scopes_in
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


def test_the_owner_backfills_everybodys_memories_and_projects_and_no_document(tmp_path: Path) -> None:
    client = embedded_client(tmp_path)
    with Memory.open(client, user="owner", collection="all", dense=HashEmbedding()) as memory:
        memory.for_user("a:b").remember("one")
        ada = memory.for_user("ada", agent="coder", projects="apollo: 11")
        ada.log("two")
        ada.in_project("apollo: 11").remember("three")
        ada.feedback("one", ada.in_project("apollo: 11").list()[0].id)
        memory.index.add([Document("a book", metadata={"shelf": shelf}) for shelf in ("A3", "memory:", "project-x")])
        for act in (memory.backfill_all, lambda: asyncio.run(memory.abackfill_all())):
            client.delete_vectors("all", ["bm25"], [row.id for row in client.scroll("all", limit=100)[0]])
            assert act() == 3
            assert act() == 0
        assert memory.index.repair().rows == 3, "the books"
        for refused in (ada.backfill_all, lambda: asyncio.run(ada.abackfill_all())):
            with pytest.raises(ConfigError, match="mends only its own"):
                refused()


@pytest.mark.parametrize("scope", [Scope("ada"), Scope("a:b", "coder", "s"), Scope(None, project="apollo: 11")])
def test_what_is_a_memory_and_what_is_a_document(scope: Scope) -> None:
    for shelf in EVERYTHING:
        fields = scope.fields(shelf)
        assert is_memory(fields)
        assert scopes_in([fields["shelf"]]) == [scope.whole]
        assert not is_memory({"shelf": fields["shelf"]})
        assert not is_memory({**fields, "shelf": f"other-{fields['shelf']}"})
    for value in ("A3", "A:ada", "memory", "memory:", None, 3, ["memory:ada"], "project-memory:ada"):
        assert not is_memory({"shelf": value, "user": "ada"})
        assert not is_memory({"shelf": value, "user": "", "project": ""})


def test_opened_without_waiting() -> None:
    async def main() -> dict[str, int]:
        async with await Memory.aopen(":memory:", user="ada", dense=HashEmbedding()) as memory:
            await memory.aremember("mine")
            return await memory.ausers()

    assert asyncio.run(main()) == {"ada": 1}
