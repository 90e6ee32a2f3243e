"""Query words matched against the tags and values that exist."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from twofold.signals.facts import Match, Value

_WORD = re.compile(r"[^\W_]+")
Stem: TypeAlias = str
Stemmer: TypeAlias = Callable[[str], Stem | None]
"""The stem of a word; None for a stop word."""


def fold(text: str) -> str:
    """Lower case, no accents: "São" and "sao" are the same."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFD", text.casefold())
    return "".join(character for character in decomposed if not unicodedata.combining(character))


def split(text: str) -> list[str]:
    """The words of a text or a tag, folded: "Rathole-infra" is rathole, infra."""
    return _WORD.findall(fold(text))


@dataclass
class Lexicon:
    """The tags and field values that exist, by the stems they consist of."""

    stem: Stemmer
    entries: dict[tuple[Stem, ...], dict[Match, int]] = field(default_factory=dict)
    """By the stems of a value: the field and the value, and how many memories have it."""
    longest: int = 0

    def add(self, field_name: str, values: Mapping[Value, int] | Iterable[Value]) -> None:
        """Take values in, with the number of memories that have each; without numbers, for one memory more.

        One that consists of stop words only can't be told from ordinary speech, and is left out.
        """
        for value, count in (values if isinstance(values, Mapping) else dict.fromkeys(values, 1)).items():
            words = split(str(value))
            stems = self.stems(words)
            if any(self.stem(word) is not None for word in words):
                # A new table each time: others may be reading the old one.
                known, match = self.entries.get(stems, {}), Match(field_name, value)
                self.entries[stems] = {**known, match: known.get(match, 0) + count}
                self.longest = max(self.longest, len(stems))

    def stems(self, words: Sequence[str]) -> tuple[Stem, ...]:
        """The stems of words; a stop word stands for itself."""
        return tuple(self.stem(word) or word for word in words)


def match_tags(query: str, lexicon: Lexicon, memories: int) -> tuple[Match, ...]:
    """What the query names, in its order. Several words can make one tag, written "ci cd", "ci-cd" or "ci_cd".

    A tag that few of the memories have says more than one that most of them have. And a tag was chosen to be found by,
    while a type such as "note" or "rule" may just be a word of the sentence: it counts by how much of the query the
    named fields make up.
    """
    words = split(query)
    stems = lexicon.stems(words)
    found: dict[Match, int] = {}
    covered: set[int] = set()
    for start in range(len(stems)):
        for length in range(1, min(lexicon.longest, len(stems) - start) + 1):
            named = lexicon.entries.get(stems[start : start + length], {})
            found.update(named)
            if any(match.field != "tags" for match in named):
                covered.update(range(start, start + length))
    telling = sum(lexicon.stem(word) is not None for word in words)
    share = min(1.0, len(covered) / telling) if telling else 0.0
    return tuple(
        replace(match, weight=rarity(count, memories) * (1.0 if match.field == "tags" else share))
        for match, count in found.items()
    )


def rarity(count: int, memories: int) -> float:
    """From 1 for what one memory has to 0 for what all of them have."""
    if memories <= 1:
        return 1.0
    return 1 - math.log(min(max(count, 1), memories)) / math.log(memories)
