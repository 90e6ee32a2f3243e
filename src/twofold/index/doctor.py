"""What is wrong with a collection, and what mends it: `HybridIndex.doctor`, and `diagnose` for all that are somewhere.

A collection is looked at as it lies there, not through an index: what can't be opened can be told about. Nothing is
written, and memory doesn't grow with the collection: rows are read a page at a time, with their texts and without
their vectors, and a few dozen of them are compared with what the model makes of their texts.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from twofold.config import CollectionSettings
from twofold.documents import PLACE, titled
from twofold.encoders.base import DenseEncoder, Sparse, SparseEncoder, check_dense
from twofold.encoders.models import BUNDLED, dimension_of, resolve_dense
from twofold.engine import calls
from twofold.engine.connection import Connection, connect
from twofold.engine.layout import FORMAT, GIVEN_KEY, MOVED_KEY, Layout, Point, Schema, from_point, initial_indexes
from twofold.engine.state import State
from twofold.errors import CollectionNotFound, EngineError, EngineUnavailable, TwofoldError
from twofold.filters import HasVector, Node, Not
from twofold.flow import Flow, Renew, Work, arun, run
from twofold.index.opening import OLDEST_SERVER, find_current, recorded_sparse
from twofold.index.rewriting import replaced_by, strange_vectors
from twofold.text import without_secrets

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient, QdrantClient

Severity: TypeAlias = Literal["error", "warning", "note"]
"""An error makes answers wrong or impossible, a warning makes them worse or slower, a note asks for nothing."""

_PAGE_SIZE = 256
_COMPARED_ROWS = 64
# The same model comes to .98 and more, in another precision too, and to .7 for a part that took something from all its
# neighbours; another model of the same size to about 0.
_MANY_ROWS = 5_000
"""From so many rows on, a filter that looks at every row is felt."""
_NAMED_ROWS = 20
_NAMED_FIELDS = 5
_FORBIDDEN = 403
_NEWER_SERVERS = {
    (1, 18): "a vector that a collection lacks can't be added in place",
    (1, 19): "how rare a word is can't be counted in the part that a filter names, only in the whole collection",
}
# In the metadata of LlamaIndex's nodes, which are embedded with some of their metadata: their text says too little.
_OF_NODES = "_node"
_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d.*)?")


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it should be."""

    code: str
    """What it is, for programs: the list is in docs/doctor.md."""
    severity: Severity
    message: str
    mend: str
    """The command, or the line of Python, that mends it; where nothing of ours can, what to do."""
    collection: str | None = None
    """None for what concerns all of them."""
    rows: int | None = None
    """How many rows it concerns, where that was counted."""


@dataclass(frozen=True)
class Diagnosis:
    """What a look at one collection, or at all of a place, found."""

    location: str
    findings: tuple[Finding, ...]
    collections: Mapping[str, Mapping[str, Any]]
    """What each of them is made of."""
    server: str | None = None
    """The version of the server; None where there is none."""
    skipped: tuple[str, ...] = ()
    """What could not be looked at, and why."""

    @property
    def healthy(self) -> bool:
        """Nothing has to be done; notes may still be worth reading."""
        return all(finding.severity == "note" for finding in self.findings)


def diagnose(
    location: str | Path | QdrantClient,
    collection: str | None = None,
    *,
    dense: Any = None,
    api_key: str | None = None,
    timeout: float = 30.0,
    **client_options: Any,
) -> Diagnosis:
    """Look at all collections of a place, or at one, as they lie there: also at those that can't be opened.

    Args:
        location: A folder, the URL of a Qdrant server, or a `QdrantClient`.
        collection: Only this one.
        dense: The model for meaning, where the collection doesn't name one that can be loaded by its name.
        api_key, timeout, client_options: As for `HybridIndex.open`.
    """
    connection = connect(location, create=False, api_key=api_key, timeout=timeout, **client_options)
    try:
        return run(_examine_all(connection, collection, dense), connection)
    finally:
        connection.close()


