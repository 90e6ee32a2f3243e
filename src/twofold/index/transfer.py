"""All of a collection, out and in: walked through page by page, or as a file of JSON Lines with its vectors.

A file begins with a header (format, models, settings, indexes), has a line for every row and ends with their number, so
that one that was cut off is known. Rows travel as they are stored, with ids, payloads and vectors: memories, feedback
and what was learned come along, nothing is embedded again, and the same file twice is the same as once.
"""

from __future__ import annotations

import gzip
import json
import logging
import math
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import IO, Any, TypeAlias
from uuid import uuid4

import numpy as np

from twofold.config import CollectionSettings
from twofold.documents import Document, check, is_memory, point_id
from twofold.encoders.base import Sparse, Vectors
from twofold.engine import calls
from twofold.engine.connection import Capabilities, Connection, connect, laid
from twofold.engine.layout import (
    DENSE,
    METADATA_KEY,
    OWN,
    SPARSE,
    TEXT_KEY,
    TITLE_KEY,
    Layout,
    NewPoint,
    Point,
    Schema,
    creation,
    engine_id,
    from_point,
    metadata_key,
)
from twofold.engine.layouts import restored
from twofold.errors import CollectionMismatch, CollectionNotFound, ConfigError, InvalidDocument, TransferError
from twofold.flow import Flow, Renew, Work, run
from twofold.index.opening import PayloadIndexes, Ready, check_unchanged, check_version, find_current
from twofold.index.queries import FilterLike, as_node
from twofold.index.searching import Searcher
from twofold.index.tuning import keep_settings
from twofold.index.writing import Advance, Columns, add
from twofold.results import Problem

log = logging.getLogger("twofold")

Progress: TypeAlias = Callable[[int, int], None]
"""Gets how much is done, and of how much."""

FORMAT = 1
_TIMEOUT_SECONDS = 60.0
_FORMAT_KEY, _END_KEY = "twofold_export", "end"
_PAGE_SIZE = 256
BATCH_SIZE = 64
"""Rows to write at a time: so many are stored whole or not at all."""
_OF_MEMORIES = {metadata_key("shelf"), metadata_key("superseded_by")}
"""`Memory` makes an index on both of them; one on a shelf alone may be of documents."""
_MAX_ID, _MAX_SPARSE_INDEX = 2**64, 2**32
NOT_COPIED = ("id", "moving", "replaces", "rewriting")
"""What the record of a collection says about this one alone."""

# --- Walking through everything ---


@dataclass(frozen=True)
class ScannedDocument(Document):
    """A document as it is stored."""

    id: str = ""
    dense: Sequence[float] | None = field(default=None, repr=False)
    """Its vector for meaning, where vectors were asked for and it has one."""
    sparse: Sparse | None = field(default=None, repr=False)
    """Its vector for words, likewise."""
    problem: str | None = None
    """Why it can't be read as it should be; None if it can."""


class Pages:
    """One walk through a collection, a page at a time: what is there all the while comes exactly once."""

    def __init__(self, where: FilterLike | None, vectors: bool) -> None:
        self._where = as_node(where)
        self._vectors = vectors
        self._offset: Any = None
        self.more = True

    def next(self, searcher: Searcher) -> Flow[list[ScannedDocument]]:
        """The page after the last one."""
        ready = searcher.ready
        yield from ready.indexes.serve(self._where, create=False)
        names = vector_names(ready.schema) if self._vectors else ()
        rows, self._offset = yield from calls.scroll(
            ready.collection, self._where, limit=_PAGE_SIZE, offset=self._offset, vectors=names
        )
        self.more = self._offset is not None
        return [_scanned(row, ready.layout) for row in rows]


def _scanned(row: Point, layout: Layout) -> ScannedDocument:
    stored, vectors = from_point(row, layout), _vectors(row)
    dense, sparse = vectors.get(layout.dense), vectors.get(layout.sparse)
    words = None if sparse is None else Sparse(list(sparse.indices), list(sparse.values))
    document = vars(stored.as_document())
    return ScannedDocument(**document, dense=dense, sparse=words, problem=stored.problem)


