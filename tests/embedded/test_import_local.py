"""Stores written by qdrant-client's local mode."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import QdrantClient
from qdrant_client import models as m

from twofold.embedded import BadRequest, LocalStoreFound, StoreError, embedded_client, import_local_store
from twofold.embedded.__main__ import main

from .conftest import fill, payload_of


@pytest.fixture
def local(tmp_path: Path) -> Path:
    client = fill(QdrantClient(path=str(tmp_path / "old")))
    text = m.TextIndexParams(type=m.TextIndexType.TEXT, tokenizer=m.TokenizerType.WORD, scoring=True)
    client.create_payload_index("notes", "text", text)
    client.create_collection("plain", m.VectorParams(size=2, distance=m.Distance.DOT), metadata={"a": 1})
    client.upsert("plain", [m.PointStruct(id=1, vector=[1.0, 2.0])])
    alias = m.CreateAlias(collection_name="notes", alias_name="live")
    client.update_collection_aliases([m.CreateAliasOperation(create_alias=alias)])
    client.close()
    return tmp_path / "old"


def everything(client: Any, name: str) -> dict[Any, Any]:
    records = client.scroll(name, limit=1000)[0]
    return {record.id: record.payload for record in records}


def numbers(client: Any, name: str) -> dict[Any, float]:
    """Every number of every vector; cosine vectors by their direction, since local mode keeps their length."""
    found = {}
    for record in client.scroll(name, limit=1000, with_vectors=True)[0]:
        for vector, values in (record.vector if isinstance(record.vector, dict) else {"": record.vector}).items():
            if vector == "dense":
                values = [value / math.hypot(*values) for value in values]
            sparse = isinstance(values, m.SparseVector)
            pairs = zip(values.indices, values.values, strict=True) if sparse else enumerate(values)
            found.update({(record.id, vector, index): value for index, value in pairs})
    return found


def test_it_is_recognised_and_refused_with_the_way_out(local: Path) -> None:
    with pytest.raises(LocalStoreFound, match=r"python -m twofold\.embedded import"):
        embedded_client(local)


def test_it_is_imported(local: Path, tmp_path: Path) -> None:
    steps: list[Any] = []
    assert import_local_store(local, tmp_path / "new", steps.append) == {"notes": 60, "plain": 1}
    assert (steps[-2].done, steps[-2].total) == (60, 60)
    new, old = embedded_client(tmp_path / "new"), QdrantClient(path=str(local))
    for name in ("notes", "plain"):
        assert everything(new, name) == everything(old, name)
        assert numbers(new, name) == pytest.approx(numbers(old, name), abs=1e-5)
        assert new.get_collection(name).config.params.vectors == old.get_collection(name).config.params.vectors
    asked: dict[str, Any] = {"query": m.SparseVector(indices=[3, 9], values=[1.0, 1.0]), "using": "words"}
    ours, theirs = (client.query_points("live", **asked).points for client in (new, old))
    assert [p.score for p in ours] == pytest.approx([p.score for p in theirs], abs=1e-4)
    best = new.query_points("notes", m.TextQuery(text="fox 17"), using="text").points[0]
    assert payload_of(best)["n"] == 17
    assert new.get_collection("plain").config.metadata == {"a": 1}
    new.close()
    old.close()


def test_running_it_again_completes_it(local: Path, tmp_path: Path) -> None:
    def stop(step: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_local_store(local, tmp_path / "new", stop)
    assert import_local_store(local, tmp_path / "new") == {"notes": 60, "plain": 1}


def test_what_is_there_already_is_not_overwritten(local: Path, tmp_path: Path) -> None:
    new = embedded_client(tmp_path / "new")
    new.create_collection("plain", m.VectorParams(size=2, distance=m.Distance.DOT))
    new.upsert("plain", [m.PointStruct(id=1, vector=[3.0, 4.0], payload={"mine": True})])
    new.close()
    with pytest.raises(StoreError, match=r"plain already.*another directory"):
        import_local_store(local, tmp_path / "new")
    new = embedded_client(tmp_path / "new")
    assert payload_of(new.retrieve("plain", [1])[0]) == {"mine": True}
    assert not new.collection_exists("notes")
    new.close()


def test_a_point_that_cannot_be_stored_is_named(local: Path, tmp_path: Path) -> None:
    old = QdrantClient(path=str(local))
    old.upsert("plain", [m.PointStruct(id=77, vector=[1.0, 2.0], payload={"price": float("nan")})])
    old.close()
    with pytest.raises(BadRequest, match=r"Point 77 of plain: .*price"):
        import_local_store(local, tmp_path / "new")


def test_a_source_in_use_is_refused(local: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    user = QdrantClient(path=str(local))
    assert main(["import", str(local), str(tmp_path / "new")]) == 1
    assert "in use" in capsys.readouterr().err
    user.close()


def test_the_suggested_command_can_be_pasted() -> None:
    assert "import '/my notes/a' NEW" in str(LocalStoreFound("/my notes/a"))


def test_by_command(local: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", str(local), str(tmp_path / "new")]) == 0
    assert "notes: 60 points" in capsys.readouterr().out
    assert main(["import", str(tmp_path / "nothing"), str(tmp_path / "new2")]) == 1
    assert "not a store" in capsys.readouterr().err


def test_not_onto_itself(local: Path) -> None:
    with pytest.raises(StoreError, match="new directory"):
        import_local_store(local, local)
