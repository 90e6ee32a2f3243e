"""The tags, values and words that a user's memories have: what a query can name, and what a typo can mean."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twofold.engine import calls
from twofold.engine.filters import compile_filter
from twofold.engine.flow import Flow
from twofold.engine.layout import metadata_key
from twofold.index.opening import Ready
from twofold.memory.items import MemoryItem
from twofold.memory.layout import OWN_FIELDS, searchable_words
from twofold.memory.learned import Learned
from twofold.memory.scope import Scope
from twofold.signals.facts import Value
from twofold.signals.matching import Lexicon, Stemmer
from twofold.signals.typos import Words

_MOST_TAGS = 10_000
_MOST_WORDS = 100_000
_SHARED_FOR = 60.0


def field_path(name: str) -> str:
    """Where a field lies: a memory's own under its name, the caller's under `metadata`."""
    return name if name.split(".")[0] in OWN_FIELDS else f"metadata.{name}"


@dataclass
class Tally:
    """The rows that this process has added to a collection, and those that it has deleted."""

    added: int = 0
    deleted: int = 0
    """Engines count the words of deleted rows until they tidy up, so these never stop being in the way."""


@dataclass
class Vocabulary:
    """What one scope's memories have. Kept in step with what this process writes."""

    lexicon: Lexicon
    words: Words
    memories: int
    rows: int
    """Rows of the collection when it was read, less those in the tally."""
    fields: tuple[str, ...]
    learned: Learned | None = None
    """What feedback has taught about this scope."""
    tally: Tally = field(default_factory=Tally)
    read_at: float = field(default_factory=time.monotonic)

    @property
    def others(self) -> int:
        """Rows of the collection that belong to others, at this moment: they write while this scope only reads."""
        return max(0, self.rows + self.tally.added - self.memories)

    def learn(self, item: MemoryItem) -> None:
        """A memory was written."""
        for path in self.fields:
            found = _at(item, path)
            values = found if isinstance(found, (list, tuple)) else [found]
            self.lexicon.add(path, [v for v in values if isinstance(v, (str, int)) and not isinstance(v, bool)])
        self.words.add(searchable_words(item))

    def outdated(self, *, shared: bool) -> bool:
        """Other processes may have written meanwhile, where they can."""
        return shared and time.monotonic() - self.read_at > _SHARED_FOR


def _at(item: MemoryItem, path: str) -> Any:
    """What a memory has at the path of a field."""
    first, *rest = path.split(".")
    found: Any = getattr(item, first, None)
    for part in rest:
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def read(
    ready: Ready, scope: Scope, fields: Sequence[str], stem: Stemmer, tally: Tally, *, typos: bool
) -> Flow[Vocabulary]:
    """Ask the engine what there is."""
    tallied = (
        tally.added - tally.deleted
    )  # before anything is read: what is written meanwhile may be counted twice, but not left out
    where = compile_filter(scope.where(("memory",)))
    lexicon, words = Lexicon(stem), Words()
    paths = tuple(dict.fromkeys(["tags", *(field_path(name) for name in fields)]))
    for path in paths:
        found: dict[Value, int] = yield from calls.facet(ready.collection, metadata_key(path), where, _MOST_TAGS)
        lexicon.add(path, found)
    if typos:
        counts = yield from calls.facet(ready.collection, metadata_key("words"), where, _MOST_WORDS)
        words.add({str(word): count for word, count in counts.items()})
    memories = yield from calls.count(ready.collection, where)
    everything = yield from calls.count(ready.collection, None)
    return Vocabulary(lexicon, words, memories, everything - tallied, paths, tally=tally)
