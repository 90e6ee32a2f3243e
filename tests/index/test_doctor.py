"""`doctor`: each defect is planted once, in a folder and behind the endpoint, found, named, and mended by its mend."""

from __future__ import annotations

import asyncio
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import QdrantClient, models

from tests.cli.runs import Answer, run
from tests.kit.rest import RestServer
from twofold import CollectionSettings, Document, HybridIndex, Memory, Turn, embedded_client
from twofold.documents import point_id
from twofold.embedded import store
from twofold.index import Diagnosis, adiagnose, diagnose, doctor
from twofold.testing import HashEmbedding

DOCUMENTS = [
    Document("Rathole tunnels listen on port 2333.", "rathole", {"year": 2021}),
    Document("The proxy closes idle connections.", "proxy", {"year": 2022}),
    Document("Apple cake needs four eggs and cinnamon.", "cake", {"year": 2023}),
    Document("checkRateLimit() rejects a client after 100 requests.", "limit", {"year": 2024}),
]
HEALTHY_AS_WELL = [
    Document("to be or not to be", "no words"),
    Document("", "no text"),
    Document("It has eight legs.", "titled", title="Spider"),
    *(Document(line, f"line {n}", part_of="call", position=n) for n, line in enumerate(["Which one?", "Blue.", "Ok."])),
]


