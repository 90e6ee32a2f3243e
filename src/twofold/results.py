"""What comes out of a search: `SearchResult`, its `Hit`s, and why each of them is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, NamedTuple, TypeAlias, TypeGuard, overload

Mode: TypeAlias = Literal["hybrid", "dense", "lexical", "text"]


@dataclass(frozen=True)
class Problem:
    """A row that could not be handed out, and why. It is still in the collection."""

    id: str
    reason: str


class LegPart(NamedTuple):
    """What one leg gave a hit. A score or rank is None where the leg did not find it."""

    name: str
    measure: str
    """What the raw score is."""
    score: float | None
    rank: int | None
    part: float

    def __str__(self) -> str:
        if self.score is None:
            return f"{self.name}: not found"
        place = "" if self.rank is None else f" #{self.rank}"
        return f"{self.name}{place} ({self.score:.3f} raw) adds {self.part:.4g}"


@dataclass(frozen=True)
class Explanation:
    """Where a hit's score comes from. A score or rank is None where that leg did not find the hit."""

    fusion: str
    """The fusion strategy that was used."""
    semantic_score: float | None
    """Raw cosine similarity between query and text."""
    semantic_rank: int | None
    """1-based position among the candidates of the dense leg."""
    semantic_part: float
    """What the dense leg adds to the final score, normalised and weighted."""
    lexical_score: float | None
    """Raw BM25 score."""
    lexical_rank: int | None
    """1-based position among the candidates of the lexical leg."""
    lexical_part: float
    """What the lexical leg adds to the final score, normalised and weighted."""
    matched_words: tuple[str, ...]
    """Words of the query that the text contains, after stemming."""
    final_score: float
    """The score the hit is ranked by."""
    tag_boost: float = 0.0
    """What matching tags add to the final score."""
    matched_tags: tuple[str, ...] = ()
    """The tags and field values named in the query that the memory has."""
    recency_factor: float = 1.0
    """The factor that age multiplies the score with."""
    popularity_factor: float = 1.0
    """The factor for having been recalled often."""
    importance_factor: float = 1.0
    """The factor for its importance."""
    pinned_factor: float = 1.0
    """The factor for being pinned."""
    type_factor: float = 1.0
    """The factor for its type."""
    freshness: float = 0.0
    """What being fresh adds to the final score by itself, after all factors, where that was asked for ("blend")."""
    alpha: float | None = None
    """How much meaning counted, from 0 to 1, where that is known."""
    alpha_reason: str = ""
    """Where alpha comes from."""
    rerank_score: float | None = None
    """What the reranker gave the hit, as it gave it; None if it gave none, or there was no reranker."""
    rank_before: int | None = None
    """1-based position before the reranker; None if there was none. The parts above sum up to the score before it."""
    score_before: float | None = None
    """The score before the reranker."""
    corrections: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Mistyped words of the query, and what they were read as."""

    @property
    def legs(self) -> tuple[LegPart, LegPart]:
        """What each leg gave, meaning first."""
        return (
            LegPart("meaning", "cosine", self.semantic_score, self.semantic_rank, self.semantic_part),
            LegPart("words", "BM25", self.lexical_score, self.lexical_rank, self.lexical_part),
        )

    def __str__(self) -> str:
        meaning, words = map(str, self.legs)
        matched = f" on {', '.join(self.matched_words)}" if self.matched_words else ""
        return f"{self.final_score:.4g} by {self.fusion}: {meaning}; {words}{matched}{self._signals()}"

    def _signals(self) -> str:
        """What the signals did, where they did anything."""
        tags = [f"tags add {self.tag_boost:.4g} on {', '.join(self.matched_tags)}"] if self.tag_boost else []
        names = ("recency", "popularity", "importance", "pinned", "type")
        factors = [(name, getattr(self, f"{name}_factor")) for name in names]
        said = [f"{name} × {factor:.3g}" for name, factor in factors if abs(factor - 1) > 1e-3]
        if self.freshness:
            said.append(f"being fresh adds {self.freshness:.4g}")
        if self.alpha is not None and self.alpha_reason:
            said.append(f"alpha {self.alpha:.4g}, {self.alpha_reason}")
        if self.rank_before is not None:
            looked = "not scored" if self.rerank_score is None else f"scored {self.rerank_score:.4g}"
            said.append(f"{looked} by the reranker, before it #{self.rank_before} with {self.score_before:.4g}")
        said += [f"{wrong} read as {right}" for wrong, right in self.corrections.items()]
        return "".join(f"; {part}" for part in [*tags, *said])


@dataclass(frozen=True)
class Hit:
    """A document that was found."""

    id: str
    text: str
    score: float
    """The final score, on the scale of the fusion strategy; after a reranker the same as the relevance."""
    relevance: float
    """From 0 to 1, in the order of the scores. With `auto`, 0 is what unrelated questions get here, from 0.5
    on an answer is likely, and the text itself has about 1; with other fusions, the share of their best score."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    explanation: Explanation | None = None
    """Why the hit is here, with `explain=True`."""
    title: str | None = None

    def as_metadata(self, result: SearchResult) -> dict[str, Any]:
        """What a search found out about the hit, as JSON has it, to be shown beside the hit's own metadata.

        "score" is the final score; "explanation" has all fields of `Explanation` (None where the search was asked for
        none) and "relevance", "mode" and "degraded" of the search that found it.
        """
        why = dict.fromkeys(_EXPLANATION_FIELDS) if self.explanation is None else asdict(self.explanation)
        found = {"relevance": self.relevance, "mode": result.mode, "degraded": result.degraded}
        told = {**why, "final_score": self.score, **found}
        explanation = {name: list(value) if isinstance(value, tuple) else value for name, value in told.items()}
        return {"score": self.score, "explanation": explanation}


_EXPLANATION_FIELDS = tuple(each.name for each in fields(Explanation))


def is_explanation(value: object) -> TypeGuard[Mapping[str, Any]]:
    """It is an "explanation" of `Hit.as_metadata`: it has those fields, which nobody's own metadata has by chance."""
    return isinstance(value, Mapping) and set(value) == {*_EXPLANATION_FIELDS, "relevance", "mode", "degraded"}


@dataclass(frozen=True)
class IndexInfo:
    """What an index is made of."""

    location: str
    collection: str
    documents: int
    dense_model: str
    dense_dim: int
    sparse: Mapping[str, Any]
    """The settings of the lexical leg: language, k1, b …."""
    legs: tuple[str, ...]
    """The legs that the collection can serve."""
    indexed: tuple[str, ...]
    """Payload fields with an index."""
    notes: tuple[str, ...] = ()
    """What is not as it should be."""


@dataclass(frozen=True)
class SearchResult(Sequence[Hit]):
    """The hits of one search, best first, and how they were found."""

    hits: tuple[Hit, ...]
    mode: Mode
    """What the search used: both legs, one of them, or plain text matching."""
    degraded: str | None = None
    """Why the search did less than was asked, or None if it did it all."""
    query: str = ""
    problems: tuple[Problem, ...] = ()
    """Rows that belong here but could not be handed out."""
    corrections: Mapping[str, str] = field(default_factory=dict)
    """Mistyped words of the query, and what they were read as: words that documents have."""

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Hit, ...]: ...
    def __getitem__(self, index: int | slice) -> Hit | tuple[Hit, ...]:
        return self.hits[index]

    def __len__(self) -> int:
        return len(self.hits)

    @property
    def ids(self) -> list[str]:
        """The ids of the hits, best first."""
        return [hit.id for hit in self.hits]
