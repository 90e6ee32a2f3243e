"""Whose collection is this? From its settings and some of its rows to its `Layout`.

Pure: what was read comes in as plain values. The keys are those of langchain-qdrant, qdrant-haystack, mem0ai,
llama-index-vector-stores-qdrant and mcp-server-qdrant; `tests/foreign` has what each of them really wrote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from twofold.encoders.base import Sparse
from twofold.engine.layout import METADATA_KEY, OWN, RECORD_KEY, SPARSE, Layout, Point, Schema
from twofold.errors import CollectionMismatch

_HAYSTACK_IDS = "3896d314-1e95-4a3a-b45a-945f9f0b541d"
# Each with the keys that a row of it has, the more telling ones first. A key that must hold a text comes first.
_KNOWN: tuple[tuple[tuple[str, ...], Layout], ...] = (
    (
        ("_node_content",),
        Layout("_node_content.text", None, hidden=("_node_content", "_node_type"), writer="LlamaIndex"),
    ),
    (("page_content",), Layout("page_content", writer="LangChain")),
    (("content", "meta"), Layout("content", "meta", namespace=_HAYSTACK_IDS, writer="Haystack")),
    (("document", METADATA_KEY), Layout("document", writer="mcp-server-qdrant")),
    (("data", "hash"), Layout("data", None, hidden=("text_lemmatized",), writer="mem0")),
    (("text",), OWN),
)
# Where there are several, these are the ones for text.
_USUAL_DENSE = ("dense", "text-dense", "")
_USUAL_SPARSE = (SPARSE, "langchain-sparse", "text-sparse-new", "text-sparse")
OUR_WORDS = (SPARSE, "twofold-bm25")
"""What the sparse vector of Twofold is called; the second where somebody else has one of the first name."""
_MOST_KEYS = 12
_ENOUGH_SHARED = 0.5


def recognise(collection: str, schema: Schema, payloads: Sequence[Mapping[str, Any]], told: Layout | None) -> Layout:
    """The layout of a collection that Twofold didn't write, or what to say about it."""
    layout = told or _by_keys(payloads)
    if layout is None:
        raise CollectionMismatch(
            f"collection {collection!r} was not written by Twofold, nor by anything whose rows it knows, and nothing "
            f"says where its texts are: {_seen(schema, payloads)}. Open it with "
            "layout=Layout(text=…), which names their key, or choose another collection name"
        )
    dense = _choose(collection, "dense", layout.dense, [*_single(schema.vectors)], _USUAL_DENSE)
    sparse = _choose(collection, "sparse", layout.sparse, [*schema.sparse_vectors], _USUAL_SPARSE)
    if dense is None and sparse is None:
        raise CollectionMismatch(
            f"collection {collection!r} has neither a dense nor a sparse vector for a text: Twofold can't search it. "
            "Choose another collection name"
        )
    found = replace(layout, dense=dense, sparse=sparse)
    return OWN if found == OWN else found


def _by_keys(payloads: Sequence[Mapping[str, Any]]) -> Layout | None:
    """The first that any row fits: among them are rows that something else changed or wrote."""
    for keys, layout in _KNOWN:
        for payload in payloads:
            if isinstance(payload.get(keys[0]), str) and all(key in payload for key in keys):
                return layout if layout is not OWN else replace(OWN, dense=None, sparse=None)
    return None


def _single(vectors: Mapping[str, Any]) -> list[str]:
    """Those that hold one vector for a row, and not one for each word of it."""
    return [name for name, settings in vectors.items() if not settings.get("multivector_config")]


def _choose(collection: str, kind: str, told: str | None, there: list[str], usual: Sequence[str]) -> str | None:
    if told is not None:
        if told not in there:
            known = ", ".join(map(repr, there)) or "none"
            raise CollectionMismatch(
                f"collection {collection!r} has no {kind} vector named {told!r}: it has {known}; name one of them in "
                "layout="
            )
        return told
    if len(there) <= 1:
        return there[0] if there else None
    for name in usual:
        if name in there:
            return name
    raise CollectionMismatch(
        f"collection {collection!r} has several {kind} vectors, {', '.join(map(repr, there))}: say which is for its "
        f"texts with layout=Layout(…, {kind}=…)"
    )


def _seen(schema: Schema, payloads: Sequence[Mapping[str, Any]]) -> str:
    if not payloads:
        return "it is empty"
    keys = list(dict.fromkeys(key for payload in payloads for key in payload))[:_MOST_KEYS]
    vectors = ", ".join(repr(name) for name in (*schema.vectors, *schema.sparse_vectors)) or "none"
    return f"its rows have {', '.join(map(repr, keys)) or 'no payload'}, its vectors are {vectors}"


def restored(record: Mapping[str, Any]) -> Layout:
    """The layout that was noted when the collection was adopted."""
    noted = record.get("layout")
    return OWN if noted is None else Layout(**{**noted, "hidden": tuple(noted["hidden"])})


def noted(layout: Layout) -> dict[str, Any]:
    """What to add to a collection's record, so that its layout need not be recognised again."""
    return {} if layout == OWN else {"layout": {**asdict(layout), "hidden": list(layout.hidden)}}


def words_of_ours(schema: Schema) -> str:
    """What to call our sparse vector in a collection of others, which may have one of that name."""
    return next(name for name in (*OUR_WORDS, f"{RECORD_KEY}-words") if name not in schema.sparse_vectors)


def shares_words(stored: Point, sparse: str, made: Sparse) -> bool | None:
    """The sparse vector of a row has the words that BM25 finds in its text: then BM25 can ask for them.

    Others stem and split a little differently, so most of its numbers are enough. A learned model has its own. None if
    the row has no such vector.
    """
    found = stored.vector.get(sparse) if isinstance(stored.vector, Mapping) else None
    if found is None or not found.indices:
        return None
    indices = set(found.indices)
    return len(indices & set(made.indices)) >= _ENOUGH_SHARED * len(indices)