def vector_names(schema: Schema) -> tuple[str, ...]:
    """The vectors that rows of a collection may have."""
    layout = schema.layout
    legs = ((layout.dense, schema.dense_dim), (layout.sparse, schema.sparse))
    return tuple(str(name) for name, there in legs if there)


def _vectors(row: Point) -> Mapping[str | None, Any]:
    """The vectors of a row by name; the unnamed one is a plain list, and called ""."""
    vectors = row.vector
    return vectors if isinstance(vectors, Mapping) else {} if vectors is None else {"": vectors}


def new_point(row: Point) -> NewPoint:
    """A row as it was read, to be stored elsewhere."""
    vectors = {
        str(name): Sparse(list(vector.indices), list(vector.values))
        if hasattr(vector, "indices")
        else np.asarray(vector, dtype=np.float32)
        for name, vector in _vectors(row).items()
    }
    return NewPoint(str(row.id), vectors, row.payload or {})


# --- A file: its header, and a row as a line ---


@dataclass(frozen=True)
class Header:
    """What a file says of the collection that it came from."""

    collection: str
    documents: int
    """How many there were when the export began."""
    settings: Mapping[str, Any]
    """The collection's record: its models, and what was tuned."""
    idf: bool
    vectors: tuple[str, ...]
    indexes: Mapping[str, Any]
    """Payload keys with an index, and how to make it."""

    @property
    def layout(self) -> Layout:
        """Where its rows have what."""
        return restored(self.settings)

    @property
    def memories(self) -> bool:
        """They are those of users, and not documents."""
        return self.indexes.keys() >= _OF_MEMORIES

    def as_line(self) -> str:
        """The first line of a file."""
        return json.dumps({_FORMAT_KEY: FORMAT, **vars(self)}, ensure_ascii=False) + "\n"

    @classmethod
    def of(cls, collection: str, schema: Schema, documents: int) -> Header:
        """The header of a collection that Twofold wrote."""
        if schema.record is None:
            raise TransferError(
                f"collection {collection!r} was written by something else, so nothing says which model its vectors "
                "come from: open it once with that model and adopt=True"
            )
        settings = {name: value for name, value in schema.record.items() if name not in NOT_COPIED}
        return cls(collection, documents, settings, schema.idf, vector_names(schema), dict(schema.index_settings))

    @classmethod
    def parse(cls, line: bytes, path: Path) -> Header:
        """Read the first line of a file."""
        try:
            fields = json.loads(line)
            number = fields.pop(_FORMAT_KEY)
            if number > FORMAT:
                raise TransferError(f"{path} has format {number}, this version reads {FORMAT}: upgrade twofold")
            known = cls(**{**fields, "vectors": tuple(fields["vectors"])})
            int(known.settings["dense"]["dim"]), known.settings["dense"]["model"], known.settings["sparse"].items()
            return known
        except TransferError:
            raise
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise TransferError(
                f"line 1 of {path} is not the header of an export, and nothing was imported: give a file that "
                "`twofold export` wrote, or add documents of your own with `twofold add`"
            ) from error


def as_line(row: Point, layout: Layout = OWN) -> str:
    """A row, all of it. Numbers of vectors have nine digits, which says any of 32 bits exactly.

    The vectors have the names that Twofold gives them, whatever they are called in the collection.
    """
    vectors = _vectors(row)
    written = []
    if (dense := vectors.get(layout.dense)) is not None:
        written.append(f'"{DENSE}": {_numbers(dense)}')
    if (sparse := vectors.get(layout.sparse)) is not None:
        pairs = sorted(zip(sparse.indices, sparse.values, strict=True))
        indices, values = [index for index, _ in pairs], [value for _, value in pairs]
        written.append(f'"{SPARSE}": {{"indices": {indices}, "values": {_numbers(values)}}}')
    payload = json.dumps(row.payload or {}, ensure_ascii=False, sort_keys=True)
    identity = json.dumps(engine_id(str(row.id)))  # some of a collection that was adopted are numbers
    return f'{{"id": {identity}, "payload": {payload}, "vectors": {{{", ".join(written)}}}}}\n'