async def adiagnose(
    location: str | Path | QdrantClient | AsyncQdrantClient,
    collection: str | None = None,
    *,
    dense: Any = None,
    api_key: str | None = None,
    timeout: float = 30.0,
    **client_options: Any,
) -> Diagnosis:
    """`diagnose` without blocking the event loop."""
    connection = await asyncio.to_thread(
        connect, location, create=False, api_key=api_key, timeout=timeout, **client_options
    )
    try:
        return await arun(_examine_all(connection, collection, dense), connection)
    finally:
        await connection.aclose()


def _examine_all(connection: Connection, collection: str | None, dense: Any) -> Flow[Diagnosis]:
    names: list[str] = yield from calls.collections()
    if collection is None:
        return (yield from examine(connection, names, dense=dense))
    if not (yield from calls.exists(collection)):  # it may be an alias
        known = ", ".join(names) or "none"
        raise CollectionNotFound(f"there is no collection {collection!r} at {connection.location}: it has {known}")
    try:
        name, _ = yield from find_current(collection)
    except TwofoldError:  # it can't be read: that is what is found
        name = collection
    return (yield from examine(connection, [name], dense=dense))


def examine(
    connection: Connection, names: Sequence[str], *, dense: Any = None, settings: CollectionSettings | None = None
) -> Flow[Diagnosis]:
    """Look at some collections.

    Args:
        dense: The model for meaning, where a collection doesn't name one that can be loaded by its name.
        settings: What they were opened with, whose payload indexes should be there.
    """
    found: list[Finding] = []
    facts: dict[str, Mapping[str, Any]] = {}
    skipped: list[str] = []
    server = (yield from calls.version()) if connection.capabilities.versioned else None
    if server is not None:
        found += _about_server(server)
    others = yield from calls.collections()
    for name in names:
        yield Renew()
        patient = _Patient(name, connection, dense, settings or CollectionSettings(), others)
        yield from patient.examine()
        found += patient.findings
        skipped += [f"{name}: {each}" for each in patient.skipped]
        facts[name] = patient.facts
    return Diagnosis(without_secrets(connection.location), tuple(found), facts, server, tuple(skipped))


def _about_server(version: str) -> Iterable[Finding]:
    numbers = re.match(r"(\d+)\.(\d+)", version)
    found = (int(numbers[1]), int(numbers[2])) if numbers else OLDEST_SERVER
    oldest = ".".join(map(str, OLDEST_SERVER))
    if found < OLDEST_SERVER:
        message = f"the server is Qdrant {version}, and Twofold needs {oldest} or newer: no collection can be opened"
        yield Finding("server-too-old", "error", message, f"upgrade the server to {oldest} or newer")
    elif lacking := [what for since, what in _NEWER_SERVERS.items() if found < since]:
        newest = ".".join(map(str, max(_NEWER_SERVERS)))
        message = f"the server is Qdrant {version}, and with one before {newest} {'; '.join(lacking)}"
        yield Finding("server-lacks", "note", message, f"upgrade the server to {newest} or newer, when it suits you")


