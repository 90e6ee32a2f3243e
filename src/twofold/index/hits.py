"""The rows of a ranking as hits."""

from __future__ import annotations

from collections.abc import Sequence

from twofold.engine.requests import Probe
from twofold.index.opening import Ready
from twofold.index.plans import Row
from twofold.index.queries import Query
from twofold.results import Explanation, Hit, Mode
from twofold.text import words


def to_hits(page: Sequence[Row], query: Query, probes: Sequence[Probe], mode: Mode, ready: Ready) -> tuple[Hit, ...]:
    """One page of a ranking, explained if that was asked for."""
    fusion = query.fusion
    legs = [probe.leg for probe in probes]
    explanations: Sequence[Explanation | None] = [None] * len(page)
    if query.explain:
        name = "text" if mode == "text" else fusion.name
        texts = [row.stored.text for row in page]
        matched = _plain_words(query.text, texts) if mode == "text" else ready.sparse.matched_words(query.text, texts)
        explanations = [_explain(row, found, name) for row, found in zip(page, matched, strict=True)]
    return tuple(
        Hit(
            id=row.stored.id,
            text=row.stored.text,
            score=row.score,
            relevance=row.score if mode == "text" else fusion.relevance(row.score, legs),
            metadata=row.stored.metadata,
            explanation=explanation,
        )
        for row, explanation in zip(page, explanations, strict=True)
    )


def _plain_words(query: str, texts: Sequence[str]) -> list[tuple[str, ...]]:
    present = (set(words(text)) for text in texts)
    return [tuple(word for word in words(query) if word in found) for found in present]


def _explain(row: Row, matched: tuple[str, ...], fusion: str) -> Explanation:
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
    )
