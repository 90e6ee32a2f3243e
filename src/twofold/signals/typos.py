"""Mistyped words: the nearest one that some memory has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rapidfuzz import process
from rapidfuzz.distance import OSA

from twofold.signals.matching import Stemmer, split

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
        items = counts.items() if isinstance(counts, Mapping) else ((word, 1) for word in counts)
        for word, count in items:
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