@dataclass
class _Patient:
    """One collection, while it is looked at."""

    name: str
    connection: Connection
    given_dense: Any
    settings: CollectionSettings
    others: Collection[str]
    """The names of all collections there."""
    _of_memories: bool = False
    findings: list[Finding] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def examine(self) -> Flow[None]:
        """From the outside in: can it be read, what is it made of, how does the engine fare, what is in it."""
        try:
            schema: Schema = yield from calls.described(self.name)
            state: State = yield from calls.inspect(self.name)
        except EngineUnavailable:
            raise
        except TwofoldError as error:
            self._damaged(error)
            return
        if (moved := schema.metadata.get(MOVED_KEY)) in self.others:
            self.facts = {"rows": schema.points, "replaced_by": moved}
            return
        if schema.record is not None and not self._can_read(schema.record):
            return
        self._of_memories = schema.layout.key("shelf") in schema.indexed
        self._about_layout(schema, state)
        yield from self._about_rewriting(schema)
        self._about_engine(state)
        if self.connection.capabilities.versioned:
            yield from self._about_replicas(state)
        yield from self._about_contents(schema, state)

    # --- saying what was found, and what mends it ---

    def _add(self, code: str, severity: Severity, message: str, mend: str, rows: int | None = None) -> None:
        self.findings.append(Finding(code, severity, message, mend, self.name, rows))

    @property
    def _place(self) -> str | None:
        """The location as one can type it; None for memory and for a client that somebody brought."""
        location = self.connection.location
        return None if location == ":memory:" or location.startswith("your ") else without_secrets(location)

    def _command(self, verb: str, *options: str) -> str:
        """A command to type; where there is no place to type, the method of the same name."""
        if self._place is None:
            return f"index.{verb}()"
        return shlex.join(["twofold", verb, "-l", self._place, "-c", self.name, *options])

    def _reembed(self, recorded: Mapping[str, Any]) -> str:
        """With the model that is recorded, where it can be had by its name."""
        model = recorded.get("model")
        if self._of_memories:
            return self._elsewhere
        if model is None or model in BUNDLED or recorded.get("by_name"):
            return self._command("reembed", "--to", model or "fast")
        opened = "index" if self._place is None else f"HybridIndex.open({self._place!r}, {self.name!r}, dense=…)"
        return f"{opened}.reembed(dense=…)"

    @property
    def _elsewhere(self) -> str:
        """For what can't be written anew in its place: memories, and what can't be opened for want of its model."""
        if self._place is None:
            return 'index.export_to("rows.jsonl"), and import_from("rows.jsonl", reembed=True) into a new collection'
        into = shlex.join(["twofold", "import", "rows.jsonl", "-l", "A_NEW_FOLDER", "-c", self.name, "--reembed"])
        return f"{shlex.join(['twofold', 'export', 'rows.jsonl', '-l', self._place, '-c', self.name])} && {into}"

    @property
    def _write_anew(self) -> str:
        """What can't be opened can't be re-embedded either."""
        read = self._client(f"scroll({self.name!r})")
        return f"add its texts, which {read} reads, to a new collection; or restore it from a backup"

    def _python(self, call: str) -> str:
        opened = "index" if self._place is None else f"HybridIndex.open({self._place!r}, {self.name!r})"
        return f"{opened}.{call}"

    def _client(self, call: str) -> str:
        if self._place is None:
            return f"client.{call}"
        return f"{'QdrantClient' if '://' in self._place else 'embedded_client'}({self._place!r}).{call}"

    def _damaged(self, error: TwofoldError) -> None:
        delete = f"delete_collection({self.name!r})"
        mend = "restore that folder from a backup, or remove it to give the collection up"
        if isinstance(error, EngineError):
            mend = "see the server's log, and ask again"
        elif delete in str(error):
            mend = self._client(delete)
        self._add("damaged", "error", str(error), mend)

    # --- what it is made of ---

    def _can_read(self, record: Mapping[str, Any]) -> bool:
        """What follows goes by the record that Twofold keeps in a collection."""
        dense, sparse = record.get("dense"), record.get("sparse")
        whole = isinstance(dense, Mapping) and {"model", "dim"} <= {*dense}
        whole = whole and isinstance(sparse, Mapping) and "model" in sparse
        if isinstance(record.get("format"), int) and record["format"] > FORMAT:
            message = f"it has format {record['format']}, and this version of Twofold reads {FORMAT}"
            self._add("newer-format", "error", message, "pip install -U twofold")
        elif record.get("format") != FORMAT or not whole:
            message = "its record of models and settings was overwritten, so it can't be opened"
            mend = self._client(f"update_collection({self.name!r}, metadata={{'twofold': None}})")
            self._add("broken-record", "error", message, f"{mend}  # then look again")
        return not self.findings

    def _about_layout(self, schema: Schema, state: State) -> None:
        record = schema.record or {}
        recorded = record.get("dense") or {}
        size, distance = state.vectors.get(str(schema.layout.dense), (None, None))
        self.facts |= {
            "rows": schema.points,
            "model": recorded.get("model"),
            "dimension": size,
            "distance": distance,
            "words": (record.get("sparse") or {}).get("language", (record.get("sparse") or {}).get("model")),
            "segments": state.segments,
            "indexed_vectors": state.indexed_vectors,
            "payload_indexes": dict(sorted(schema.indexed.items())),
        }
        if schema.record is None:
            self._about_foreign(schema, state)
        if schema.dense_dim and not schema.sparse and schema.record is not None:
            message = "it has no vector for words, so searches go by meaning alone and lose names, codes and numbers"
            mend = self._elsewhere if self._of_memories else self._command("adopt")
            self._add("no-words", "warning", message, mend)
        if schema.sparse and not schema.dense_dim and schema.record is not None:
            message = "it has no vector for meaning, so only the words of a query are looked for"
            self._add("no-meaning", "warning", message, self._reembed(recorded))
        if size is not None and distance != "Cosine":
            message = f"its vectors are compared by {distance}, and meaning is measured by cosine: it can't be opened"
            self._add("not-cosine", "error", message, self._write_anew)
        if size is not None and recorded and recorded["dim"] != size:
            message = f"{recorded['model']} makes vectors of {recorded['dim']} dimensions, and those here have {size}"
            self._add("wrong-dimension", "error", message, self._write_anew)
        needs_idf = (record.get("sparse") or {}).get("model", "bm25") == "bm25"
        if schema.sparse and needs_idf and not schema.idf and schema.record is not None:
            message = "common words count as much as rare ones: the vector for words has no IDF modifier"
            self._add("no-idf", "warning", message, self._command("repair"))

    def _about_foreign(self, schema: Schema, state: State) -> None:
        named = ", ".join(f"{name or 'unnamed'} ({size})" for name, (size, _) in state.vectors.items())
        message = (
            "something else wrote it: nothing says which model its vectors come from, so nothing can be added"
            if schema.points
            else "nothing says what it was made for: something else made it, and it is empty"
        )
        vectors = f" Its dense vectors: {named}." if named else " It has no dense vector."
        usual = dimension_of(resolve_dense(None))
        model = () if usual in {size for size, _ in state.vectors.values()} else ("--model", "THE_MODEL_THAT_MADE_THEM")
        mend = self._command("adopt", *(model if named else ()))
        self._add("written-by-something-else", "warning", message + "." + vectors, mend)

    def _about_rewriting(self, schema: Schema) -> Flow[None]:
        """What `adopt` and `reembed` write beside a collection says in its record what it is."""
        record = schema.record or {}
        source = record.get("replaces")
        if record.get("rewriting"):
            message = f"it was to take the place of {source!r}, and the command that writes it was interrupted"
            mend = f"start that command again; or give it up: {self._of(source, '--drop-unfinished')}"
            self._add("unfinished-rewriting", "warning", message, mend)
        elif source in self.others and source in (yield from replaced_by(self.name)):
            message = f"it has taken the place of {source!r}, which is kept"
            self._add("replaced-is-kept", "note", message, self._of(self.name, "--drop-replaced"))

    def _of(self, name: object, option: str) -> str:
        if self._place is None:
            return f"index.{option.strip('-').replace('-', '_')}()"
        return shlex.join(["twofold", "reembed", "-l", self._place, "-c", str(name), option])

    def _about_indexes(self, schema: Schema, state: State, first: Sequence[Point], *, has_parts: bool) -> None:
        """The payload indexes that filters want, as far as can be known without knowing the filters."""
        if not self.connection.capabilities.indexes:
            return
        wanted = initial_indexes(self.settings, schema.layout)
        missing = [key for key in wanted if key not in schema.indexed]
        if missing:
            message = f"the settings it was opened with index {', '.join(missing)}, and there is no such index"
            self._add("missing-index", "warning", message, self._python("create_indexes(settings)"))
        if has_parts and schema.layout.key("part_of") not in schema.indexed:
            message = "it has parts of longer texts, and no index that finds the neighbours of a part"
            self._add("unindexed-parts", "warning", message, self._command("repair"))
        if schema.points < _MANY_ROWS and not state.strict:
            return
        fields = [
            each
            for each in _filterable(first, schema.layout)
            if schema.layout.key(each[0]) not in {*schema.indexed, *missing}
        ]
        for name, kind in fields[:_NAMED_FIELDS]:
            what = "dates" if kind == "datetime" else "numbers"
            message = f"a range on {name!r}, which holds {what}, is compared with every row: it has no index"
            if state.strict:
                message = f"the server is in strict mode and refuses to filter on {name!r}: it has no index"
            mend = self._python(f"create_field_index({name!r}, {kind!r})")
            self._add("unindexed-field", "warning" if state.strict else "note", message, mend)

    # --- how the engine fares ---

    def _about_engine(self, state: State) -> None:
        update = f"update_collection({self.name!r}, optimizers_config=models.OptimizersConfigDiff("
        if state.status == "red" or state.optimizer_error:
            why = f": {state.optimizer_error}" if state.optimizer_error else ""
            message = f"the server could not optimise it{why}"
            self._add("optimizer-failed", "error", message, "see the server's log for the cause, often a full disk")
        elif state.status == "grey":
            message = "it has yet to be optimised since the server started, so searches are slower than need be"
            self._add("optimizer-waits", "warning", message, self._client(f"{update}))"))
        elif state.status == "yellow":
            message = "it is being optimised: searches are slower until that is done"
            self._add("optimizer-works", "note", message, "wait; ask again in a while")
        if state.graph_off:
            message = "building the search graph is switched off, so every search compares with every vector"
            mend = self._client(f"{update}indexing_threshold=10000), hnsw_config=models.HnswConfigDiff(m=16))")
            self._add("graph-off", "warning", message, mend)
        if state.worth_optimizing:
            message = "much was written since its search graph was built, so searches are slower than need be"
            self._add("not-optimized", "warning", message, self._python("optimize()"))

    def _about_replicas(self, state: State) -> Flow[None]:
        try:
            replicas = yield from calls.replicas(self.name)
        except EngineError as error:
            self.skipped.append(f"its replicas, since the server doesn't tell about them ({error.status or error})")
            return
        shards: dict[int, int] = {each.shard: 0 for each in replicas}
        for each in replicas:
            shards[each.shard] += each.answers
            if not each.answers:
                message = f"shard {each.shard} on node {each.node} is {each.state}, so that copy answers no search"
                mend = "see whether that node runs: a copy that comes back is brought up to date by itself"
                self._add("replica-not-active", "error", message, mend)
        self.facts |= {"shards": len(shards) or None, "replicas": len(replicas) or None}
        copies = {number for number in shards if sum(each.shard == number for each in replicas) < state.replicas}
        if copies:
            listed = ", ".join(map(str, sorted(copies)))
            message = f"shard {listed} has fewer than the {state.replicas} copies that were asked for"
            mend = self._client(f"cluster_collection_update({self.name!r}, models.ReplicateShardOperation(…))")
            self._add("replicas-missing", "warning", message, mend)

    # --- what is in it ---

    def _about_contents(self, schema: Schema, state: State) -> Flow[None]:
        """All rows, without their vectors, a page at a time; then those that lack a vector, and a few with theirs."""
        layout = schema.layout
        rows = _Rows(layout)
        offset: Any = None
        keys = (
            layout.text_key,
            "id",
            "title",
            GIVEN_KEY,
            *(layout.key(name) for name in (*PLACE, "speaker", f"{_OF_NODES}.type")),
        )
        while True:
            first = not rows.seen
            page, offset = yield from calls.scroll(
                self.name, None, limit=_PAGE_SIZE, offset=offset, only=None if first else keys
            )
            if first:
                rows.first = page
            rows.take(page)
            yield Renew()
            if offset is None:
                break
        self.facts["rows"] = rows.seen
        self._about_indexes(schema, state, rows.first, has_parts=rows.parts)
        if schema.record is not None:
            self._about_texts(rows)
            yield from self._about_lacking(schema)
        yield from self._about_model(schema, rows.sample)

    def _about_texts(self, rows: _Rows) -> None:
        if not rows.textless:
            return
        ids = rows.textless_ids
        message = f"{_counted(rows.textless)} no text, so no search can show them: something else wrote or changed them"
        again = "" if rows.textless <= len(ids) else "  # then again, for the others"
        self._add("rows-without-text", "error", message, self._python(f"delete({ids!r})") + again, rows.textless)

    def _about_lacking(self, schema: Schema) -> Flow[None]:
        """Rows that one of the two ways to search can't find."""
        if schema.dense_dim is not None:
            number = yield from self._count_texts(schema.layout, Not(HasVector(str(schema.layout.dense))), None)
            if number:
                message = f"{_counted(number)} no vector for meaning, so only their words find them"
                self._add("rows-without-vector", "warning", message, self._command("repair"), number)
        if not schema.sparse:
            return
        try:
            sparse = yield Work(lambda: recorded_sparse(self.name, (schema.record or {})["sparse"]))
        except TwofoldError as error:
            self.skipped.append(f"rows without words, since what makes words of texts can't be loaded: {error}")
            return
        number = yield from self._count_texts(schema.layout, Not(HasVector(str(schema.layout.sparse))), sparse)
        if number:
            message = f"{_counted(number)} no words, so only their meaning finds them, not the names and codes in them"
            self._add("rows-without-words", "warning", message, self._command("repair"), number)

    def _count_texts(self, layout: Layout, where: Node, sparse: SparseEncoder | None) -> Flow[int]:
        """The rows with something to search for: "to be or not to be" has no words to begin with."""
        number, offset = 0, None
        while True:
            page, offset = yield from calls.scroll(
                self.name, where, limit=_PAGE_SIZE, offset=offset, only=(layout.text_key, "title")
            )
            texts = [text for row in page if (text := from_point(row, layout).searched_text.strip())]
            if sparse is None or not texts:
                number += len(texts)
            else:
                vectors: list[Sparse] = yield Work(partial(sparse.embed_documents, texts))
                number += sum(bool(vector.indices) for vector in vectors)
            if offset is None:
                return number

    # --- whether its vectors come from its model ---

    def _about_model(self, schema: Schema, sample: Sequence[tuple[Any, str]]) -> Flow[None]:
        if schema.dense_dim is None or not sample:
            return
        encoder = yield from self._encoder(schema)
        if encoder is None or (yield Work(lambda: dimension_of(encoder))) != schema.dense_dim:
            return
        stored = yield from calls.dense_vectors(self.name, [identity for identity, _ in sample], schema.layout)
        pairs = [(text, stored[identity]) for identity, text in sample if identity in stored]
        if not pairs:
            return
        try:
            made = yield Work(lambda: encoder.embed_documents([text for text, _ in pairs]))
            made = check_dense(made, len(pairs), schema.dense_dim, encoder.name)
        except Exception as error:
            self.skipped.append(f"whether its vectors come from {encoder.name}, which failed: {error}")
            return
        strange = strange_vectors([vector for _, vector in pairs], made)
        self.facts["compared"] = len(pairs)
        if not strange:
            return
        recorded = (schema.record or {}).get("dense") or {}
        has = "has a vector" if strange == 1 else "have vectors"
        looked = (
            f"of {len(pairs)} rows that were looked at, {strange} {has} that {encoder.name} does not make of the text"
        )
        if strange < len(pairs):
            message = f"{looked}: several models wrote here, or a text was changed and not encoded"
            self._add("several-models", "error", message, self._reembed(recorded))
        elif schema.record is not None:
            message = f"{looked}: another model wrote them"
            self._add("wrong-model", "error", message, self._reembed(recorded))

    def _encoder(self, schema: Schema) -> Flow[DenseEncoder | None]:
        """The model that the collection names, or the one that was given for it; None if it can't be had."""
        recorded = (schema.record or {}).get("dense") or {}
        name, asked = recorded.get("model"), self.given_dense
        if isinstance(asked, DenseEncoder):
            return asked
        if name in BUNDLED or recorded.get("by_name"):
            asked = name
        elif asked is None and name is not None:
            self.skipped.append(f"whether its vectors come from {name!r}: name that model to have it looked at")
            return None
        try:
            encoder: DenseEncoder = yield Work(lambda: resolve_dense(asked))
        except Exception as error:
            message = f"its model {name} can't be loaded here, so searches go by words alone: {error}"
            mend = f"as the message says; or take another model: {self._elsewhere}"
            self._add("model-unavailable", "warning", message, mend)
            return None
        return encoder


