"""What a collection is made of, as far as its default fusion depends on it.

Code or prose, in which language, and how near to each other texts are that have nothing to do with each other.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from twofold.encoders.languages import language_of
from twofold.engine import calls
from twofold.engine.layout import DENSE, TEXT_KEY, Point
from twofold.filters import Node
from twofold.flow import Flow
from twofold.text import looks_like_code

_SAMPLED_TEXTS = 200
_SAMPLED_VECTORS, _VECTORS_NEEDED = 100, 30
_GREATEST_BACKGROUND = 0.95
# Shares are drawn towards 0 as if there were so many texts more that are neither: one or two texts say nothing.
_DOUBTFUL_TEXTS = 5
_SHORT_TEXT_WEIGHT = 0.25
_LOOK_AGAIN_SECONDS = 60.0
_OUTDATED_SHARE = 0.1
_REMEMBERED_SAMPLES = 256
_CODE = "code"


@dataclass(frozen=True, slots=True)
class Makeup:
    """What some texts are, in tenths."""

    code: float = 0.0
    """The share that is code."""
    unknown_language: float = 0.0
    """The share of prose in languages that the dense model doesn't know. Texts too short to tell most likely aren't."""


class _Sample(NamedTuple):
    value: Any
    rows: int
    changes: int
    valid_until: float


class Sampler:
    """Looks at some of what is stored: the same texts whoever asks, so that everybody ranks alike."""

    def __init__(self, collection: str, languages: Collection[str] | None) -> None:
        """`languages` are those that the dense model knows; None if nobody told."""
        self._collection = collection
        self._languages = languages
        self._changes = 0
        self._samples: dict[Node | str | None, _Sample] = {}

    def changed(self, texts: int) -> None:
        """So many have been written or deleted."""
        self._changes += texts

    def makeup(self, within: Node | None = None) -> Flow[Makeup]:
        """What the collection, or the part of it that a filter selects, is made of."""
        made_of = partial(_makeup, languages=self._languages)
        return self._sample(within, made_of, _OUTDATED_SHARE, limit=_SAMPLED_TEXTS, only=(TEXT_KEY,))

    def background(self) -> Flow[float | None]:
        """The mean cosine of the texts here, for a model that nobody has measured; None if there are too few."""
        return self._sample(DENSE, _mean_cosine, 0.0, limit=_SAMPLED_VECTORS, only=(), vectors=(DENSE,))

    def _sample(
        self, what: Node | str | None, read: Callable[[Sequence[Point]], Any], outdated: float, **wanted: Any
    ) -> Flow[Any]:
        """What was seen last, unless enough was written here since to matter, or others had time to."""
        last, changes = self._samples.get(what), self._changes
        if last is not None and changes - last.changes <= outdated * last.rows and time.monotonic() < last.valid_until:
            return last.value
        rows, _ = yield from calls.scroll(self._collection, None if isinstance(what, str) else what, **wanted)
        if len(self._samples) >= _REMEMBERED_SAMPLES:
            self._samples.clear()
        seen = _Sample(read(rows), len(rows), changes, time.monotonic() + _LOOK_AGAIN_SECONDS)
        self._samples[what] = seen
        return seen.value


def _mean_cosine(points: Sequence[Point]) -> float | None:
    """Of all pairs, to the nearest hundredth; None for too few vectors."""
    named = [point.vector.get(DENSE) for point in points if isinstance(point.vector, dict)]
    vectors = [vector for vector in named if vector is not None]
    if len(vectors) < _VECTORS_NEEDED:
        return None
    rows = np.asarray(vectors, dtype=np.float64)
    units = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    together = float(np.square(units.sum(axis=0)).sum())  # n ones and every pair twice
    return round(min((together - len(rows)) / (len(rows) * (len(rows) - 1)), _GREATEST_BACKGROUND), 2)


def _makeup(points: Sequence[Point], languages: Collection[str] | None) -> Makeup:
    """What texts are made of, for a model that knows these languages."""
    texts = [(point.payload or {}).get(TEXT_KEY) for point in points]
    kinds = Counter(_kind(text) for text in texts if isinstance(text, str) and text.strip())
    code = kinds[_CODE] / (kinds.total() + _DOUBTFUL_TEXTS)
    if languages is None:
        return Makeup(round(code, 1))
    told = {kind: count for kind, count in kinds.items() if kind not in (None, _CODE)}
    unknown = sum(count for kind, count in told.items() if kind not in languages)
    prose = sum(told.values()) + _SHORT_TEXT_WEIGHT * kinds[None] + _DOUBTFUL_TEXTS
    return Makeup(round(code, 1), round(unknown / prose, 1))


@lru_cache(maxsize=4096)
def _kind(text: str) -> str | None:
    """Code, a language, or None where that can't be told."""
    return _CODE if looks_like_code(text) else language_of(text)
