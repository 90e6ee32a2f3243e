"""How far each leg can be trusted, seen from the collection alone.

Pieces of stored texts are asked for as if they were queries. A model that knows the language puts such a piece far
nearer to its own text than to others; one that doesn't finds everything a little alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float32]
ENOUGH = 30
_LOST = 3.0
_HELPLESS = 1.5
_BLURRED = 0.1


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

    def meaning_works(self, usual: float | None) -> bool:
        """The dense model can tell the texts of this collection apart.

        `usual` is the cosine that unrelated texts have in languages that the model knows, where that was measured.
        Long texts lie near to everything too, so where it is known both signs are needed.
        """
        if usual is None:
            return self.separation >= _HELPLESS
        return self.separation >= _LOST or self.background <= usual + _BLURRED

    def as_payload(self) -> dict[str, Any]:
        """The values as they are kept."""
        return asdict(self)

    @classmethod
    def from_payload(cls, kept: Mapping[str, Any]) -> Calibration:
        """Read them back."""
        return cls(**{name: kept[name] for name in cls.__dataclass_fields__})

    def __str__(self) -> str:
        return (
            f"unrelated texts have a cosine of {self.background:.2f}, and a piece of a text lies {self.separation:.1f} "
            f"σ nearer to its own text than to others ({self.texts} texts looked at)"
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


def piece_of(text: str, words: int = 8) -> str:
    """Some words from the middle of a text: no longer than a query, and not its title."""
    all_words = text.split()
    length = min(words, max(2, len(all_words) // 2))
    start = (len(all_words) - length) // 2
    return " ".join(all_words[start : start + length])


def _unit(vectors: Matrix) -> Matrix:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-9), dtype=np.float32)
