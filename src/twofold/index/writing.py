"""Documents of an open collection: stored, read, changed, deleted, described.

First how far a long piece of work has come, then storing (check, encode, write, a batch at a time), then documents by
id and by filter, and what the collection is made of.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from twofold.documents import (
    PLACE,
    Document,
    DocumentLike,
    Record,
    check,
    check_column,
    pair_up,
    place_in,
    titled,
)
from twofold.encoders.base import Sparse, Vectors, check_dense
from twofold.engine import calls
from twofold.engine.layout import GIVEN_KEY, NewPoint, Point, Stored, from_point, to_point
from twofold.errors import (
    CollectionMismatch,
    ConfigError,
    EngineError,
    FilterError,
    InvalidDocument,
    InvalidQuery,
    PartialAdd,
)
from twofold.filters import All, AnyOf, Either, Equals, HasId, HasPoint, Native, Node, Not, Present, matches_all
from twofold.flow import Flow, Renew, Work, exclusively
from twofold.index.neighbours import Encoded, PartPlace, Positions, rewrite, rewritten
from twofold.index.opening import Ready, check_unchanged
from twofold.index.queries import FilterLike, as_node, check_vector, encoding
from twofold.index.sampling import without_words
from twofold.results import IndexInfo

if TYPE_CHECKING:
    from twofold.embedded import OptimizeProgress

# --- Showing how far a long piece of work has come ---

ProgressLike: TypeAlias = bool | Callable[[int, int | None], None]
Advance: TypeAlias = Callable[[int], None]


@contextmanager
def watching(what: str, progress: ProgressLike) -> Iterator[Callable[[int, int | None], None]]:
    """Gives what takes (done, total): nothing, the function that was asked for, or a bar."""
    if not isinstance(progress, bool) and progress is not None and not callable(progress):
        raise ConfigError(f"progress must be True, False or a function of (done, total), got {progress!r}")
    if not progress:
        yield lambda done, total: None
    elif callable(progress):
        yield progress
    else:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        with Progress(TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()) as bar:
            task = bar.add_task(what, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def reporting(documents: object, progress: ProgressLike, what: str = "adding") -> Iterator[Advance]:
    """Turn how many more are done into what was asked for."""
    total = len(documents) if isinstance(documents, Sequence) else None
    done = 0
    with watching(what, progress) as watch:

        def report(count: int) -> None:
            nonlocal done
            done += count
            watch(done, total)

        yield report


# --- Storing documents: check, encode, write, a batch at a time ---


@dataclass(frozen=True)
class Columns:
    """What `add` takes beside the documents: one value for each of them."""

    ids: Sequence[str] | None = None
    metadatas: Sequence[Mapping[str, Any]] | None = None
    vectors: Sequence[Sequence[float] | Vectors | None] | Vectors | None = None


_MAX_BATCH_SIZE = 1_000_000
_NewRecord: TypeAlias = tuple[Record, Vectors | None]
"""A record to be stored, and its dense vector if that was given with it."""


def add(
    ready: Ready, documents: Iterable[DocumentLike], columns: Columns, batch_size: int, progress: Advance
) -> Flow[list[str]]:
    """Store documents and give their ids. A list is checked whole before anything is written."""
    if ready.read_only:
        raise CollectionMismatch(ready.read_only)
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or not 1 <= batch_size <= _MAX_BATCH_SIZE:
        raise ConfigError(f"batch_size must be a whole number from 1 to {_MAX_BATCH_SIZE:,}, got {batch_size!r}")
    records: Iterator[_NewRecord] = yield Work(lambda: _checked(ready, documents, columns))
    written: list[str] = []
    try:
        while batch := (yield Work(lambda: list(islice(records, batch_size)))):
            yield Renew()
            yield from _write(ready, batch)
            written.extend(record.id for record, _ in batch)
            progress(len(batch))
    except Exception as error:  # also what the caller's own generator raises: the list of stored ids must not be lost
        if not written:
            raise
        batch_state = "may be stored in part" if isinstance(error, EngineError) else "is not stored"
        raise PartialAdd(
            f"{error}. The {len(written)} documents before that batch are stored, the batch itself {batch_state}. Mend "
            "it and add everything again: what is stored is replaced, not doubled",
            written=written,
        ) from error
    return written


def _checked(ready: Ready, documents: Iterable[DocumentLike], columns: Columns) -> Iterator[_NewRecord]:
    """Records one by one; a list is checked whole first, and so is whatever has vectors beside it."""
    given = pair_up(documents, columns.ids, columns.metadatas)
    if columns.vectors is None:
        records = ((record, None) for record in check(given))
        return iter(list(records)) if isinstance(given, Sequence) else records
    check_column(columns.vectors, "vectors")
    checked = list(check(given))
    if len(columns.vectors) != len(checked):
        raise InvalidDocument(
            f"{len(checked)} documents but {len(columns.vectors)} vectors: give one for each document"
        )
    vectors = [_given_vector(ready, vector, position) for position, vector in enumerate(columns.vectors)]
    return iter(list(zip(checked, vectors, strict=True)))


def _given_vector(ready: Ready, vector: Any, position: int) -> Vectors | None:
    """A vector that came with a document; None if it is to be made here."""
    if vector is None or ready.no_dense:
        return None
    try:
        return check_vector(vector, ready)
    except InvalidQuery as error:
        raise InvalidDocument(str(error), position=position) from error


def _write(ready: Ready, batch: Sequence[_NewRecord]) -> Flow[None]:
    """One batch: all of it is encoded before any of it is sent. Of several with one id the last counts."""
    records = {record.id: (record, vector) for record, vector in batch}
    encoded = yield from _encode(ready, list(records.values()))
    points = [each.place.point for each in encoded]
    if any(each.place.in_something for each in encoded) or (yield from _standing(ready, points)):
        yield from exclusively(ready.parts_lock, _write_parts(ready, encoded, points), "the parts of documents")
    else:
        yield from _put(ready, encoded)


def _write_parts(ready: Ready, encoded: Sequence[Encoded[Record]], points: Sequence[str]) -> Flow[None]:
    """A batch with parts in it, or in place of parts: neighbours there, and where they stood before, change too."""
    yield from ready.indexes.ensure("part_of", "keyword")
    before = yield from _standing(ready, points)
    parts = [each for each in encoded if each.place.in_something]
    touched = [*before, *(each.place for each in parts)]
    in_context = yield from rewritten(partial(_read_parts, ready), touched, parts, set(points))
    yield from _put(ready, [*(each for each in encoded if not each.place.in_something), *in_context])


def _encode(ready: Ready, records: Sequence[_NewRecord]) -> Flow[list[Encoded[Record]]]:
    """Records with vectors of their own. One without text gets none, except the one that came with it."""
    searched = [titled(record.title, record.text) for record, _ in records]
    texts = [text for text in searched if text.strip()]
    to_embed = [text for (_, vector), text in zip(records, searched, strict=True) if vector is None and text.strip()]
    dense: Iterator[Vectors] = iter((yield from encode_dense(ready, to_embed)))
    sparse: Iterator[Sparse] = iter((yield from encode_sparse(ready, texts)))
    encoded = []
    for (record, vector), text in zip(records, searched, strict=True):
        says_something = bool(text.strip())
        meaning = next(dense, None) if vector is None and says_something else vector
        words = next(sparse, None) if says_something else None
        place = _place(ready.layout.point(record.id), record.metadata)
        encoded.append(Encoded(record, place, meaning, words, words, given=vector is not None))
    return encoded


def _put(ready: Ready, encoded: Sequence[Encoded[Record]]) -> Flow[None]:
    if encoded:
        points = [
            to_point(
                each.item, each.dense, each.sparse, given=each.given and each.place.in_something, layout=ready.layout
            )
            for each in encoded
        ]
        yield from check_unchanged(ready)
        yield from calls.upsert(ready.collection, points)
        ready.sampler.changed(len(encoded))


def _place(point: str, metadata: Mapping[str, Any]) -> PartPlace:
    return PartPlace(point, *(place_in(metadata) or ()))


def _standing(ready: Ready, which: Sequence[str] | Node) -> Flow[list[PartPlace]]:
    """Where the parts among some points, or among those that match, stand."""
    keys = [ready.layout.key(name) for name in PLACE]
    if isinstance(which, Sequence):
        rows = yield from calls.retrieve(ready.collection, which, only=keys)
    else:
        rows = yield from _every_row(ready, All((which, Present("part_of"))), only=keys)
    stored = (from_point(row, ready.layout) for row in rows)
    places = (_place(row.point, row.metadata) for row in stored)
    return [place for place in places if place.in_something]


def _read_parts(ready: Ready, wanted: Positions, without: Collection[str]) -> Flow[list[Encoded[Record]]]:
    """The stored parts at some positions."""
    windows = [All((Equals("part_of", str(name)), AnyOf("position", tuple(wanted[name])))) for name in wanted]
    rows = yield from _every_row(ready, Either(tuple(windows)), vectors=ready.layout.dense_names)
    records: list[_NewRecord] = []
    for row in rows:
        stored = from_point(row, ready.layout)
        if stored.point not in without:
            given = ready.layout.dense_of(row) if row.payload.get(GIVEN_KEY) else None
            vector = None if given is None else np.asarray(given, dtype=np.float32)
            records.append((Record(stored.id, stored.text, dict(stored.metadata), stored.title), vector))
    return (yield from _encode(ready, records))


def _every_row(
    ready: Ready, where: Node, *, only: Sequence[str] | None = None, vectors: Sequence[str] = ()
) -> Flow[list[Point]]:
    """All points that match, a page at a time."""
    rows: list[Point] = []
    offset: Any = None
    while True:
        page, offset = yield from calls.scroll(
            ready.collection, where, limit=_PAGE_SIZE, offset=offset, only=only, vectors=vectors
        )
        rows += page
        if offset is None:
            return rows


def encode_anew(ready: Ready, rows: Sequence[Stored]) -> Flow[dict[str, tuple[Vectors | None, Sparse | None]]]:
    """The vectors of stored rows by their points, made now; parts take in something of their neighbours."""
    records: list[_NewRecord] = [(Record(row.id, row.text, dict(row.metadata), row.title), None) for row in rows]
    encoded = yield from _encode(ready, records)
    made = {row.point: each for row, each in zip(rows, encoded, strict=True)}
    parts = [each for each in encoded if each.place.in_something]
    if parts:
        points = {each.place.point for each in parts}
        around = yield from rewritten(partial(_read_parts, ready), [each.place for each in parts], parts, points)
        made.update({each.place.point: each for each in around if each.place.point in points})
    return {point: (each.dense, each.sparse) for point, each in made.items()}


def lacking_vectors(ready: Ready, rows: Sequence[Point]) -> Flow[list[NewPoint]]:
    """The vectors that stored rows lack, as `add` makes them: those of parts with something of their neighbours."""
    layout, present = ready.layout, {str(row.id): row.vector for row in rows}
    stored = [from_point(row, layout) for row in rows]
    readable = [row for row in stored if row.searched_text.strip()]
    encoded = (yield from encode_anew(ready, readable)) if readable else {}
    points = []
    for row in readable:
        dense, sparse = encoded[row.point]
        there = present[row.point] or {}
        names = there if isinstance(there, Mapping) else {""}
        made = {layout.dense: dense, layout.sparse: sparse if sparse is not None and sparse.indices else None}
        lacking = {name: vector for name, vector in made.items() if vector is not None and name not in names}
        if lacking:
            points.append(NewPoint(row.point, {str(name): vector for name, vector in lacking.items()}, {}))
    return points


def encode_dense(ready: Ready, texts: list[str]) -> Flow[Sequence[Vectors]]:
    """Vectors for texts that are not blank; none if the collection has no dense leg."""
    if ready.no_dense or not texts:
        return []
    encoder, native = ready.dense, ready.dense.aembed_documents
    with encoding(encoder.name, f"a batch of {len(texts)}"):
        raw = yield Work(lambda: encoder.embed_documents(texts), None if native is None else lambda: native(texts))
    return list(check_dense(raw, len(texts), ready.dim, encoder.name))


def encode_sparse(ready: Ready, texts: list[str]) -> Flow[Sequence[Sparse]]:
    """Sparse vectors for texts that are not blank; none if the collection has no lexical leg."""
    if ready.no_lexical or not texts:
        return []
    with encoding("the sparse encoder", f"a batch of {len(texts)}"):
        vectors: list[Sparse] = yield Work(lambda: ready.sparse.embed_documents(texts))
    return vectors


def embed(ready: Ready, texts: Sequence[str]) -> Flow[list[list[float]]]:
    """The dense vectors of texts, as they are stored."""
    every = None if isinstance(texts, (str, type)) or not isinstance(texts, Iterable) else list(texts)
    if every is None or not all(isinstance(text, str) for text in every):
        raise InvalidQuery("embed takes a list of texts: wrap a single one in [ ], or use embed_query")
    vectors = yield from encode_dense(replace(ready, no_dense=None), every)
    return [vector.tolist() for vector in vectors]


# --- Documents by id and by filter: get, fetch, count, change, delete ---

_PAGE_SIZE = 256
_FIRST_VALUES = 1024
EVERYTHING = Not(HasPoint(()))


def get(ready: Ready, ids: str | Sequence[str]) -> Flow[Document | list[Document | None] | None]:
    """Documents by id."""
    wanted = _id_list(ids)
    points = [ready.layout.point(identity) for identity in wanted]
    found = (yield from calls.retrieve(ready.collection, list(dict.fromkeys(points)))) if points else []
    documents = {str(point.id): from_point(point, ready.layout).as_document() for point in found}
    result = [documents.get(point) for point in points]
    return result[0] if isinstance(ids, str) else result


def fetch(ready: Ready, where: FilterLike | None, limit: int | None, newest_first: str | None) -> Flow[list[Document]]:
    """Documents by filter, a page at a time; or those with the latest date in a field."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise InvalidQuery(f"limit must be a whole number from 0, or None for all, got {limit!r}")
    node = as_node(where)
    yield from ready.indexes.serve(node, create=False)
    if newest_first is not None and limit != 0:
        yield from ready.indexes.ensure(newest_first, "datetime", wait=True)
        wanted = (yield from calls.count(ready.collection, node)) if limit is None else limit
        if not wanted:
            return []
        rows, _ = yield from calls.scroll(ready.collection, node, limit=wanted, order_by=ready.layout.key(newest_first))
        return [from_point(row, ready.layout).as_document() for row in rows]
    found: list[Document] = []
    offset: Any = None
    while limit is None or len(found) < limit:
        size = _PAGE_SIZE if limit is None else min(_PAGE_SIZE, limit - len(found))
        points, offset = yield from calls.scroll(ready.collection, node, limit=size, offset=offset)
        found += [from_point(point, ready.layout).as_document() for point in points]
        if offset is None:
            break
    return found


