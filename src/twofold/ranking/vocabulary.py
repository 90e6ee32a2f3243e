"""What a query names: its words matched against the tags and values that exist, and corrected where none has them."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from rapidfuzz import process
from rapidfuzz.distance import OSA

from twofold.filters import Equals, Scalar
from twofold.ranking.signals import Named

# --- Query words matched against the tags and values that exist ---

_WORD = re.compile(r"[^\W_]+")
_TERM = re.compile(r"[^\W_]+(?:(?:\+\+|#)(?!\w))?")
Stem: TypeAlias = str
Stemmer: TypeAlias = Callable[[str], Stem | None]
"""The stem of a word; None for a stop word."""
Value: TypeAlias = Scalar | datetime


def fold(text: str) -> str:
    """Lower case, no accents: "São" and "sao" are the same."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFD", text.casefold())
    return "".join(character for character in decomposed if not unicodedata.combining(character))


def split(text: str) -> list[str]:
    """The words of a text or a tag, folded: "Rathole-infra" is rathole, infra."""
    return _WORD.findall(fold(text))


def terms(text: str) -> list[str]:
    """The words of a tag, or of a query that may name one: like `split`, but "c++" and "c#" are no "c"."""
    return _TERM.findall(fold(text))


@dataclass
class Lexicon:
    """The tags and field values that exist, by the stems they consist of."""

    stem: Stemmer
    entries: dict[tuple[Stem, ...], dict[Equals, int]] = field(default_factory=dict)
    """By the stems of a value: the field and the value, and how many memories have it."""
    longest: int = 0

    def add(self, field_name: str, values: Mapping[Value, int] | Iterable[Value]) -> None:
        """Take values in, with the number of memories that have each; without numbers, for one memory more.

        One that consists of stop words only can't be told from ordinary speech, and is left out.
        """
        for value, count in (values if isinstance(values, Mapping) else dict.fromkeys(values, 1)).items():
            words = terms(str(value))
            stems = self.stems(words)
            if any(self.stem(word) is not None for word in words):
                # A new table each time: others may be reading the old one.
                known, match = self.entries.get(stems, {}), Equals(field_name, value)
                self.entries[stems] = {**known, match: known.get(match, 0) + count}
                self.longest = max(self.longest, len(stems))

    def stems(self, words: Sequence[str]) -> tuple[Stem, ...]:
        """The stems of words; a stop word stands for itself, and so does what has a sign at its end."""
        return tuple((word[-1].isalnum() and self.stem(word)) or word for word in words)

    def spellings(self, field_name: str, value: str) -> tuple[Value, ...]:
        """The values of a field that are the same words as this one, whatever their capitals, accents and hyphens."""
        words = terms(value)
        known = self.entries.get(self.stems(words), {})
        return tuple(each.value for each in known if each.field == field_name and terms(str(each.value)) == words)


def match_tags(query: str, lexicon: Lexicon, memories: int) -> tuple[Named, ...]:
    """What the query names, in its order. Several words can make one tag, written "ci cd", "ci-cd" or "ci_cd".

    All spellings of one tag are one: the query named it once. Of the tags within a longer one only the longer is meant:
    "machine learning" is about neither machines nor learning. A tag that few of the memories have says more than one
    that most of them have. And a tag was chosen to be found by, while a type such as "note" or "rule" may just be a
    word of the sentence: it counts by how much of the query the named fields make up.
    """
    words = terms(query)
    stems = lexicon.stems(words)
    spans = _longest(stems, lexicon)
    covered = {place for span, known in spans if any(match.field != "tags" for match in known) for place in span}
    telling = sum(lexicon.stem(word) is not None for word in words)
    share = min(1.0, len(covered) / telling) if telling else 0.0
    found: dict[tuple[Stem, ...], dict[Equals, int]] = {}
    for span, known in spans:
        found.setdefault(stems[span.start : span.stop], {}).update(known)
    return tuple(Named(tuple(known), _telling(known, memories, share)) for known in found.values())


