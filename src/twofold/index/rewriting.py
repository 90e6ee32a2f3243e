"""The vectors of a whole collection made anew, while others go on reading: `adopt` and `reembed`.

Words are added to a collection as it stands, where the engine can add a vector. Anything else is written into a new
collection beside it, page by page, and then takes the place of the old one, which is kept until `drop_replaced`. Both
find out from the rows what is still to be done: so a run that was killed goes on where it was, what others write
meanwhile comes along, and nothing is there twice. The order at the end of this file is what makes that true:

    the mark "rewriting" · rows, until a pass finds none that is missing or changed · no mark · aliases · "moved"
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias
from uuid import uuid4

import numpy as np

from twofold.config import CollectionSettings
from twofold.documents import is_memory
from twofold.encoders.base import Sparse
from twofold.encoders.models import dimension_of, resolve_dense, resolve_sparse
from twofold.engine import calls
from twofold.engine.layout import DENSE, MOVED_KEY, OWN, RECORD_KEY, Layout, NewPoint, Point, creation, from_point
from twofold.engine.layouts import noted, words_of_ours
from twofold.errors import CollectionMismatch, ConfigError, EngineError, EngineUnavailable
from twofold.filters import All, Either, HasPoint, HasVector, Not, Present
from twofold.flow import Flow, Renew, Work
from twofold.index.opening import Encoders, Ready, keep_record, record_of
from twofold.index.writing import encode_anew, encode_dense, encode_sparse
from twofold.results import Problem

Advance: TypeAlias = Callable[[int, int | None], None]
"""Gets how many rows are done, and of how many."""

PAGE = 256
_MOST_PASSES = 8
_PAGES_WITH_SHELF = 16
"""So many are looked through for memories. Where there are any, nearly all rows are."""
_MOST_PROBLEMS = 100
_SAMPLED_ROWS = 32
_SAME_MODEL_COSINE = 0.35
_SETTINGS_ONLY_READ = ("read_fan_out_factor", "read_fan_out_delay_ms")
_TOLERANCE = 1e-12  # engines keep payloads as text, and read a fraction back as the number next to it


@dataclass(frozen=True)
class Rewritten:
    """What `adopt` or `reembed` did; after a dry run, what it would do."""

    collection: str
    """Where the documents are now."""
    replaces: str | None
    """The collection that this one took the place of; it is kept until `drop_replaced`. None if it is the same one."""
    documents: int
    encoded: int
    """How many rows got vectors by this call."""
    problems: tuple[Problem, ...] = ()
    """Rows without a readable text, which have no words; the first hundred of them."""
    dry_run: bool = False


# --- Words for a collection that has none ---


def adopt(ready: Ready, *, in_place: bool | None, dry_run: bool, advance: Advance) -> Flow[Rewritten]:
    """Give every row the words of its text, and vouch for the model."""
    for name, value in (("in_place", in_place), ("dry_run", dry_run)):
        if not isinstance(value, bool) and not (name == "in_place" and value is None):
            raise ConfigError(f"{name} must be True or False, got {type(value).__name__}")
    yield from _refuse_memories(ready)
    if in_place and not ready.adds_vectors:
        raise ConfigError(
            "this engine can't add a vector to a collection, as Qdrant and qdrant-client can from 1.18 on: leave "
            "in_place out"
        )
    yield from _check_model(ready)
    layout = _with_our_words(ready)
    there = layout.sparse in ready.schema.sparse_vectors
    if not there and (not ready.adds_vectors or in_place is False):
        encoders = (ready.dense, ready.dim, ready.sparse)
        return (yield from _rewrite(ready, encoders, layout, _Anew(False, True), dry_run, advance))
    lacking = Not(HasVector(str(layout.sparse)))
    total = yield from calls.count(ready.collection, lacking if there else None)
    if dry_run:
        documents = yield from calls.count(ready.collection, None)
        return Rewritten(ready.collection, None, documents, total, dry_run=True)
    # The record first: whoever is killed from here on finds in it which vector was begun.
    before = {name: value for name, value in (ready.schema.record or {}).items() if name != "layout"}
    yield from keep_record(ready, {**record_of(ready.dense, ready.dim, ready.sparse), **before, **noted(layout)})
    if not there:
        yield from _add_words(ready, str(layout.sparse))
    encoded, problems = yield from _fill(ready, layout, total, advance)
    documents = yield from calls.count(ready.collection, None)
    return Rewritten(ready.collection, None, documents, encoded, problems)


def _check_model(ready: Ready) -> Flow[None]:
    """Refuse to vouch for a model that surely didn't make the vectors."""
    if ready.schema.record is not None or ready.no_dense:
        return
    layout = ready.layout
    rows, _ = yield from calls.scroll(ready.collection, None, limit=_SAMPLED_ROWS, vectors=layout.dense_names)
    pairs = [(from_point(row, layout).searched_text, layout.dense_of(row)) for row in rows]
    pairs = [(text, vector) for text, vector in pairs if text.strip() and vector is not None]
    if not pairs:
        return
    made = yield from encode_dense(ready, [text for text, _ in pairs])
    strange = strange_vectors([vector for _, vector in pairs], made)
    if 2 * strange > len(pairs):
        raise CollectionMismatch(
            f"of {len(pairs)} rows of {ready.collection!r} that were looked at, {strange} have vectors that "
            f"{ready.dense.name} does not make of their texts: open it with the model that made them (dense=, --model)",
            found=ready.dense.name,
        )


