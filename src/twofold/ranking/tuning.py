"""What `tune` and `calibrate` compute: a fusion that suits a collection, and how far each leg can be trusted there.

A fusion as plain values, then pairs of a query and its answers, then calibration from the stored texts alone, and at
the end the choice among fusions with how sure it is.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from twofold.errors import InvalidQuery
from twofold.ranking.fusion import Auto, Average, Dbsf, Leg, Rrf, Strategy, Weighted, resolve

if TYPE_CHECKING:
    from twofold.encoders.base import Sparse

# --- A fusion as plain values, to be kept with a collection ---


def describe(fusion: Strategy) -> dict[str, Any]:
    """The values that make a fusion."""
    kept: dict[str, Any] = {"name": fusion.name, "weights": list(fusion.weights)}
    return {**kept, "k": fusion.k} if isinstance(fusion, Rrf) else kept


def restore(kept: Mapping[str, Any]) -> Strategy:
    """The fusion that these values make."""
    fusion = replace(resolve(kept["name"]), **{name: kept[name] for name in ("weights", "k") if name in kept})
    return replace(fusion, chosen=True) if isinstance(fusion, Auto) else fusion


# --- What tuning learns from: queries, and the documents that answer them ---


@dataclass(frozen=True)
class Pair:
    """A query, the ids of the documents that answer it, and where to look for them."""

    query: str
    relevant: frozenset[str]
    filter: Mapping[str, Any] | None = field(default=None, compare=False)


PairLike: TypeAlias = Pair | tuple[str, str | Iterable[str]] | Mapping[str, Any]
_ANSWER_KEYS = ("relevant", "expected", "ids", "id")


def as_pairs(given: Iterable[PairLike]) -> list[Pair]:
    """Pairs from whatever stands for them, one for each query and filter; one that can't be used says so.

    A query that came twice would be learned from and tried on at once, and would count as two.
    """
    found: dict[str, Pair] = {}
    for place, each in enumerate(given):
        pair = _pair(each, place)
        key = json.dumps([pair.query, pair.filter], sort_keys=True, default=repr)
        known = found.get(key, pair)
        found[key] = replace(known, relevant=known.relevant | pair.relevant)
    if not found:
        raise InvalidQuery("there is nothing to learn from: give pairs such as ('how do I log in', 'doc-17')")
    return list(found.values())


def _pair(given: PairLike, place: int) -> Pair:
    if isinstance(given, Pair):
        return given
    where = None
    if isinstance(given, Mapping):
        answers = next((given[key] for key in _ANSWER_KEYS if key in given), None)
        query, where = given.get("query"), given.get("filter")
    elif isinstance(given, Sequence) and not isinstance(given, str) and len(given) == 2:
        query, answers = given
    else:
        raise InvalidQuery(f"pair {place}: expected (query, id or ids) or a mapping, got {given!r}")
    ids: list[Any] = [answers] if not isinstance(answers, Iterable) or isinstance(answers, str) else list(answers)
    if not isinstance(query, str) or not query.strip() or not ids or not all(isinstance(i, str) for i in ids):
        raise InvalidQuery(f"pair {place}: a query and at least one id, as a string, are needed, got {given!r}")
    return Pair(query, frozenset(ids), where)


# --- How far each leg can be trusted, seen from the collection alone ---

Matrix = npt.NDArray[np.float32]
TEXTS_NEEDED = 30
_CLEAR_SEPARATION = 3.0
_LEAST_SEPARATION = 1.5
_BACKGROUND_MARGIN = 0.1
_LEAST_FOUND_BY_WORDS = 0.5
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
"""Letters of scripts that put no spaces between words: Thai, Lao, Burmese, Khmer, Japanese, Chinese."""


@dataclass(frozen=True)
class Calibration:
    """What was seen."""

    background: float
    """The cosine that texts of this collection have which have nothing to do with each other."""
    separation: float
    """How many standard deviations a piece of a text is nearer to its text than to others."""
    found: float
    """The share of pieces whose own text is the nearest."""
    texts: int
    """How many texts were looked at."""
    found_by_words: float | None = None
    """The share of pieces whose own text has the most of their words; None if there are no words to compare."""

    def meaning_works(self, usual: float | None) -> bool:
        """The dense model can tell the texts of this collection apart.

        `usual` is the cosine that unrelated texts have in languages that the model knows, where that was measured.
        Long texts lie near to everything too, so where it is known both signs are needed.
        """
        if usual is None:
            return self.separation >= _LEAST_SEPARATION
        return self.separation >= _CLEAR_SEPARATION or self.background <= usual + _BACKGROUND_MARGIN

    def leans_on_words(self, usual: float | None) -> bool:
        """Meaning is lost here, and words are not: they find most texts by a piece, and no fewer than meaning does."""
        words = self.found_by_words
        return not self.meaning_works(usual) and (words is None or words >= max(self.found, _LEAST_FOUND_BY_WORDS))

    def as_payload(self) -> dict[str, Any]:
        """The values as they are kept."""
        return asdict(self)

    @classmethod
    def from_payload(cls, kept: Mapping[str, Any]) -> Calibration:
        """Read them back."""
        return cls(**{name: kept[name] for name in cls.__dataclass_fields__ if name in kept})

    def __str__(self) -> str:
        by_words = "" if self.found_by_words is None else f", by words for {self.found_by_words:.0%}"
        return (
            f"unrelated texts have a cosine of {self.background:.2f}, and a piece of a text lies {self.separation:.1f} "
            f"σ nearer to its own text than to others; its text comes first by meaning for {self.found:.0%} of the "
            f"pieces{by_words} ({self.texts} texts looked at)"
        )


def calibrate(pieces: Matrix, texts: Matrix) -> Calibration:
    """From the vectors of pieces, asked as queries, and of the texts they come from, in the same order."""
    cosines = _unit(pieces) @ _unit(texts).T
    own = np.diag(cosines)
    others = cosines[~np.eye(len(cosines), dtype=bool)].reshape(len(cosines), -1)
    mean, spread = others.mean(axis=1), others.std(axis=1)
    return Calibration(
        background=round(float(np.median(mean + spread)), 4),
        separation=round(float(np.median((own - mean) / np.maximum(spread, 1e-6))), 3),
        found=round(float((own >= others.max(axis=1)).mean()), 4),
        texts=len(texts),
    )


def found_by_words(pieces: Sequence[Sparse], texts: Sequence[Sparse], *, idf: bool) -> float:
    """The share of pieces that have the most words in common with the text they come from, in the same order."""
    having = Counter(index for text in texts for index in text.indices) if idf else {}
    # What the engine makes a word count, as far as these texts tell how rare it is.
    rarity = {index: math.log(1 + (len(texts) - n + 0.5) / (n + 0.5)) for index, n in having.items()}
    stored = [dict(zip(text.indices, text.values, strict=True)) for text in texts]
    first = 0
    for place, piece in enumerate(pieces):
        asked = {i: w * rarity.get(i, 1.0) for i, w in zip(piece.indices, piece.values, strict=True)}
        scores = [sum(w * text.get(i, 0.0) for i, w in asked.items()) for text in stored]
        first += scores[place] > 0 and scores[place] >= max(scores)
    return round(first / len(pieces), 4)


def piece_of(text: str, words: int = 8, letters: int = 12) -> str | None:
    """Some words from the middle of a text: no longer than a query, and not its title. None if it is too short.

    Of a text without spaces between its words, some letters.
    """
    dense = "".join(text.split())
    if len(_UNSPACED.findall(dense)) > len(dense) / 2:
        return _middle(dense, letters) if len(dense) >= 8 else None
    all_words = text.split()
    return " ".join(_middle(all_words, words)) if len(all_words) >= 4 else None


def _middle(parts: Any, most: int) -> Any:
    """At most so many of them, and at most half."""
    length = min(most, max(2, len(parts) // 2))
    start = (len(parts) - length) // 2
    return parts[start : start + length]


def _unit(vectors: Matrix) -> Matrix:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-9), dtype=np.float32)


# --- Which fusion answers the pairs best, and how sure that is ---

Scores = npt.NDArray[np.float64]
_NDCG_DEPTH = 10
_FOLDS = 5
_ALPHAS = tuple(round(0.05 * step, 2) for step in range(21))
_OTHERS = (Dbsf(), Weighted(), Rrf(k=10), Rrf())
_OTHER_ALPHAS = (0.2, 0.35, 0.5, 0.65, 0.8)
_BOOTSTRAP_SAMPLES = 2000
_LEAST_CONFIDENCE = 0.9
_PAIRS_NEEDED = 10
_OTHER_KIND_HANDICAP = 0.01


@dataclass(frozen=True)
class JudgedQuery:
    """What the legs found for one query, and which of it answers it."""

    legs: tuple[Leg, ...]
    relevant: frozenset[str]
    default: Strategy | None = None
    """The fusion that it would get by itself; None for the default of all."""


@dataclass(frozen=True)
class Tuning:
    """What tuning came to."""

    fusion: Strategy
    """The fusion to use: the best one found, or the default if none is surely better."""
    changed: bool
    """It is not the default."""
    before: float
    """nDCG@10 of the default."""
    after: float
    """nDCG@10 to expect from what was chosen, measured on queries that had no part in choosing."""
    sure: float
    """How likely it is, from 0 to 1, that what was chosen is no worse than the default; 1 where the default stays."""
    pairs: int
    """How many pairs it rests on; those with the same query and filter are one."""
    unknown: int = 0
    """How many of the expected ids are not in the collection: no setting finds them."""

    def __str__(self) -> str:
        found = f"nDCG@10 {self.before:.3f}{f' → {self.after:.3f}' if self.changed else ''} on {self.pairs} pair"
        found += "" if self.pairs == 1 else "s"
        if self.unknown:
            found += f", {self.unknown} expected id{' is' if self.unknown == 1 else 's are'} not in the collection"
        if self.changed:
            k = f" and k {self.fusion.k}" if isinstance(self.fusion, Rrf) else ""
            return f"{self.fusion.name} with alpha {self.fusion.alpha:.2f}{k}: {found}, {self.sure:.0%} sure"
        few = f"too few pairs to judge by: give {_PAIRS_NEEDED} or more, better a hundred"
        return f"the default stays ({found}; {few if self.pairs < _PAIRS_NEEDED else 'nothing is surely better'})"


def candidates(default: Strategy) -> list[Strategy]:
    """The default at every alpha, and the other fusions.

    The scale of `auto` is not tried: whatever ranking another scale gives, another alpha gives too. Nor is the depth:
    on four public sets of 2,000 to 10,000 texts, two or four times the default gained 0.001 at most.
    """
    kin = [default.with_alpha(alpha) for alpha in _ALPHAS]
    others = [fusion.with_alpha(alpha) for fusion in _OTHERS for alpha in _OTHER_ALPHAS]
    return [default, *kin, *others, Average()]


def choose(queries: Sequence[JudgedQuery], default: Strategy) -> Tuning:
    """The best fusion for these queries, if it is surely better than the default."""
    tried = candidates(default)
    table = np.array([[_ndcg(fusion, each) for each in queries] for fusion in tried])
    table[0] = [_ndcg(each.default or default, each) for each in queries]
    handicaps = np.array([0.0 if type(fusion) is type(default) else _OTHER_KIND_HANDICAP for fusion in tried])
    before = float(table[0].mean())
    stays = Tuning(default, False, before, before, 1.0, len(queries))
    if len(queries) < _PAIRS_NEEDED:
        return stays
    gains = _held_out(table, handicaps) - table[0]
    picks = np.random.default_rng(0).integers(0, len(gains), (_BOOTSTRAP_SAMPLES, len(gains)))
    sure = float((gains[picks].mean(axis=1) >= 0).mean())  # of resampled sets of queries, those without a loss
    best = tried[_best(table, handicaps)]
    if sure < _LEAST_CONFIDENCE or float(gains.mean()) <= 0 or best == default:
        return stays
    if isinstance(best, Auto) and isinstance(default, Auto):  # few pairs take alpha only a part of the way
        trust = len(queries) / (len(queries) + _PAIRS_NEEDED)
        best = best.with_alpha(round(default.alpha + trust * (best.alpha - default.alpha), 3))
    return Tuning(best, True, before, before + float(gains.mean()), sure, len(queries))


def _best(table: Scores, handicaps: Scores) -> int:
    """The row with the best mean. Another kind of fusion must be better by more than the noise."""
    return int(np.argmax(table.mean(axis=1) - handicaps))


def _held_out(table: Scores, handicaps: Scores) -> Scores:
    """For each query the score of what the other folds would have chosen."""
    folds = np.arange(table.shape[1]) % _FOLDS
    scores = np.empty(table.shape[1])
    for fold in range(_FOLDS):
        own = folds == fold
        scores[own] = table[_best(table[:, ~own], handicaps), own]
    return scores


def _ndcg(fusion: Strategy, query: JudgedQuery) -> float:
    """nDCG@10 with every relevant document worth the same."""
    ranked = fusion.fuse(query.legs)[:_NDCG_DEPTH]
    gained = sum(1 / math.log2(place + 2) for place, hit in enumerate(ranked) if hit.id in query.relevant)
    best = sum(1 / math.log2(place + 2) for place in range(min(_NDCG_DEPTH, len(query.relevant))))
    return gained / best
