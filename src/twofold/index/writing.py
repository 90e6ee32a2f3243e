"""Showing how far a long piece of work has come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeAlias

from qdrant_client import models

from twofold.documents import Document, DocumentLike, Record, check, pair_up, point_id
from twofold.embedded import OptimizeProgress
from twofold.encoders.base import Sparse, Vectors, check_dense
from twofold.engine import calls
from twofold.engine.layout import from_point, to_point
from twofold.errors import (
    CollectionMismatch,
    ConfigError,
    EncoderError,
    EngineError,
    FilterError,
    InvalidQuery,
    PartialAdd,
    TwofoldError,
)
from twofold.filters import HasPoint, Node, matches_all, parse
from twofold.flow import Flow, Renew, Work
from twofold.index.opening import Ready
from twofold.results import IndexInfo

# --- Showing how far a long piece of work has come ---

ProgressLike: TypeAlias = bool | Callable[[int, int | None], None]
Advance: TypeAlias = Callable[[int], None]


@contextmanager
def reporting(documents: object, progress: ProgressLike) -> Iterator[Advance]:
    """Turn (done, total) into what was asked for: nothing, a function's calls, or a bar."""
    total = len(documents) if isinstance(documents, Sequence) else None
    done = 0

    if progress is False:
        yield lambda count: None
    elif callable(progress):

        def report(count: int) -> None:
            nonlocal done
            done += count
            progress(done, total)

        yield report
    else:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("adding"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns) as bar:
            task = bar.add_task("adding", total=total)
            yield lambda count: bar.advance(task, count)


# --- Storing documents: check, encode, write, a batch at a time ---


def add(
    ready: Ready,
    documents: Iterable[DocumentLike],
    ids: Sequence[str] | None,
    metadatas: Sequence[Mapping[str, Any]] | None,
    batch_size: int,
    progress: Advance,
) -> Flow[list[str]]:
    """Store documents and give their ids. A list is checked whole before anything is written."""
    if ready.read_only:
        raise CollectionMismatch(ready.read_only)
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise ConfigError(f"batch_size must be a whole number from 1, got {batch_size!r}")
    records: Iterator[Record] = yield Work(lambda: _checked(pair_up(documents, ids, metadatas)))
    written: list[str] = []
    try:
        while batch := (yield Work(lambda: list(islice(records, batch_size)))):
            yield Renew()
            yield from _write(ready, batch)
            written.extend(record.id for record in batch)
            progress(len(batch))
    except Exception as error:  # also what the caller's own generator raises: the list of stored ids must not be lost
        if not written:
            raise
        raise PartialAdd(_partial(error, len(written)), written=written) from error
    return written


def _checked(documents: Iterable[DocumentLike]) -> Iterator[Record]:
    """Records one by one; a list is checked whole first."""
    records = check(documents)
    return iter(list(records)) if isinstance(documents, Sequence) else records


def _partial(error: Exception, written: int) -> str:
    batch = "may be stored in part" if isinstance(error, EngineError) else "is not stored"
    return (
        f"{error}. The {written} documents before that batch are stored, the batch itself {batch}. Mend it and add "
        "everything again: what is stored is replaced, not doubled"
    )


def _write(ready: Ready, batch: Sequence[Record]) -> Flow[None]:
    """One batch: all of it is encoded before any of it is sent. Of several with one id the last counts."""
    records = list({record.id: record for record in batch}.values())
    texts = [record.text for record in records if record.text.strip()]
    dense: Iterator[Vectors] = iter((yield from encode_dense(ready, texts)))
    sparse: Iterator[Sparse] = iter((yield from encode_sparse(ready, texts)))
    points = [
        to_point(record, next(dense, None), next(sparse, None)) if record.text.strip() else to_point(record, None, None)
        for record in records
    ]
    yield from calls.upsert(ready.collection, points)
    ready.nature.changed(len(records))


def encode_dense(ready: Ready, texts: list[str]) -> Flow[Sequence[Vectors]]:
    """Vectors for texts that are not blank; none if the collection has no dense leg."""
    if ready.no_dense or not texts:
        return []
    encoder, native = ready.dense, ready.dense.aembed_documents
    try:
        raw = yield Work(lambda: encoder.embed_documents(texts), None if native is None else lambda: native(texts))
    except TwofoldError:
        raise
    except Exception as error:
        raise EncoderError(f"{encoder.name} failed on a batch of {len(texts)}: {error}") from error
    return list(check_dense(raw, len(texts), ready.dim, encoder.name))


