from __future__ import annotations

from pathlib import Path

import pytest
from qdrant_client import models

from tests.cli.runs import run
from twofold import HybridIndex, embedded_client
from twofold.testing import HashEmbedding

TEXTS = ["Rathole tunnels listen on port 2333.", "ERR_CONN_RESET: the proxy closed it.", "Apple cake needs eggs."]


@pytest.fixture
def foreign(tmp_path: Path) -> str:
    """A dense-only collection as LangChain writes it, with the bundled model."""
    with HybridIndex.open(":memory:", dense="fast") as scratch:
        vectors = scratch.embed(TEXTS)
    store = embedded_client(tmp_path / "store")
    store.create_collection("docs", models.VectorParams(size=384, distance=models.Distance.COSINE))
    payloads = [{"page_content": text, "metadata": None} for text in TEXTS]
    store.upsert("docs", models.Batch(ids=[0, 1, 2], vectors=vectors, payloads=payloads))
    store.close()
    return str(tmp_path / "store")


def test_adopt(foreign: str) -> None:
    here = ("-l", foreign, "-c", "docs")
    found = run("search", "ERR_CONN_RESET", *here, "--json").json
    assert (found["mode"], found["hits"][0]["text"]) == ("dense", TEXTS[1])
    planned = run("adopt", *here, "--dry-run")
    assert planned.code == 0
    assert planned.out.splitlines() == ["3 of 3 rows would get words"]
    assert run("adopt", *here, "--json").json["encoded"] == 3
    assert run("search", "ERR_CONN_RESET", *here, "--json").json["mode"] == "hybrid"
    assert run("adopt", *here).out.splitlines() == ["0 of 3 rows got words"]


def test_reembed(foreign: str) -> None:
    here = ("-l", foreign, "-c", "docs")
    assert run("reembed", *here).code == 2
    assert "--to best" in run("reembed", *here).err
    done = run("reembed", *here, "--to-language", "portuguese")
    assert done.out.splitlines()[:2] == [
        "3 of 3 rows got new vectors",
        "docs~2 has taken the place of docs, which is kept",
    ]
    assert "reembed --drop-replaced" in done.out
    assert run("info", *here, "--json").json["sparse"]["language"] == "portuguese"
    assert run("reembed", *here, "--drop-unfinished").out == "there is nothing to delete\n"
    assert run("reembed", *here, "--drop-replaced", "--json").json == {"deleted": "docs"}
    assert run("search", "cake", *here, "--json").json["hits"][0]["text"] == TEXTS[2]


def test_a_name_that_is_none_of_those_there(tmp_path: Path) -> None:
    with HybridIndex.open(tmp_path / "store", "films", dense=HashEmbedding()):
        pass
    answer = run("search", "x", "-l", tmp_path / "store", "-c", "movies")
    assert answer.code == 2
    assert "there is no collection movies" in answer.err
    assert "(there are films)" in answer.err
