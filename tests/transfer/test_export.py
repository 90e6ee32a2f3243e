"""Export and import: the same answers afterwards, from folders and servers; and files that are not as they should be.

TWOFOLD_TRANSFER_DOCUMENTS=50000 TWOFOLD_TRANSFER_MEMORIES=5000 is the full run.
"""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runs import run
from tests.faces import Face
from tests.kit.rest import RestServer
from tests.transfer.corpus import documents, fill, questions, stored, told_by_index, told_by_memory
from twofold import (
    CollectionMismatch,
    CollectionSettings,
    Document,
    HybridIndex,
    Memory,
    MemoryConfig,
    TransferError,
    embedded_client,
)
from twofold.index.transfer import ExportFile, as_line, from_line
from twofold.testing import HashEmbedding

DOCUMENTS = int(os.environ.get("TWOFOLD_TRANSFER_DOCUMENTS", "300"))
MEMORIES = int(os.environ.get("TWOFOLD_TRANSFER_MEMORIES", "40"))
USERS = min(20, MEMORIES // 10)
QUESTIONS = 200 if DOCUMENTS > 1000 else 20
FOLDER_OPTIONS: dict[str, Any] = {"optimize": "manual"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RestServer]:
    with RestServer(lambda: embedded_client(tmp_path / "served", optimize="manual")) as serving:
        yield serving


@pytest.fixture
def places(server: RestServer, tmp_path: Path) -> Iterator[Callable[[str, str], HybridIndex]]:
    """Opens a folder or the server; all of them are closed again."""
    opened: list[HybridIndex] = []

    def opener(place: str, collection: str, **options: Any) -> HybridIndex:
        location, more = (server.url, {}) if place == "http" else (tmp_path / place, FOLDER_OPTIONS)
        options = {"dense": HashEmbedding(), **more, **options}
        opened.append(HybridIndex.open(location, collection, **options))
        return opened[-1]

    yield opener
    for each in opened:
        each.close()


@pytest.mark.parametrize("way", ["folder to http", "http to folder"])
@pytest.mark.timeout(3600)
def test_documents_answer_alike_afterwards(way: str, places: Any, tmp_path: Path) -> None:
    source, target = way.split(" to ")
    settings = CollectionSettings(payload_indexes={"n": "integer"})
    first = places(source, "first", settings=settings)
    first.add(documents(DOCUMENTS), batch_size=512)
    file, began = tmp_path / "all.jsonl.gz", time.perf_counter()
    assert first.export_to(file) == DOCUMENTS
    exported = time.perf_counter()
    second = places(target, "second")
    assert second.import_from(file).documents == DOCUMENTS
    imported = time.perf_counter()
    assert second.info().indexed == first.info().indexed
    assert told_by_index(second, QUESTIONS) == told_by_index(first, QUESTIONS)
    size = file.stat().st_size / 1e6
    print(
        f"\n{way}: {DOCUMENTS:,} documents, {size:.1f} MB, out {exported - began:.1f} s, in {imported - exported:.1f} s"
    )


@pytest.mark.parametrize("way", ["folder to http", "http to folder"])
@pytest.mark.timeout(3600)
def test_memories_of_all_users_answer_alike_afterwards(way: str, server: RestServer, tmp_path: Path) -> None:
    def opened(place: str, collection: str) -> Memory:
        location, more = (server.url, {}) if place == "http" else (tmp_path / place, FOLDER_OPTIONS)
        config = MemoryConfig(fields={"category": "keyword", "project": "keyword"})
        return Memory.open(location, user="owner", collection=collection, dense=HashEmbedding(), config=config, **more)

    source, target = way.split(" to ")
    with opened(source, "one") as first, opened(target, "other") as second:
        fill(first, USERS, MEMORIES // USERS)
        told = told_by_memory(first, QUESTIONS)
        number = first.index.export_to(tmp_path / "memories.jsonl")
        assert second.users() == {}
        assert second.index.import_from(tmp_path / "memories.jsonl").documents == number
        assert told_by_memory(second, QUESTIONS) == told
        assert any("learned" in reason for *_, reason in told["user 0"][5])
        # What the second knew of tags before has been read anew.
        assert told["user 1"][3].memories == second.for_user("user 1").stats().memories
        print(f"\n{way}: {number:,} rows of {len(told) - 1} users")


def test_on_every_engine(open_index: Callable[..., Face], tmp_path: Path) -> None:
    face, other = open_index(), open_index("other")
    face.add(list(documents(80)))
    assert face._call("export_to", tmp_path / "file.jsonl", filter={"tags": "t1"}) == 16
    done = other._call("import_from", tmp_path / "file.jsonl")
    assert (done.documents, done.problems, other.count()) == (16, (), 16)
    assert other._call("import_from", tmp_path / "file.jsonl").documents == 16
    assert other.count() == 16


def test_ids_metadata_and_parts_with_given_vectors_stay_as_they_are(places: Any, tmp_path: Path) -> None:
    first, second = places("a", "c"), places("b", "c")
    given = [[float(n == place) for place in range(64)] for n in range(3)]
    pages = [Document(f"line {n} of it", f"page#{n}", part_of="page", position=n) for n in range(3)]
    first.add(pages, vectors=given)
    first.export_to(tmp_path / "file.jsonl")
    second.import_from(tmp_path / "file.jsonl")
    before = stored(first)
    assert stored(second) == before
    for index in (first, second):  # its neighbours are written anew, from the vectors that came with them
        index.add([Document("another line", "page#1", part_of="page", position=1)])
    assert stored(second) == stored(first) != before


def test_what_was_tuned_goes_along_into_an_empty_collection(places: Any, tmp_path: Path) -> None:
    with places("a", "c") as first:
        first.add(list(documents(60)))
        record = first.perform(lambda s: iter_nothing(dict(s.ready.schema.record or {})))
        assert "tuned" not in record
    lines = [json.loads(line) for line in exported(tmp_path, "a")]
    lines[0]["settings"]["tuned"] = {"name": "weighted", "alpha": 0.9, "pairs": 30}
    write(tmp_path / "tuned.jsonl", lines)
    second = places("b", "c")
    second.import_from(tmp_path / "tuned.jsonl")
    assert second.search(questions(1)[0], explain=True)[0].explanation.fusion == "weighted"


def iter_nothing(value: Any) -> Any:
    return value
    yield


def exported(folder: Path, store: str, collection: str = "c") -> list[str]:
    with HybridIndex.open(folder / store, collection, dense=HashEmbedding()) as index:
        index.export_to(folder / "lines.jsonl")
    return (folder / "lines.jsonl").read_text("utf-8").splitlines()


def write(path: Path, lines: list[Any]) -> None:
    path.write_text("".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in lines), "utf-8")


def test_a_number_is_one_line_however_an_engine_writes_it() -> None:
    """A server answers with the shortest number that rounds to the same 32 bits."""

    class Row:
        def __init__(self, numbers: list[float]) -> None:
            self.id, self.payload, self.vector = 1, {"b": 1, "a": 2}, {"dense": numbers}

    assert as_line(Row([0.12706468, -0.10933472, 1e-07])) == as_line(
        Row([0.12706467509269714, -0.10933472216129303, 1.0000000116860974e-07])
    )
    read = from_line(as_line(Row([0.12706468])).encode(), 1).vector["dense"]
    assert list(map(float, read)) == [0.12706467509269714]  # type: ignore[arg-type]


# --- Files that are not as they should be ---


@pytest.fixture
def lines(tmp_path: Path) -> list[str]:
    with HybridIndex.open(tmp_path / "a", "c", dense=HashEmbedding()) as index:
        index.add([Document(f"text {n}", f"d{n}", {"n": n}) for n in range(8)])
    return exported(tmp_path, "a")


BROKEN: dict[str, Callable[[dict[str, Any]], Any]] = {
    "half": lambda row: json.dumps(row)[:-40],
    "a document of somebody else's": lambda row: {"text": "hello", "url": "x"},
    "a list": lambda row: [row],
    "a word as id": lambda row: {**row, "id": "seven"},
    "a short vector": lambda row: {**row, "vectors": {"dense": [0.1, 0.2]}},
    "a vector with a word": lambda row: {**row, "vectors": {"dense": ["x"] * 64}},
    "a vector with NaN": lambda row: json.dumps({**row, "vectors": {"dense": [float("nan")] * 64}}),
    "words out of order": lambda row: {**row, "vectors": {"bm25": {"indices": [5, 3], "values": [1.0, 2.0]}}},
    "words without weights": lambda row: {**row, "vectors": {"bm25": {"indices": [3]}}},
    "an unknown vector": lambda row: {**row, "vectors": {"other": [1.0]}},
    "half a character": lambda row: {**row, "payload": {"text": "\ud800"}},
    "a number that is too large": lambda row: {**row, "payload": {**row["payload"], "metadata": {"n": 2**70}}},
    "no payload": lambda row: {**row, "payload": None},
}


def test_every_damaged_line_is_named_and_nothing_else_is_lost(lines: list[str], tmp_path: Path) -> None:
    row = json.loads(lines[1])
    damaged = [each(row) for each in BROKEN.values()]
    for n, each in enumerate(damaged):  # between good ones
        lines.insert(2 + 2 * n if 2 + 2 * n < len(lines) - 1 else len(lines) - 1, each)
    lines[-1] = json.dumps({"end": 8 + len(damaged)})
    write(tmp_path / "damaged.jsonl", lines)
    raw = (tmp_path / "damaged.jsonl").read_bytes().split(b"\n")
    wrong = {f"line {n}" for n, line in enumerate(lines, 1) if line in damaged}
    raw[1:1] = [b'{"id": "\xff\xfe"}', b""]
    raw[-2] = json.dumps({"end": 9 + len(damaged)}).encode()
    (tmp_path / "damaged.jsonl").write_bytes(b"\n".join(raw))
    wrong = {"line 2", *(f"line {int(each.split()[1]) + 2}" for each in wrong)}
    with HybridIndex.open(tmp_path / "b", "c", dense=HashEmbedding()) as index:
        done = index.import_from(tmp_path / "damaged.jsonl")
        assert {problem.id for problem in done.problems} == wrong
        assert len(wrong) == len(BROKEN) + 1
        assert all(problem.reason for problem in done.problems)
        assert done.documents == index.count() == 8
    answer = run("import", tmp_path / "damaged.jsonl", "-l", tmp_path / "cli")
    assert answer.code == 1
    assert "imported 8 documents into c" in answer.out
    assert answer.err.count("line ") >= len(wrong)
    assert len(run("import", tmp_path / "damaged.jsonl", "-l", tmp_path / "cli", "--json").json["problems"]) == len(
        wrong
    )


@pytest.mark.parametrize("name", ["cut.jsonl", "cut.jsonl.gz"])
def test_a_file_that_was_cut_off_is_told_and_what_is_there_stored(name: str, lines: list[str], tmp_path: Path) -> None:
    whole = "".join(f"{line}\n" for line in lines[:-1]).encode()
    cut = gzip.compress(whole * 1)[:-20] if name.endswith("gz") else whole
    (tmp_path / name).write_bytes(cut)
    with HybridIndex.open(tmp_path / "b", "c", dense=HashEmbedding()) as index:
        done = index.import_from(tmp_path / name)
        assert len(done.problems) == 1
        assert "export again" in done.problems[0].reason
        assert 0 < index.count() == done.documents <= 8


def test_a_line_that_is_missing_is_noticed(lines: list[str], tmp_path: Path) -> None:
    write(tmp_path / "lines.jsonl", [*lines[:3], *lines[4:]])
    with HybridIndex.open(tmp_path / "b", "c", dense=HashEmbedding()) as index:
        (problem,) = index.import_from(tmp_path / "lines.jsonl").problems
        assert "8 rows" in problem.reason
        assert index.count() == 7


@pytest.mark.parametrize(
    "first", ["", '{"text": "hello"}', "[]", "no JSON", '{"twofold_export": "x"}', '{"twofold_export": 1}']
)
def test_a_foreign_file_is_refused_before_anything_is_written(first: str, tmp_path: Path) -> None:
    (tmp_path / "foreign.jsonl").write_text(first, "utf-8")
    with HybridIndex.open(tmp_path / "b", dense=HashEmbedding()) as index:
        with pytest.raises(TransferError, match="twofold add"):
            index.import_from(tmp_path / "foreign.jsonl")
        assert index.count() == 0


def test_a_newer_format_a_missing_file_and_no_folder_to_write_into(lines: list[str], tmp_path: Path) -> None:
    write(tmp_path / "newer.jsonl", [{**json.loads(lines[0]), "twofold_export": 2}])
    with HybridIndex.open(tmp_path / "a", "c", dense=HashEmbedding()) as index:
        with pytest.raises(TransferError, match="upgrade twofold"):
            index.import_from(tmp_path / "newer.jsonl")
        with pytest.raises(TransferError, match="can't be read"):
            index.import_from(tmp_path / "missing.jsonl")
        (tmp_path / "plain.gz").write_text(lines[0])
        with pytest.raises(TransferError, match="can't be read"):
            index.import_from(tmp_path / "plain.gz")
        with pytest.raises(TransferError, match="can't be written"):
            index.export_to(tmp_path / "nowhere" / "file.jsonl")


def test_an_export_that_fails_leaves_the_file_from_before(lines: list[str], server: RestServer, tmp_path: Path) -> None:
    file = tmp_path / "file.jsonl"
    file.write_text("from before")
    with HybridIndex.open(server.url, "c", dense=HashEmbedding()) as index:
        index.add([f"text {n}" for n in range(300)])
        server.faults.status(400, path="/points/scroll", body="offset")
        with pytest.raises(Exception, match="as the test asked"):
            index.export_to(file)
    assert file.read_text() == "from before"
    assert not list(tmp_path.glob("*.unfinished"))


# --- Another model ---


def test_vectors_of_another_model_are_refused_and_made_anew_if_wanted(places: Any, tmp_path: Path) -> None:
    first = places("a", "c")
    first.add(list(documents(120)))
    first.export_to(tmp_path / "file.jsonl")
    fresh = places("b", "fresh", dense=HashEmbedding(32))
    with pytest.raises(CollectionMismatch, match="reembed=True"):
        fresh.import_from(tmp_path / "file.jsonl")
    with pytest.raises(CollectionMismatch, match="language 'english'"):
        places("b", "german", language="german").import_from(tmp_path / "file.jsonl")
    assert fresh.count() == 0
    assert fresh.import_from(tmp_path / "file.jsonl", reembed=True).documents == 120
    expected = places("d", "c", dense=HashEmbedding(32))
    expected.add(list(documents(120)))
    assert stored(fresh) == stored(expected)


def test_the_command_makes_the_vectors_of_memories_anew(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "a", user="ada", dense=HashEmbedding()) as memory:
        fill(memory, 2, 12)
        memory.index.export_to(tmp_path / "file.jsonl")
        told = memory.for_user("user 1").stats()
    answer = run("import", tmp_path / "file.jsonl", "-l", tmp_path / "b", "--reembed", "--model", "fast")
    assert answer.code == 0, answer
    with Memory.open(tmp_path / "b", user="ada") as memory:
        assert memory.users() == {"user 0": 16, "user 1": 16}
        assert memory.for_user("user 1").stats() == told
        assert told.without_meaning == told.without_words == 0
        ada = memory.for_user("user 1")
        first = ada.list(limit=1)[0]
        assert first.id in ada.recall(first.text).ids


def test_the_command_makes_the_vectors_of_a_projects_memories_anew(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "a", user="ada", projects="apollo", dense=HashEmbedding()) as memory:
        memory.remember("Ana drinks oat milk")
        memory.in_project("apollo").remember("The launch is on Monday")
        memory.index.export_to(tmp_path / "file.jsonl")
    answer = run("import", tmp_path / "file.jsonl", "-l", tmp_path / "b", "--reembed", "--model", "fast")
    assert answer.code == 0, answer
    with Memory.open(tmp_path / "b", user="bob", projects="apollo") as memory:
        assert [hit.text for hit in memory.recall("launch")] == ["The launch is on Monday"]
        stats = memory.in_project("apollo").stats()
        assert (stats.memories, stats.without_meaning, stats.without_words) == (1, 0, 0)


def test_documents_that_stand_on_shelves_are_documents(tmp_path: Path) -> None:
    books = [Document(f"Book {n} on walnuts", f"b{n}", {"shelf": "A3", "user": "ada"}) for n in range(3)]
    settings = CollectionSettings(payload_indexes={"shelf": "tenant"})
    with HybridIndex.open(tmp_path / "a", "books", dense=HashEmbedding(), settings=settings) as index:
        index.add(books)
        index.export_to(tmp_path / "file.jsonl")
    with HybridIndex.open(":memory:", dense=HashEmbedding(32)) as fresh:
        done = fresh.import_from(tmp_path / "file.jsonl", reembed=True)
        assert (done.documents, done.without_vectors) == (3, 0)
        assert len(fresh.search("walnuts")) == 3
    answer = run("import", tmp_path / "file.jsonl", "-l", tmp_path / "b", "--reembed", "--model", "fast")
    assert answer.code == 0, answer
    with HybridIndex.open(tmp_path / "b", "books") as index:
        assert index.values("shelf") == {"A3": 3}
        assert not ExportFile(tmp_path / "file.jsonl").header.memories
        index.export_to(tmp_path / "again.jsonl")
    assert not ExportFile(tmp_path / "again.jsonl").header.memories, "no memory was opened there"


# --- Commands ---


def test_export_and_import_without_a_model(tmp_path: Path, server: RestServer) -> None:
    with HybridIndex.open(tmp_path / "a", "notes", dense=HashEmbedding()) as index:
        index.add(list(documents(100)))
        told = told_by_index(index, 10)
    answer = run("export", tmp_path / "notes.jsonl.gz", "-l", tmp_path / "a", "-c", "notes", "--json")
    assert answer.json["documents"] == 100
    for location in (tmp_path / "b", server.url):
        for _ in range(2):
            answer = run("import", tmp_path / "notes.jsonl.gz", "-l", location)
            assert (answer.code, "imported 100 documents into notes" in answer.out) == (0, True), answer
        with HybridIndex.open(location, "notes", dense=HashEmbedding()) as index:
            assert told_by_index(index, 10) == told
    with HybridIndex.open(tmp_path / "c", "notes", dense=HashEmbedding(8)) as index:
        index.add(["something"])
    refused = run("import", tmp_path / "notes.jsonl.gz", "-l", tmp_path / "c")
    assert (refused.code, "--reembed" in refused.err) == (2, True)


def test_a_wrong_name_is_told_with_those_that_there_are(tmp_path: Path) -> None:
    with HybridIndex.open(tmp_path / "a", "notes", dense=HashEmbedding()):
        pass
    answer = run("export", tmp_path / "x.jsonl", "-l", tmp_path / "a")
    assert (answer.code, "it has notes" in answer.err) == (2, True)
    assert run("export", tmp_path / "x.jsonl", "-l", tmp_path / "nothing").code == 2
