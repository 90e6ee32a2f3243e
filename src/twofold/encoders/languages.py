"""Languages: how the words of each are told apart and stemmed, and which one a text is written in."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import Any

from qdrant_edge import Bm25, Bm25Config, StopwordsSet, TokenizerType

from twofold.errors import ConfigError

TOKENISER_K = 1000.0
"""With b = 0 the engine's weight is tf · (K + 1) / (tf + K), which can be solved for tf."""
WITHOUT_SPACES = {"chinese", "japanese"}
"""Languages that put no spaces between words."""
OTHER = "other"
"""A language that has no list of stop words here, but shows that it is not English."""
_ENGLISH = "english"
# Those with a capital may be names: Van der Berg, Den Haag, Die Hard.
_WORD = re.compile(r"(?<![^\W_])(?=[^\W\d_])(?![A-Z])[^\W\d_]{2,}")
_MAX_STOPWORD_LETTERS = 6
_MAX_CHARACTERS = 500
_MIN_STOPWORDS = 2
_FIRST_BEYOND_LATIN = 0x0250
_FIRST_OF_DENSE_SCRIPTS = 0x2E80  # from here on a letter stands for a syllable or a word
# A sentence of so many words has a stop word, unless it is a list.
_SENTENCE_WORDS, _LONG_SENTENCE_WORDS = 4, 20
_MIN_ACCENTED_SHARE = 0.15
_OTHER_LANGUAGES = (
    "arabic", "catalan", "danish", "dutch", "finnish", "french", "german", "greek", "hungarian", "indonesian",
    "italian", "norwegian", "portuguese", "romanian", "russian", "slovene", "spanish", "swedish", "turkish",
)  # fmt: skip


def tokeniser_for(settings: dict[str, Any]) -> Bm25:
    """What makes words of texts, as the settings of a `BM25` say."""
    language, folding = settings["language"], settings["fold_accents"]
    stopwords = None if settings["stopwords"] is None else StopwordsSet(custom=set(settings["stopwords"]))
    kind = TokenizerType.Multilingual if language in WITHOUT_SPACES else None
    wanted: dict[str, Any] = {"ascii_folding": folding, "stopwords": stopwords, "tokenizer": kind}
    try:
        return Bm25(Bm25Config(k=TOKENISER_K, b=0.0, language=language, **wanted))
    except ValueError as error:
        raise ConfigError(
            f"language {language!r} is not known: use an English name such as english, portuguese, spanish, "
            "german, norwegian, french"
        ) from error


def language_of(text: str) -> str | None:
    """The language that a text has most stop words of, without those that are English too; None if it has too few."""
    start = text[:_MAX_CHARACTERS]
    words = set(_WORD.findall(start))
    short = (word for word in words if len(word) <= _MAX_STOPWORD_LETTERS)
    stopwords = [languages for word in short if (languages := _languages_with(word))]  # of each, where it is one
    english = sum(_ENGLISH in languages for languages in stopwords)
    others = Counter(name for languages in stopwords if _ENGLISH not in languages for name in languages)
    # Languages that are equal in number are told apart by name: the order of a set changes from process to process.
    name, count = max(sorted(others.items()), key=lambda item: item[1], default=("", 0))
    only_english = sum(_ENGLISH in languages and name not in languages for languages in stopwords)
    if count >= _MIN_STOPWORDS and count > only_english:
        return name
    if english >= _MIN_STOPWORDS:
        return _ENGLISH
    return OTHER if not english and _is_foreign(start, words) else None


@lru_cache(maxsize=16_384)
def _languages_with(word: str) -> frozenset[str]:
    """The languages in which this is a stop word."""
    return frozenset(name for name, tokeniser in _tokenisers() if not tokeniser.embed_document(word).indices)


@lru_cache(maxsize=1)
def _tokenisers() -> list[tuple[str, Bm25]]:
    return [(name, Bm25(Bm25Config(language=name))) for name in (_ENGLISH, *_OTHER_LANGUAGES)]


def _is_foreign(text: str, words: set[str]) -> bool:
    """No English sentence looks like this: another script, or accents all over, or many words and no stop word."""
    if text.isascii():
        return len(words) >= _LONG_SENTENCE_WORDS
    letters = [ord(letter) for letter in text if letter.isalpha()]
    weights = [3 if letter >= _FIRST_OF_DENSE_SCRIPTS else 1 for letter in letters]
    beyond_latin = [weight for weight, letter in zip(weights, letters, strict=True) if letter >= _FIRST_BEYOND_LATIN]
    if 2 * sum(beyond_latin) > sum(weights):
        return True
    accented = sum(not word.isascii() for word in words)
    return len(words) >= _SENTENCE_WORDS and accented >= _MIN_ACCENTED_SHARE * len(words)
