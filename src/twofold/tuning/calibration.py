"""How far each leg can be trusted, seen from the collection alone.

Pieces of stored texts are asked for as if they were queries. A model that knows the language puts such a piece far
nearer to its own text than to others; one that doesn't finds everything a little alike. Words are put to the same test.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from twofold.encoders.base import Sparse

Matrix = npt.NDArray[np.float32]
ENOUGH = 30
_LOST = 3.0
_HELPLESS = 1.5
_BLURRED = 0.1
_MOST = 0.5
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
            return self.separation >= _HELPLESS
        return self.separation >= _LOST or self.background <= usual + _BLURRED

    def leans_on_words(self, usual: float | None) -> bool:
        """Meaning is lost here, and words are not: they find most texts by a piece, and no fewer than meaning does."""
        words = self.found_by_words
        return not self.meaning_works(usual) and (words is None or words >= max(self.found, _MOST))

    def as_payload(self) -> dict[str, Any]:
        """The values as they are kept."""
        return asdict(self)

    @classmethod
    def from_payload(cls, kept: Mapping[str, Any]) -> Calibration:
        """Read them back."""
        return cls(**{name: kept[name] for name in cls.__dataclass_fields__ if name in kept})

    def __str__(self) -> str:
        return (
            f"unrelated texts have a cosine of {self.background:.2f}, and a piece of a text lies {self.separation:.1f} "
            f"σ nearer to its own text than to others; its text comes first by meaning for {self.found:.0%} of the "
            f"pieces{self._by_words()} ({self.texts} texts looked at)"
        )

    def _by_words(self) -> str:
        return "" if self.found_by_words is None else f", by words for {self.found_by_words:.0%}"


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
    rarity = _rarity(texts) if idf else {}
    stored = [dict(zip(text.indices, text.values, strict=True)) for text in texts]
    first = 0
    for place, piece in enumerate(pieces):
        asked = {i: w * rarity.get(i, 1.0) for i, w in zip(piece.indices, piece.values, strict=True)}
        scores = [sum(w * text.get(i, 0.0) for i, w in asked.items()) for text in stored]
        first += scores[place] > 0 and scores[place] >= max(scores)
    return round(first / len(pieces), 4)


def _rarity(texts: Sequence[Sparse]) -> dict[int, float]:
    """What the engine makes a word count, as far as these texts tell how rare it is."""
    having = Counter(index for text in texts for index in text.indices)
    return {index: math.log(1 + (len(texts) - n + 0.5) / (n + 0.5)) for index, n in having.items()}


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
