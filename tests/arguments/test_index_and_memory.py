"""Every public method, every argument: wrong ones are errors of ours, and nothing is half written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.arguments.junk import offences
from twofold import CollectionSettings, ConfigError, Document, HybridIndex, Memory, MemoryConfig
from twofold.testing import HashEmbedding

MODEL = HashEmbedding()
# The methods that take something, each with arguments that are right.
INDEX: dict[str, dict[str, Any]] = {
    "adopt": {},
    "add": {"documents": ["a new text"]},
    "beside": {"collection": "other"},
    "count": {},
    "create_field_index": {"field": "year", "kind": "integer"},
    "create_indexes": {"settings": CollectionSettings()},
    "delete": {"ids": ["c"]},
    "embed": {"texts": ["a text"]},
    "embed_query": {"text": "a text"},
    "fetch": {},
    "get": {"ids": "t"},
    "optimize": {},
    "repair": {},
    "search": {"query": "tunnels"},
    "search_by_vector": {"vector": MODEL.embed_query("tunnels")},
    "search_diverse": {"query": "tunnels"},
    "tune": {"pairs": [("tunnels", "t")]},
    "update_metadata": {"changes": {"a": 1}, "ids": ["t"]},
    "values": {"field": "year"},
    "vectors": {"ids": ["t"]},
}
MEMORY: dict[str, dict[str, Any]] = {
    "around": {"id": "turn"},
    "feedback": {"query": "rathole", "id": "memory"},
    "for_user": {"user": "ada"},
    "forget": {"ids": ["memory"]},
    "get": {"id": "memory"},
    "in_project": {"project": "apollo"},
    "knowledge": {"collection": "manual"},
    "list": {},
    "log": {"text": "a line"},
    "logs": {},
    "recall": {"query": "rathole"},
    "remember": {"text": "something new"},
    "remember_many": {"memories": ["one"]},
    "remember_turns": {"turns_": ["one"], "session": "s"},
    "similar": {"id": "memory"},
    "stats": {},
    "update": {"id": "memory", "text": "changed"},
    "with_general": {},
}


@pytest.fixture
def index() -> Iterator[HybridIndex]:
    with HybridIndex.open(":memory:", dense=MODEL) as index:
        index.add([Document("tunnels listen on port 2333", id="t", metadata={"year": 2014}), Document("cake", id="c")])
        yield index


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory.open(
        ":memory:", user="ada", projects="apollo", dense=MODEL, config=MemoryConfig(touch=False)
    ) as memory:
        yield memory


@pytest.mark.parametrize("method", INDEX)
def test_an_index_with_a_wrong_argument(index: HybridIndex, method: str) -> None:
    def stored() -> list[tuple[str | None, str, str]]:
        return sorted((str(each.id), each.text, repr(each.metadata)) for each in index.fetch())

    assert offences(getattr(index, method), INDEX[method], state=stored) == []


@pytest.mark.parametrize("method", MEMORY)
def test_a_memory_with_a_wrong_argument(memory: Memory, method: str) -> None:
    first = memory.remember("Rathole tunnels listen on 2333", tags=["rathole"])
    turn = memory.remember_turns(["hello there", "hi you"], session="s")[0]
    right = {
        name: str({"memory": first, "turn": turn}[value]) if name == "id" else value
        for name, value in MEMORY[method].items()
    }

    def stored() -> list[tuple[str, str, str, str]]:
        return sorted(
            (each.id, each.text, repr(each.metadata), repr(each.tags))
            for each in memory.list(limit=200, superseded=True)
        )

    assert offences(getattr(memory, method), right, state=stored) == []


@pytest.mark.parametrize("argument", ["location", "collection", "language", "config", "rerank", "settings",
                                      "create", "adopt", "sparse", "timeout", "cache_size", "durability",
                                      "optimize"])  # fmt: skip
def test_opening_an_index(argument: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def open_index(**given: Any) -> HybridIndex:
        return HybridIndex.open(**{"location": ":memory:", "dense": MODEL, **given})

    assert offences(open_index, {}, opens=[argument]) == []


@pytest.mark.parametrize("argument", ["user", "agent", "session", "kind", "collection", "config", "settings", "rerank"])
def test_opening_a_memory(argument: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def open_memory(**given: Any) -> Memory:
        return Memory.open(**{"location": ":memory:", "user": "ada", "dense": MODEL, **given})

    assert offences(open_memory, {}, opens=[argument]) == []


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can become somebody who may not write")
def test_a_folder_that_may_only_be_read() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        Path(place).chmod(0o755)
        folder = Path(place) / "index"
        with HybridIndex.open(folder, dense=MODEL) as index:
            index.add(["tunnels"])
        os.seteuid(65534)
        try:
            with pytest.raises(ConfigError, match="can't be written"):
                HybridIndex.open(folder, dense=MODEL, create=False)
        finally:
            os.seteuid(0)


@pytest.mark.parametrize("location", ["nu\0l", "half \ud800", "long" * 2000])
def test_a_location_that_no_file_system_takes(location: str) -> None:
    with pytest.raises(ConfigError, match=r"NUL|half a character|choose another"):
        HybridIndex.open(location, dense=MODEL)


def test_what_is_half_a_character_is_under_no_id(index: HybridIndex) -> None:
    assert index.get("\ud800") is None
    assert index.delete(["\ud800"]) == 0
    assert index.vectors(["\udfff", "t"])[0] is None
