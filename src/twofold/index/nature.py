"""What a collection is made of, as far as its default fusion depends on it: code or prose, and in which language."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Sequence

from twofold.encoders.languages import language_of
from twofold.engine import calls
from twofold.engine.flow import Flow
from twofold.engine.layout import TEXT_KEY
from twofold.text import looks_like_code

_SAMPLE = 200
_ENOUGH = 2000
_FEW = 5
_AGAIN = 60.0


class Nature:
    """How much of a collection is what: counted as texts are written, looked up where others have written them.

    Shares are in tenths, and drawn towards 0 where there are few texts: one or two of them say nothing.
    """

    def __init__(self, collection: str, points: int) -> None:
        self._collection = collection
        self._texts = 0
        self._code = 0
        self._languages: Counter[str] = Counter()
        self._next_look = time.monotonic() + (0.0 if points else _AGAIN)

    @property
    def code(self) -> float:
        """The share of texts that are code."""
        return round(self._code / (self._texts + _FEW), 1)

    def strange_to(self, languages: Collection[str] | None) -> float:
        """The share of prose in other languages than these."""
        if languages is None:
            return 0.0
        total = self._languages.total()
        return round((total - sum(self._languages[name] for name in languages)) / (total + _FEW), 1)

    def saw(self, texts: Sequence[str]) -> None:
        """These have been written. So many are enough: a collection seldom becomes another."""
        for text in texts[: max(_ENOUGH - self._texts, 0)]:
            self._texts += 1
            if looks_like_code(text):
                self._code += 1
            elif language := language_of(text):
                self._languages[language] += 1

    def look(self) -> Flow[None]:
        """Make sure that enough is known. Ids say nothing about texts, so the first ones are as good as any."""
        if self._texts >= _SAMPLE or time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + _AGAIN
        rows = yield from calls.sample(self._collection, _SAMPLE, TEXT_KEY)
        texts = [text for row in rows if isinstance(text := (row.payload or {}).get(TEXT_KEY), str) and text.strip()]
        self._texts, self._code, self._languages = 0, 0, Counter()
        self.saw(texts)
