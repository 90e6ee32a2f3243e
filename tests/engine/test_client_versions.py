"""The core works with every qdrant-client from 1.16 on; here with the oldest, beside the newest in all other tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.rest import RestServer
from twofold import embedded_client

ROOT = Path(__file__).parents[2]
OLDEST = ROOT / ".venv" / "qdrant-client-1.16"

PROGRAM = """
import asyncio, sys
from importlib.metadata import version
import qdrant_client
from qdrant_client import AsyncQdrantClient, QdrantClient
from twofold import HybridIndex, Memory
from twofold.testing import HashEmbedding

place, oldest = sys.argv[1:]
assert qdrant_client.__file__.startswith(oldest), qdrant_client.__file__
assert version("qdrant-client").startswith("1.16."), version("qdrant-client")

def location():
    brought = {"local": QdrantClient, "async": AsyncQdrantClient}.get(place)
    return place if brought is None else brought(":memory:")

texts = ["the tunnel listens on port 2333", "checkRateLimit fails with 429", "a film of 2014"]
metadata = [{"year": 2014, "user": "ada"}, {"year": 2020, "user": "ada"}, {"year": 2014, "user": "bob"}]

async def all_of_it():
    index = await HybridIndex.aopen(location(), "docs", dense=HashEmbedding())
    await index.aadd(texts, metadatas=metadata)
    for fusion in ("auto", "rrf", "dbsf", "weighted"):
        found = await index.asearch("checkRateLimit", k=3, fusion=fusion, explain=True)
        assert found[0].text == texts[1], (fusion, found)
        assert found.mode == "hybrid", found
    found = await index.asearch("film", filter={"year": {"lt": 2020}, "user": "bob"})
    assert [hit.text for hit in found] == [texts[2]], found
    assert await index.acount({"user": "ada"}) == 2
    assert await index.adelete(filter={"user": "bob"}) == 1
    memory = await Memory.aopen(location(), user="ada", dense=HashEmbedding())
    await memory.aremember("Rathole tunnels listen on 2333", tags=["rathole"])
    recalled = await memory.arecall("rathole", explain=True)
    assert [hit.text for hit in recalled] == ["Rathole tunnels listen on 2333"], recalled
    assert [item.text for item in await memory.alist()] == ["Rathole tunnels listen on 2333"]
    await memory.aclose()
    await index.aclose()

asyncio.run(all_of_it())
assert not [name for name in sys.modules if name.startswith("twofold.embedded.client")], "the facade was imported"
print("fine")
"""


def run(place: str) -> None:
    if not (OLDEST / "qdrant_client").is_dir():
        pytest.fail(
            f"{OLDEST} is missing: `make test` installs qdrant-client 1.16 there; by hand, "
            f"pip install --no-deps --target {OLDEST} 'qdrant-client==1.16.*'"
        )
    path = os.pathsep.join([str(OLDEST), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:twofold", "-c", PROGRAM, place, str(OLDEST)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert (done.returncode, done.stdout.strip()) == (0, "fine"), done.stderr


@pytest.mark.parametrize("place", [":memory:", "local", "async"])
def test_the_oldest_client_in_this_process(place: str) -> None:
    run(place)


def test_the_oldest_client_on_a_folder(tmp_path: Path) -> None:
    run(str(tmp_path))


def test_the_oldest_client_over_http(tmp_path: Path) -> None:
    with RestServer(lambda: embedded_client(tmp_path)) as server:
        run(server.url)
