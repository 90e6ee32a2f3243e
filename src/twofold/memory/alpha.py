"""How much meaning counts where nobody said: it depends on the fusion, the language and the number of memories."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from twofold.fusion import Auto, Circumstances, Strategy, Weighted
from twofold.fusion.auto import LONGER, PROSE, usual_alpha
from twofold.index.encoding import HINTED
from twofold.index.queries import Floor
from twofold.signals.matching import Stemmer, split

MEASURED = (0.1, 0.45)
"""The least and the greatest alpha that there is a floor for."""
_MOSTLY = 0.5
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


def name(fusion: Any) -> str:
    """What a fusion is called, given by name or as a value."""
    return fusion.name if isinstance(fusion, Strategy) else str(fusion)


def learnable(fusion: Any) -> bool:
    """Alpha is ours to choose: the fusion has no weights that somebody gave it, nor a way of its own to weigh."""
    return adapts(fusion) or _by_size(fusion)


def _by_size(fusion: Any) -> bool:
    return bool(fusion == "weighted" or fusion == Weighted())


def adaptive(fusion: Any, memories: int, to: Circumstances) -> Alpha:
    """What suits a collection like this."""
    if adapts(fusion):
        return Alpha(usual_alpha(to), _reason(to))
    if _by_size(fusion):
        value = next(alpha for size, alpha in _WEIGHTED if memories < size)
        return Alpha(value, f"adapted to {memories:,} memories")
    return Alpha(None, "the weights of the fusion")


def _reason(to: Circumstances) -> str:
    if to.strange > _MOSTLY:
        return "the dense model doesn't know the collection's language"
    if to.strange:
        return f"the dense model doesn't know the language of {to.strange:.0%} of what is stored"
    if to.code:
        return f"{to.code:.0%} of what is stored is code" + (", and so is the query" if to.asked_in_code else "")
    return "what measures best for `auto`, at any number of memories"


def floor(alpha: Alpha, memories: int, *, strange: float = 0.0, corrected: float = 0.0) -> Floor | None:
    """What off-topic queries stay under; None where it hasn't been measured.

    It grows with the collection: the more words there are the rarer each of them is, and the more texts there are the
    nearer is the nearest. What a rare word counts grows with the logarithm of their number, so the score does too; the
    more meaning counts the less there is of it. A score that words make is no measure for a short memory that says the
    same in other words, so a cosine that unrelated texts seldom have is enough by itself, unless most memories are in a
    language that is `strange` to the model: there every cosine is high. `benchmarks/quality/floor.py` measures what it
    keeps and turns away. A question from the same field whose answer isn't there mostly stays above it.

    `corrected` is the share of the query's words that a correction was found for: it scores less by as much, since the
    words that were meant count less, and both they and the mistyped ones are terms.
    """
    if alpha.value is None or not MEASURED[0] <= alpha.value <= MEASURED[1] or not memories:
        return None
    score = (0.055 - 0.05 * max(0.0, alpha.value - PROSE)) * math.log10(memories)
    cosine = None if strange > _MOSTLY else 0.30 + 0.06 * math.log10(max(memories, 100) / 100)
    return Floor(score * (1 - (1 - HINTED) * corrected) / (1 + corrected) ** LONGER, cosine)


def share_corrected(query: str, meant: Mapping[str, str], stem: Stemmer) -> float:
    """Of the words that count in a query, the share that a correction was found for."""
    if not meant:
        return 0.0
    counting = {found for word in split(query) if (found := stem(word)) is not None}
    return min(1.0, len(meant) / max(1, len(counting)))