class _Rows:
    """What is remembered of the rows of a collection: counts, and a few dozen drawn from all of them."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.seen = 0
        self.first: Sequence[Point] = ()
        self.parts = False
        self.textless = 0
        self.textless_ids: list[str] = []
        self.sample: list[tuple[Any, str]] = []
        """The id of a point, and the text that its vector should be of."""
        self._fit = 0
        self._random = Random(0)  # noqa: S311 - the same rows every time

    def take(self, page: Iterable[Point]) -> None:
        """Look at some rows."""
        for row in page:
            self.seen += 1
            payload, stored = row.payload or {}, from_point(row, self._layout)
            self.parts = self.parts or isinstance(stored.metadata.get("part_of"), str)
            if stored.problem:
                self.textless += 1
                if len(self.textless_ids) < _NAMED_ROWS:
                    self.textless_ids.append(stored.id)
            elif stored.text.strip() and not payload.get(GIVEN_KEY) and _OF_NODES not in stored.metadata:
                speaker = stored.metadata.get("speaker")
                text = f"{speaker}: {stored.text}" if isinstance(speaker, str) else titled(stored.title, stored.text)
                self._draw((str(row.id), text))

    def _draw(self, row: tuple[Any, str]) -> None:
        """Every row has the same chance, however many there are."""
        self._fit += 1
        if len(self.sample) < _COMPARED_ROWS:
            self.sample.append(row)
        elif (place := self._random.randrange(self._fit)) < _COMPARED_ROWS:
            self.sample[place] = row


def _counted(rows: int) -> str:
    return f"{rows:,} row has" if rows == 1 else f"{rows:,} rows have"


def _filterable(rows: Iterable[Point], layout: Layout) -> list[tuple[str, str]]:
    """The metadata fields that hold only numbers or only dates, with the kind of index that serves them."""
    kinds: dict[str, set[str]] = {}
    for row in rows:
        for name, value in from_point(row, layout).metadata.items():
            if value is not None and name not in PLACE:
                kinds.setdefault(name, set()).add(_kind(value))
    return sorted((name, kind) for name, found in kinds.items() for kind in found if found in ({"float"}, {"datetime"}))


def _kind(value: Any) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return "float"
    if isinstance(value, str) and _DATE.fullmatch(value):
        try:
            datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError:
            return "other"
        return "datetime"
    return "other"