def strange_vectors(stored: Sequence[Any], made: Any) -> int:
    """How many stored vectors another model must have made, or made of another text."""
    one, other = np.asarray(stored, dtype=np.float64), np.asarray(made, dtype=np.float64)
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    cosines = np.einsum("ij,ij->i", one, other) / np.where(lengths, lengths, 1.0)
    return int((cosines < _SAME_MODEL_COSINE).sum())


def _with_our_words(ready: Ready) -> Layout:
    """The layout with a sparse vector of ours in it, whatever others have beside it."""
    given = ready.layout.sparse is not None and (ready.schema.record is not None or not ready.sparse.needs_idf)
    ours = ready.layout is OWN or given
    return ready.layout if ours else replace(ready.layout, sparse=words_of_ours(ready.schema))


def _add_words(ready: Ready, name: str) -> Flow[None]:
    try:
        yield from calls.add_words(ready.collection, name, idf=ready.sparse.needs_idf)
    except EngineError:  # it may have been added by a request whose answer was lost
        if name not in (yield from calls.describe(ready.collection)).sparse_vectors:
            raise


def _fill(ready: Ready, layout: Layout, total: int, advance: Advance) -> Flow[tuple[int, tuple[Problem, ...]]]:
    """Words for the rows that have none, page by page."""
    worded = replace(ready, no_lexical=None)
    encoded, looked_at, problems = 0, 0, _Problems()
    lacking, offset = Not(HasVector(str(layout.sparse))), None
    while True:
        yield Renew()
        rows, offset = yield from calls.scroll(ready.collection, lacking, limit=PAGE, offset=offset)
        stored = [row for row in (from_point(each, layout) for each in rows) if problems.passes(row)]
        says = [row for row in stored if row.searched_text.strip()]
        made = yield from encode_sparse(worded, [row.searched_text for row in says])
        points = [
            NewPoint(row.point, {str(layout.sparse): words}, {})
            for row, words in zip(says, made, strict=True)
            if words.indices
        ]
        encoded += yield from _give(ready, points)
        looked_at += len(rows)
        advance(looked_at, max(total, looked_at))
        if offset is None:
            ready.sampler.changed(encoded)
            return encoded, problems.found


def _give(ready: Ready, points: Sequence[NewPoint]) -> Flow[int]:
    """Give points their vectors. One that somebody deleted since it was read is left out."""
    if not points:
        return 0
    try:
        yield from calls.update_vectors(ready.collection, points)
        return len(points)
    except EngineError:
        found = yield from calls.retrieve(ready.collection, [point.id for point in points], only=())
        there = {str(point.id) for point in found}
        if len(there) == len(points):
            raise
    return (yield from _give(ready, [point for point in points if point.id in there]))


