"""`twofold demo`: the same memories found by meaning, by words and by both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twofold.cli.console import print_json, unrepeated
from twofold.cli.demo_memories import MEMORIES, QUERIES, DemoQuery
from twofold.cli.machine import result_as_json
from twofold.index import HybridIndex
from twofold.results import SearchResult

_SHOWN = 5


@dataclass(frozen=True)
class Comparison:
    """One query, answered three ways."""

    query: DemoQuery
    dense: SearchResult
    bm25: SearchResult
    hybrid: SearchResult


def run(own_query: str | None, *, as_json: bool) -> None:
    """Store the memories, ask, and show the answers side by side."""
    queries = QUERIES if own_query is None else (DemoQuery(own_query, frozenset()),)
    with HybridIndex.open(":memory:") as index:
        index.add(MEMORIES)
        with unrepeated():
            comparisons = [_compare(index, query) for query in queries]
    if as_json:
        print_json({"memories": len(MEMORIES), "queries": [_as_json(comparison) for comparison in comparisons]})
        return
    from twofold.cli.demo_view import show

    show(comparisons, len(MEMORIES), judged=own_query is None)


def _compare(index: HybridIndex, query: DemoQuery) -> Comparison:
    dense, bm25, hybrid = (index.search(query.text, _SHOWN, alpha=alpha, explain=True) for alpha in (1.0, 0.0, None))
    return Comparison(query, dense, bm25, hybrid)


def _as_json(comparison: Comparison) -> dict[str, Any]:
    return {
        "query": comparison.query.text,
        "relevant": sorted(comparison.query.relevant),
        "dense": result_as_json(comparison.dense, explain=True),
        "bm25": result_as_json(comparison.bm25, explain=True),
        "hybrid": result_as_json(comparison.hybrid, explain=True),
    }
