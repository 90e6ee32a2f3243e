"""Several processes on one folder: who holds it, who joins, who takes over, and who may not."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from qdrant_client import models as m

from tests.kit.rest import reserve
from twofold import (
    DiskFull,
    EngineError,
    EngineUnavailable,
    HybridIndex,
    Memory,
    StoreError,
    StoreLocked,
    embedded_client,
)
from twofold.embedded import StoreFormatError, async_embedded_client, serving, store
from twofold.embedded.lock import FolderLock
from twofold.memory import state
from twofold.testing import HashEmbedding

from .conftest import eventually, fill
from .processes import SOURCE, start

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
needs_root = pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason="gives files to another user")

HOLD = """
import sys
from twofold import HybridIndex
from twofold.testing import HashEmbedding
index = HybridIndex.open(sys.argv[1], dense=HashEmbedding(), **eval(sys.argv[2]))
print("open", flush=True)
for line in sys.stdin:
    print(repr(eval(line)), flush=True)
index.close()
print("closed", flush=True)
"""


class Other:
    """A process with the same folder open, which says what an expression is worth there."""

    def __init__(self, path: Path, options: dict[str, Any], code: str = HOLD) -> None:
        self.process = start(code, path, options)
        assert self.hear() == "open"

    def hear(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line or self.process.stderr is None, self.process.stderr.read()
        return line.strip()

    def ask(self, expression: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(expression + "\n")
        self.process.stdin.flush()
        return self.hear()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.hear() == "closed"
        self.process.wait()


@contextmanager
def held_elsewhere(path: Path, code: str = HOLD, **options: Any) -> Iterator[Other]:
    other = Other(path, options, code)
    try:
        yield other
    finally:
        other.process.kill()
        other.process.wait()
        for stream in (other.process.stdin, other.process.stdout, other.process.stderr):
            assert stream is not None
            stream.close()


def open_index(path: Path, **options: Any) -> HybridIndex:
    return HybridIndex.open(path, dense=HashEmbedding(), **options)


def holds(index: HybridIndex) -> bool:
    return index._connection._folder.store is not None  # type: ignore[attr-defined]


TEXTS = [f"tunnel {number} listens on port {2000 + number}" for number in range(40)]


def everything(index: HybridIndex) -> list[Any]:
    """What an index answers, to be compared with the same one elsewhere."""
    found = [
        index.search("port 2007", k=5, explain=True),
        index.search("tunnel 12", k=3, filter={"even": True}, fusion="rrf"),
        index.get(["d3", "none"]),
        index.values("even"),
        index.count({"number": {"gte": 10}}),
        index.info(),
        [vector and [round(number, 6) for number in vector] for vector in index.vectors(["d1"])],
    ]
    return [repr(each) for each in found]


def test_who_joins_gets_what_the_holder_gets(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as other, open_index(tmp_path) as index:
        metadatas = [{"number": number, "even": number % 2 == 0} for number in range(40)]
        index.add(TEXTS, ids=[f"d{number}" for number in range(40)], metadatas=metadatas)
        index.update_metadata({"seen": 1}, ids="d3")
        assert not holds(index)
        assert other.ask("index.count(), sorted(index.get('d3').metadata)") == "(40, ['even', 'number', 'seen'])"
        told: list[Any] = []
        assert index.optimize(progress=told.append)
        assert (told[0].stage, told[-1].stage, told[-1].points) == ("indexing", "done", 40)
        joined = everything(index)
        other.close()
        assert everything(index) == joined  # by the holder, which this process is now
        assert holds(index)


async def test_awaited_too(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path):
        async with await HybridIndex.aopen(tmp_path, dense=HashEmbedding()) as index:
            await index.aadd(TEXTS)
            found = await asyncio.gather(*(index.asearch(text, k=1) for text in TEXTS))
            assert [each[0].text for each in found] == TEXTS
            assert await index.adelete([found[0][0].id]) == 1
        client = async_embedded_client(tmp_path)
        assert (await client.count("twofold")).count == 39
        assert await client.optimize("twofold")
        await client.flush()
        await client.close()


def test_a_client_joins(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as other:
        client = embedded_client(tmp_path)
        fill(client)
        assert client.query_points("notes", [1.0, 0, 0, 0], using="dense", limit=3).points[0].id is not None
        client.upload_points(
            "notes", [m.PointStruct(id=900, vector={"dense": [0.1, 0.2, 0.3, 0.4]}, payload={})], parallel=2
        )
        assert client.count("notes").count == 61
        two = m.Filter(must=[m.HasIdCondition(has_id=[1, 900])])
        pairs = client.search_matrix_pairs("notes", two, using="dense").pairs
        assert {(pair.a, pair.b) for pair in pairs} == {(1, 900), (900, 1)}
        assert set(client.search_matrix_offsets("notes", two, using="dense").ids) == {1, 900}
        refusals = []
        for _ in range(2):
            with pytest.raises(ValueError, match="Not found: Collection nope") as refused:
                client.count("nope")
            refusals.append((type(refused.value), str(refused.value)))
            with pytest.raises(NotImplementedError, match="copy"):
                client.create_snapshot("notes")
            with pytest.raises(ValueError, match="already exists"):
                client.create_collection("notes", {})
            with pytest.raises(ValueError, match="dim"):
                client.query_points("notes", [1.0], using="dense")
            assert "embedded by twofold" in client.info().title
            if other.process.poll() is None:
                with pytest.raises(StoreError, match="another process"):
                    client.store  # noqa: B018
                other.close()
        assert refusals[0] == refusals[1]
        assert client.store.names() == ["notes", "twofold"]
        client.close()


def test_what_is_refused_is_refused_alike(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as other, open_index(tmp_path) as index:
        nonsense = m.Filter(must=[m.HasIdCondition(has_id=["no id"])])
        with pytest.raises(EngineError, match=r"count on .* was refused with 400 .*valid point id") as joined:
            index.count(nonsense)
        other.close()
        with pytest.raises(EngineError) as held:
            index.count(nonsense)
        assert (joined.value.status, str(joined.value)) == (held.value.status, str(held.value))


def test_a_full_disk_and_damaged_files_are_the_errors_that_the_holder_has(tmp_path: Path) -> None:
    fill(embedded_client(tmp_path)).close()
    [settings] = tmp_path.glob("collections/notes-*/collection.json")
    settings.write_text(settings.read_text().replace('"name"', '"nam"'))
    with held_elsewhere(tmp_path) as other, open_index(tmp_path) as index:
        ids = index.add(TEXTS)
        client = embedded_client(tmp_path)
        with pytest.raises(StoreFormatError, match="notes"):
            client.count("notes")
        other.ask("setattr(__import__('twofold.embedded.room').embedded.room, '_SPARE_BYTES', 1 << 62)")
        with pytest.raises(DiskFull, match=r"^The disk.*make room and call again"):
            index.update_metadata({"seen": 1}, ids=ids[0])
        with pytest.raises(DiskFull, match=r"^The disk.*make room and call again"):
            client.set_payload("twofold", {"a": 1}, m.Filter())
        client.close()


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
def test_one_takes_over_from_a_holder_that_is_killed_and_the_others_follow(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as first, held_elsewhere(tmp_path) as second, open_index(tmp_path) as index:
        with ThreadPoolExecutor(4) as pool:  # many at once, in the middle of which the holder goes
            adding = [pool.submit(index.add, [text], ids=[text]) for text in TEXTS]
            first.process.kill()
            assert [each.result() for each in adding] == [[text] for text in TEXTS]
        assert second.ask("index.count()") == "40"
        holder = json.loads((tmp_path / "twofold.lock").read_text())["pid"]
        assert holder in (os.getpid(), second.process.pid)
        assert holds(index) == (holder == os.getpid())
        assert len(index.search("port 2007", k=1)) == 1


FORK = """
import os, sys, time, warnings
warnings.simplefilter("ignore")
from twofold import HybridIndex
from twofold.testing import HashEmbedding
index = HybridIndex.open(sys.argv[1], dense=HashEmbedding())
index.add(["from the parent"])
ready, go = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    index.add(["from the child"])
    os.write(ready[1], b".")
    os.read(go[0], 1)  # the parent has gone
    print(index.count(), index._connection._folder.store is not None, flush=True)
    index.add(["from the child alone"])
    print(index.search("child alone", k=1)[0].text, flush=True)
    index.close()
    os._exit(0)