def count(ready: Ready, where: FilterLike | None) -> Flow[int]:
    """How many documents match."""
    node = as_node(where)
    yield from ready.indexes.serve(node, create=False)
    return (yield from calls.count(ready.collection, node))


def vectors(ready: Ready, ids: Sequence[str]) -> Flow[list[list[float] | None]]:
    """The dense vectors of documents, in the order of their ids."""
    points = [ready.layout.point(identity) for identity in _id_list(ids)]
    known = (
        {} if ready.no_dense or not points else (yield from calls.dense_vectors(ready.collection, points, ready.layout))
    )
    return [[float(number) for number in known[point]] if point in known else None for point in points]


def values(ready: Ready, field: str, where: FilterLike | None) -> Flow[dict[Any, int]]:
    """The values of a metadata field. More are asked for until there are fewer than were asked for."""
    yield from ready.indexes.ensure(field, "keyword", wait=True)
    node = as_node(where)
    yield from ready.indexes.serve(node, create=False)
    limit = _FIRST_VALUES
    while True:
        counts = yield from calls.facet(ready.collection, ready.layout.key(field), node, limit)
        if len(counts) < limit:
            return counts
        limit *= 8


def update_metadata(
    ready: Ready, changes: Mapping[str, Any], ids: str | Sequence[str] | None, where: FilterLike | None
) -> Flow[None]:
    """Change metadata fields of documents by ids or by filter. No vector is made, so any model's points will do."""
    (record,) = check([Document("", "-", changes)])
    if moved := sorted({*PLACE} & {*record.metadata}):
        raise InvalidDocument(f"{' and '.join(moved)} can't be changed alone: add the document again, in its new place")
    which = selected(ids, where, "update_metadata")
    yield from ready.indexes.serve(which, create=False)
    if record.metadata:
        yield from check_unchanged(ready)
        yield from calls.set_payload(ready.collection, ready.layout.metadata, record.metadata, which)


