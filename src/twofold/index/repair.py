"""What can be mended in place, without another model: `HybridIndex.repair`.

Vectors are added to the rows that lack them; their texts, their metadata and the vectors that they have stay as they
are, so nobody who writes meanwhile loses anything, and a repair that was interrupted goes on when it is called again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from twofold.documents import Record
from twofold.engine import calls
from twofold.engine.layout import DENSE, SPARSE, NewPoint, Point, from_point, metadata_key, to_point
from twofold.errors import CollectionMismatch
from twofold.filters import Either, HasVector, Node, Not, Present
from twofold.flow import Flow, Renew, exclusively
from twofold.index.neighbours import Encoded, rewritten
from twofold.index.opening import Ready
from twofold.index.writing import Advance, encode_records, place_of, read_parts

_PAGE_SIZE = 64
# What the rows of a memory have. Their words are more than those of their text: `Memory.backfill` knows which.
_OF_MEMORIES = "shelf"


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
    schema = yield from calls.describe(ready.collection)
    idf = schema.sparse and ready.sparse.needs_idf and not schema.idf
    if idf:
        yield from calls.set_idf(ready.collection, SPARSE)
    indexes: tuple[str, ...] = ()
    parts = yield from calls.count(ready.collection, Present("part_of"))
    if parts and metadata_key("part_of") not in schema.indexed:
        yield from ready.indexes.ensure("part_of", "keyword", wait=True)
        indexes = ("part_of",)
    legs = ((DENSE, ready.no_dense), (SPARSE, ready.no_lexical))
    lacking = Either(tuple(Not(HasVector(name)) for name, missing in legs if missing is None))
    rows, memories = yield from _complete(ready, lacking, advance)
    return Repairs(rows, idf, indexes, memories)


def _complete(ready: Ready, lacking: Node, advance: Advance) -> Flow[tuple[int, int]]:
    """Give rows what they lack, a page at a time."""
    written, memories, offset = 0, 0, None
    while True:
        yield Renew()
        page, offset = yield from calls.scroll(
            ready.collection, lacking, limit=_PAGE_SIZE, offset=offset, vectors=(DENSE, SPARSE)
        )
        own = [row for row in page if not isinstance(from_point(row).metadata.get(_OF_MEMORIES), str)]
        memories += sum(bool(from_point(row).text.strip()) for row in page if row not in own)
        points = yield from exclusively(ready.parts_lock, _lacking_vectors(ready, own), "the parts of documents")
        if points:
            yield from calls.update_vectors(ready.collection, points)
            ready.sampler.changed(len(points))
            written += len(points)
        advance(len(page))
        if offset is None:
            return written, memories


def _lacking_vectors(ready: Ready, rows: Sequence[Point]) -> Flow[list[NewPoint]]:
    """The vectors that rows lack, as `add` makes them: those of parts with something of their neighbours."""
    stored = {str(row.id): (row.id, from_point(row), row.vector or {}) for row in rows}
    readable = {identity: each for identity, (_, each, _) in stored.items() if each.searched_text.strip()}
    places = [place_of(identity, each.metadata) for identity, each in readable.items()]
    parts = [place for place in places if place.in_something]
    encoded: list[Encoded[Record]] = yield from rewritten(partial(read_parts, ready), parts, (), ())
    alone = [readable[place.point] for place in places if not place.in_something]
    records = [(Record(each.id, each.text, dict(each.metadata), each.title), None) for each in alone]
    by_themselves = yield from encode_records(ready, records)
    made = [replace(each, place=place_of(row.point, {})) for row, each in zip(alone, by_themselves, strict=True)]
    points = []
    for each in (*made, *(part for part in encoded if part.place.point in readable)):
        identity, _, present = stored[each.place.point]
        vectors = to_point(each.item, each.dense, each.sparse).vector
        if lacking := {name: vector for name, vector in vectors.items() if name not in present}:
            points.append(NewPoint(identity, lacking, {}))
    return points