os.read(ready[0], 1)
print(index.count(), index.search("from child", k=1)[0].text, flush=True)
index.close()
os.write(go[1], b".")
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@needs_fork
def test_a_forked_child_joins_its_parent_and_takes_over_from_it(tmp_path: Path) -> None:
    out, err = start(FORK, tmp_path).communicate(timeout=300)
    assert out.splitlines() == ["2 from the child", "2 True", "from the child alone", "0"], err
    with open_index(tmp_path) as index:
        assert index.count() == 3


FORK_JOINED = """
import os, sys, warnings
warnings.simplefilter("ignore")
from twofold import HybridIndex
from twofold.testing import HashEmbedding
index = HybridIndex.open(sys.argv[1], dense=HashEmbedding())
children = []
for number in range(3):
    child = os.fork()
    if child == 0:
        for turn in range(20):
            index.add([f"{number} {turn}"], ids=[f"{number} {turn}"])
            assert index.get(f"{number} {turn}").text == f"{number} {turn}"
        os._exit(0)
    children.append(child)
for turn in range(20):
    assert index.get("0 0") is None or index.get("0 0").text == "0 0"
print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children], index.count())
"""


@needs_fork
def test_children_of_one_that_joined_have_connections_of_their_own(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as other:
        out, err = start(FORK_JOINED, tmp_path).communicate(timeout=300)
        assert out == "[0, 0, 0] 60\n", err
        assert other.ask("index.count()") == "60"


def test_not_shared_is_not_shared(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path / "a", share=False), pytest.raises(StoreLocked, match=r"doesn't share it.*by its URL"):
        open_index(tmp_path / "a")
    with held_elsewhere(tmp_path / "b") as other:
        for opened in (open_index, embedded_client):
            with pytest.raises(StoreLocked, match=f"process {other.process.pid} "):
                opened(tmp_path / "b", share=False)
        with pytest.raises(StoreLocked), Memory.open(tmp_path / "b", user="ada", share=False):
            pass
    with open_index(tmp_path / "c"), pytest.raises(StoreError, match="share=True"):
        open_index(tmp_path / "c", share=False)


def test_another_protocol_another_machine_and_another_durability_are_told(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as other:
        with pytest.raises(StoreError, match="durability='process'"):
            open_index(tmp_path, durability="power")
        said = json.loads((tmp_path / "twofold.lock").read_text())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("twofold.embedded.sharing.PROTOCOL", 2)
            with pytest.raises(StoreLocked, match=rf"Twofold {said['version']}.*the same version in both"):
                open_index(tmp_path)
        (tmp_path / "twofold.lock").write_text(json.dumps({**said, "from": "the future", "host": "elsewhere"}))
        with pytest.raises(StoreLocked, match="another machine"):
            open_index(tmp_path)
        old = {name: said[name] for name in ("pid", "host", "since", "program")}  # before there was sharing
        (tmp_path / "twofold.lock").write_text(json.dumps(old))
        with pytest.raises(StoreLocked, match=f"process {other.process.pid} "):
            open_index(tmp_path)
    client = embedded_client(tmp_path)
    assert httpx.Client(transport=httpx.HTTPTransport(uds=address(tmp_path))).get("http://folder/").json() == {
        "title": "qdrant-edge, embedded by twofold",
        "version": client.info().version,
        "twofold": {"protocol": 1, "version": said["version"]},
    }
    client.close()


def address(path: Path) -> str:
    return str(json.loads((path / "twofold.lock").read_text())["address"])


@pytest.mark.skipif(not serving._UNIX, reason="a port on loopback has no file")
def test_only_this_user_reaches_the_socket_and_a_dead_one_is_replaced(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as other:
        path = Path(address(tmp_path))
        assert (path.parent.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (0o700, 0o600)
        other.process.kill()
        other.process.wait()
        assert path.exists()
        with open_index(tmp_path) as index, held_elsewhere(tmp_path) as second:
            assert second.ask("index.add(['over the new one'])")
            assert index.count() == 1
            assert Path(address(tmp_path)) == path
    assert not path.exists()


@needs_root
def test_what_another_user_has_put_there_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with held_elsewhere(tmp_path / "a"):
        path = Path(address(tmp_path / "a"))
        os.chown(path, 12345, -1)
        with pytest.raises(StoreError, match="isn't this user's alone"):
            open_index(tmp_path / "a")
        os.chown(path, 0, -1)
        open_index(tmp_path / "a").close()
    with tempfile.TemporaryDirectory(dir="/tmp") as short:  # the path of a socket has room for no more
        (planted := Path(short) / "twofold-0").mkdir()
        os.chown(planted, 12345, -1)
        monkeypatch.setattr("tempfile.tempdir", short)
        with open_index(tmp_path / "b"):  # works, but lets nobody in
            assert address(tmp_path / "b") == ""
            assert not list(planted.iterdir())


LOOPBACK = "from twofold.embedded import serving\nserving._UNIX = False\n" + HOLD


def test_on_loopback_a_secret_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_UNIX", False)
    with held_elsewhere(tmp_path, LOOPBACK) as other, open_index(tmp_path) as index:
        index.add(TEXTS)
        assert other.ask("index.count()") == "40"
        said = json.loads((tmp_path / "twofold.lock").read_text())
        for headers, status in (({}, 401), ({"api-key": "x"}, 401), ({"api-key": said["secret"]}, 200)):
            assert httpx.get(f"http://{said['address']}/collections", headers=headers).status_code == status
        other.process.kill()
        assert index.count() == 40
        assert holds(index)


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="needs a process that can be stopped")
def test_a_holder_that_is_stopped_is_an_error_in_time(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as other, open_index(tmp_path, timeout=1.0) as index:
        index.add(TEXTS)
        other.process.send_signal(signal.SIGSTOP)
        os.waitpid(other.process.pid, os.WUNTRACED)  # until it has stopped
        with pytest.raises(EngineUnavailable, match=r"holds .* did not answer within 1 s"):
            index.count()
        other.process.send_signal(signal.SIGCONT)
        assert eventually(lambda: counts(index, 40))


def counts(index: HybridIndex, number: int) -> bool:
    try:
        return index.count() == number
    except EngineUnavailable:  # it has only just gone on
        return False


def test_a_holder_that_has_run_out_of_files_lets_others_in_afterwards(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    with held_elsewhere(tmp_path) as other:
        few = "__import__('resource').setrlimit({}, ({}, {}))"
        server = "index._connection._folder.store._server"
        other.ask(few.format(resource.RLIMIT_NOFILE, 3, usual[1]))
        with socket.socket(socket.AF_UNIX) as first:  # the system had a number ready for it
            first.connect(address(tmp_path))
            assert eventually(lambda: other.ask(f"len({server}._connections)") == "1")
            other.ask("__import__('time').sleep(0.2)")  # in which the thread asks for the next one, and is refused
            other.ask(few.format(resource.RLIMIT_NOFILE, *usual))
            with open_index(tmp_path, timeout=60) as index:
                assert index.add(["after all"])
                assert other.ask("index.count()") == "1"


def test_a_holder_that_can_start_no_thread_lets_others_in_afterwards(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as other:
        refuse = "setattr(__import__('threading').Thread, '{}', {})"
        other.ask("setattr(__import__('threading').Thread, 'usual', __import__('threading').Thread.start)")
        other.ask(refuse.format("start", "lambda self: exec('raise RuntimeError')"))
        with pytest.raises(EngineUnavailable, match="ended the connection"):
            open_index(tmp_path)
        other.ask(refuse.format("start", "__import__('threading').Thread.usual"))
        with open_index(tmp_path) as index:
            assert index.add(["after all"])


def test_a_request_that_ends_every_connection_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with held_elsewhere(tmp_path) as other, open_index(tmp_path) as index:
        other.ask("setattr(type(index._connection._folder.store._server), '_answer', lambda *_: 1 / 0)")
        with pytest.raises(EngineUnavailable, match="ended the connection 5 times"):
            index.count()


def test_those_who_change_one_thing_take_turns(tmp_path: Path) -> None:
    here = FolderLock(tmp_path, "a")
    code = f"""
        import sys
        from pathlib import Path
        from twofold.embedded.lock import FolderLock
        lock = FolderLock(Path({str(tmp_path)!r}), "a")
        print(lock.acquire(blocking=False), lock.acquire(timeout=0.01), flush=True)
        sys.stdin.readline()
        print(lock.acquire(), flush=True)
        sys.stdin.readline()
    """
    assert here.acquire()
    assert not here.acquire(blocking=False)
    assert FolderLock(tmp_path, "b").acquire(blocking=False)
    other = start(code)
    assert other.stdout is not None
    assert other.stdin is not None
    assert other.stdout.readline() == "False False\n"
    here.release()
    other.stdin.write("\n")
    other.stdin.flush()
    assert other.stdout.readline() == "True\n"
    assert not here.acquire(timeout=0.01)
    other.kill()  # the system lets go for it
    other.communicate()
    assert here.acquire(timeout=60)


FORK_LOCKED = """
import os, sys
from pathlib import Path
from twofold.embedded.lock import FolderLock
lock, other = FolderLock(Path(sys.argv[1]), "a"), FolderLock(Path(sys.argv[1]), "a")
assert lock.acquire()
go, said = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    lock.release()  # as at the end of a `with` that the fork was in: nothing of the parent's
    os.write(said[1], bytes([lock.acquire(blocking=False)]))
    os.read(go[0], 1)
    os.write(said[1], bytes([lock.acquire(blocking=False)]))
    os._exit(0)
idle = os.fork()
if idle == 0:
    os.read(go[0], 1)
    os._exit(0)
taken = [os.read(said[0], 1)[0]]
lock.release()
taken += [other.acquire(blocking=False)]  # though a child has the file open
if taken[1]:
    other.release()
os.write(go[1], b"..")
os.waitpid(child, 0)
print(taken + [os.read(said[0], 1)[0]])
"""


@needs_fork
def test_a_forked_child_neither_frees_nor_keeps_a_turn_of_its_parent(tmp_path: Path) -> None:
    out, err = start(FORK_LOCKED, tmp_path).communicate(timeout=300)
    assert out == "[0, True, 1]\n", err


REMEMBER = """
import sys
from twofold import Memory
from twofold.testing import HashEmbedding
memory = Memory.open(sys.argv[1], user="ada", dense=HashEmbedding())
print("open", flush=True)
for line in sys.stdin:
    print(repr(eval(line)), flush=True)
memory.close()
print("closed", flush=True)
"""


def test_memories_of_one_user_in_several_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "LOOK_SECONDS", 0.0)
    with held_elsewhere(tmp_path, REMEMBER) as first, held_elsewhere(tmp_path, REMEMBER) as second:
        memory = Memory.open(tmp_path, user="ada", dense=HashEmbedding())
        assert len(memory.recall("rathole")) == 0  # what there is to know of no memories is known now
        said = "memory.remember('Rathole tunnels listen on 2333', tags=['rathole']).id"
        with ThreadPoolExecutor(2) as pool:
            ids = set(pool.map(lambda other: other.ask(said), (first, second)))
        assert len(ids) == 1
        [hit] = memory.recall("something about rathole", explain=True)
        assert hit.explanation is not None
        assert hit.explanation.matched_tags == ("rathole",)
        recalls = "[len(memory.recall('tunnels')) for _ in range(10)]"
        for other in (first, second):
            assert other.ask(recalls) == str([1] * 10)
        first.close()
        second.close()
        counted = memory.get(hit.id)
        assert counted is not None
        assert counted.access_count == 21
        memory.close()


def test_the_command_line_searches_what_another_process_holds(tmp_path: Path) -> None:
    with HybridIndex.open(tmp_path) as index:
        index.add(TEXTS)
        command = [sys.executable, "-m", "twofold", "search", "port 2007", "--location", str(tmp_path), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert TEXTS[7] in done.stdout, done.stderr
        assert index.count() == 40


APP = """
import os
from urllib.parse import parse_qs
from twofold import HybridIndex
from twofold.testing import HashEmbedding

index = None

async def app(scope, receive, send):
    global index
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                index = await HybridIndex.aopen(os.environ["FOLDER"], dense=HashEmbedding())
            else:
                await index.aclose()
            await send({"type": message["type"] + ".complete"})
    if scope["method"] == "POST":
        text = parse_qs(scope["query_string"].decode())["text"][0]
        await index.aadd([text], ids=[text])
    number = await index.acount()
    await send({"type": "http.response.start", "status": 200, "headers": [[b"connection", b"close"]]})
    await send({"type": "http.response.body", "body": f"{os.getpid()} {number}".encode()})
"""


def test_workers_of_a_web_server_share_a_folder(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    (tmp_path / "shared_app.py").write_text(APP)
    holder, port = reserve()
    path = os.pathsep.join([str(tmp_path), str(SOURCE), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "FOLDER": str(tmp_path / "store"), "PYTHONPATH": path}
    holder.close()
    words = ["--workers", "4", "--port", str(port), "--log-level", "warning", "--timeout-worker-healthcheck", "300"]
    command = [sys.executable, "-m", "uvicorn", "shared_app:app", *words]
    server = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert eventually(lambda: answers(port), 300)
        workers: set[str] = set()
        added = 0
        with httpx.Client(timeout=60) as http:
            while len(workers) < 4 and added < 2000:
                answer = http.post(f"http://127.0.0.1:{port}/", params={"text": f"text {added}"})
                added += 1
                worker, number = answer.text.split()
                workers.add(worker)
                assert int(number) == added  # whichever worker counts
        assert len(workers) == 4
    finally:
        server.send_signal(signal.SIGINT)
        try:
            _, errors = server.communicate(timeout=60)
        finally:
            if server.poll() is None:
                os.killpg(server.pid, signal.SIGKILL)
    assert "Traceback" not in errors
    with open_index(tmp_path / "store") as index:
        assert index.count() == added


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_one_store_for_a_process_however_many_take_over(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as other:
        indexes = [open_index(tmp_path) for _ in range(3)]
        other.close()
        assert [index.add([f"{number}"]) and index.count() for number, index in enumerate(indexes)] == [1, 2, 3]
        assert {id(index._connection._folder.store) for index in indexes} == {id(store._open_stores[str(tmp_path)])}  # type: ignore[attr-defined]
        for index in indexes:
            index.close()
        assert str(tmp_path) not in store._open_stores


def test_those_who_joined_with_other_options_share_what_one_of_them_takes_over(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as other:
        clients = [embedded_client(tmp_path, optimize="auto"), embedded_client(tmp_path, optimize="manual")]
        other.close()
        assert [client.collection_exists("twofold") for client in clients] == [True, True]
        assert clients[0].store is clients[1].store
        for client in clients:
            client.close()