def _telling(known: Mapping[Equals, int], memories: int, share: float) -> float:
    """How much it says that a memory has something: `share` of it where it is in no tag."""
    counts: dict[str, int] = {}
    for match, count in known.items():  # a memory has one spelling of a tag, but maybe the same as tag and as type
        counts[match.field] = counts.get(match.field, 0) + count
    return rarity(max(counts.values()), memories) * (1.0 if "tags" in counts else share)


def _longest(stems: tuple[Stem, ...], lexicon: Lexicon) -> list[tuple[range, dict[Equals, int]]]:
    """Where the query names something, and what, in its order; of each field nothing within something longer."""
    taken: dict[str, list[range]] = {}
    found: list[tuple[range, dict[Equals, int]]] = []
    for length in range(min(lexicon.longest, len(stems)), 0, -1):
        for start in range(len(stems) - length + 1):
            span = range(start, start + length)
            named = lexicon.entries.get(stems[start : span.stop], {})
            free = {match: n for match, n in named.items() if not _within(span, taken.get(match.field, ()))}
            if free:
                found.append((span, free))
                for name in {match.field for match in free}:
                    taken.setdefault(name, []).append(span)
    return sorted(found, key=lambda each: (each[0].start, len(each[0])))


def _within(span: range, others: Iterable[range]) -> bool:
    return any(other.start <= span.start and span.stop <= other.stop and len(span) < len(other) for other in others)


def rarity(count: int, memories: int) -> float:
    """From 1 for what one memory has to 0 for what all of them have."""
    if memories <= 1:
        return 1.0
    return 1 - math.log(min(max(count, 1), memories)) / math.log(memories)


# --- Mistyped words: the nearest one that some memory has ---

_SHORTEST = 5
_LONG = 8
_SAME_START = 3


@dataclass
class Words:
    """The words that memories have, with the number of memories that have each."""

    counts: dict[str, int] = field(default_factory=dict)
    _by_start: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """The words by their first letter, their first two and their first three."""

    def add(self, counts: Mapping[str, int] | Iterable[str]) -> None:
        """Take words in, or count them once more."""
        for word, count in Counter(counts).items():
            new = word not in self.counts
            self.counts[word] = self.counts.get(word, 0) + count
            for start in {word[:1], word[:2], word[:_SAME_START]} if new else ():
                self._by_start[start].append(word)

    def nearest(self, word: str) -> str | None:
        """The known word that this one is most likely meant to be, None if there is none near enough.

        One slip (a letter too many, too few, another, or two swapped) is forgiven in words of five letters
        and more, two from eight on. Of equally near words the commoner one is taken. The first letter is expected to
        be right, or swapped with the second: comparing with every word there is would take too long.
        """
        reach = 2 if len(word) >= _LONG else 1
        # Hardly anybody mistypes the first letter, unless by swapping it with the second; but "sport" is not "port".
        candidates = [*self._by_start.get(word[0], ()), *self._by_start.get(word[1] + word[0], ())]
        found = process.extract(word, candidates, scorer=OSA.distance, score_cutoff=reach, limit=None)
        return min(found, key=lambda hit: (hit[1], -self.counts[hit[0]], hit[0]))[0] if found else None

    def has_form_of(self, word: str, stem: Stemmer) -> bool:
        """Another form of this word is known."""
        wanted = stem(word)
        return any(stem(other) == wanted for other in self._by_start.get(word[:_SAME_START], ()))


def corrections(query: str, words: Words, stem: Stemmer) -> dict[str, str]:
    """For each word of the query that no memory has, the one that was probably meant.

    A word that is another form of a known one ("tunnels", "tunnel") needs no correction: both have the same stem.
    """
    unknown = [w for w in dict.fromkeys(split(query)) if len(w) >= _SHORTEST and w not in words.counts and w.isalpha()]
    telling = [word for word in unknown if stem(word) is not None and not words.has_form_of(word, stem)]
    meant = {word: words.nearest(word) for word in telling}
    return {word: other for word, other in meant.items() if other is not None}
