"""What can be mended in place, without another model: `HybridIndex.repair`.

Vectors are added to the rows that lack them; their texts, their metadata and the vectors that they have stay as they
are, so nobody who writes meanwhile loses anything, and a repair that was interrupted goes on when it is called again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from twofold.documents import is_memory
from twofold.engine import calls
from twofold.engine.layout import from_point
from twofold.errors import CollectionMismatch
from twofold.filters import Either, HasVector, Not, Present
from twofold.flow import Flow, Renew, exclusively
from twofold.index.opening import Ready, check_unchanged
from twofold.index.writing import Advance, lacking_vectors

_PAGE_SIZE = 64


@dataclass(frozen=True)
class Repairs:
    """What a repair did."""

    rows: int
    """So many rows have the vectors that they lacked."""
    idf: bool
    """Rare words count more than common ones from now on."""
    indexes: tuple[str, ...]
    """Payload indexes that were made."""
    memories: int
    """So many memories lack a vector: `Memory.backfill` adds it."""

    @property
    def nothing(self) -> bool:
        """There was nothing to mend."""
        return not (self.rows or self.idf or self.indexes)


def repair(ready: Ready, advance: Advance) -> Flow[Repairs]:
    """Mend a collection in place."""
    if ready.read_only:
        raise CollectionMismatch(ready.read_only)
    schema = replace((yield from calls.describe(ready.collection)), layout=ready.layout)
    idf = schema.sparse and ready.sparse.needs_idf and not schema.idf
    if idf:
        yield from calls.set_idf(ready.collection, str(ready.layout.sparse))
    indexes: tuple[str, ...] = ()
    unindexed = ready.engine.indexes and ready.layout.key("part_of") not in schema.indexed
    if unindexed and (yield from calls.count(ready.collection, Present("part_of"))):
        yield from ready.indexes.ensure("part_of", "keyword", wait=True)
        indexes = ("part_of",)
    legs = ((ready.layout.dense, ready.no_dense), (ready.layout.sparse, ready.no_lexical))
    names = [str(name) for name, missing in legs if missing is None]
    rows, memories = yield from _complete(ready, names, advance)
    return Repairs(rows, idf, indexes, memories)


def _complete(ready: Ready, names: Sequence[str], advance: Advance) -> Flow[tuple[int, int]]:
    """Give rows the vectors of these names that they lack, a page at a time."""
    lacking = Either(tuple(Not(HasVector(name)) for name in names))
    written, memories, offset = 0, 0, None
    while True:
        yield Renew()
        page, offset = yield from calls.scroll(
            ready.collection, lacking, limit=_PAGE_SIZE, offset=offset, vectors=names
        )
        own = []
        for row in page:
            stored = from_point(row, ready.layout)
            if is_memory(stored.metadata):  # its words are more than those of its text: `Memory.backfill` knows which
                memories += bool(stored.text.strip())
            else:
                own.append(row)
        points = yield from exclusively(ready.parts_lock, lacking_vectors(ready, own), "the parts of documents")
        if points:
            yield from check_unchanged(ready)
            yield from calls.update_vectors(ready.collection, points)
            ready.sampler.changed(len(points))
            written += len(points)
        advance(len(page))
        if offset is None:
            return written, memories
