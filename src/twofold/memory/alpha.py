"""How much meaning counts where nobody said: it depends on the fusion, the language and the number of memories."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from twofold.fusion import Auto, Weighted
from twofold.index.encoding import HINTED
from twofold.index.queries import Floor

_UNKNOWN_LANGUAGE = 0.15
_AUTO = 0.35
# (fewer than so many memories, alpha), the last for all others. For `auto` the best alpha was the same at every size
# from 100 to 10,000 texts: it depends on what the texts are, not on how many there are.
_WEIGHTED = ((500.0, 0.5), (5000.0, 0.7), (float("inf"), 0.8))


@dataclass(frozen=True, slots=True)
class Alpha:
    """A share for meaning; None leaves it to the fusion's own weights. `reason` is for people to read."""

    value: float | None
    reason: str


def adapts(fusion: Any) -> bool:
    """The fusion was named, not made with weights of its own."""
    return fusion == "auto" or (isinstance(fusion, Auto) and not fusion.chosen)


def adaptive(fusion: Any, memories: int, *, language_known: bool) -> Alpha:
    """What suits a collection of this size."""
    if adapts(fusion) and not language_known:
        return Alpha(_UNKNOWN_LANGUAGE, "the dense model doesn't know the collection's language")
    if adapts(fusion):
        return Alpha(_AUTO, "what measures best for `auto`, at any number of memories")
    if fusion == "weighted" or fusion == Weighted():
        value = next(alpha for size, alpha in _WEIGHTED if memories < size)
        return Alpha(value, f"adapted to {memories:,} memories")
    return Alpha(None, "the weights of the fusion")


def floor(alpha: Alpha, memories: int, *, corrected: bool) -> Floor | None:
    """What off-topic queries stay under; None where it hasn't been measured.

    It grows with the collection: the more words there are the rarer each of them is, and the more texts there are the
    nearer is the nearest. A score that words make is no measure for a short memory that says the same in other words,
    so a cosine that unrelated texts seldom have is enough by itself. On eight English sets of 100 to 10,000 texts this
    kept 99.7 % of the best hits that were right, and turned away 85 % of the queries that belonged to another set. A
    question from the same field whose answer isn't there mostly stays above it. Where a mistyped word was corrected,
    what it finds scores less, and the floor is lower by as much.
    """
    if alpha.value != _AUTO or not memories:
        return None
    score = 0.17 + 0.06 * math.log10(memories / 100)
    cosine = 0.30 + 0.06 * math.log10(max(memories, 100) / 100)
    return Floor(max(0.0, score) * (HINTED if corrected else 1.0), cosine)
