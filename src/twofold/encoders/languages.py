"""Which language a text is written in, told by the small words that every sentence has."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

from qdrant_edge import Bm25, Bm25Config

OTHER = "other"
"""A language that has no list of small words here, but shows that it is not English."""
_ENGLISH = "english"
# Those with a capital may be names: Van der Berg, Den Haag, Die Hard.
_WORD = re.compile(r"(?<![^\W_])(?=[^\W\d_])(?![A-Z])[^\W\d_]{2,}")
_LONGEST = 6
_LOOKED_AT = 500
_LEAST = 2
_LATIN = 0x0250
_DENSE_SCRIPTS = 0x2E80  # from here on a letter stands for a syllable or a word
# A sentence of so many words has one of the small ones, unless it is a list.
_SENTENCE, _LONG_SENTENCE = 4, 20
_ACCENTED = 0.15
_NAMES = (
    "arabic", "catalan", "danish", "dutch", "finnish", "french", "german", "greek", "hungarian", "indonesian",
    "italian", "norwegian", "portuguese", "romanian", "russian", "slovene", "spanish", "swedish", "turkish",
)  # fmt: skip


def language_of(text: str) -> str | None:
    """The language whose small words a text has most of; None if it has too few to tell.

    A word that is small in English too tells nothing about others.
    """
    start = text[:_LOOKED_AT]
    words = set(_WORD.findall(start))
    small = [languages for word in words if len(word) <= _LONGEST and (languages := _languages_with(word))]
    english = sum(_ENGLISH in languages for languages in small)
    others = Counter(name for languages in small if _ENGLISH not in languages for name in languages)
    name, count = max(others.items(), key=lambda item: item[1], default=("", 0))
    if count >= _LEAST and count > sum(_ENGLISH in languages and name not in languages for languages in small):
        return name
    if english >= _LEAST:
        return _ENGLISH
    return OTHER if not english and _is_foreign(start, words) else None


@lru_cache(maxsize=16_384)
def _languages_with(word: str) -> frozenset[str]:
    """The languages in which this is a stop word."""
    return frozenset(name for name, encoder in _encoders() if not encoder.embed_document(word).indices)


@lru_cache(maxsize=1)
def _encoders() -> list[tuple[str, Bm25]]:
    return [(name, Bm25(Bm25Config(language=name))) for name in (_ENGLISH, *_NAMES)]


def _is_foreign(text: str, words: set[str]) -> bool:
    """No English sentence looks like this: another script, or accents all over, or so many words and none small."""
    if text.isascii():
        return len(words) >= _LONG_SENTENCE
    letters = [ord(letter) for letter in text if letter.isalpha()]
    weights = [3 if letter >= _DENSE_SCRIPTS else 1 for letter in letters]
    if 2 * sum(weight for weight, letter in zip(weights, letters, strict=True) if letter >= _LATIN) > sum(weights):
        return True
    accented = sum(not word.isascii() for word in words)
    return len(words) >= _SENTENCE and accented >= _ACCENTED * len(words)