def delete(ready: Ready, which: Node) -> Flow[int]:
    """Delete what was selected, or `EVERYTHING`; gives how many there were."""
    yield from ready.indexes.serve(which, create=False)
    return (yield from exclusively(ready.parts_lock, _delete(ready, which), "the parts of documents"))


def _delete(ready: Ready, which: Node) -> Flow[int]:
    """What others hold of the parts that go is taken back first: who tries again after a failure gets it all."""
    number = yield from calls.count(ready.collection, which)
    if number:
        yield from check_unchanged(ready)
        gone = [] if which is EVERYTHING else (yield from _standing(ready, which))
        yield from rewrite(partial(_read_parts, ready), partial(_put, ready), gone)
        yield from calls.delete(ready.collection, which)
        ready.sampler.changed(number)
    return number


def selected(ids: str | Sequence[str] | None, where: FilterLike | None, verb: str) -> Node:
    """The documents that are meant by ids or by a filter, which must not mean all of them."""
    if (ids is None) == (where is None):
        raise InvalidQuery(f"{verb} takes either ids or a filter")
    if ids is not None:
        return HasId(tuple(_id_list(ids)))
    node = as_node(where)
    if isinstance(node, Native):
        native = node.filter
        says_something = native.must or native.should or native.must_not or native.min_should
    else:
        says_something = node is not None and not matches_all(node)
    if node is None or not says_something:
        raise FilterError(f"this filter matches everything: name what to {verb.partition('_')[0]}")
    return node


