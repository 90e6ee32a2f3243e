"""Text as it enters the library: one Unicode form, no characters that cannot be stored."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

_SURROGATE = re.compile("[\ud800-\udfff]")
_SILENT_CATEGORIES = {"Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs"}


def normalise(text: str) -> str:
    """`text` in NFC, so that the same word is always the same characters."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def find_surrogate(text: str) -> int | None:
    """The position of the first lone surrogate, which no UTF-8 store can hold."""
    match = _SURROGATE.search(text)
    return match.start() if match else None


def replace_surrogates(text: str) -> str:
    """`text` with U+FFFD in place of every lone surrogate."""
    return _SURROGATE.sub("\ufffd", text)


def clean_query(query: str, limit: int) -> tuple[str, str | None]:
    """A query that every encoder can take, without lone surrogates, and a note if something of it was cut."""
    cleaned = normalise(replace_surrogates(query)).strip()
    if len(cleaned) <= limit:
        return cleaned, None
    return cleaned[:limit], f"the query was cut to its first {limit:,} characters"


_ENDS = ("\n\n", "\n", ". ", " ")


def passages(text: str, most: int) -> Iterator[str]:
    """A text in pieces of at most so many characters, cut in the second half of each at the best end that is there."""
    start = 0
    while start < len(text):
        end = min(start + most, len(text))
        if end < len(text):
            ends = (text.rfind(mark, start + most // 2, end) + len(mark) for mark in _ENDS)
            end = next((place for place in ends if place > start + most // 2), end)
        if passage := text[start:end].strip():
            yield passage
        start = end


def says_something(text: str) -> bool:
    """There is more in it than punctuation, blanks and control characters."""
    return any(unicodedata.category(character) not in _SILENT_CATEGORIES for character in text)


def plain_matches(query: str, texts: Sequence[str]) -> list[tuple[str, ...]]:
    """For each text the words of `query` that stand in it just so."""
    query_words = words(query)
    return [tuple(word for word in query_words if word in present) for present in (set(words(text)) for text in texts)]


def words(text: str) -> list[str]:
    """Distinct lower-case words in order of appearance, for plain full-text matching."""
    return list(dict.fromkeys(re.findall(r"\w+", text.lower())))


def without_secrets(location: str) -> str:
    """A location for people to read: what stands in a URL before an @ or behind a ? may be a password or a key."""
    return re.sub(r"(?<=://).*@|[?#].*", "", location, flags=re.DOTALL) if "://" in location else location
