"""What `--json` prints. The keys are stable: new ones may come, none goes or changes its meaning.

search::

    {"query", "mode", "degraded", "offset", "count",
     "hits": [{"rank", "id", "text", "score", "relevance", "metadata", "explanation"}]}

`rank` counts from 1 over all pages, `relevance` is the score from 0 to 1, and `explanation` is null without
`--explain`; with it, it has the fields of `twofold.Explanation`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from twofold.results import Hit, SearchResult


def result_as_json(result: SearchResult, offset: int = 0, *, explain: bool) -> dict[str, Any]:
    """A search result for machines."""
    return {
        "query": result.query,
        "mode": result.mode,
        "degraded": result.degraded,
        "offset": offset,
        "count": len(result),
        "hits": [_hit(hit, rank, explain) for rank, hit in enumerate(result, offset + 1)],
    }


def _hit(hit: Hit, rank: int, explain: bool) -> dict[str, Any]:
    return {
        "rank": rank,
        "id": hit.id,
        "text": hit.text,
        "score": hit.score,
        "relevance": hit.relevance,
        "metadata": dict(hit.metadata),
        "explanation": asdict(hit.explanation) if explain and hit.explanation else None,
    }
