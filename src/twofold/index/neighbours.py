"""Parts of one thing lend each other context: passages of a page, lines of a meeting, turns of a conversation.

A part is often short ("yes, the blue one") and says little by itself. So the stored vectors of each take in something
of the parts before and after it, and whatever adds, changes or deletes a part writes its neighbours anew. Documents of
an index (`writing.py`) and turns of a memory (`memory/writing.py`) are parts in the same way; they only differ in how
they are read and encoded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from twofold.encoders.base import Sparse, Vectors, blend
from twofold.flow import Flow, Renew

Item = TypeVar("Item")

REACH = 2
"""How many parts before and after it a part takes something from."""
# What it takes from the next ones on both sides, and from those beyond. Measured on long two-person conversations,
# with the settings chosen on four of them and tried on the fifth; meetings, which had no part in the choice, gain most.
_MEANING_SHARES = (1 / 3, 1 / 6)
_WORD_SHARES = (0.2, 0.1)
_BATCH_SIZE = 64


class PartPlace(NamedTuple):
    """Where something stands: of what it is a part, and where in that."""

    point: str
    part_of: Hashable = None
    """None for what stands by itself."""
    position: int = 0

    @property
    def in_something(self) -> bool:
        """It is the place of a part."""
        return self.part_of is not None


Positions: TypeAlias = Mapping[Hashable, Collection[int]]
"""By what they are part of, the positions of parts."""


@dataclass(frozen=True)
class Encoded(Generic[Item]):
    """What is to be stored, with vectors of its own."""

    item: Item
    place: PartPlace
    dense: Vectors | None
    sparse: Sparse | None
    lent_words: Sparse | None
    """What a part lends to others of its words."""
    given: bool = False
    """The dense vector came with it and can't be made again: it stays as it is, and is lent to nobody."""


Read: TypeAlias = Callable[[Positions, Collection[str]], Flow[list[Encoded[Item]]]]
"""Reads the stored parts at some positions, without those of some points, and encodes each by itself."""
Put: TypeAlias = Callable[[Sequence[Encoded[Item]]], Flow[None]]


def rewritten(
    read: Read[Item], touched: Sequence[PartPlace], changed: Sequence[Encoded[Item]], without: Collection[str]
) -> Flow[list[Encoded[Item]]]:
    """Parts that have changed, then all neighbours of places where a part changed, came or goes, each in context.

    Args:
        read: How stored parts are read.
        touched: The places where something changes.
        changed: The parts that stand there from now on.
        without: The points of all parts that change or go: what is stored of them doesn't count any more.
    """
    reached = _around(touched, REACH)
    stored = yield from read(_around(touched, 2 * REACH), without)
    together: defaultdict[Hashable, list[Encoded[Item]]] = defaultdict(list)
    for each in (*changed, *stored):
        together[each.place.part_of].append(each)
    found = [each for parts in together.values() for each in _in_context(parts)]
    found = [each for each in found if each.place.position in reached[each.place.part_of]]
    return sorted(found, key=lambda each: each.place.point not in without)


def rewrite(read: Read[Item], put: Put[Item], gone: Iterable[PartPlace]) -> Flow[None]:
    """Write the neighbours of parts anew that are about to go, some at a time: they hold something of them."""
    places = sorted(gone, key=lambda place: (str(place.part_of), place.position))
    points = {place.point for place in places}
    for start in range(0, len(places), _BATCH_SIZE):
        yield Renew()
        yield from put((yield from rewritten(read, places[start : start + _BATCH_SIZE], (), points)))


def _around(places: Iterable[PartPlace], reach: int) -> dict[Hashable, set[int]]:
    around: defaultdict[Hashable, set[int]] = defaultdict(set)
    for _, part_of, position in places:
        around[part_of].update(range(position - reach, position + reach + 1))
    return around


def _in_context(parts: Iterable[Encoded[Item]]) -> list[Encoded[Item]]:
    """Parts of one thing, each with something of its neighbours; the place of one that is gone stays empty."""
    ordered = sorted(parts, key=lambda part: (part.place.position, part.place.point))
    result = []
    for number, part in enumerate(ordered):
        around = [*ordered[max(number - REACH, 0) : number], *ordered[number + 1 : number + 1 + REACH]]
        apart = [(other, abs(other.place.position - part.place.position)) for other in around]
        near = [(other, max(away, 1) - 1) for other, away in apart if away <= REACH]
        dense, sparse = part.dense, part.sparse
        if dense is not None and not part.given:
            lent = [(other.dense, away) for other, away in near if other.dense is not None and not other.given]
            total = np.sum([dense, *(_MEANING_SHARES[away] * other for other, away in lent)], axis=0)
            length = float(np.linalg.norm(total))
            dense = np.asarray(total / length, dtype=np.float32) if length else dense
        if sparse is not None:
            words = [(other.lent_words, _WORD_SHARES[away]) for other, away in near if other.lent_words is not None]
            sparse = blend([(sparse, 1.0), *words])
        result.append(replace(part, dense=dense, sparse=sparse))
    return result
