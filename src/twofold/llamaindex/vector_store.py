"""`HybridVectorStore`: what a `VectorStoreIndex` keeps its nodes in.

First what the index holds as LlamaIndex has it: nodes as documents and back, hits as nodes, filters, the model; then
the store. What takes several steps is a flow over the public methods of the index, which the store calls or awaits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, TextNode
from llama_index.core.vector_stores import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.types import BasePydanticVectorStore, VectorStoreQuery, VectorStoreQueryResult
from llama_index.core.vector_stores.types import VectorStoreQueryMode as Mode
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict

from twofold import CollectionSettings, Document, Hit, HybridIndex, SearchConfig, SearchResult
from twofold.documents import check
from twofold.encoders.base import DenseEncoder, check_dense
from twofold.errors import ConfigError, EncoderError, FilterError, InvalidDocument, InvalidQuery
from twofold.flow import Call, Closeable, Flow, MethodCaller, arun, run
from twofold.memory import added_by_search

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient, QdrantClient

NODE_KEY = "_node"
"""The one metadata field that is ours: what a node is besides its text and its metadata."""
REF_DOC_FIELD = f"{NODE_KEY}.ref_doc_id"
_CONTENT_KEY, _TYPE_KEY = "_node_content", "_node_type"
_LEXICAL_MODES = (Mode.SPARSE, Mode.TEXT_SEARCH)
_DENSE_MODES = (Mode.DEFAULT, Mode.MMR)
_MODES = (*_DENSE_MODES, Mode.HYBRID, *_LEXICAL_MODES)
_NODES_PER_BATCH = 64
_DEFAULT_MMR_THRESHOLD = 0.5
_DEFAULT_MMR_PREFETCH_FACTOR = 4


# --- nodes ---------------------------------------------------------------------------------------


def _to_document(node: BaseNode, title_key: str | None) -> Document:
    """A node to be stored: found by its own text, filtered by its own metadata."""
    if NODE_KEY in node.metadata:
        raise InvalidDocument(f"node {node.node_id!r} has metadata under {NODE_KEY!r}, which is reserved: rename it")
    node = _without_explanation(node)
    dumped = node_to_metadata_dict(node, remove_text=True)
    own = {"content": dumped[_CONTENT_KEY], "type": dumped[_TYPE_KEY], "ref_doc_id": node.ref_doc_id}
    text = node.get_content(metadata_mode=MetadataMode.NONE)
    title = node.metadata.get(title_key or "")
    return Document(text, node.node_id, {**node.metadata, NODE_KEY: own}, title=title)


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


def to_node(stored: Document | Hit, title_key: str | None = None) -> BaseNode:
    """A stored document as a node: the one that was stored, or a text with its metadata if it was never one."""
    own = stored.metadata.get(NODE_KEY)
    if not isinstance(own, Mapping):
        title = {title_key: stored.title} if title_key and stored.title else {}
        return TextNode(id_=stored.id, text=stored.text, metadata={**title, **stored.metadata})
    return metadata_dict_to_node({_CONTENT_KEY: own["content"], _TYPE_KEY: own["type"]}, text=stored.text)


def to_scored_nodes(result: SearchResult, *, explain: bool, title_key: str | None = None) -> list[NodeWithScore]:
    """The hits of a search as nodes. What explains them is in the metadata, and kept from models."""
    found = [to_node(hit, title_key) for hit in result]
    nodes = (_explained(node, hit, result) if explain else node for node, hit in zip(found, result, strict=True))
    return [NodeWithScore(node=node, score=hit.relevance) for node, hit in zip(nodes, result, strict=True)]


def _explained(node: BaseNode, hit: Hit, result: SearchResult) -> BaseNode:
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


def _all_of(
    node_ids: Sequence[str] | None, filters: MetadataFilters | None, ref_doc_ids: Sequence[str] | None = None
) -> dict[str, Any] | None:
    """One filter for everything that must hold; None if there is nothing."""
    for name, ids in (("node_ids", node_ids), ("doc_ids", ref_doc_ids)):
        if ids is not None and (not isinstance(ids, Iterable) or isinstance(ids, (str, bytes, type))):
            raise InvalidQuery(f"{name} must be a list of strings, got {type(ids).__name__}")
    documents = list(ref_doc_ids or ())
    parts = (
        None if node_ids is None else {"$id": list(node_ids)},
        to_filter(filters),
        {REF_DOC_FIELD: {"in": documents}} if documents else None,
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

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process (`IngestionPipeline(num_workers=2)`) the model is loaded anew, by its name."""
        return _embedding_by_name, (self.model_name,)

    @classmethod
    def class_name(cls) -> str:
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


