"""Nodes as documents of an index, and hits as nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, TextNode
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict

from twofold.documents import Document
from twofold.errors import InvalidDocument
from twofold.memory import SHOWN, MemoryHit, MemoryItem
from twofold.results import Explanation, Hit, SearchResult

NODE = "_node"
"""The one metadata field that is ours: what a node is besides its text and its metadata."""
REF_DOC = f"{NODE}.ref_doc_id"
_CONTENT, _TYPE = "_node_content", "_node_type"
_UNEXPLAINED = dict.fromkeys(field.name for field in fields(Explanation))
_EXPLAINED = {*_UNEXPLAINED, "relevance", "mode", "degraded"}


def to_document(node: BaseNode) -> Document:
    """A node to be stored: found by its own text, filtered by its own metadata."""
    if NODE in node.metadata:
        raise InvalidDocument(f"node {node.node_id!r} has metadata under {NODE!r}, which is reserved: rename it")
    node = _as_stored(node)
    dumped = node_to_metadata_dict(node, remove_text=True)
    own = {"content": dumped[_CONTENT], "type": dumped[_TYPE], "ref_doc_id": node.ref_doc_id}
    text = node.get_content(metadata_mode=MetadataMode.NONE)
    return Document(text, node.node_id, {**node.metadata, NODE: own})


def _as_stored(node: BaseNode) -> BaseNode:
    """A node without what a search added, so that it can be found, changed and written back."""
    added = _added(node.metadata)
    if not added:
        return node
    hidden = ("excluded_llm_metadata_keys", "excluded_embed_metadata_keys")
    kept = {name: _without_last(getattr(node, name), added) for name in hidden}
    own = {name: value for name, value in node.metadata.items() if name not in added}
    return node.model_copy(update={"metadata": own, **kept})


def _added(metadata: Mapping[str, Any]) -> list[str]:
    """The fields that a search added. An explanation is known by its parts, which nobody's own has by chance."""
    why, facts = metadata.get("explanation"), metadata.get("memory")
    if not isinstance(why, Mapping) or set(why) != _EXPLAINED:
        return []
    return ["explanation", *(["memory"] if isinstance(facts, Mapping) and set(facts) == set(SHOWN) else [])]


def _without_last(names: list[str], added: list[str]) -> list[str]:
    """The search put them at the end; the user may have listed the same names before."""
    kept = names[::-1]
    for name in added:
        if name in kept:
            kept.remove(name)
    return kept[::-1]


def to_node(identity: str, text: str, metadata: Mapping[str, Any]) -> BaseNode:
    """A stored document as a node: the one that was stored, or a text with its metadata if it was never one."""
    own = metadata.get(NODE)
    if not isinstance(own, Mapping):
        return TextNode(id_=identity, text=text, metadata=dict(metadata))
    return metadata_dict_to_node({_CONTENT: own["content"], _TYPE: own["type"]}, text=text)


def to_scored(result: SearchResult, *, explain: bool) -> list[NodeWithScore]:
    """The hits of a search as nodes. What explains them is in the metadata, and kept from models."""
    return [NodeWithScore(node=_explained(hit, result) if explain else _node(hit), score=hit.score) for hit in result]


def _node(hit: Hit) -> BaseNode:
    return to_node(hit.id, hit.text, hit.metadata)


def _explained(hit: Hit, result: SearchResult) -> BaseNode:
    node = _node(hit)
    if (
        "explanation" in node.metadata
    ):  # the mark by which the rest is told from the user's own, when it is written back
        return node
    added: dict[str, Any] = {"explanation": _explanation(hit.explanation, hit, result)}
    if isinstance(hit, MemoryHit):
        added["memory"] = _facts(hit.memory)
    new = {name: value for name, value in added.items() if name not in node.metadata}
    node.metadata.update(new)
    node.excluded_llm_metadata_keys = [*node.excluded_llm_metadata_keys, *new]
    node.excluded_embed_metadata_keys = [*node.excluded_embed_metadata_keys, *new]
    return node


def _explanation(why: Explanation | None, hit: Hit, result: SearchResult) -> dict[str, Any]:
    told = _UNEXPLAINED if why is None else asdict(why)
    return {**told, "relevance": hit.relevance, "mode": result.mode, "degraded": result.degraded}


def _facts(item: MemoryItem) -> dict[str, Any]:
    """What is known about a memory besides its text and the user's own metadata."""
    found = {name: getattr(item, name) for name in SHOWN}
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in found.items()}
