"""Growing up: the collections of a folder, moved to a server.

Each is copied in the order of its ids. A move that was killed goes on: rows that are there already, just as they are
here, are not sent again. Then the two are compared: how many rows, a sample of them number by number, and what both
places answer to these. A collection that is being moved says so in its record, and no longer when it has arrived.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

from twofold.engine import calls
from twofold.engine.connection import Connection, laid
from twofold.engine.layout import MOVED_KEY, RECORD_KEY, Point, Schema
from twofold.engine.requests import VectorQuery
from twofold.errors import TransferError
from twofold.filters import HasPoint
from twofold.flow import run
from twofold.index.opening import find_current
from twofold.index.transfer import (
    BATCH_SIZE,
    Header,
    as_line,
    connected,
    make_like,
    new_point,
    require,
    vector_names,
)

_SAMPLED_ROWS = 20
_COMPARED_HITS = 10
_SCORE_TOLERANCE = 1e-4
_MOVING = "moving"


@dataclass(frozen=True)
class Moved:
    """What became of one collection."""

    collection: str
    documents: int = 0
    memories: bool = False
    """It holds the memories of users."""
    sent: int = 0
    """Of the documents, those that this run sent: the others were there already."""
    questions: int = 0
    """How often both places were asked the same."""
    alike: int = 0
    """How often they gave the same answer."""
    left: str | None = None
    """Why it was left where it is; None if it was moved."""
    replaced_by: str | None = None
    """What has taken its place, and is moved instead."""


OnProgress: TypeAlias = Callable[[str, int, int], None]
"""Gets the collection, how many documents are there by now, and of how many."""


def move(
    source: str | Path,
    target: str,
    *,
    collections: Sequence[str] = (),
    api_key: str | None = None,
    on_progress: OnProgress = lambda collection, done, total: None,
) -> Iterator[Moved]:
    """Move collections (all that Twofold wrote, unless some are named), one by one. The source stays as it is."""
    with connected(source, create=False) as here, connected(target, create=True, api_key=api_key) as there:
        for name in collections:
            require(here, name)
        named = [run(find_current(name), here)[0] for name in collections]
        for name in dict.fromkeys(named or run(calls.collections(), here)):
            yield _Move(name, here, there, on_progress).carry_out()


class _Move:
    """The move of one collection."""

    def __init__(self, name: str, here: Connection, there: Connection, on_progress: OnProgress) -> None:
        self._name = name
        self._here = here
        self._there = there
        self._on_progress = on_progress
        self._schema: Schema = run(calls.described(name), here)
        self._layout = self._schema.layout
        self._names: tuple[str, ...] = ()
        self._sample: list[Point] = []

    def carry_out(self) -> Moved:
        """Copy it if that isn't done, and compare."""
        moved = self._schema.metadata.get(MOVED_KEY)
        if moved and run(calls.exists(moved), self._here):
            return Moved(self._name, replaced_by=moved)
        record = self._schema.record
        if record is None:
            reason = "something else wrote it: qdrant_client's migrate() copies it as it is"
            return Moved(self._name, left=reason)
        if not record.get("id"):  # by which a copy is known for one
            record = {**record, "id": uuid4().hex}
            self._keep(self._here, record)
        total = run(calls.count(self._name, None), self._here)
        header = Header.of(self._name, self._schema, total)
        self._names = (*self._schema.vectors, *self._schema.sparse_vectors)  # those of others come along
        arrived = self._begin(header, record)
        sent = self._copy(total, sending=not arrived)
        self._compare_rows()
        if not arrived:
            self._keep(self._there, record)
        questions, alike = self._compare_answers()
        return Moved(self._name, total, header.memories, sent, questions, alike)

    def _begin(self, header: Header, record: Mapping[str, Any]) -> bool:
        """Make the copy, or find the one that was begun; whether all has arrived already."""
        moving = {**record, _MOVING: True}
        if run(calls.exists(self._name), self._there):
            present = run(calls.describe(self._name), self._there)
            found = present.record or {}
            ours = found.get("id") == record["id"]
            if ours and _MOVING not in found:
                return True
            if not ours and (present.points or any(found.get(leg) != record[leg] for leg in ("dense", "sparse"))):
                raise TransferError(
                    f"{self._there.location} has a collection {self._name!r} of its own, with {present.points:,} "
                    "documents: delete that one, or export this one and import it under another name"
                )
            self._keep(self._there, moving)
        run(make_like(self._name, header, moving, self._there.capabilities, self._schema), self._there)
        return False

    def _keep(self, engine: Connection, record: Mapping[str, Any]) -> None:
        run(calls.set_metadata(self._name, {RECORD_KEY: dict(record)}), engine)

    def _copy(self, total: int, *, sending: bool) -> int:
        """Send what isn't there, and put aside a sample; how many were sent."""
        offset, done, sent = None, 0, 0
        present = run(calls.count(self._name, None), self._there)
        every = max(1, total // _SAMPLED_ROWS)
        self._on_progress(self._name, 0, total)
        while True:
            page = calls.scroll(self._name, None, limit=BATCH_SIZE, offset=offset, vectors=self._names)
            rows, offset = run(page, self._here)
            lacking = rows
            if present:
                known = self._there_by_id(rows)
                lacking = [row for row in rows if known.get(str(row.id)) != as_line(row, self._layout)]
                present = bool(known)  # ids come in their order: behind the last that is there, none is
            if sending and lacking:
                run(calls.upsert(self._name, [new_point(row) for row in lacking]), self._there)
                sent += len(lacking)
            self._sample += [row for place, row in enumerate(rows, done) if place % every == 0]
            done += len(rows)
            self._on_progress(self._name, done, total)
            if offset is None:
                break
        if sending:
            self._remove_others()
        return sent

    def _there_by_id(self, rows: Sequence[Point]) -> dict[Any, str]:
        ids = [str(row.id) for row in rows]
        found = run(calls.retrieve(self._name, ids, vectors=self._names), self._there)
        return {str(row.id): as_line(row, self._layout) for row in found}

    def _remove_others(self) -> None:
        """What was deleted here after an earlier run had sent it."""
        offset = None
        while run(calls.count(self._name, None), self._there) > run(calls.count(self._name, None), self._here):
            page = calls.scroll(self._name, None, limit=BATCH_SIZE, offset=offset, only=())
            rows, offset = run(page, self._there)
            ids = [str(row.id) for row in rows]
            known = {str(row.id) for row in run(calls.retrieve(self._name, ids, only=()), self._here)}
            if gone := tuple(identity for identity in ids if identity not in known):
                run(calls.delete(self._name, HasPoint(gone)), self._there)
            if offset is None:
                return

    def _compare_rows(self) -> None:
        """The same number, and a sample that is the same number by number."""
        here, there = (run(calls.count(self._name, None), engine) for engine in (self._here, self._there))
        known = self._there_by_id(self._sample)
        other = [str(row.id) for row in self._sample if known.get(str(row.id)) != as_line(row, self._layout)]
        if here != there or other:
            raise TransferError(
                f"collection {self._name!r} is not the same in both places: {there:,} documents on "
                f"{self._there.location}, {here:,} on {self._here.location}, and {len(other)} of {len(self._sample)} "
                "looked at differ. If it was moved before and has changed since, there is nothing to do; to move it "
                "anew, delete it there first"
            )

    def _compare_answers(self) -> tuple[int, int]:
        """How often both were asked for what is nearest to a row, by meaning and by words, and agreed."""
        ours = vector_names(self._schema)
        vectors = [vector for row in self._sample for name, vector in new_point(row).vector.items() if name in ours]
        asked = [VectorQuery(vector, _COMPARED_HITS, exact=True) for vector in vectors]
        if not asked:
            return 0, 0
        here, there = (
            run(calls.query(self._name, asked), laid(engine, self._layout)) for engine in (self._here, self._there)
        )
        return len(asked), sum(_agree(one, other) for one, other in zip(here, there, strict=True))


def _agree(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """The same hits, or others with the same scores: of equals, engines choose any."""
    if {str(hit.id) for hit in one} == {str(hit.id) for hit in other}:
        return True
    scores = zip((hit.score for hit in one), (hit.score for hit in other), strict=False)
    return len(one) == len(other) and all(math.isclose(a, b, rel_tol=_SCORE_TOLERANCE) for a, b in scores)