def _numbers(values: Sequence[float]) -> str:
    """As 32 bits have them: a server sends the shortest number that rounds to the same."""
    exact = np.asarray(values, dtype=np.float32).tolist()
    return "[" + ", ".join(["%.9g"] * len(exact)) % tuple(exact) + "]"


def from_line(raw: bytes, dim: int | None, layout: Layout = OWN) -> NewPoint:
    """A line as a row that can be stored; `ValueError` says what is wrong with it."""
    try:
        row = json.loads(raw.decode("utf-8"), parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON ({error})") from error
    if not isinstance(row, dict) or row.keys() != {"id", "payload", "vectors"}:
        raise ValueError("it is no row of an export: an object with id, payload and vectors")
    identity, payload, vectors = row["id"], row["payload"], row["vectors"]
    numbered = type(identity) is int and 0 <= identity < _MAX_ID
    if not numbered and (not isinstance(identity, str) or point_id(identity) != identity):
        raise ValueError(f"its id {identity!r} is neither a UUID nor a whole number")
    if not isinstance(payload, dict) or not isinstance(vectors, dict) or vectors.keys() - {DENSE, SPARSE}:
        raise ValueError("its payload or its vectors are not what an export holds")
    made: dict[str, Vectors | Sparse] = {}
    if DENSE in vectors:
        made[str(layout.dense)] = _dense(vectors[DENSE], dim)
    if SPARSE in vectors:
        made[str(layout.sparse)] = _sparse(vectors[SPARSE])
    return NewPoint(str(identity), made, _checked(payload))


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number")


def _checked(payload: dict[str, Any]) -> dict[str, Any]:
    """A payload that an engine can hold: what is checked of documents is checked here."""
    own = {name: value for name, value in payload.items() if name != METADATA_KEY}
    kept = [own, *([payload[METADATA_KEY]] if METADATA_KEY in payload else [])]
    try:
        records = list(check(Document("", "-", each) for each in kept))
    except InvalidDocument as error:
        raise ValueError(str(error).removeprefix(f"document {error.position}: ")) from error
    return {**records[0].metadata, **({METADATA_KEY: records[1].metadata} if len(records) > 1 else {})}


def _dense(value: Any, dim: int | None) -> Vectors:
    if not isinstance(value, list) or len(value) != dim:
        raise ValueError(f"its vector {DENSE!r} is no list of {dim} numbers")
    return np.asarray(_finite(value, DENSE), dtype=np.float32)


def _sparse(value: Any) -> Sparse:
    indices, values = (value.get("indices"), value.get("values")) if isinstance(value, dict) else (None, None)
    if not isinstance(indices, list) or not isinstance(values, list) or len(indices) != len(values):
        raise ValueError(f"its vector {SPARSE!r} has no indices, or not as many values")
    known = all(type(index) is int and 0 <= index < _MAX_SPARSE_INDEX for index in indices)
    if not known or any(one >= other for one, other in pairwise(indices)):
        raise ValueError(f"the indices of its vector {SPARSE!r} are not whole numbers in their order, each once")
    return Sparse(indices, _finite(values, SPARSE))


def _finite(values: list[Any], name: str) -> list[float]:
    if not all(type(number) in (int, float) and math.isfinite(number) for number in values):
        raise ValueError(f"its vector {name!r} holds something that is no finite number")
    return values


# --- Export ---


def export_from(ready: Ready, path: str | Path, where: FilterLike | None, advance: Advance) -> Flow[int]:
    """`export` of an open collection."""
    yield from ready.indexes.serve(as_node(where), create=False)
    return (yield from export(ready.collection, path, where, advance))


def export(
    collection: str, path: str | Path, where: FilterLike | None, advance: Advance, *, called: str | None = None
) -> Flow[int]:
    """Write all rows that match into a file, and say how many; it appears under its name when it is complete."""
    schema, node, number, offset = (yield from calls.described(collection)), as_node(where), 0, None
    if others := sorted({*schema.vectors, *schema.sparse_vectors}.difference(vector_names(schema))):
        what = "collection %r also has the vectors %s, which are somebody else's: they are not in the file"
        log.warning(what, collection, ", ".join(map(repr, others)))
    header = Header.of(called or collection, schema, (yield from calls.count(collection, node)))
    with _new_file(Path(path).expanduser()) as file:
        yield Work(partial(file.write, header.as_line().encode()))
        while True:
            yield Renew()
            rows, offset = yield from calls.scroll(
                collection, node, limit=_PAGE_SIZE, offset=offset, vectors=header.vectors
            )
            yield Work(partial(_write_rows, file, rows, schema.layout))
            number += len(rows)
            advance(len(rows))
            if offset is None:
                break
        yield Work(partial(file.write, (json.dumps({_END_KEY: number}) + "\n").encode()))
    return number


def _write_rows(file: IO[bytes], rows: Sequence[Point], layout: Layout) -> None:
    file.write("".join(as_line(row, layout) for row in rows).encode())


@contextmanager
def _new_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that is there whole or not at all, compressed if its name ends in .gz."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    try:
        with gzip.open(unfinished, "wb", 5) if path.suffix == ".gz" else open(unfinished, "wb") as file:
            yield file  # type: ignore[misc]
        os.replace(unfinished, path)
    except OSError as error:
        raise TransferError(f"{path} can't be written ({error}): name a file in a folder that is there") from error
    finally:
        unfinished.unlink(missing_ok=True)


# --- Import ---


@dataclass(frozen=True)
class Imported:
    """What an import did."""

    documents: int
    """Rows that are stored now."""
    problems: tuple[Problem, ...] = ()
    """Lines that could not be used, by their number; all others were."""
    without_vectors: int = 0
    """Memories that were to be embedded anew and have no vectors yet: `Memory.backfill_all()` makes them."""


class ExportFile:
    """A file to be imported: its header, its rows, and what is wrong with some lines."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser()
        self.problems: list[Problem] = []
        with self._opened() as file:
            self.header = Header.parse(file.readline(), self.path)

    @contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        try:
            with gzip.open(self.path, "rb") if self.path.suffix == ".gz" else open(self.path, "rb") as file:
                yield file  # type: ignore[misc]
        except (OSError, EOFError, zlib.error) as error:
            raise TransferError(f"{self.path} can't be read ({error}): check the name, or export again") from error

    def rows(self) -> Iterator[NewPoint]:
        """The rows of all lines that can be read; the others become `problems`."""
        number, seen, end = 1, 0, None
        dim = int(self.header.settings["dense"]["dim"])
        try:
            with self._opened() as file:
                for number, raw in enumerate(file, 1):
                    if number == 1 or not raw.strip():
                        continue
                    end = _end(raw)
                    if end is None:
                        seen += 1
                        try:
                            row = from_line(raw, dim, self.header.layout)
                        except ValueError as error:
                            self.problems.append(Problem(f"line {number}", str(error)))
                        else:
                            yield row
        except TransferError as error:
            self.problems.append(Problem(f"line {number + 1}", str(error)))
            return
        if end is None:
            cut = "the file has been cut off: export again, what stands before is imported"
            self.problems.append(Problem(f"after line {number}", cut))
        elif end != seen:
            self.problems.append(Problem(f"line {number}", f"it speaks of {end:,} rows, and there are {seen:,}"))


def _end(raw: bytes) -> int | None:
    """The number of rows, on the last line of a file; None for any other line."""
    if not raw.startswith(b'{"end":'):
        return None
    try:
        return int(json.loads(raw)[_END_KEY])
    except (ValueError, TypeError, KeyError):
        return None


def import_into(searcher: Searcher, file: ExportFile, reembed: bool, advance: Advance) -> Flow[Imported]:
    """Store the rows of a file in an open collection, with their vectors or with new ones."""
    ready = searcher.ready
    if ready.read_only:
        raise CollectionMismatch(ready.read_only)
    if reembed:
        yield from ready.indexes.make(file.header.indexes, required=False)
        return (yield from _import_anew(ready, file, advance))
    schema = yield from calls.describe(ready.collection)
    check_models(file, ready.collection, schema.record or {})
    yield from ready.indexes.make(file.header.indexes, required=False)
    if not schema.points and (tuned := file.header.settings.get("tuned")):
        yield from keep_settings(searcher, tuned=tuned)
    return (yield from import_rows(ready.collection, file, advance, ready))


def _import_anew(ready: Ready, file: ExportFile, advance: Advance) -> Flow[Imported]:
    """Documents are embedded as `add` does it; memories wait for their `backfill`."""
    stored = bare = 0
    rows = file.rows()
    while batch := (yield Work(lambda: list(islice(rows, BATCH_SIZE)))):
        yield Renew()
        memories = [row._replace(vector={}) for row in batch if _is_memory(row)]
        yield from _store(ready.collection, memories, ready)
        documents = [_as_document(row, file.header.layout) for row in batch if not _is_memory(row)]
        yield from add(ready, documents, Columns(), BATCH_SIZE, lambda _: None)
        stored += len(batch)
        bare += sum(bool(row.payload.get(TEXT_KEY)) for row in memories)
        advance(len(batch))
    return Imported(stored, tuple(file.problems), bare)


def import_rows(collection: str, file: ExportFile, advance: Advance, ready: Ready | None = None) -> Flow[Imported]:
    """Store the rows of a file as they are."""
    stored, rows = 0, file.rows()
    while batch := (yield Work(lambda: list(islice(rows, BATCH_SIZE)))):
        yield Renew()
        yield from _store(collection, batch, ready)
        stored += len(batch)
        advance(len(batch))
    return Imported(stored, tuple(file.problems))


def _store(collection: str, rows: Sequence[NewPoint], ready: Ready | None) -> Flow[None]:
    """Of several with one id the last counts."""
    if ready is not None:
        yield from check_unchanged(ready)
    if rows:
        yield from calls.upsert(collection, list({row.id: row for row in rows}.values()))
    if ready is not None:
        ready.sampler.imported(len(rows))


def _is_memory(row: NewPoint) -> bool:
    """A row that `Memory` wrote: what its vectors are made of, only `Memory` knows."""
    metadata = row.payload.get(METADATA_KEY)
    return isinstance(metadata, dict) and is_memory(metadata)


def _as_document(row: NewPoint, layout: Layout) -> Document:
    text, title = layout.text_of(row.payload), row.payload.get(TITLE_KEY)
    return Document(
        text if isinstance(text, str) else "",
        layout.id_of(row.payload, str(row.id)),
        layout.metadata_of(row.payload),
        title if isinstance(title, str) else None,
    )


def check_models(file: ExportFile, collection: str, record: Mapping[str, Any]) -> None:
    """Vectors of two models can't be compared, nor words that were counted by two rules."""
    theirs, ours = file.header.settings, record
    if file.header.layout != restored(record):
        raise CollectionMismatch(
            f"the rows of {file.path} were laid out by {file.header.layout.writer or 'Twofold'}, those of collection "
            f"{collection!r} by {restored(record).writer or 'Twofold'}: import it with reembed=True (--reembed), or "
            "into a new collection",
            expected=restored(record).writer,
            found=file.header.layout.writer,
        )
    for leg in ("dense", "sparse"):
        one, other = ({k: v for k, v in side.get(leg, {}).items() if k != "by_name"} for side in (theirs, ours))
        if one != other:
            raise CollectionMismatch(
                f"{file.path} has {leg} vectors of {_described(one)}, and collection {collection!r} those of "
                f"{_described(other)}: import it with reembed=True (--reembed), which makes them anew from the "
                "texts, or into a new collection",
                expected=other,
                found=one,
            )


def _described(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value!r}" for name, value in sorted(settings.items())) or "nothing known"


# --- A copy of a folder ---


def backup(engine: Capabilities, path: str | Path) -> Flow[dict[str, int]]:
    """Copy a folder with all its collections."""
    if not engine.backs_up:
        raise ConfigError(
            "only an index that was opened by the path of its folder is backed up by copying: a server makes snapshots "
            "of its own, and export_to() writes a collection of any engine into a file"
        )
    return (yield from calls.backup(str(path)))


# --- A collection like another one, without its model at hand ---


def make_like(
    collection: str, header: Header, record: Mapping[str, Any], engine: Capabilities, like: Schema | None = None
) -> Flow[Schema]:
    """A collection with the models and indexes of another, unless it is there: then it gets the indexes it lacks.

    With the vectors that others keep in it too, where it is `like` one that is at hand.
    """
    if not (yield from calls.exists(collection)):
        settings = creation(CollectionSettings(), dim=record["dense"]["dim"], idf=header.idf, record=record)
        layout = header.layout
        settings["vectors"] = {name: settings["vectors"][DENSE] for name in header.vectors if name == layout.dense}
        settings["sparse_vectors"] = {
            name: settings["sparse_vectors"][SPARSE] for name in header.vectors if name == layout.sparse
        }
        if like is not None:
            settings["vectors"] = {**like.vectors, **settings["vectors"]}
            settings["sparse_vectors"] = {**like.sparse_vectors, **settings["sparse_vectors"]}
        yield from calls.create(collection, settings)
    schema = yield from calls.described(collection)
    lacking = PayloadIndexes(collection, schema, enabled=engine.indexes)
    yield from lacking.make(header.indexes)
    return schema


@contextmanager
def connected(location: str | Path, *, create: bool, api_key: str | None = None) -> Iterator[Connection]:
    """A place, without any model."""
    options: dict[str, Any] = {} if "://" in str(location) else {"optimize": "manual"}
    with closing(connect(location, create=create, api_key=api_key, timeout=_TIMEOUT_SECONDS, **options)) as engine:
        if engine.capabilities.versioned:
            run(check_version(), engine)
        yield engine


def require(engine: Connection, collection: str) -> None:
    """An error that names the collections that there are, if this is none of them."""
    if not run(calls.exists(collection), engine):
        known = ", ".join(run(calls.collections(), engine)) or "none"
        raise CollectionNotFound(f"there is no collection {collection!r} on {engine.location}: it has {known}")


def export_collection(
    location: str | Path,
    collection: str,
    path: str | Path,
    where: FilterLike | None = None,
    *,
    api_key: str | None = None,
    progress: Progress = lambda done, total: None,
) -> int:
    """`HybridIndex.export_to` without its model."""
    with connected(location, create=False, api_key=api_key) as engine:
        require(engine, collection)
        name, _ = run(find_current(collection), engine)
        there = laid(engine, run(calls.described(name), engine).layout)
        advance = _Counted(progress, run(calls.count(name, as_node(where)), there))
        return run(export(name, path, where, advance, called=collection), there)


def import_collection(
    location: str | Path,
    file: ExportFile,
    collection: str,
    *,
    api_key: str | None = None,
    progress: Progress = lambda done, total: None,
) -> Imported:
    """`HybridIndex.import_from` without its model; a collection that isn't there is made as the file says."""
    header = file.header
    with connected(location, create=True, api_key=api_key) as engine:
        if run(calls.exists(collection), engine):
            collection, _ = run(find_current(collection), engine)
            check_models(file, collection, run(calls.describe(collection), engine).record or {})
        run(make_like(collection, header, {**header.settings, "id": uuid4().hex}, engine.capabilities), engine)
        return run(import_rows(collection, file, _Counted(progress, header.documents)), engine)


def back_up(folder: str | Path, path: str | Path) -> dict[str, int]:
    """`HybridIndex.backup` of a folder that nobody has open."""
    with connected(folder, create=False) as engine:
        return run(backup(engine.capabilities, path), engine)


class _Counted:
    """Tells the sum of what is done."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def __call__(self, number: int) -> None:
        self._done += number
        self._progress(self._done, self._total)
