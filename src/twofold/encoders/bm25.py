"""BM25 as sparse vectors: this is the document's side of the formula, and the engine adds the IDF of each word.

A text is normalised, gets the tokens of its identifiers appended, and is cut into words by the engine's tokeniser,
which also removes stop words and stems. The counts of words, and of pairs of words that follow each other, become
weights.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from twofold.encoders.base import Sparse
from twofold.encoders.languages import TOKENISER_K, WITHOUT_SPACES, tokeniser_for
from twofold.errors import ConfigError
from twofold.text import normalise, words

# A letter to the tokeniser (so it does not cut there) that no identifier contains.
_JOINER = "\u01c3"
_MAX_COMPOUND_CHARACTERS = 64
# Only from the start of a word: tried from each of its letters, one long word takes quadratic time.
_COMPOUND = re.compile(r"(?<![^\W_])[^\W_]+(?:[-_.][^\W_]+)+")
_WORD = re.compile(r"[^\W_]+")
# Between rate|Limit, HTTP|Server, and letters and digits.
_SEAM = re.compile(r"(?<=[a-zß-öø-ÿ])(?=[A-ZÀ-ÖØ-Þ])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])")
# The ids of words are below this, those of pairs are not.
_FIRST_PAIR_ID = 2**31
_PAIR_MULTIPLIER = 0x9E3779B1  # so that the order of a pair's words matters
_NO_COUNTS = np.empty(0)
# What a part of an identifier, or a compound as a whole, counts in a query, where a written word counts 1: it is rarer
# than a word, and says less.
_EXTRA_TOKEN_WEIGHT = 0.5
# Endings whose stemming rule asks for an accent, which folding takes away: singular and plural would differ.
_ACCENTED_ENDINGS = {
    "portuguese": (re.compile(r"[oõ]es\b", re.IGNORECASE), "ao"),  # informação, informações
    "spanish": (re.compile(r"ci[oó]n\b", re.IGNORECASE), "ciones"),  # información, informaciones
}


class BM25:
    """A BM25 encoder for one language.

    Args:
        language: For stop words and stemming: "english", "portuguese", "norwegian" ….
        k1: How soon repetitions of a word stop counting; higher is later.
        b: How much long documents are held back, 0 (not at all) to 1 (in proportion to their length).
        avg_len: The length, in words, of a document that is neither held back nor favoured.
        delta: What a word that occurs adds by that alone.
        pairs: What two words count for that follow each other as they do in the query, where each of them counts 1;
            0 leaves pairs out of the index.
        split_identifiers: Index `checkRateLimit` as a whole and as check, rate, limit.
        fold_accents: "São" and "Sao" are the same word.
        stopwords: Words to leave out instead of the language's own list.
    """

    needs_idf = True

    def __init__(
        self,
        language: str = "english",
        *,
        k1: float = 1.2,
        b: float = 0.75,
        avg_len: float = 100.0,
        delta: float = 0.5,
        pairs: float = 0.25,
        split_identifiers: bool = True,
        fold_accents: bool = True,
        stopwords: Sequence[str] | None = None,
    ) -> None:
        self._settings: dict[str, Any] = {
            "model": "bm25",
            "language": str(language).lower(),
            "k1": _check_range("k1", k1, 0.0, 100.0),
            "b": _check_range("b", b, 0.0, 1.0),
            "avg_len": _check_range("avg_len", avg_len, 1.0, 1e9),
            "delta": _check_range("delta", delta, 0.0, 100.0),
            "pairs": _check_range("pairs", pairs, 0.0, 100.0),
            "split_identifiers": bool(split_identifiers),
            "fold_accents": bool(fold_accents),
            "stopwords": None if stopwords is None else _check_stopwords(stopwords),
        }
        self._tokeniser = tokeniser_for(self._settings)
        unfolded = tokeniser_for({**self._settings, "fold_accents": False})
        self._stem = lru_cache(16_384)(lambda word: ",".join(map(str, self._counts(word)[0])) or None)
        self._word_number = lru_cache(16_384)(self._hash_stem)
        self._is_stopword = lru_cache(4096)(lambda word: not unfolded.embed_document(word).indices)

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that decides the vectors."""
        return dict(self._settings)

    def embed_documents(self, texts: Sequence[str]) -> list[Sparse]:
        """Vectors to store: saturated, length-normalised term frequencies."""
        return [self._embed_document(text) for text in texts]

    def embed_query(self, text: str) -> Sparse:
        """A vector to search with: a word that stands in it twice counts more, but not double."""
        indices, counts = self._counts(text)
        pairs, repeats = self._pairs(text)
        weights = np.sqrt(counts)
        if self._settings["split_identifiers"] and extra_tokens(normalise(text)):
            written = self._counts(text, split=False)[0]
            weights = np.where(np.isin(indices, written), weights, _EXTRA_TOKEN_WEIGHT * weights)
        pair_weights = self._settings["pairs"] * np.sqrt(repeats)
        return Sparse([*indices, *pairs], [*weights.tolist(), *pair_weights.tolist()], len(indices))

    def word_vector(self, words: Iterable[str]) -> Sparse:
        """A vector that finds what has any of these words: all of the same weight, none of them in parts."""
        indices, _ = self._counts(" ".join(words), split=False)
        return Sparse(indices, [1.0] * len(indices))

    def stem(self, word: str) -> str | None:
        """What all forms of a word have in common; None for a word that isn't indexed."""
        return self._stem(word)

    def matched_words(self, query: str, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """For each text, the words of `query` that it has too, as they are written in the query."""
        query_ids = {word: set(self._counts(word)[0]) for word in _written_words(query)}
        text_ids = (set(self._counts(text)[0]) for text in texts)
        return [tuple(word for word, ids in query_ids.items() if ids & present) for present in text_ids]

    def _embed_document(self, text: str) -> Sparse:
        indices, counts = self._counts(text)
        k1, b, avg_len = self._settings["k1"], self._settings["b"], self._settings["avg_len"]
        norm = k1 * (float(counts.sum()) / avg_len) ** b
        pairs, repeats = self._pairs(text)
        word_weights = counts * (k1 + 1) / (counts + norm) + self._settings["delta"]
        pair_weights = repeats * (k1 + 1) / (repeats + norm)
        return Sparse([*indices, *pairs], [*word_weights.tolist(), *pair_weights.tolist()], len(indices))

    def _counts(self, text: str, *, split: bool = True) -> tuple[list[int], Any]:
        """Token ids, ascending, and how often each occurs."""
        text = normalise(text)
        if split and self._settings["split_identifiers"]:
            text = " ".join([text, *extra_tokens(text)])
        if self._settings["fold_accents"]:
            text = self._before_folding(text)
        vector = self._tokeniser.embed_document(text)
        weights = np.asarray(vector.values, dtype=np.float64)
        return list(vector.indices), np.rint(weights * TOKENISER_K / (TOKENISER_K + 1 - weights))

    def _pairs(self, text: str) -> tuple[list[int], Any]:
        """Ids of the words that follow each other, ascending and above those of words, and how often each occurs."""
        if not self._settings["pairs"] or self._settings["language"] in WITHOUT_SPACES:
            return [], _NO_COUNTS
        numbers = [number for word in _WORD.findall(normalise(text)) if (number := self._word_number(word))]
        hashes = (one * _PAIR_MULTIPLIER + following for one, following in pairwise(numbers))
        counts = Counter(each % _FIRST_PAIR_ID + _FIRST_PAIR_ID for each in hashes)
        ids = sorted(counts)
        return ids, np.array([counts[each] for each in ids], dtype=np.float64)

    def _hash_stem(self, word: str) -> int:
        """A number for all forms of a word; 0 for one that isn't indexed. GitHub is github here, not two words."""
        return zlib.crc32((self._stem(word.lower() if word.isascii() else word) or "").encode())

    def _before_folding(self, text: str) -> str:
        """The engine folds before it looks for stop words and stems, and so misses those with an accent."""
        language = self._settings["language"]
        if language in _ACCENTED_ENDINGS:
            ending, regular = _ACCENTED_ENDINGS[language]
            text = ending.sub(regular, text)
        if text.isascii() or language in WITHOUT_SPACES:
            return text
        return _WORD.sub(lambda word: "" if self._is_accented_stopword(word[0]) else word[0], text)

    def _is_accented_stopword(self, word: str) -> bool:
        """One with a capital may be a name: São Paulo."""
        return not word.isascii() and word.islower() and self._is_stopword(word)


def extra_tokens(text: str) -> list[str]:
    """What plain word splitting misses: compounds such as `migration_032` whole, the parts of `checkRateLimit`."""
    compounds = [whole for whole in _COMPOUND.findall(text) if len(whole) <= _MAX_COMPOUND_CHARACTERS]
    wholes = [_JOINER.join(_WORD.findall(whole)) for whole in compounds]
    split = (_SEAM.split(word) for word in _WORD.findall(text))
    return wholes + [part for parts in split if len(parts) > 1 for part in parts]


def _written_words(query: str) -> list[str]:
    """The words of a query as they are written, whole identifiers before their parts."""
    written = [part.strip(".,;:!?()[]{}\"'") for part in query.split()]
    return list({word.lower(): word for word in reversed([*written, *words(query)]) if word}.values())[::-1]


def _check_stopwords(stopwords: Sequence[str]) -> list[str]:
    if isinstance(stopwords, str) or not all(isinstance(word, str) for word in stopwords):
        raise ConfigError(f"stopwords must be a list of words, got {stopwords!r}")
    return sorted({normalise(word).lower() for word in stopwords})


def _check_range(name: str, value: float, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise ConfigError(f"{name} must be between {low:g} and {high:g}, got {value!r}")
    return float(value)


@lru_cache(maxsize=1)
def known_words() -> frozenset[str]:
    """The words that the bundled models have whole in their vocabulary, most of them English; none without the file."""
    path = Path(__file__).with_name("bundled") / "tokenizer.json"
    pieces = json.loads(path.read_text("utf-8"))["model"]["vocab"] if path.is_file() else ()
    return frozenset(piece for piece in pieces if piece.isalpha())  # the others, such as "##ing", are parts of words


@lru_cache(maxsize=1)
def dictionary_words() -> frozenset[str]:
    """The words of an English dictionary, in all their forms. It takes a tenth of a second to load, once."""
    from spellchecker import SpellChecker

    return frozenset(SpellChecker(language="en").word_frequency.words())
