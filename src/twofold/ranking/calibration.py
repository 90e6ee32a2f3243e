"""What a score means in one collection, or in one user's part of it: measured there, nothing to set up.

Two things are seen. Some of the stored texts tell how near a question is to a text that has nothing to do with it, and
how much that varies: that makes meaning and words comparable, whatever the model. Two dozen questions about other
things, asked once, tell what the best hit of an unrelated question scores: that is where an answer begins.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import resources
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from twofold.ranking.fusion import TYPICAL_SPREAD, WORD_WEIGHT, Auto, Scale

Numbers = npt.NDArray[np.float64]

# A text counts as long as so many words; longer ones say more by each word that they share with a question.
_USUAL_WORDS = 100.0
_LENGTH_EXPONENT = 0.25
_MANY_TEXTS = 100
_RARENESS = math.log(1 + _MANY_TEXTS)
# So many texts say half of what there is to say about how near a question is to any text.
_TEXTS_HALF_TRUSTED = 20
# How many deviations above what unrelated questions get an answer begins.
_FLOOR_DEVIATIONS = 2.0
_FEWEST_DEVIATION = 0.05


@lru_cache(maxsize=1)
def _unrelated_questions() -> dict[str, list[str]]:
    text = resources.files("twofold.ranking").joinpath("unrelated_questions.json").read_text("utf-8")
    questions: dict[str, list[str]] = json.loads(text)
    return questions


def unrelated_questions(language: str) -> list[str]:
    """Questions about many things, hardly any of which a collection is about, in its language if that is known here."""
    known = _unrelated_questions()
    return known.get(language, known["english"])


class Probe(NamedTuple):
    """What one unrelated question found: for each candidate the cosine (NaN if unknown) and the BM25 score."""

    vector: Numbers | None
    cosines: Numbers
    lexical: Numbers
    terms: int


@dataclass(frozen=True)
class Calibration:
    """What was seen of a collection, or of a part of it."""

    texts: int
    """How many texts were looked at, of"""
    total: int
    """so many that are there."""
    mean: float = 0.0
    """The cosine of an unrelated question and a text."""
    spread: float = TYPICAL_SPREAD
    """How much that varies from text to text."""
    words: float = WORD_WEIGHT
    """What words count, by the length of the texts and by whether the dense model knows their language."""
    sample: Numbers | None = field(default=None, repr=False, compare=False)
    """The vectors of the texts, each of length 1."""
    probes: tuple[Probe, ...] = field(default=(), repr=False, compare=False)
    _scales: dict[tuple[float, float], Scale | None] = field(default_factory=dict, repr=False, compare=False)

    def fit(self, fusion: Auto, vector: npt.ArrayLike | None) -> Auto:
        """The fusion for a question with this vector."""
        if fusion.weights not in self._scales:
            self._scales[fusion.weights] = self._scale(fusion)
        mean, spread = self._of(vector)
        scale = self._scales[fusion.weights]
        return replace(fusion, mean=mean, spread=spread, unit=self.spread, words=self.words, scale=scale)

    def _of(self, vector: npt.ArrayLike | None) -> tuple[float, float]:
        """The mean and the spread of this question's cosines, drawn towards those of the unrelated questions."""
        if self.sample is None or vector is None:
            return self.mean, self.spread
        cosines = self.sample @ unit(vector)
        count = len(cosines)
        own, squares = float(cosines.sum()) / count, float(cosines @ cosines) / count
        trust = count / (count + _TEXTS_HALF_TRUSTED)
        variance = self.spread**2 + trust * (max(squares - own**2, 0.0) - self.spread**2)
        return self.mean + trust * (own - self.mean), math.sqrt(variance)

    def _scale(self, fusion: Auto) -> Scale | None:
        """What the best hits of unrelated questions score with these weights; None if none was asked."""
        best = []
        for probe in self.probes:
            mean, spread = self._of(probe.vector)
            fitted = replace(fusion, mean=mean, spread=spread, unit=self.spread, words=self.words)
            meaning = np.nan_to_num((probe.cosines - mean) / self.spread, nan=0.0)
            scores = fusion.weights[0] * meaning + fusion.weights[1] * fitted.word_factor(probe.terms) * probe.lexical
            best.append(float(scores.max()) if len(scores) else 0.0)
        if not best:
            return None
        nothing, deviation = float(np.mean(best)), max(float(np.std(best)), _FEWEST_DEVIATION)
        return Scale(nothing, nothing + _FLOOR_DEVIATIONS * deviation)

    def __str__(self) -> str:
        scale = self._scale(Auto())
        found = (
            "" if scale is None else f"; unrelated questions score {scale.nothing:.2f}, answers from {scale.floor:.2f}"
        )
        return (
            f"an unrelated question and a text have a cosine of {self.mean:.2f} ± {self.spread:.2f}, words count "
            f"{self.words:.2f}{found} ({self.texts} of {self.total} texts and {len(self.probes)} questions)"
        )


def calibrate(
    sample: Numbers | None,
    probes: Sequence[Probe],
    *,
    texts: int,
    total: int,
    words_per_text: float,
    unknown_language: float,
    word_weight: float = 1.0,
) -> Calibration:
    """From the vectors of stored texts and from what unrelated questions found among all of them."""
    words = WORD_WEIGHT * (max(words_per_text, 1.0) / _USUAL_WORDS) ** _LENGTH_EXPONENT
    words *= (1 - unknown_language) * word_weight + 2 * unknown_language
    # How rare a word is grows with the logarithm of the number of texts: of a few, none could be rare.
    words *= _RARENESS / math.log(1 + min(max(total, 2), _MANY_TEXTS))
    seen = Calibration(texts, total, words=words, sample=sample, probes=tuple(probes))
    vectors = [unit(probe.vector) for probe in probes if probe.vector is not None]
    if sample is None or not vectors:
        return seen
    cosines = sample @ np.array(vectors).T
    return replace(seen, mean=float(cosines.mean()), spread=max(float(cosines.std()), 1e-3))


def unit(vector: npt.ArrayLike) -> Numbers:
    """The same direction with length 1."""
    array = np.asarray(vector, dtype=np.float64)
    length = math.sqrt(float(array @ array))
    return array / length if length else array