# --- Another model, or other settings of BM25 ---


def reembed(
    ready: Ready, dense: Any, sparse: Any, language: str | None, *, dry_run: bool, advance: Advance
) -> Flow[Rewritten]:
    """Write everything anew with another model; what isn't named stays as it is, unless nothing is."""
    yield from _refuse_memories(ready)
    words = sparse is not None or language is not None
    meaning = dense is not None or not words

    def load() -> Encoders:
        model = ready.dense if dense is None else resolve_dense(dense)
        dim = ready.dim if dense is None else dimension_of(model)
        return model, dim, resolve_sparse(sparse, language) if words else ready.sparse

    encoders: Encoders = yield Work(load)
    layout = _with_our_words(ready)
    has_words = layout.sparse in ready.schema.sparse_vectors
    layout = layout if layout.dense is not None else replace(layout, dense=DENSE)
    anew = _Anew(meaning or bool(ready.no_dense), words or not has_words)
    return (yield from _rewrite(ready, encoders, layout, anew, dry_run, advance))


# --- A new collection in place of an old one ---


@dataclass(frozen=True)
class _Anew:
    """Which vectors are made anew; the others are copied."""

    dense: bool
    sparse: bool


def _rewrite(
    ready: Ready, encoders: Encoders, layout: Layout, anew: _Anew, dry_run: bool, advance: Advance
) -> Flow[Rewritten]:
    ready = yield from _as_it_is_now(ready)
    source, target = ready.collection, _next_name(ready.collection)
    documents = yield from calls.count(source, None)
    if dry_run:
        return Rewritten(target, source, documents, documents, dry_run=True)
    record = {**record_of(*encoders), **noted(layout), "replaces": source}
    record = yield from _begin(ready, target, record, encoders, layout)
    dense, dim, sparse = encoders
    as_new = replace(
        ready, dense=dense, dim=dim, sparse=sparse, no_lexical=None, no_dense=None if anew.dense else "it is copied"
    )
    copy = _Copy(ready, as_new, target, layout, anew)
    for _ in range(_MOST_PASSES):
        if not (yield from copy.run(documents, advance)):
            break
    else:
        raise CollectionMismatch(
            f"{source!r} changes faster than it can be written anew: {target!r} has nearly all of it; call this again, "
            "which goes on from there, when less is written"
        )
    finished = {name: value for name, value in record.items() if name != "rewriting"}
    yield from keep_record(replace(ready, collection=target), finished)
    yield from _switch(source, target)
    # What others added between the last pass and the mark. Others may change the new one by now: it goes first.
    yield from copy.run(documents, advance, only_missing=True)
    written = yield from calls.count(target, None)
    return Rewritten(target, source, written, copy.encoded, copy.problems.found)


def _as_it_is_now(ready: Ready) -> Flow[Ready]:
    """By its own name, not by an alias, and with the indexes that it has got since it was opened."""
    name = (yield from calls.aliases()).get(ready.collection, ready.collection)
    return replace(ready, collection=name, schema=(yield from calls.describe(name)))


def _next_name(collection: str) -> str:
    base, mark, number = collection.rpartition("~")
    return f"{base}~{int(number) + 1}" if mark and number.isdecimal() else f"{collection}~2"


def _begin(
    ready: Ready, target: str, record: Mapping[str, Any], encoders: Encoders, layout: Layout
) -> Flow[dict[str, Any]]:
    """The new collection, or the one that an earlier run began; and its record."""
    if (yield from calls.exists(target)):
        begun = dict((yield from calls.describe(target)).record or {})
        if all(begun.get(name) == value for name, value in record.items()):
            return begun
        raise CollectionMismatch(
            f"{target!r} is there already, begun with other settings or by something else: finish it by the same call, "
            f"or give it up with index.drop_unfinished()",
            expected=dict(record),
            found=begun,
        )
    record = {**record, "id": uuid4().hex, "rewriting": True}
    yield from calls.create(target, _creation(ready, record, encoders, layout))
    for key, schema in ready.schema.index_settings.items():
        yield from calls.create_index(target, key, schema, wait=True)
    return record


