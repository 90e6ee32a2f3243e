"""What only a real server can show: formulas that nodes pass on to each other, strict mode, limits, keys.

`QDRANT_API_KEY` and `QDRANT_READ_KEY` are the two keys of a server that has them: without, that test is skipped.
"""

from __future__ import annotations

import os
import uuid
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from qdrant_client import models

from tests.faces import Face
from tests.kit.engines import SERVERS, STYLES, server_client, server_options
from tests.memory.faces import MemoryFace, finish, opening
from twofold import CollectionSettings, Document, EngineError, HybridIndex, Memory
from twofold.testing import HashEmbedding

READ_KEY = os.environ.get("QDRANT_READ_KEY")
FUSIONS = ["auto", "rrf", "dbsf", "weighted", "average"]
WORDS = ["tunnel", "port", "cache", "rathole", "index", "query", "token", "limit", "error", "migration"]
TEXTS = [f"the {a} of the {b} needs a {c}" for a in WORDS for b in WORDS[:4] for c in WORDS[:2]]
Opener = Callable[..., Face]


@pytest.fixture(params=[f"{engine}-{style}" for engine in SERVERS for style in STYLES])
def which(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def opened(which: str) -> Iterator[Opener]:
    """Opens one collection of the server, which is gone afterwards."""
    engine, style = which.split("-")
    name = f"real-{uuid.uuid4().hex}"
    faces: list[Face] = []

    def opener(**arguments: Any) -> Face:
        options = {"dense": HashEmbedding(), "timeout": 60, **server_options(engine), **arguments}
        location, opening = options.pop("url"), HybridIndex.aopen if style == "async" else HybridIndex.open
        faces.append(Face(lambda: opening(location, name, **options), style))
        return faces[-1]

    yield opener
    for face in faces:
        face.shut()
    server_client().delete_collection(name)


@pytest.fixture
def memory(which: str) -> Iterator[MemoryFace]:
    with opening(which) as opener:
        yield opener(collection=f"real-{uuid.uuid4().hex}")


def strict(face: Face, **limits: Any) -> None:
    """The server becomes strict about this collection."""
    config = models.StrictModeConfig(enabled=True, **limits)
    server_client().update_collection(face.index.collection, strict_mode_config=config)


# --- Several shards, which on a cluster lie on other nodes ---


@pytest.mark.parametrize("fusion", FUSIONS)
def test_a_search_spans_all_shards_with_the_bundled_model(opened: Opener, fusion: str) -> None:
    face = opened(dense=None, settings=CollectionSettings(shard_number=3))
    face.add([Document(text, id=f"d{n}", metadata={"n": n}) for n, text in enumerate(TEXTS)])
    for arguments in ({}, {"explain": True}, {"alpha": 0.0}, {"alpha": 1.0}, {"filter": {"n": {"lt": 60}}}):
        found = face.search("the migration of the rathole needs a port", fusion=fusion, **arguments)
        assert len(found) == 10
        assert found.degraded is None
        if "filter" not in arguments:
            assert found[0].text == "the migration of the rathole needs a port"


def test_a_recall_with_every_signal_spans_all_nodes(memory: MemoryFace) -> None:
    for number, text in enumerate(TEXTS[:30]):
        memory.remember(text, tags=[WORDS[number % 10]], importance=number / 30, pinned=number == 7)
    for recency in ("soft", "full", "blend"):
        face = MemoryFace(memory.memory.with_settings(recency=recency), memory._loop)
        found = face.recall("the index of the cache", 5, explain=True)
        assert (len(found), found.degraded) == (5, None)


# --- What a server refuses ---


def test_strict_mode_says_which_index_is_missing(opened: Opener) -> None:
    face = opened()
    face.add([Document(text, id=f"d{n}", metadata={"n": n, "kind": text[:8]}) for n, text in enumerate(TEXTS)])
    strict(face, unindexed_filtering_retrieve=False, unindexed_filtering_update=False)
    assert len(face.search("tunnel")) == 10
    assert len(face.search("tunnel", 3, filter={"kind": TEXTS[0][:8]})) == 3  # whose index is made by itself
    with pytest.raises(EngineError, match=r"metadata\.n") as caught:
        face.search("tunnel", filter={"n": {"lt": 20}})
    assert caught.value.status in (400, 403)
    face._call("create_field_index", "n", "integer")
    assert {hit.metadata["n"] for hit in face.search("tunnel", filter={"n": {"lt": 5}})} == {0, 1, 2, 3, 4}


def test_a_server_that_takes_small_batches_only_answers(opened: Opener) -> None:
    face = opened()
    face.add(TEXTS)
    strict(face, search_max_batchsize=2)
    found = face.search("tunnel port")
    assert (len(found), found.degraded) == (10, None)
    explained = face.search("tunnel port", explain=True)  # the ranking and both legs are three
    assert explained.ids == found.ids
    assert "the engine refused to fuse, so that was done here" in (explained.degraded or "")


def test_a_limit_on_what_a_query_may_bring_is_said(opened: Opener) -> None:
    face = opened()
    face.add(TEXTS)
    assert face.search("tunnel port").degraded is None
    strict(face, max_query_limit=20)
    with pytest.raises(EngineError, match=r"(?i)limit"):
        face.search("tunnel port", fusion="rrf")
    assert len(face.search("tunnel port", fusion="rrf", depth=20)) == 10


# --- Keys and versions ---


def test_a_key_that_may_only_read_reads(which: str, memory: MemoryFace, opened: Opener) -> None:
    if not (READ_KEY and os.environ.get("QDRANT_API_KEY")):
        pytest.skip("needs a server with keys: QDRANT_API_KEY and QDRANT_READ_KEY")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # qdrant-client's own, about keys without TLS
        opened().add(TEXTS)
        memory.remember("The tunnel listens on port 2333")
        collection = memory.memory.index.collection
        reading = opened(api_key=READ_KEY)
        assert len(reading.search("tunnel", filter={"kind": "note"}, explain=True)) == 0
        assert len(reading.search("tunnel")) == 10
        with pytest.raises(EngineError, match="may be one that can only read") as caught:
            reading.add(["one more"])
        assert caught.value.status == 403
        with pytest.raises(EngineError, match="check api_key") as caught:
            opened(api_key="wrong")
        assert caught.value.status == 401
        options = {**server_options(which.split("-")[0]), "api_key": READ_KEY, "dense": HashEmbedding()}
        open_memory, about = Memory.open if memory._loop is None else Memory.aopen, memory.memory.user
        made = open_memory(options.pop("url"), user=about, collection=collection, **options)
        reader = MemoryFace(finish(memory._loop, made), memory._loop)
        for _ in range(2):
            assert [hit.text for hit in reader.recall("tunnel port")] == ["The tunnel listens on port 2333"]
            reader.flush()
        reader.close()


def test_a_version_with_which_everything_works_is_not_warned_of(which: str, opened: Opener) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="Api key is used with an insecure connection")
        face = opened()
        face.add([Document(text, metadata={"kind": "note"}) for text in TEXTS])
        assert face.search("tunnel").degraded is None
        told = face.search("tunnel", filter={"kind": "note"}).degraded
    version = tuple(int(number) for number in server_client().info().version.split(".")[:2])
    assert told is None if version >= (1, 19) else "1.19 or newer" in (told or "")
