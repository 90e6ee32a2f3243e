"""Storing documents: check, encode, write, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from twofold.documents import DocumentLike, Record, check, pair_up
from twofold.encoders.base import Sparse, Vectors, check_dense
from twofold.engine import calls
from twofold.engine.flow import Flow, Renew, Work
from twofold.engine.layout import to_point
from twofold.errors import CollectionMismatch, ConfigError, EncoderError, PartialAdd, TwofoldError
from twofold.index.opening import Ready
from twofold.index.progress import Advance

T = TypeVar("T")


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
    paired = pair_up(documents, ids, metadatas)
    records: Iterable[Record] = check(paired)
    if isinstance(paired, Sequence):
        records = list(records)
    written: list[str] = []
    try:
        for batch in _batches(records, batch_size):
            yield Renew()
            yield from _write(ready, batch)
            written.extend(record.id for record in batch)
            progress(len(batch))
    except TwofoldError as error:
        if not written:
            raise
        raise PartialAdd(
            f"{error}. The {len(written)} documents before that batch are stored; none of the batch is. Mend it and "
            "add everything again: what is stored is replaced, not doubled",
            written=written,
        ) from error
    return written


def _write(ready: Ready, batch: Sequence[Record]) -> Flow[None]:
    """One batch, stored whole or not at all. Of several with one id the last counts, as in any upsert."""
    records = list({record.id: record for record in batch}.values())
    texts = [record.text for record in records if record.text.strip()]
    dense: Iterator[Vectors] = iter((yield from _encode_dense(ready, texts)))
    sparse: Iterator[Sparse] = iter((yield from _encode_sparse(ready, texts)))
    points = [
        to_point(record, next(dense, None), next(sparse, None)) if record.text.strip() else to_point(record, None, None)
        for record in records
    ]
    yield from calls.upsert(ready.collection, points)


def _encode_dense(ready: Ready, texts: list[str]) -> Flow[Sequence[Vectors]]:
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


def _encode_sparse(ready: Ready, texts: list[str]) -> Flow[Sequence[Sparse]]:
    if ready.no_lexical or not texts:
        return []
    try:
        vectors: list[Sparse] = yield Work(lambda: ready.sparse.embed_documents(texts))
    except TwofoldError:
        raise
    except Exception as error:
        raise EncoderError(f"the sparse encoder failed on a batch of {len(texts)}: {error}") from error
    return vectors


def _batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
