"""Storing documents: check, encode, write, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from twofold.documents import DocumentLike, Record, check, pair_up
from twofold.encoders.base import Sparse, Vectors, check_dense
from twofold.engine import calls
from twofold.engine.flow import Flow, Renew, Work
from twofold.engine.layout import to_point
from twofold.errors import CollectionMismatch, ConfigError, EncoderError, EngineError, PartialAdd, TwofoldError
from twofold.index.opening import Ready
from twofold.index.progress import Advance


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