def _embedding_by_name(name: str) -> IndexEmbedding:
    try:
        return IndexEmbedding(HybridIndex.open(":memory:", dense=name))
    except ConfigError as error:
        advice = "give the pipeline your own embedding in place of store.embed_model"
        raise ConfigError(f"{name} can't be loaded by its name in another process: {advice}") from error


# --- the store -----------------------------------------------------------------------------------


class HybridVectorStore(BasePydanticVectorStore, Closeable):
    """Nodes that are found by meaning, by words, or by both: embedded, or on a Qdrant server.

    The vectors are those that LlamaIndex makes; the words are indexed here. Query modes: default (meaning), hybrid
    (with `alpha`), sparse and text_search (words), and mmr.
    """

    stores_text: bool = True
    is_embedding_query: bool = True
    flat_metadata: bool = False

    _index: HybridIndex = PrivateAttr()
    _title_key: str | None = PrivateAttr()

    def __init__(
        self,
        location: str | Path | QdrantClient | AsyncQdrantClient = ":memory:",
        *,
        collection: str = "twofold",
        embed_model: Any = None,
        dims: int | None = None,
        sparse: Any = None,
        language: str | None = None,
        config: SearchConfig | None = None,
        settings: CollectionSettings | None = None,
        index: HybridIndex | None = None,
        title_key: str | None = None,
        **options: Any,
    ) -> None:
        """Open a store, and create it if it isn't there.

        Args:
            location: A folder, ":memory:", the URL of a Qdrant server, or a client of your own.
            collection: The name of the collection.
            embed_model: The model that the vectors come from: the same that the `VectorStoreIndex` gets. Its name is
                recorded, so that vectors of two models are never mixed. By default the bundled one: then give
                `store.embed_model` to the `VectorStoreIndex`.
            dims: How long the vectors are, where the model can't be given; the store then can't embed by itself.
            sparse: The model for words.
            language: The language of the built-in BM25.
            config: How to search.
            settings: How a new collection is laid out.
            index: An open index, in place of all of the above.
            title_key: The metadata field that is a node's title, such as "title": its words then find the node as
                those of the text do. The vector is LlamaIndex's, which has the metadata in it anyway.
            options: Whatever else `HybridIndex.open` takes: `api_key`, `timeout`, `durability` ….
        """
        super().__init__(stores_text=True)
        self._title_key = title_key
        options |= {"sparse": sparse, "language": language, "config": config, "settings": settings}
        self._index = index or HybridIndex.open(location, collection, dense=_model(embed_model, dims), **options)

    @classmethod
    async def aopen(
        cls,
        location: str | Path | QdrantClient | AsyncQdrantClient = ":memory:",
        *,
        collection: str = "twofold",
        embed_model: Any = None,
        dims: int | None = None,
        title_key: str | None = None,
        **options: Any,
    ) -> HybridVectorStore:
        """Open a store without blocking the event loop."""
        dense = _model(embed_model, dims)
        return cls(index=await HybridIndex.aopen(location, collection, dense=dense, **options), title_key=title_key)

    @classmethod
    def class_name(cls) -> str:
        return "HybridVectorStore"

    @property
    def client(self) -> HybridIndex:
        """The index underneath."""
        return self._index

    @property
    def index(self) -> HybridIndex:
        """The index underneath: a `HybridRetriever` can look in it too."""
        return self._index

    @property
    def embed_model(self) -> IndexEmbedding:
        """The model of the store, for the `VectorStoreIndex`."""
        return IndexEmbedding(self._index)

    def close(self) -> None:
        """Let go of the engine. A client that you brought stays open; closing twice is fine."""
        self._index.close()

    async def aclose(self) -> None:
        await self._index.aclose()

    # --- storing -------------------------------------------------------------------------------

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Store nodes with their vectors, and replace those whose id is there; one without a vector is embedded."""
        return run(_add(self._index, nodes, self._title_key), MethodCaller(self._index))

    async def async_add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """`add` without blocking the event loop."""
        return await arun(_add(self._index, nodes, self._title_key), MethodCaller(self._index))

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Delete the nodes of a document."""
        self._index.delete(filter={REF_DOC_FIELD: ref_doc_id})

    async def adelete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """`delete` without blocking the event loop."""
        await self._index.adelete(filter={REF_DOC_FIELD: ref_doc_id})

    def delete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **delete_kwargs: Any
    ) -> None:
        """Delete nodes by id, by filter, or those that fulfil both."""
        self._index.delete(filter=_which(node_ids, filters))

    async def adelete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **delete_kwargs: Any
    ) -> None:
        """`delete_nodes` without blocking the event loop."""
        await self._index.adelete(filter=_which(node_ids, filters))

    def clear(self) -> None:
        """Delete everything."""
        self._index.clear()

    async def aclear(self) -> None:
        """`clear` without blocking the event loop."""
        await self._index.aclear()

    # --- finding -------------------------------------------------------------------------------

    def get_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        """Nodes by id (in that order), by filter, or all of them; each with its embedding."""
        return run(_nodes(node_ids, filters, self._title_key), MethodCaller(self._index))

    async def aget_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """`get_nodes` without blocking the event loop."""
        return await arun(_nodes(node_ids, filters, self._title_key), MethodCaller(self._index))

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Find nodes.

        Args:
            query: What LlamaIndex asks for. `alpha` counts in hybrid mode, and None is what the index does by itself;
                `sparse_top_k` is how many candidates words bring in, or how many nodes where words alone are searched.
            kwargs: For mmr: `mmr_threshold`, from 0, as different as possible, to 1, as near as possible;
                `mmr_prefetch_k` or `mmr_prefetch_factor`, among how many to choose.
        """
        return run(_query(query, kwargs, self._title_key), MethodCaller(self._index))

    async def aquery(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """`query` without blocking the event loop."""
        return await arun(_query(query, kwargs, self._title_key), MethodCaller(self._index))


def _model(embed_model: Any, dims: int | None) -> Any:
    """With `dims` one that stands for a model that is not at hand: vectors come with the nodes and the queries."""
    if dims is None:
        return embed_model
    if embed_model is not None:
        raise ConfigError("embed_model= says how long the vectors are: leave dims= out")
    if isinstance(dims, bool) or not isinstance(dims, int) or dims < 1:
        raise ConfigError(f"dims is how long the vectors are, a whole number from 1, got {dims!r}")

    def refuse(_: Any) -> Any:
        raise EncoderError("this store was opened with dims= and has no model of its own: pass embed_model= instead")

    return DenseEncoder(name=f"given:{dims}", embed_documents=refuse, embed_query=refuse, dim=dims)


# --- storing -------------------------------------------------------------------------------------


def _add(index: HybridIndex, nodes: Any, title_key: str | None) -> Flow[list[str]]:
    """Store nodes and give their ids. All are checked before the first is written; of several with one id the last."""
    nodes = list(nodes) if isinstance(nodes, Iterable) and not isinstance(nodes, type) else [None]
    if not all(isinstance(node, BaseNode) for node in nodes):
        raise InvalidDocument("nodes must be a list of LlamaIndex's nodes: wrap a single one in [ ]")
    ids = [record.id for record in check([_to_document(node, title_key) for node in nodes])]
    yield Call("embed", {"texts": []})  # opens the store of an async client, which then knows how long vectors are
    for node in nodes:
        _check_vector(index, node)
    last = list(dict(zip(ids, nodes, strict=True)).values())
    for start in range(0, len(last), _NODES_PER_BATCH):
        some = last[start : start + _NODES_PER_BATCH]
        texts = ["" if node.embedding is not None else node.get_content(MetadataMode.EMBED) for node in some]
        made = iter((yield Call("embed", {"texts": [text for text in texts if text.strip()]})))
        vectors = [next(made) if text.strip() else node.embedding for node, text in zip(some, texts, strict=True)]
        yield Call("add", {"documents": [_to_document(node, title_key) for node in some], "vectors": vectors})
    return ids


def _check_vector(index: HybridIndex, node: BaseNode) -> None:
    """A vector that comes with a node is one of the store's model."""
    vector, wanted = node.embedding, index.dense_dim
    if vector is None or wanted is None:
        return
    if len(vector) != wanted:
        raise InvalidDocument(
            f"node {node.node_id!r} comes with a vector of {len(vector)} dimensions, and the store holds "
            f"{wanted} ({index.dense_model}): give the store and the VectorStoreIndex the same embed_model"
        )
    check_dense([vector], 1, wanted, f"the embedding of node {node.node_id!r}")


