"""The rows of a ranking as hits."""

from __future__ import annotations

from collections.abc import Sequence

from twofold.fusion import LegName, Strategy
from twofold.fusion.base import share
from twofold.index.plans import Row
from twofold.results import Explanation, Hit, Mode


def to_hits(
    page: Sequence[Row],
    fusion: Strategy,
    legs: Sequence[LegName],
    mode: Mode,
    matched: Sequence[tuple[str, ...]] | None,
) -> tuple[Hit, ...]:
    """One page of a ranking; explained if the matched words of each row are given."""
    name = "text" if mode == "text" else fusion.name
    explanations: Sequence[Explanation | None] = [None] * len(page)
    if matched is not None:
        explanations = [_explain(row, found, name, fusion.alpha) for row, found in zip(page, matched, strict=True)]
    best = 1.0 if mode == "text" else fusion.best(legs)
    return tuple([_hit(row, best, explanation) for row, explanation in zip(page, explanations, strict=True)])


def _hit(row: Row, best: float, explanation: Explanation | None) -> Hit:
    stored, score = row.stored, row.score
    return Hit(stored.id, stored.text, score, share(score, best), stored.metadata, explanation)


def _explain(row: Row, matched: tuple[str, ...], fusion: str, alpha: float) -> Explanation:
    dense, lexical = row.places.get("dense"), row.places.get("lexical")
    return Explanation(
        fusion=fusion,
        semantic_score=dense.score if dense else None,
        semantic_rank=dense.rank if dense else None,
        semantic_part=row.parts.get("dense", 0.0),
        lexical_score=lexical.score if lexical else None,
        lexical_rank=lexical.rank if lexical else None,
        lexical_part=row.parts.get("lexical", 0.0),
        matched_words=matched,
        final_score=row.score,
        tag_boost=row.parts.get("tags", 0.0),
        matched_tags=tuple(str(match.value) for match in row.matches),
        recency_factor=row.factors.recency,
        popularity_factor=row.factors.popularity,
        importance_factor=row.factors.importance,
        pinned_factor=row.factors.pinned,
        type_factor=row.factors.type,
        alpha=alpha,
    )
