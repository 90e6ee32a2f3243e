"""What a collection is made of, as far as its default fusion depends on it.

Code or prose, in which language, and how near to each other texts are that have nothing to do with each other.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from twofold.encoders.languages import language_of
from twofold.engine import calls
from twofold.engine.layout import DENSE, TEXT_KEY
from twofold.filters import Node
from twofold.flow import Flow
from twofold.text import looks_like_code

_SAMPLE = 200
_VECTORS, _ENOUGH = 100, 30
_NEAREST = 0.95
_FEW = 5
_UNTOLD = 0.25
_AGAIN = 60.0
_OUTDATED = 0.1
_REMEMBERED = 256
_CODE = "code"


@dataclass(frozen=True)
class Makeup:
    """How many of some texts are what.

    Shares are in tenths, and drawn towards 0 where there are few texts: one or two of them say nothing.
    """

    kinds: Mapping[str | None, int] = field(default_factory=dict)

    @property
    def texts(self) -> int:
        """How many texts were looked at."""
        return sum(self.kinds.values())

    @property
    def code(self) -> float:
        """The share of texts that are code."""
        return round(self.kinds.get(_CODE, 0) / (self.texts + _FEW), 1)

    def strange_to(self, languages: Collection[str] | None) -> float:
        """The share of prose in other languages than these. Texts too short to tell are most likely not."""
        if languages is None:
            return 0.0
        told = {kind: count for kind, count in self.kinds.items() if kind not in (None, _CODE)}
        strange = sum(count for kind, count in told.items() if kind not in languages)
        return round(strange / (sum(told.values()) + _UNTOLD * self.kinds.get(None, 0) + _FEW), 1)


class _Look(NamedTuple):
    found: Any
    rows: int
    changes: int
    moment: float


class Nature:
    """Looks at some of what is stored: the same texts whoever asks, so that everybody ranks alike."""

    def __init__(self, collection: str) -> None:
        self._collection = collection
        self._changes = 0
        self._looks: dict[Node | str | None, _Look] = {}

    def changed(self, texts: int) -> None:
        """So many have been written or deleted."""
        self._changes += texts

    def look(self, within: Node | None = None) -> Flow[Makeup]:
        """What the collection, or the part of it that a filter selects, is made of."""
        if (known := self._known(within)) is not None:
            made_of: Makeup = known.found
            return made_of
        changes = self._changes
        rows, _ = yield from calls.scroll(self._collection, within, limit=_SAMPLE, only=(TEXT_KEY,))
        made_of = _made_of((row.payload or {}).get(TEXT_KEY) for row in rows)
        self._keep(within, made_of, len(rows), changes)
        return made_of

    def background(self) -> Flow[float | None]:
        """The mean cosine of the texts here, for a model that nobody has measured; None if there are too few."""
        if (known := self._known(DENSE, tolerated=0.0)) is not None:
            cosine: float | None = known.found
            return cosine
        changes = self._changes
        rows, _ = yield from calls.scroll(self._collection, None, limit=_VECTORS, only=(), vectors=(DENSE,))
        named = [row.vector.get(DENSE) for row in rows if isinstance(row.vector, dict)]
        cosine = mean_cosine([vector for vector in named if vector is not None])
        self._keep(DENSE, cosine, len(rows), changes)
        return cosine

    def _known(self, what: Node | str | None, tolerated: float = _OUTDATED) -> _Look | None:
        """What was seen, unless enough was written here since to matter, or others had time to."""
        last = self._looks.get(what)
        if last is None or self._changes - last.changes > tolerated * last.rows:
            return None
        return None if time.monotonic() - last.moment >= _AGAIN else last

    def _keep(self, what: Node | str | None, found: Any, rows: int, changes: int) -> None:
        if len(self._looks) >= _REMEMBERED:
            self._looks.clear()
        self._looks[what] = _Look(found, rows, changes, time.monotonic())


def mean_cosine(vectors: Sequence[Any]) -> float | None:
    """Of all pairs, to the nearest hundredth; None for too few vectors."""
    if len(vectors) < _ENOUGH:
        return None
    rows = np.asarray(vectors, dtype=np.float64)
    units = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    together = float(np.square(units.sum(axis=0)).sum())  # n ones and every pair twice
    return round(min((together - len(rows)) / (len(rows) * (len(rows) - 1)), _NEAREST), 2)


def _made_of(texts: Iterable[object]) -> Makeup:
    return Makeup(Counter(_kind(text) for text in texts if isinstance(text, str) and text.strip()))


@lru_cache(maxsize=4096)
def _kind(text: str) -> str | None:
    return _CODE if looks_like_code(text) else language_of(text)