def encode_sparse(ready: Ready, texts: list[str]) -> Flow[Sequence[Sparse]]:
    """Sparse vectors for texts that are not blank; none if the collection has no lexical leg."""
    if ready.no_lexical or not texts:
        return []
    try:
        vectors: list[Sparse] = yield Work(lambda: ready.sparse.embed_documents(texts))
    except TwofoldError:
        raise
    except Exception as error:
        raise EncoderError(f"the sparse encoder failed on a batch of {len(texts)}: {error}") from error
    return vectors


# --- Documents by id and by filter: get, count, delete, describe ---

FilterLike: TypeAlias = Mapping[str, Any] | models.Filter | Node


def where_node(where: FilterLike | None) -> Node | models.Filter | None:
    """What a filter means; a native one passes through, an empty one is none."""
    if where is None or isinstance(where, (models.Filter, Node)):
        return where
    return None if isinstance(where, Mapping) and not where else parse(where)


def get(ready: Ready, ids: str | Sequence[str]) -> Flow[Document | list[Document | None] | None]:
    """Documents by id."""
    wanted = _id_list(ids)
    points = [point_id(identity) for identity in wanted]
    found = yield from calls.retrieve(ready.collection, points)
    documents = {str(point.id): from_point(point).as_document() for point in found}
    result = [documents.get(point) for point in points]
    return result[0] if isinstance(ids, str) else result


def count(ready: Ready, where: FilterLike | None) -> Flow[int]:
    """How many documents match."""
    native = yield from ready.indexes.serve(where_node(where), create=False)
    return (yield from calls.count(ready.collection, native))


def delete(ready: Ready, ids: str | Sequence[str] | None, where: FilterLike | None) -> Flow[int]:
    """Delete by ids or by filter; gives how many there were."""
    if (ids is None) == (where is None):
        raise InvalidQuery("delete takes either ids or a filter")
    node = only([point_id(identity) for identity in _id_list(ids)]) if ids is not None else where_node(where)
    if node is None or _says_nothing(node):
        raise FilterError("this filter matches everything: name what to delete")
    native = yield from ready.indexes.serve(node, create=False)
    number = yield from calls.count(ready.collection, native)
    if number and native is not None:
        yield from calls.delete(ready.collection, native)
        ready.nature.changed(number)
    return number


def _says_nothing(node: Node | models.Filter) -> bool:
    if not isinstance(node, models.Filter):
        return matches_all(node)
    return not (node.must or node.should or node.must_not or node.min_should)


def _id_list(ids: str | Sequence[str]) -> list[str]:
    if not isinstance(ids, Iterable):
        raise InvalidQuery(f"ids are strings, got {type(ids).__name__} {ids!r}")
    wanted = [ids] if isinstance(ids, str) else list(ids)
    for identity in wanted:
        if not isinstance(identity, str):
            raise InvalidQuery(f"ids are strings, got {type(identity).__name__} {identity!r}")
    return wanted


def info(ready: Ready, location: str) -> Flow[IndexInfo]:
    """What the index is made of, as it is now."""
    schema = yield from calls.describe(ready.collection)
    documents = yield from calls.count(ready.collection, None)
    legs = {"dense": ready.no_dense, "lexical": ready.no_lexical}
    reasons = [reason for reason in (ready.no_dense, ready.no_lexical, ready.read_only) if reason]
    return IndexInfo(
        location=location,
        collection=ready.collection,
        documents=documents,
        dense_model=ready.dense.name,
        dense_dim=ready.dim,
        sparse=ready.sparse.settings,
        legs=tuple(name for name, reason in legs.items() if reason is None),
        indexed=tuple(sorted(schema.indexed)),
        notes=(*reasons, *ready.notes),
    )


def optimize(ready: Ready, progress: Callable[[OptimizeProgress], None] | None) -> Flow[bool]:
    """Build the search graph, where the engine doesn't do so by itself."""
    if not ready.engine.optimizes:
        return False
    return (yield from calls.optimize(ready.collection, progress))


def only(point_ids: Sequence[str]) -> HasPoint:
    """A filter for exactly these points."""
    return HasPoint(tuple(point_ids))
