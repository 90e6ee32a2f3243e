"""What a query names, its words matched against the tags and values that exist; and what mistyped words mean."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import TypeAlias

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


# --- Mistyped words: what they may have been meant to be ---

_SHORTEST, _LONGEST = 5, 32
_LONG = 8
_LONGEST_ENDING = 1  # "marathons"; with longer ones, "proline" was read as "prominent"
_VOWELS = "aeiouy"
_FIRST_OF_DENSE_SCRIPTS = "\u2e80"  # from here on a letter stands for a syllable or a word
_SAME_START = 3
# What stands in quotes, or between backticks, is meant as it is written.
_QUOTED_OR_WORD = re.compile(r'"[^"]*"|“[^”]*”|«[^»]*»|`[^`]*`|[^\W_]+')


def doubtful(query: str, known: Container[str]) -> list[str]:
    """The words of a query that may be mistyped, in lower case: long enough, not quoted, no numbers, not known."""
    written = (found for found in _QUOTED_OR_WORD.findall(query.lower()) if _SHORTEST <= len(found) <= _LONGEST)
    words = (word for word in dict.fromkeys(written) if word[0].isalpha() and max(word) < _FIRST_OF_DENSE_SCRIPTS)
    return [word for word in words if fold(word) not in known]


def is_form_of_known(word: str, known: frozenset[str], stem: Stemmer) -> bool:
    """It is a stop word, or another form of a known word: "gardeners" is a word where "gardener" is one."""
    wanted = stem(word)
    return wanted is None or any(stem(other) == wanted for other in _by_start(known).get(fold(word)[:_SAME_START], ()))


@lru_cache(maxsize=1)  # there is one list of words, and to go through it takes as long as a search
def _by_start(known: frozenset[str]) -> dict[str, list[str]]:
    starts: dict[str, list[str]] = {}
    for word in known:
        starts.setdefault(word[:_SAME_START], []).append(word)
    return starts


def spellings_near(word: str) -> dict[str, int]:
    """Everything that a word may have been meant to be, and by how many slips.

    One slip is a letter too many, too few, another, or two swapped. In words of eight letters and more two are forgiven
    if they are of the common kinds: another vowel, a letter doubled or not, two swapped.
    """
    near = {}
    if len(word) >= _LONG:
        near = {twice: 2 for once in _common_slips(word) for twice in _common_slips(once)}
    near.update(dict.fromkeys(_slips(word), 1))
    near.pop(word, None)
    return near


def _slips(word: str) -> Iterator[str]:
    """What is one slip away from a word, in letters like its own. With another digit or letter, a code is another."""
    code = any(letter.isdigit() for letter in word)
    blocks = {ord(letter) // 32 for letter in word}  # in Unicode, the letters of a script stand together
    letters = [each for block in blocks for each in map(chr, range(block * 32, block * 32 + 32)) if _is_plain(each)]
    for place in range(len(word) + 1):
        before, letter, after = word[:place], word[place : place + 1], word[place + 1 :]
        yield from (before + other + letter + after for other in letters)
        if letter:
            yield before + after
            yield before + after[:1] + letter + after[1:]
            yield from (before + other + after for other in letters if not code or other.isdigit() != letter.isdigit())


def _is_plain(letter: str) -> bool:
    return letter.isdigit() or (letter.isalpha() and letter == letter.lower())


def _common_slips(word: str) -> Iterator[str]:
    for place, letter in enumerate(word):
        before, after = word[:place], word[place + 1 :]
        yield before + 2 * letter + after
        yield before + after[:1] + letter + after[1:]
        if after[:1] == letter:
            yield before + after
        if letter in _VOWELS:
            yield from (before + other + after for other in _VOWELS if other != letter)


def most_likely(near: Mapping[str, int], texts: Iterable[str], stem: Stemmer) -> str | None:
    """The word that was meant, of those in some texts that are near, or forms of what is: the nearest, the commonest.

    A code (letters and digits) is only read as another if there is no second one like it: of E4020 to E4029 none is
    what E4031 was meant to be.
    """
    slips = {fold(word): count for word, count in near.items() if len(word) >= _SHORTEST - 1 and word[0].isalpha()}
    counts, spelled, distances = Counter[str](), dict[str, str](), dict[str, tuple[int, int]]()
    for text in texts:
        for written in set(_WORD.findall(text)):
            word = fold(written)
            for ending in range(_LONGEST_ENDING + 1):
                base = word[: len(word) - ending]
                if base in slips and (not ending or stem(base) == stem(word)):
                    counts[word] += 1
                    spelled[word], distances[word] = written, (slips[base], ending)
                    break
    if not counts or (len(counts) > 1 and any(letter.isdigit() for word in counts for letter in word)):
        return None
    best = min(counts, key=lambda word: (distances[word], -counts[word], word))
    # Capitals inside an identifier tell its parts; others only say where in a sentence it stood.
    return spelled[best] if re.search(r"[^\W\d_A-Z][A-Z]", spelled[best]) else spelled[best].lower()


def read_as(query: str, corrections: Mapping[str, str]) -> str:
    """The query with what its mistyped words were meant to be."""
    return _QUOTED_OR_WORD.sub(lambda found: corrections.get(fold(found[0]), found[0]), query) if corrections else query
