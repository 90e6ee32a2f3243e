"""The metrics once more, as the textbook has them, in plain Python."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence


def hit_rate(relevant: Mapping[str, float], ranked: Sequence[str]) -> float:
    return float(any(identity in relevant for identity in ranked))


def mrr(relevant: Mapping[str, float], ranked: Sequence[str]) -> float:
    return next((1 / rank for rank, identity in enumerate(ranked, 1) if identity in relevant), 0.0)


def recall(relevant: Mapping[str, float], ranked: Sequence[str]) -> float:
    return sum(identity in relevant for identity in ranked) / len(relevant)


def ndcg(relevant: Mapping[str, float], ranked: Sequence[str], k: int) -> float:
    ideal = sorted(relevant.values(), reverse=True)[:k]
    return _dcg([relevant.get(identity, 0.0) for identity in ranked]) / _dcg(ideal)


def _dcg(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def all_of(relevant: Mapping[str, float], ranked: Sequence[str], k: int) -> dict[str, float]:
    first = ranked[:k]
    return {
        "hit_rate": hit_rate(relevant, first),
        "mrr": mrr(relevant, first),
        "ndcg": ndcg(relevant, first, k),
        "recall": recall(relevant, first),
    }