class Place:
    """A folder, or the endpoint over one."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.folder = kind, folder
        self.rest = RestServer(lambda: embedded_client(folder)).start() if kind == "http" else None

    @property
    def location(self) -> str:
        return self.rest.url if self.rest else str(self.folder)

    @contextmanager
    def client(self) -> Iterator[QdrantClient]:
        client = (
            QdrantClient(url=self.location, check_compatibility=False) if self.rest else embedded_client(self.folder)
        )
        yield client
        client.close()

    def make(self, name: str, documents: list[Document] = DOCUMENTS, **options: Any) -> None:
        with HybridIndex.open(self.location, name, **options) as index:
            index.add(documents)

    def twofold(self, *words: str) -> Answer:
        return run(words[0], self.location, *words[1:])

    def carry_out(self, mend: str) -> None:
        """Do what a mend says: type the command, or run the line."""
        if mend.startswith("twofold "):
            answer = run(*shlex.split(mend)[1:])
            assert answer.code == 0, answer
            return
        opened: list[Any] = []

        class Opening:
            @staticmethod
            def open(*args: Any) -> HybridIndex:
                opened.append(HybridIndex.open(*args))
                return opened[-1]  # type: ignore[no-any-return]

        def client(location: str) -> QdrantClient:
            opened.append(embedded_client(location) if self.rest is None else QdrantClient(location))
            return opened[-1]  # type: ignore[no-any-return]

        names = {"HybridIndex": Opening, "QdrantClient": client, "embedded_client": client, "models": models}
        eval(mend, names)
        for each in opened:
            each.close()

    def shut(self) -> None:
        if self.rest:
            self.rest.close()


@pytest.fixture(params=["folder", "http"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    made = Place(request.param, tmp_path / "store")
    yield made
    made.shut()


# --- Each defect, planted in a collection of its own ---

Plant = Callable[[QdrantClient, str], Any]
POINTS = 4


def ids(client: QdrantClient, name: str) -> list[Any]:
    return [point.id for point in client.scroll(name, limit=100)[0]]


def remade(
    client: QdrantClient, name: str, *, size: int = 384, distance: str = "Cosine", idf: bool = True, record: bool = True
) -> None:
    """The collection once more, laid out otherwise, with the same rows."""
    points, _ = client.scroll(name, limit=100, with_vectors=True)
    metadata = client.get_collection(name).config.metadata
    client.delete_collection(name)
    client.create_collection(
        name,
        {"dense": models.VectorParams(size=size, distance=models.Distance(distance))},
        sparse_vectors_config={"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF if idf else None)},
        metadata=metadata if record else None,
    )
    structs = []
    for point in points:
        vector: Any = point.vector
        structs.append(
            models.PointStruct(id=point.id, vector={**vector, "dense": vector["dense"][:size]}, payload=point.payload)
        )
    client.upsert(name, structs)


def strange_vectors(client: QdrantClient, name: str, number: int) -> None:
    chosen = ids(client, name)[:number]
    strange = [HashEmbedding(384).embed_query(str(each)) for each in chosen]
    client.update_vectors(
        name, [models.PointVectors(id=i, vector={"dense": v}) for i, v in zip(chosen, strange, strict=True)]
    )


def another_format(client: QdrantClient, name: str) -> None:
    record = (client.get_collection(name).config.metadata or {})["twofold"]
    client.update_collection(name, metadata={"twofold": {**record, "format": 99}})


DEFECTS: Mapping[str, Plant] = {
    "written-by-something-else": lambda client, name: remade(client, name, record=False),
    "no-words": lambda client, name: client.delete_vector_name(name, "bm25"),
    "no-meaning": lambda client, name: client.delete_vector_name(name, "dense"),
    "not-cosine": lambda client, name: remade(client, name, distance="Dot"),
    "wrong-dimension": lambda client, name: remade(client, name, size=128),
    "no-idf": lambda client, name: remade(client, name, idf=False),
    "newer-format": another_format,
    "rows-without-words": lambda client, name: client.delete_vectors(name, ["bm25"], ids(client, name)[:2]),
    "rows-without-vector": lambda client, name: client.delete_vectors(name, ["dense"], ids(client, name)[:3]),
    "rows-without-text": lambda client, name: client.set_payload(name, {"text": 7}, ids(client, name)[:2]),
    "several-models": lambda client, name: strange_vectors(client, name, 1),
    "wrong-model": lambda client, name: strange_vectors(client, name, POINTS),
    "unindexed-parts": lambda client, name: client.delete_payload_index(name, "metadata.part_of"),
}
ROWS = {"rows-without-words": 2, "rows-without-vector": 3, "rows-without-text": 2}
PARTS = [Document(text, text, part_of="letter", position=n) for n, text in enumerate(["Dear Ada,", "I write code."])]
MENDED_HERE = ("no-idf", "rows-without-words", "rows-without-vector", "rows-without-text", "unindexed-parts")
MENDED_BY = {
    "written-by-something-else": "adopt", "no-words": "adopt", "no-meaning": "reembed", "several-models": "reembed",
    "wrong-model": "reembed",
}  # fmt: skip
NOT_TO_BE_OPENED = ("not-cosine", "wrong-dimension")


def plant_all(place: Place) -> None:
    for name in DEFECTS:
        place.make(name, PARTS if name == "unindexed-parts" else DOCUMENTS)
    with place.client() as client:
        for name, plant in DEFECTS.items():
            plant(client, name)


def codes(found: Diagnosis) -> dict[str | None, list[str]]:
    return {
        name: [finding.code for finding in found.findings if finding.collection == name]
        for name in (None, *found.collections)
        if any(finding.collection == name for finding in found.findings)
    }


def everything(place: Place) -> Any:
    with place.client() as client:
        return {
            name: (client.get_collection(name).config, client.scroll(name, limit=100, with_vectors=True))
            for name in DEFECTS
        }


def test_every_defect_is_found_and_named_none_is_invented_and_the_mend_mends_it(place: Place) -> None:
    place.make("healthy", [*DOCUMENTS, *HEALTHY_AS_WELL])
    plant_all(place)
    before = everything(place)
    answer = place.twofold("doctor", "--json")
    assert everything(place) == before
    assert answer.code == 1
    said = answer.json
    assert list(said) == ["location", "findings", "collections", "server", "skipped", "healthy"]
    assert (said["healthy"], said["skipped"], set(said["collections"])) == (False, [], {*DEFECTS, "healthy"})
    findings = {each["collection"]: each for each in said["findings"]}
    assert {name: each["code"] for name, each in findings.items()} == {name: name for name in DEFECTS}
    assert len(said["findings"]) == len(DEFECTS)
    assert {name: each["rows"] for name, each in findings.items() if each["rows"]} == ROWS
    for code, verb in MENDED_BY.items():
        model = " --to all-MiniLM-L6-v2-int8" if verb == "reembed" else ""
        assert findings[code]["mend"] == f"twofold {verb} -l {place.location} -c {code}{model}"
    assert all("to a new collection" in findings[code]["mend"] for code in NOT_TO_BE_OPENED)
    for code in MENDED_BY:
        place.carry_out(findings[code]["mend"])
        left = place.twofold("doctor", "-c", code, "--json").json["findings"]
        assert [(each["code"], each["severity"]) for each in left] in ([], [("replaced-is-kept", "note")]), (code, left)
    for code in MENDED_HERE:
        place.carry_out(findings[code]["mend"])
        after = place.twofold("doctor", "-c", code)
        assert (after.code, "all is well" in after.out) == (0, True), after
    with HybridIndex.open(place.location, "rows-without-words") as index:
        assert index.search("checkRateLimit", alpha=0.0).ids == ["limit"]
    with HybridIndex.open(place.location, "rows-without-vector") as index:
        assert index.search("which port is the tunnel on?", alpha=1.0)[0].id == "rathole"


@pytest.mark.parametrize("model", ["fast", "best"])
def test_a_healthy_store_is_well(tmp_path: Path, model: str) -> None:
    with HybridIndex.open(tmp_path, "notes", dense=model) as index:
        index.add([*DOCUMENTS, *HEALTHY_AS_WELL])
        index.add(["Given with its vector"], vectors=index.embed(["Given with its vector"]))
        assert index.doctor().findings == ()
    with Memory.open(tmp_path, user="ada", dense=model) as memory:
        liked = memory.remember("Rathole listens on 2333", tags=["rathole"])
        memory.remember_turns(
            [Turn("Which port was it?", "Ada"), Turn("2333", "Bob"), Turn("Ah, yes.", "Ada")], session="call"
        )
        memory.log("deployed")
        memory.feedback("rathole port", liked.id)
        assert memory.index.doctor().findings == ()
    answer = run("doctor", tmp_path)
    assert answer.code == 0
    assert "all is well" in answer.out


# --- What only a folder, a server or an open index can have ---


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Place]:
    made = Place("http", tmp_path / "store")
    made.make("notes")
    yield made
    made.shut()


def found_at(place: Place) -> dict[str, Any]:
    return {each.code: each for each in diagnose(place.location).findings}


GREEN, WELL, ACTIVE = '"status":"green"', '"optimizer_status":"ok"', '"state":"Active"'
THREE_COPIES = {'"replication_factor":1': '"replication_factor":3'}
NODE_GONE = {'"remote_shards":[]': '"remote_shards":[{"shard_id":0,"peer_id":7,"state":"Dead"}]'}


@pytest.mark.parametrize(
    ("code", "instead", "ill", "words"),
    [
        ("optimizer-failed", {GREEN: '"status":"red"'}, True, "could not optimise"),
        ("optimizer-failed", {WELL: '"optimizer_status":{"error":"no space left"}'}, True, "no space left"),
        ("optimizer-waits", {GREEN: '"status":"grey"'}, True, "yet to be optimised"),
        ("optimizer-works", {GREEN: '"status":"yellow"'}, False, "being optimised"),
        ("replica-not-active", NODE_GONE, True, "shard 0 on node 7 is Dead"),
        ("replica-not-active", {ACTIVE: '"state":"Partial"'}, True, "shard 0 on node 1 is Partial"),
        ("replicas-missing", THREE_COPIES, True, "shard 0 has fewer than the 3 copies"),
    ],
)
def test_what_a_server_says_of_itself(server: Place, code: str, instead: dict[str, str], ill: bool, words: str) -> None:
    assert server.rest is not None
    assert found_at(server) == {}
    server.rest.instead = instead
    (finding,) = diagnose(server.location).findings
    assert (finding.code, finding.severity != "note", finding.collection) == (code, ill, "notes")
    assert words in finding.message
    assert finding.mend
    server.rest.instead = {}
    assert found_at(server) == {}


@pytest.mark.parametrize(
    ("version", "code", "healthy"), [("1.15.5", "server-too-old", False), ("1.18.3", "server-lacks", True)]
)
def test_what_an_old_server_lacks(server: Place, version: str, code: str, healthy: bool) -> None:
    assert server.rest is not None
    server.rest.version = version
    found = diagnose(server.location)
    assert (codes(found), found.healthy, found.server) == ({None: [code]}, healthy, version)


def test_a_graph_that_was_switched_off(server: Place) -> None:
    with server.client() as client:
        client.update_collection("notes", optimizers_config=models.OptimizersConfigDiff(indexing_threshold=0))
    mend = found_at(server)["graph-off"].mend
    server.carry_out(mend)
    assert found_at(server) == {}


def test_a_field_without_an_index_is_noted_in_large_collections_and_is_ill_in_strict_mode(
    server: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert server.rest is not None
    monkeypatch.setattr(doctor, "_MANY_ROWS", len(DOCUMENTS))
    assert found_at(server)["unindexed-field"].severity == "note"
    monkeypatch.undo()
    strict = '"strict_mode_config":{"enabled":true,"unindexed_filtering_retrieve":false}'
    server.rest.instead = {'"config":{': f'"config":{{{strict},'}
    finding = found_at(server)["unindexed-field"]
    assert (finding.severity, "strict mode" in finding.message) == ("warning", True)
    server.carry_out(finding.mend)
    assert found_at(server) == {}


def test_a_server_that_tells_nothing_about_its_shards_is_no_illness(server: Place) -> None:
    assert server.rest is not None
    server.rest.faults.status(403, path="/cluster")
    found = diagnose(server.location)
    assert found.healthy
    assert found.skipped == ("notes: its replicas, since the server doesn't tell about them (403)",)


def test_a_search_graph_that_is_out_of_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place("folder", tmp_path / "store")
    place.make("notes", optimize="manual")
    monkeypatch.setattr(store, "_MIN_POINTS_TO_OPTIMIZE", len(DOCUMENTS))
    mend = found_at(place)["not-optimized"].mend
    place.carry_out(mend)
    assert found_at(place) == {}


def test_damaged_collections_of_a_folder_beside_a_healthy_one(tmp_path: Path) -> None:
    place = Place("folder", tmp_path / "store")
    for name in ("healthy", "without a shard", "without settings"):
        place.make(name)
    for directory in (tmp_path / "store" / "collections").iterdir():
        if directory.name.startswith("without-a-shard"):
            for shard in directory.glob("shard-*"):
                shutil.rmtree(shard)
        if directory.name.startswith("without-settings"):
            (directory / "collection.json").unlink()
    answer = place.twofold("doctor")
    assert answer.code == 1
    assert answer.out.count("[damaged]") == 2
    found = diagnose(place.location)
    assert codes(found) == {"without a shard": ["damaged"], "without-settings": ["damaged"]}
    mends = {each.collection: each.mend for each in found.findings}
    place.carry_out(mends["without a shard"])
    assert mends["without-settings"].startswith("restore that folder from a backup, or remove it")
    for directory in (tmp_path / "store" / "collections").glob("without-settings-*"):
        shutil.rmtree(directory)
    assert place.twofold("doctor").code == 0


def test_an_open_index_is_told_of_the_indexes_that_its_settings_want(tmp_path: Path) -> None:
    settings = CollectionSettings(payload_indexes={"year": "float"}, text_index=True)
    with HybridIndex.open(tmp_path, dense=HashEmbedding()) as index:
        index.add(DOCUMENTS)
    with HybridIndex.open(tmp_path, dense=HashEmbedding(), settings=settings) as index:
        (finding,) = index.doctor().findings
        assert finding.code == "missing-index"
        assert "text, metadata.year" in finding.message
        eval(finding.mend, {"HybridIndex": Same(index), "settings": settings})
        assert index.doctor().findings == ()


class Same:
    """Opens what is open already."""

    def __init__(self, index: HybridIndex) -> None:
        self.index = index

    def open(self, *_: Any) -> HybridIndex:
        return self.index


@pytest.mark.parametrize("name", ["fast", "hash"])
def test_a_model_of_ones_own_is_looked_at_where_it_is_given(tmp_path: Path, name: str) -> None:
    model = None if name == "fast" else HashEmbedding()
    with HybridIndex.open(tmp_path, "notes", dense=model) as index:
        index.add(DOCUMENTS)
        assert index.doctor().collections["notes"]["compared"] == len(DOCUMENTS)
    found = diagnose(tmp_path)
    assert found.healthy
    assert found.skipped == (() if model is None else (f"notes: {WITHOUT_MODEL}",))
    assert diagnose(tmp_path, dense=model).skipped == ()


WITHOUT_MODEL = "whether its vectors come from 'HashEmbedding:hash-64': name that model to have it looked at"


def test_a_model_that_cannot_be_loaded(tmp_path: Path) -> None:
    with HybridIndex.open(tmp_path, "notes") as index:
        index.add(DOCUMENTS)
    with Place("folder", tmp_path).client() as client:
        record = (client.get_collection("notes").config.metadata or {})["twofold"]
        client.update_collection(
            "notes", metadata={"twofold": {**record, "dense": {**record["dense"], "model": "nobody/has-this"}}}
        )
    assert codes(diagnose(tmp_path)) == {"notes": ["model-unavailable"]}


@pytest.mark.parametrize("record", [{"format": 1}, {"format": "x"}, {"format": 1, "dense": "fast", "sparse": {}}])
def test_a_record_that_was_overwritten(place: Place, record: Any) -> None:
    place.make("notes")
    with place.client() as client:
        client.update_collection("notes", metadata={"twofold": record})
    mend = found_at(place)["broken-record"].mend
    place.carry_out(mend)
    assert list(found_at(place)) == ["written-by-something-else"]


def test_what_an_interrupted_or_a_finished_rewriting_left(tmp_path: Path) -> None:
    place = Place("folder", tmp_path)
    for name in ("notes", "notes~2", "films", "films~2"):
        place.make(name)
    with place.client() as client:
        for name, more in (("notes~2", {"replaces": "notes", "rewriting": True}), ("films~2", {"replaces": "films"})):
            record = (client.get_collection(name).config.metadata or {})["twofold"]
            client.update_collection(name, metadata={"twofold": {**record, **more}})
        client.update_collection("films", metadata={"twofold_moved": "films~2"})
    found = diagnose(tmp_path)
    assert codes(found) == {"films~2": ["replaced-is-kept"], "notes~2": ["unfinished-rewriting"]}
    kept, unfinished = found.findings
    assert kept.severity == "note"
    assert kept.mend == f"twofold reembed -l {tmp_path} -c 'films~2' --drop-replaced"
    assert unfinished.mend.endswith(f"give it up: twofold reembed -l {tmp_path} -c notes --drop-unfinished")


def test_who_adopts_vectors_of_another_length_is_told_to_name_their_model(tmp_path: Path) -> None:
    place = Place("folder", tmp_path)
    with place.client() as client:
        client.create_collection("notes", models.VectorParams(size=8, distance=models.Distance.COSINE))
        client.upsert("notes", [models.PointStruct(id=1, vector=[1.0] * 8, payload={"page_content": "a"})])
    (finding,) = diagnose(tmp_path).findings
    assert finding.message.endswith("Its dense vectors: unnamed (8).")
    assert finding.mend == f"twofold adopt -l {tmp_path} -c notes --model THE_MODEL_THAT_MADE_THEM"


def test_rows_that_somebody_numbered_are_compared_and_repaired(place: Place) -> None:
    place.make("notes")
    with place.client() as client:
        model = HybridIndex.open(":memory:")
        vector: Any = {"dense": model.embed(["The line went dead."])[0]}
        client.upsert("notes", [models.PointStruct(id=7, vector=vector, payload={"text": "The line went dead."})])
    found = diagnose(place.location)
    assert [(each.code, each.rows) for each in found.findings] == [("rows-without-words", 1)]
    assert found.collections["notes"]["compared"] == len(DOCUMENTS) + 1
    place.carry_out(found.findings[0].mend)
    assert found_at(place) == {}


def test_memories_are_mended_as_memories(tmp_path: Path) -> None:
    for user in ("ada", "bob"):
        with Memory.open(tmp_path, user=user) as memory:
            memory.remember(f"{user} drinks oat milk", tags=["breakfast"])
    with Place("folder", tmp_path).client() as client:
        client.delete_vectors("memories", ["bm25"], ids(client, "memories"))
    answer = run("doctor", tmp_path)
    assert "twofold repair" in answer.out
    assert "2 rows have no words" in answer.out
    answer = run("repair", "-l", tmp_path, "-c", "memories")
    assert "2 rows have the vectors that they lacked" in answer.out
    assert run("doctor", tmp_path).code == 0
    with Memory.open(tmp_path, user="bob") as memory:  # with the words of its tags, which a text alone has not
        (hit,) = memory.index.search("breakfast", alpha=0.0, filter={"user": "bob"})
        assert hit.text == "bob drinks oat milk"


def test_memories_of_projects_and_documents_on_shelves_are_each_mended_as_what_they_are(tmp_path: Path) -> None:
    with Memory.open(tmp_path, user="ada", projects="apollo") as memory:
        memory.in_project("apollo").remember("The launch is on Monday", tags=["rocket"])
        memory.index.add([Document("A book on walnuts", "book", {"shelf": "A3"})])
    with Place("folder", tmp_path).client() as client:
        client.delete_vectors("memories", ["bm25"], ids(client, "memories"))
    with HybridIndex.open(tmp_path, "memories") as index:
        assert (index.repair().rows, index.repair().memories) == (1, 1)
    answer = run("repair", "-l", tmp_path, "-c", "memories")
    assert "1 rows have the vectors that they lacked" in answer.out
    with HybridIndex.open(tmp_path, "memories") as index:
        assert index.repair().memories == 0
        assert index.search("rocket", alpha=0.0)[0].text == "The launch is on Monday"
        assert index.search("walnuts", alpha=0.0)[0].text == "A book on walnuts"


def test_awaited_it_finds_the_same(tmp_path: Path) -> None:
    async def look() -> tuple[Diagnosis, Diagnosis]:
        async with await HybridIndex.aopen(tmp_path, "notes") as index:
            await index.aadd(DOCUMENTS)
            await asyncio.to_thread(client_without_words)
            before = await index.adoctor()
            await index.arepair()
            after = await index.adoctor()
        assert (await adiagnose(tmp_path)).findings == after.findings
        return before, after

    def client_without_words() -> None:
        with Place("folder", tmp_path).client() as client:
            client.delete_vectors("notes", ["bm25"], ids(client, "notes"))

    before, after = asyncio.run(look())
    assert (codes(before), codes(after)) == ({"notes": ["rows-without-words"]}, {})


def test_what_cannot_be_looked_at_ends_with_2(tmp_path: Path) -> None:
    assert run("doctor", tmp_path / "nothing").code == 2
    assert run("doctor", ":memory:").code == 2
    with HybridIndex.open(tmp_path, "notes"):
        pass
    answer = run("doctor", tmp_path, "-c", "novels")
    assert (answer.code, answer.err) == (2, f"error: there is no collection 'novels' at {tmp_path}: it has notes\n")


def test_rows_are_read_in_pages_and_without_their_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_PAGE_SIZE", 2)
    monkeypatch.setattr(doctor, "_COMPARED_ROWS", 3)
    with HybridIndex.open(tmp_path, "notes", dense=HashEmbedding()) as index:
        index.add([f"text {number}" for number in range(9)])
        found = index.doctor()
    assert (found.collections["notes"]["rows"], found.collections["notes"]["compared"]) == (9, 3)


def test_mends_of_what_has_no_name_to_type_are_lines_of_python() -> None:
    client = QdrantClient(":memory:")
    with HybridIndex.open(client, "notes", dense=HashEmbedding()) as index:
        index.add(DOCUMENTS)
        client.set_payload("notes", {"text": 7}, [point_id("cake")])
        (finding,) = index.doctor().findings
        assert finding.mend == "index.delete(['cake'])"
        eval(finding.mend, {"index": index})
        assert index.doctor().healthy


def test_a_repair_leaves_payloads_and_other_vectors_alone_and_gives_parts_what_their_neighbours_lend() -> None:
    client = QdrantClient(":memory:")
    with HybridIndex.open(client, "notes", dense=HashEmbedding()) as index:
        index.add([*DOCUMENTS, *PARTS])
        before = rows_of(client)
        client.set_payload("notes", {"somebody": "else's"}, [point_id("cake")])
        client.delete_vectors("notes", ["bm25"], [point_id("cake"), point_id(PARTS[0].id or "")])
        client.delete_vectors("notes", ["dense"], [point_id("proxy"), point_id(PARTS[1].id or "")])
        assert index.repair().rows == 4
        after = rows_of(client)
        assert after.pop(point_id("cake"))[0]["somebody"] == "else's"
        assert before.pop(point_id("cake"))
        for point, (payload, vectors) in before.items():
            assert after[point][0] == payload
            assert after[point][1]["bm25"] == vectors["bm25"]
            assert after[point][1]["dense"] == pytest.approx(vectors["dense"], abs=1e-6)
        assert index.repair().nothing


def rows_of(client: QdrantClient) -> dict[Any, tuple[Any, Any]]:
    return {row.id: (row.payload, row.vector) for row in client.scroll("notes", limit=100, with_vectors=True)[0]}


def test_nodes_of_llamaindex_which_are_embedded_with_their_metadata_are_no_other_model() -> None:
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        node = Document("yes", "node", {"_node": {"type": "TextNode", "content": "{}"}})
        index.add([node], vectors=index.embed(["file_name: a.txt file_size: 3 created: 2024-01-01"]))
        assert index.doctor().findings == ()


def test_words_alone_are_mended_where_there_is_no_other_vector(tmp_path: Path) -> None:
    place = Place("folder", tmp_path)
    place.make("notes")
    with place.client() as client:
        client.delete_vector_name("notes", "dense")
        client.delete_vectors("notes", ["bm25"], ids(client, "notes")[:1])
    with HybridIndex.open(tmp_path, "notes") as index:
        assert [each.code for each in index.doctor().findings] == ["no-meaning", "rows-without-words"]
        assert index.repair().rows == 1
