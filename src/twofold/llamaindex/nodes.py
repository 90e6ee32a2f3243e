"""What the index holds as LlamaIndex has it: nodes as documents and back, hits as nodes, filters, the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, TextNode
from llama_index.core.vector_stores import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict

from twofold import Document, FilterError, Hit, HybridIndex, InvalidDocument, SearchResult
from twofold.memory import added_by_search

NODE_KEY = "_node"
"""The one metadata field that is ours: what a node is besides its text and its metadata."""
REF_DOC_FIELD = f"{NODE_KEY}.ref_doc_id"
_CONTENT_KEY, _TYPE_KEY = "_node_content", "_node_type"


def to_document(node: BaseNode) -> Document:
    """A node to be stored: found by its own text, filtered by its own metadata."""
    if NODE_KEY in node.metadata:
        raise InvalidDocument(f"node {node.node_id!r} has metadata under {NODE_KEY!r}, which is reserved: rename it")
    node = _without_explanation(node)
    dumped = node_to_metadata_dict(node, remove_text=True)
    own = {"content": dumped[_CONTENT_KEY], "type": dumped[_TYPE_KEY], "ref_doc_id": node.ref_doc_id}
    text = node.get_content(metadata_mode=MetadataMode.NONE)
    return Document(text, node.node_id, {**node.metadata, NODE_KEY: own})


def _without_explanation(node: BaseNode) -> BaseNode:
    """A node without what a search added, so that it can be found, changed and written back."""
    added = [name for name in added_by_search(node.metadata) if name != "score"]  # here the score is not in metadata
    if not added:
        return node
    changes: dict[str, Any] = {"metadata": {name: node.metadata[name] for name in node.metadata if name not in added}}
    for excluded in ("excluded_llm_metadata_keys", "excluded_embed_metadata_keys"):
        kept = getattr(node, excluded)[::-1]  # the search put them at the end; the user may have listed them before
        for name in added:
            if name in kept:
                kept.remove(name)
        changes[excluded] = kept[::-1]
    return node.model_copy(update=changes)


def to_node(stored: Document | Hit) -> BaseNode:
    """A stored document as a node: the one that was stored, or a text with its metadata if it was never one."""
    own = stored.metadata.get(NODE_KEY)
    if not isinstance(own, Mapping):
        return TextNode(id_=stored.id, text=stored.text, metadata=dict(stored.metadata))
    return metadata_dict_to_node({_CONTENT_KEY: own["content"], _TYPE_KEY: own["type"]}, text=stored.text)


def to_scored_nodes(result: SearchResult, *, explain: bool) -> list[NodeWithScore]:
    """The hits of a search as nodes. What explains them is in the metadata, and kept from models."""
    nodes = (_explained(hit, result) if explain else to_node(hit) for hit in result)
    return [NodeWithScore(node=node, score=hit.score) for node, hit in zip(nodes, result, strict=True)]


def _explained(hit: Hit, result: SearchResult) -> BaseNode:
    node = to_node(hit)
    if "explanation" in node.metadata:  # which marks what a search added, when a node is written back
        return node
    known = {*node.metadata, "score"}  # a scored node has that already
    added = {name: value for name, value in hit.as_metadata(result).items() if name not in known}
    node.metadata.update(added)
    node.excluded_llm_metadata_keys = [*node.excluded_llm_metadata_keys, *added]
    node.excluded_embed_metadata_keys = [*node.excluded_embed_metadata_keys, *added]
    return node


# --- filters -------------------------------------------------------------------------------------

_OPERATORS = {
    **{FilterOperator[name.upper()]: name for name in ("eq", "ne", "gt", "gte", "lt", "lte", "in", "nin")},
    FilterOperator.ANY: "in",
    FilterOperator.CONTAINS: "eq",
    FilterOperator.TEXT_MATCH: "text",
    FilterOperator.TEXT_MATCH_INSENSITIVE: "text",
}
_LIST_OPERATORS = (FilterOperator.IN, FilterOperator.NIN, FilterOperator.ANY, FilterOperator.ALL)
_RESERVED_WORDS = ("and", "or", "not")


def to_filter(filters: MetadataFilters | Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What a search takes as its filter; one in the index's own language passes through."""
    if filters is None or isinstance(filters, Mapping):
        return None if filters is None else dict(filters)
    if not isinstance(filters, MetadataFilters):
        raise FilterError(
            f"filters are MetadataFilters or a dict such as {{'year': 2014}}, got {type(filters).__name__}"
        )
    return _combined(filters) if filters.filters else None


def all_of(
    node_ids: Sequence[str] | None, filters: MetadataFilters | None, ref_doc_ids: Sequence[str] | None = None
) -> dict[str, Any] | None:
    """One filter for everything that must hold; None if there is nothing."""
    parts = (
        None if node_ids is None else {"$id": list(node_ids)},
        to_filter(filters),
        {REF_DOC_FIELD: {"in": list(ref_doc_ids)}} if ref_doc_ids else None,
    )
    given = [part for part in parts if part]
    return {"and": given} if given else None


def _combined(filters: MetadataFilters) -> dict[str, Any]:
    parts = [_combined(each) if isinstance(each, MetadataFilters) else _condition(each) for each in filters.filters]
    if filters.condition in (None, FilterCondition.AND):
        return {"and": parts}
    # "not" holds for what none of the filters matches.
    return {"or": parts} if filters.condition == FilterCondition.OR else {"not": {"or": parts}}


def _condition(wanted: MetadataFilter) -> dict[str, Any]:
    key, value, operator = wanted.key, wanted.value, wanted.operator
    if key in _RESERVED_WORDS or key.startswith("$"):
        raise FilterError(f"{key!r} can't be filtered on, since it is a word of the filter language: rename the field")
    if operator == FilterOperator.IS_EMPTY:
        return {key: {"exists": False}}
    if (operator in _LIST_OPERATORS) != isinstance(value, list):
        wants = "a list" if operator in _LIST_OPERATORS else "one value, not a list"
        raise FilterError(f"{key!r}: {operator.value!r} takes {wants}, got {value!r}")
    if operator == FilterOperator.ALL:
        return {"and": [{key: {"eq": each}} for each in value]}  # type: ignore[union-attr]
    return {key: {_OPERATORS[operator]: value}}


# --- the model -----------------------------------------------------------------------------------


class IndexEmbedding(BaseEmbedding):
    """Embeds as the index does, whatever its model is: the bundled one, a name, or an object of any framework."""

    _index: HybridIndex = PrivateAttr()

    def __init__(self, index: HybridIndex, **kwargs: Any) -> None:
        """Embed with the model of this index; `kwargs` are those of `BaseEmbedding`."""
        super().__init__(model_name=index.dense_model or "unknown", **kwargs)
        self._index = index

    @classmethod
    def class_name(cls) -> str:
        """Its name in traces."""
        return "IndexEmbedding"

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._index.embed([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._index.embed(texts)

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return (await self._index.aembed([text]))[0]

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await self._index.aembed(texts)

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._index.embed_query(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await self._index.aembed_query(query)
