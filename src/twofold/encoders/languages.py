"""Which language a text is written in, told by the small words that every sentence has."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

from qdrant_edge import Bm25, Bm25Config

OTHER = "other"
"""A script of its own, whose words are not known here."""
_WORD = re.compile(r"[^\W\d_]{2,6}(?![^\W\d_])")
_LOOKED_AT = 500
_LEAST = 2
_LATIN = 0x0250
_NAMES = (
    "english", "arabic", "catalan", "danish", "dutch", "finnish", "french", "german", "greek", "hungarian",
    "indonesian", "italian", "norwegian", "portuguese", "romanian", "russian", "slovene", "spanish", "swedish",
    "turkish",
)  # fmt: skip


def language_of(text: str) -> str | None:
    """The language whose stop words a text has most of; None if it has too few to tell."""
    start = text[:_LOOKED_AT].lower()
    found = Counter(language for word in set(_WORD.findall(start)) for language in _languages_with(word))
    name, count = max(found.items(), key=lambda item: (item[1], item[0] == "english"), default=("", 0))
    if count >= _LEAST:
        return name
    return OTHER if _is_foreign(start) else None


@lru_cache(maxsize=16_384)
def _languages_with(word: str) -> tuple[str, ...]:
    """The languages in which this is a stop word."""
    return tuple(name for name, encoder in _encoders() if not encoder.embed_document(word).indices)


@lru_cache(maxsize=1)
def _encoders() -> list[tuple[str, Bm25]]:
    return [(name, Bm25(Bm25Config(language=name))) for name in _NAMES]


def _is_foreign(text: str) -> bool:
    """Most of its letters are not Latin ones."""
    if text.isascii():
        return False
    letters = [letter for letter in text if letter.isalpha()]
    return len([letter for letter in letters if ord(letter) >= _LATIN]) > len(letters) / 2