def _creation(ready: Ready, record: Mapping[str, Any], encoders: Encoders, layout: Layout) -> dict[str, Any]:
    """The settings of the old collection, with other vectors."""
    schema, (_, dim, sparse) = ready.schema, encoders
    fresh = creation(CollectionSettings(), dim=dim, idf=sparse.needs_idf, record=record)
    vectors, words = dict(schema.vectors), dict(schema.sparse_vectors)
    if layout.dense is not None:
        vectors[layout.dense] = {**vectors.get(layout.dense, fresh["vectors"][DENSE]), "size": dim}
    words[str(layout.sparse)] = fresh["sparse_vectors"][OWN.sparse]
    kept = {name: value for name, value in schema.config.items() if name not in _SETTINGS_ONLY_READ}
    metadata = {name: value for name, value in schema.metadata.items() if name != MOVED_KEY}
    return {
        **kept,
        "vectors": vectors.get("", vectors),
        "sparse_vectors": words,
        "metadata": {**metadata, RECORD_KEY: dict(record)},
    }


class _Copy:
    """Brings a new collection up to the state of the old one."""

    def __init__(self, ready: Ready, as_new: Ready, target: str, layout: Layout, anew: _Anew) -> None:
        self._ready, self._as_new = ready, as_new
        self._target, self._layout = target, layout
        remade = [name for name, made in ((layout.dense, anew.dense), (layout.sparse, anew.sparse)) if made]
        self._copied = [name for name in (*ready.schema.vectors, *ready.schema.sparse_vectors) if name not in remade]
        self.encoded = 0
        self.problems = _Problems()

    def run(self, total: int, advance: Advance, *, only_missing: bool = False) -> Flow[bool]:
        """One pass over all rows; whether any was missing, had changed or was deleted since the one before."""
        source, offset, seen, changed = self._ready.collection, None, 0, False
        while True:
            yield Renew()
            rows, offset = yield from calls.scroll(source, None, limit=PAGE, offset=offset, vectors=self._copied)
            ids = [str(row.id) for row in rows]
            there = {str(row.id): row.payload for row in (yield from calls.retrieve(self._target, ids))} if ids else {}
            if only_missing:
                todo = [row for row in rows if str(row.id) not in there]
            else:
                todo = [row for row in rows if not _same(there.get(str(row.id)), row.payload or {})]
            if todo:
                changed = True
                yield from calls.upsert(self._target, (yield from self._points(todo)))
                self.encoded += len(todo)
            seen += len(rows)
            advance(seen, max(total, seen))
            if offset is None:
                break
        return (not only_missing and (yield from self._without_deleted())) or changed

    def _points(self, rows: Sequence[Point]) -> Flow[list[NewPoint]]:
        """Rows as they are, with new vectors."""
        stored = [row for row in (from_point(each, self._ready.layout) for each in rows) if self.problems.passes(row)]
        made = yield from encode_anew(self._as_new, stored)
        points = []
        for row in rows:
            vector = {name: value for name, value in _vectors(row).items() if name in self._copied}
            dense, sparse = made.get(str(row.id), (None, None))
            if dense is not None and self._layout.dense is not None:
                vector[self._layout.dense] = dense
            if sparse is not None and sparse.indices and self._layout.sparse not in self._copied:
                vector[str(self._layout.sparse)] = sparse
            points.append(NewPoint(str(row.id), vector, dict(row.payload or {})))
        return points

    def _without_deleted(self) -> Flow[bool]:
        """Delete what was deleted from the old collection; whether there was anything."""
        source, offset, gone = self._ready.collection, None, []
        if (yield from calls.count(source, None)) == (yield from calls.count(self._target, None)):
            return False
        while True:
            yield Renew()
            rows, offset = yield from calls.scroll(self._target, None, limit=PAGE, offset=offset, only=())
            ids = [str(row.id) for row in rows]
            kept = {str(row.id) for row in (yield from calls.retrieve(source, ids, only=()))} if ids else set()
            gone += [each for each in ids if each not in kept]
            if offset is None:
                break
        if gone:
            yield from calls.delete(self._target, HasPoint(tuple(gone)))
        return bool(gone)


