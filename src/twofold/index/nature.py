"""What a collection is made of, as far as its default fusion depends on it: code or prose, and in which language."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from twofold.encoders.languages import language_of
from twofold.engine import calls
from twofold.engine.filters import compile_filter
from twofold.engine.flow import Flow
from twofold.engine.layout import TEXT_KEY
from twofold.filters import Node
from twofold.text import looks_like_code

_SAMPLE = 200
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
    makeup: Makeup
    changes: int
    moment: float


class Nature:
    """Looks at some of what is stored: the same texts whoever asks, so that everybody ranks alike."""

    def __init__(self, collection: str) -> None:
        self._collection = collection
        self._changes = 0
        self._looks: dict[Node | None, _Look] = {}

    def changed(self, texts: int) -> None:
        """So many have been written or deleted."""
        self._changes += texts

    def look(self, within: Node | None = None) -> Flow[Makeup]:
        """What the collection, or the part of it that a filter selects, is made of."""
        last = self._looks.get(within)
        if last is not None and not self._outdated(last):
            return last.makeup
        if len(self._looks) >= _REMEMBERED:
            self._looks.clear()
        changes = self._changes
        where = None if within is None else compile_filter(within)
        rows = yield from calls.sample(self._collection, where, _SAMPLE, TEXT_KEY)
        makeup = _made_of((row.payload or {}).get(TEXT_KEY) for row in rows)
        self._looks[within] = _Look(makeup, changes, time.monotonic())
        return makeup

    def _outdated(self, last: _Look) -> bool:
        """Enough was written here to matter, or others had time to."""
        return self._changes - last.changes > _OUTDATED * last.makeup.texts or time.monotonic() - last.moment >= _AGAIN


def _made_of(texts: Iterable[object]) -> Makeup:
    return Makeup(Counter(_kind(text) for text in texts if isinstance(text, str) and text.strip()))


@lru_cache(maxsize=4096)
def _kind(text: str) -> str | None:
    return _CODE if looks_like_code(text) else language_of(text)