def _id_list(ids: str | Sequence[str]) -> list[str]:
    wanted = [ids] if isinstance(ids, str) or not isinstance(ids, Iterable) else list(ids)
    for identity in wanted:
        if not isinstance(identity, str):
            raise InvalidQuery(f"ids are strings, got {type(identity).__name__} {identity!r}")
    return wanted


_STATUS_NOTES = {
    "yellow": "the server is optimising the collection: searches are slower until it is done",
    "grey": "the server has yet to optimise the collection, which begins with the next write",
    "red": "the server could not optimise the collection: its log says why",
}


def info(ready: Ready, location: str) -> Flow[IndexInfo]:
    """What the index is made of, as it is now."""
    schema = yield from calls.describe(ready.collection)
    documents = yield from calls.count(ready.collection, None)
    wordless = yield from without_words(ready)
    legs = {"dense": ready.no_dense, "lexical": ready.no_lexical}
    notes = (ready.no_dense, ready.no_lexical, ready.read_only, wordless, _STATUS_NOTES.get(schema.status))
    return IndexInfo(
        location=location,
        collection=ready.collection,
        documents=documents,
        dense_model=ready.dense.name,
        dense_dim=ready.dim,
        sparse=ready.sparse.settings,
        legs=tuple(name for name, reason in legs.items() if reason is None),
        indexed=tuple(sorted(schema.indexed)),
        notes=(*filter(None, notes), *ready.notes),
    )


def optimize(ready: Ready, progress: Callable[[OptimizeProgress], None] | None) -> Flow[bool]:
    """Build the search graph, where the engine doesn't do so by itself."""
    return ready.engine.optimizes and (yield from calls.optimize(ready.collection, progress))


def only(point_ids: Sequence[str]) -> HasPoint:
    """A filter for exactly these points."""
    return HasPoint(tuple(point_ids))