def _which(node_ids: list[str] | None, filters: MetadataFilters | None) -> dict[str, Any]:
    wanted = _all_of(node_ids, filters)
    if wanted is None:
        raise InvalidQuery("delete_nodes takes node_ids, filters or both: clear() deletes everything")
    return wanted


# --- finding -------------------------------------------------------------------------------------


def _nodes(
    node_ids: Sequence[str] | None, filters: MetadataFilters | None, title_key: str | None
) -> Flow[list[BaseNode]]:
    """Stored nodes with their vectors, in the order of the ids where these were given."""
    found: list[Document] = yield Call("fetch", {"filter": _all_of(node_ids, filters)})
    positions = {identity: position for position, identity in enumerate(node_ids or ())}
    found.sort(key=lambda each: positions.get(each.id or "", len(positions)))
    nodes = [to_node(each, title_key) for each in found]
    vectors = yield Call("vectors", {"ids": [each.id for each in found]})
    for node, vector in zip(nodes, vectors, strict=True):
        node.embedding = vector
    return nodes


def _query(query: VectorStoreQuery, options: Mapping[str, Any], title_key: str | None) -> Flow[VectorStoreQueryResult]:
    """LlamaIndex's query as a search of the index, and the answer in LlamaIndex's form."""
    if not isinstance(query, VectorStoreQuery):
        raise InvalidQuery(f"a query is LlamaIndex's VectorStoreQuery, got {type(query).__name__}")
    mode = Mode(query.mode)
    if mode not in _MODES:
        raise InvalidQuery(f"there is no {mode.value!r} search here: use {', '.join(known.value for known in _MODES)}")
    vector = None if mode in _LEXICAL_MODES else query.query_embedding
    if vector is None and query.query_str is None:
        needs = "query_str" if mode in _LEXICAL_MODES else "query_embedding"
        raise InvalidQuery(f"a {mode.value!r} search needs {needs}")
    own = query.hybrid_top_k if mode == Mode.HYBRID else query.sparse_top_k if mode in _LEXICAL_MODES else None
    k = query.similarity_top_k if own is None else own
    # An empty list of ids means any: that is what a `VectorStoreIndex` sends if it keeps no list of its own.
    where = _all_of(query.node_ids or None, query.filters, query.doc_ids)
    arguments: dict[str, Any] = {"k": k, "filter": where, "explain": True}
    if mode == Mode.MMR:
        if vector is None:
            vector = yield Call("embed_query", {"text": query.query_str})
        result = yield Call("search_diverse", {"query": vector, **arguments, **_diversity(query, options, k)})
    else:
        text = "" if vector is not None and mode in _DENSE_MODES else query.query_str or ""
        alpha = query.alpha if mode == Mode.HYBRID else 0.0 if mode in _LEXICAL_MODES else 1.0
        if mode == Mode.HYBRID and query.sparse_top_k is not None:  # how many candidates the lexical leg brings
            if not all(isinstance(each, int) for each in (k, query.similarity_top_k, query.sparse_top_k)):
                raise InvalidQuery(f"sparse_top_k and the others are whole numbers, got {query.sparse_top_k!r}")
            arguments["depth"] = max(k, query.similarity_top_k, query.sparse_top_k)
        result = yield Call("search", {"query": text, "vector": vector, "alpha": alpha, **arguments})
    nodes = [to_node(hit, title_key) for hit in result]
    return VectorStoreQueryResult(nodes=nodes, similarities=_similarities(result, mode), ids=result.ids)


def _diversity(query: VectorStoreQuery, options: Mapping[str, Any], k: int) -> dict[str, Any]:
    """For MMR: how much difference counts, and among how many is chosen. LlamaIndex has the first in two places."""
    threshold = options.get("mmr_threshold", query.mmr_threshold)
    factor = options.get("mmr_prefetch_factor", _DEFAULT_MMR_PREFETCH_FACTOR)
    candidates = options.get("mmr_prefetch_k", max(1, int(factor * k)))
    return {"diversity": 1 - (_DEFAULT_MMR_THRESHOLD if threshold is None else threshold), "candidates": candidates}


def _similarities(result: SearchResult, mode: Mode) -> list[float]:
    """Cosines where meaning alone was asked for, as other stores give them; otherwise the relevance, from 0 to 1."""
    if mode not in _DENSE_MODES or result.mode != "dense":
        return [hit.relevance for hit in result]
    cosines = [hit.explanation.semantic_score if hit.explanation else None for hit in result]
    return [hit.relevance if cosine is None else cosine for hit, cosine in zip(result, cosines, strict=True)]