def _vectors(row: Point) -> dict[str, Any]:
    """The vectors of a row by name, as they are written."""
    named = row.vector if isinstance(row.vector, Mapping) else {} if row.vector is None else {"": row.vector}
    return {
        name: Sparse(list(value.indices), list(value.values))
        if hasattr(value, "indices")
        else np.asarray(value, dtype=np.float32)
        for name, value in named.items()
    }


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=_TOLERANCE)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


def _switch(source: str, target: str) -> Flow[None]:
    """From now on every name of the old collection leads to the new one."""
    for alias, of in (yield from calls.aliases()).items():
        if of == source:
            yield from calls.set_alias(alias, target)
    yield from calls.set_metadata(source, {MOVED_KEY: target})


# --- Giving up the old one, or the new one ---


def drop_replaced(ready: Ready) -> Flow[str | None]:
    """Delete what this collection took the place of, however often; those names then stand for this one."""
    ready = yield from _as_it_is_now(ready)
    replaced = yield from replaced_by(ready.collection)
    for old in replaced:
        yield from calls.drop(old)
        yield from calls.set_alias(old, ready.collection)
    return ", ".join(replaced) or None


def replaced_by(collection: str) -> Flow[list[str]]:
    """The collections whose mark leads to this one, at once or by way of another.

    Their own marks count, not what this one says of itself: that may have come from another place.
    """
    leads: dict[str, str] = dict((yield from calls.aliases()))
    names = yield from calls.collections()
    for name in names:
        try:
            moved = (yield from calls.describe(name)).metadata.get(MOVED_KEY)
        except EngineUnavailable:
            raise
        except EngineError:  # a damaged one
            continue
        if moved:
            leads[name] = moved

    def end_of(name: str) -> str:
        for _ in range(len(leads)):
            name = leads.get(name, name)
        return name

    return [name for name in names if name != collection and end_of(name) == collection]


def drop_unfinished(ready: Ready) -> Flow[str | None]:
    """Delete what an `adopt` or a `reembed` began and didn't finish."""
    ready = yield from _as_it_is_now(ready)
    target = _next_name(ready.collection)
    if not (yield from calls.exists(target)):
        return None
    record = (yield from calls.describe(target)).record or {}
    if record.get("replaces") != ready.collection:
        return None
    yield from calls.drop(target)
    return target


class _Problems:
    """Rows that can't be read."""

    def __init__(self) -> None:
        self._by_id: dict[str, Problem] = {}

    def passes(self, row: Any) -> bool:
        """It can be read; one that can't is kept in mind."""
        if row.problem is None:
            return True
        if len(self._by_id) < _MOST_PROBLEMS:
            self._by_id[row.id] = Problem(row.id, row.problem)
        return False

    @property
    def found(self) -> tuple[Problem, ...]:
        return tuple(self._by_id.values())


def _refuse_memories(ready: Ready) -> Flow[None]:
    """What memories are found by is made of more than their text."""
    if ready.layout is not OWN:
        return
    named = All((Present("shelf"), Either((Present("user"), Present("project")))))  # as few documents are
    offset = None
    for _ in range(_PAGES_WITH_SHELF):
        rows, offset = yield from calls.scroll(ready.collection, named, limit=PAGE, offset=offset)
        if any(is_memory(from_point(row).metadata) for row in rows):
            raise ConfigError(
                f"{ready.collection!r} holds memories: memory.backfill() makes the vectors that they lack, and another "
                "model takes a new store, into which they are remembered again"
            )
        if offset is None:
            return
