"""LlamaIndex's query as a search of the core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores import MetadataFilters, VectorStoreQuery, VectorStoreQueryResult
from llama_index.core.vector_stores.types import VectorStoreQueryMode as Mode

from twofold.documents import point_id
from twofold.engine import calls
from twofold.engine.layout import Stored, from_point
from twofold.errors import InvalidQuery
from twofold.filters import All, HasPoint, parse
from twofold.flow import Flow
from twofold.index.hybrid import HybridIndex
from twofold.index.queries import FilterLike, Query, as_node, check_query
from twofold.index.searching import Searcher, search_diverse
from twofold.llamaindex.embedding import embed_query
from twofold.llamaindex.filters import to_filter
from twofold.llamaindex.nodes import REF_DOC, to_node
from twofold.results import SearchResult

_WORDS_ONLY = (Mode.SPARSE, Mode.TEXT_SEARCH)
_MEANING_ONLY = (Mode.DEFAULT, Mode.MMR)
_KNOWN = (*_MEANING_ONLY, Mode.HYBRID, *_WORDS_ONLY)
_AT_ONCE = 256
_USUAL_FACTOR = 4


@dataclass(frozen=True)
class Asked:
    """A query that has been understood."""

    query: Query
    vector: Sequence[float] | None
    mode: Mode
    diversity: float = 0.0
    candidates: int = 1


def understand(index: HybridIndex, query: VectorStoreQuery, options: Mapping[str, Any]) -> Asked:
    """What LlamaIndex asks for, or why it can't be done."""
    mode = Mode(query.mode)
    if mode not in _KNOWN:
        raise InvalidQuery(f"there is no {mode.value!r} search here: use {', '.join(known.value for known in _KNOWN)}")
    vector = None if mode in _WORDS_ONLY else query.query_embedding
    text = "" if vector is not None and mode in _MEANING_ONLY else query.query_str or ""
    if vector is None and query.query_str is None:
        raise InvalidQuery(f"a {mode.value!r} search needs {'query_str' if mode in _WORDS_ONLY else 'query_embedding'}")
    k = query.similarity_top_k
    if mode == Mode.HYBRID and query.hybrid_top_k is not None:
        k = query.hybrid_top_k
    # The index's own check, so that its configuration counts here too.
    checked = check_query(
        text,
        k=k,
        offset=0,
        where=_where(query),
        config=index._config,
        overrides={"alpha": _alpha(query, mode)},
        explain=True,
        vector=vector,
    )
    threshold, candidates = _choice(query, options, k)
    return Asked(checked, vector, mode, 1 - threshold, candidates)


def _alpha(query: VectorStoreQuery, mode: Mode) -> float | None:
    if mode == Mode.HYBRID:
        return query.alpha
    return 0.0 if mode in _WORDS_ONLY else 1.0


def _choice(query: VectorStoreQuery, options: Mapping[str, Any], k: int) -> tuple[float, int]:
    """For MMR: how much relevance counts, and among how many is chosen. LlamaIndex has both in two places."""
    threshold = options.get("mmr_threshold", query.mmr_threshold)
    factor = options.get("mmr_prefetch_factor", _USUAL_FACTOR)
    candidates = options.get("mmr_prefetch_k", max(1, int(factor * k)))
    return 0.5 if threshold is None else threshold, candidates


def _where(query: VectorStoreQuery) -> FilterLike | None:
    """An empty list of ids means any: that is what a `VectorStoreIndex` sends if it keeps no list of its own."""
    documents = {REF_DOC: {"in": list(query.doc_ids)}} if query.doc_ids else None
    return where(query.node_ids or None, query.filters, documents)


def where(
    node_ids: Sequence[str] | None, filters: MetadataFilters | None, *also: Mapping[str, Any] | None
) -> FilterLike | None:
    """One filter for everything that must hold; None if there is nothing."""
    parts = [part for part in (to_filter(filters), *also) if part]
    both: dict[str, Any] | None = {"and": parts} if parts else None
    if node_ids is None:
        return both
    these = HasPoint(tuple(point_id(identity) for identity in node_ids))
    return All((these, parse(both))) if both else these


def search(searcher: Searcher, asked: Asked) -> Flow[VectorStoreQueryResult]:
    """Carry a query out."""
    if asked.mode == Mode.MMR:
        vector = (yield from embed_query(searcher, asked.query.text)) if asked.vector is None else asked.vector
        wide = replace(asked.query, vector=vector)
        found = yield from search_diverse(searcher, wide, asked.candidates, asked.diversity)
    else:
        found = (yield from searcher.search(asked.query)).result
    nodes = [to_node(hit.id, hit.text, hit.metadata) for hit in found]
    return VectorStoreQueryResult(nodes=nodes, similarities=_similarities(found, asked.mode), ids=found.ids)


def _similarities(found: SearchResult, mode: Mode) -> list[float]:
    """Cosines where meaning alone was asked for, as other stores give them; the final score otherwise."""
    if mode not in _MEANING_ONLY or found.mode != "dense":
        return [hit.score for hit in found]
    cosines = [hit.explanation.semantic_score if hit.explanation else None for hit in found]
    return [hit.score if cosine is None else cosine for hit, cosine in zip(found, cosines, strict=True)]


def fetch(searcher: Searcher, node_ids: Sequence[str] | None, wanted: Any) -> Flow[list[BaseNode]]:
    """Nodes by id, in the order of the ids, by filter, or all of them."""
    rows: list[Stored] = []
    offset: Any = None
    while True:
        points, offset = yield from calls.scroll(
            searcher.ready.collection, as_node(wanted), limit=_AT_ONCE, offset=offset
        )
        rows += [from_point(point) for point in points]
        if offset is None:
            break
    if node_ids is not None:
        places = {identity: place for place, identity in enumerate(node_ids)}
        rows.sort(key=lambda row: places.get(row.id, len(places)))
    return [to_node(row.id, row.text, row.metadata) for row in rows]
