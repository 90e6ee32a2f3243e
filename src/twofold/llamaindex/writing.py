"""Storing nodes with the vectors that LlamaIndex made for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.schema import BaseNode, MetadataMode

from twofold.documents import Record, check
from twofold.encoders.base import DenseEncoder, Vectors, check_dense
from twofold.engine import calls
from twofold.engine.layout import to_point
from twofold.errors import CollectionMismatch, ConfigError, EncoderError, InvalidDocument
from twofold.flow import Flow, Renew
from twofold.index.opening import Ready
from twofold.index.searching import Searcher
from twofold.index.writing import encode_dense, encode_sparse
from twofold.llamaindex.nodes import to_document

_BATCH = 64


def given_vectors(dims: int) -> DenseEncoder:
    """Stands for a model that is not at hand: vectors come with the nodes and with the queries."""
    if isinstance(dims, bool) or not isinstance(dims, int) or dims < 1:
        raise ConfigError(f"dims is how long the vectors are, a whole number from 1, got {dims!r}")

    def nothing(_: Any) -> Any:
        raise EncoderError("this store was opened with dims= and has no model of its own: pass embed_model= instead")

    return DenseEncoder(name=f"given:{dims}", embed_documents=nothing, embed_query=nothing, dim=dims)


def add(searcher: Searcher, nodes: Sequence[BaseNode]) -> Flow[list[str]]:
    """Store nodes and give their ids. All are checked before the first is written; of several with one id the last."""
    ready = searcher.ready
    if ready.read_only:
        raise CollectionMismatch(ready.read_only)
    records = list(check([to_document(node) for node in nodes]))
    vectors = [_given(node, ready) for node in nodes]
    last = list({record.id: place for place, record in enumerate(records)}.values())
    for start in range(0, len(last), _BATCH):
        yield Renew()
        places = last[start : start + _BATCH]
        chosen = [(nodes[place], records[place], vectors[place]) for place in places]
        yield from _write(ready, chosen)
    return [record.id for record in records]


def _given(node: BaseNode, ready: Ready) -> Vectors | None:
    """The vector of a node; None if it has none, and is to be embedded here."""
    if node.embedding is None or ready.no_dense:
        return None
    if len(node.embedding) != ready.dim:
        raise InvalidDocument(
            f"node {node.node_id!r} comes with a vector of {len(node.embedding)} dimensions, and the store holds "
            f"{ready.dim} ({ready.dense.name}): give the store and the VectorStoreIndex the same embed_model"
        )
    vector: Vectors = check_dense([node.embedding], 1, ready.dim, f"the embedding of node {node.node_id!r}")[0]
    return vector


def _write(ready: Ready, chosen: Sequence[tuple[BaseNode, Record, Vectors | None]]) -> Flow[None]:
    bare = [node.get_content(metadata_mode=MetadataMode.EMBED) for node, _, vector in chosen if vector is None]
    made = iter((yield from encode_dense(ready, [text for text in bare if text.strip()])))
    texts = [record.text for _, record, _ in chosen if record.text.strip()]
    words = iter((yield from encode_sparse(ready, texts)))
    embeds = iter(bare)
    points = []
    for _, record, vector in chosen:
        if vector is None and next(embeds).strip():
            vector = next(made, None)
        points.append(to_point(record, vector, next(words, None) if record.text.strip() else None))
    yield from calls.upsert(ready.collection, points)
    ready.nature.changed(len(texts))
