"""`remember`, `update` and `backfill`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from itertools import islice
from typing import Any

from twofold.engine import calls
from twofold.engine.layout import DENSE, METADATA_KEY, SPARSE, Stored, from_point
from twofold.engine.requests import VectorQuery
from twofold.errors import InvalidDocument
from twofold.filters import All, HasVector, Not
from twofold.flow import Flow, Renew
from twofold.index.opening import Ready
from twofold.index.searching import Searcher
from twofold.index.writing import Advance
from twofold.memory import listing, turns
from twofold.memory.items import MemoryItem, Remembered, Similar
from twofold.memory.layout import damage, to_item
from twofold.memory.scope import MEMORIES, Scope, Shelf
from twofold.memory.state import Keeper
from twofold.memory.writing import (
    Draft,
    Encoded,
    draft,
    encode,
    find,
    free_ids,
    fresh,
    lexical,
    put,
    refreshed,
    require,
    same_texts,
)

# --- `remember` and `update`: one memory at a time, or many ---

_MEMORIES_PER_BATCH = 64
_NEAR = 5
_CLEARABLE = ("category", "source")


def remember(
    searcher: Searcher, keeper: Keeper, scope: Scope, written: Draft, default_type: str, supersedes: Sequence[str]
) -> Flow[Remembered]:
    """Store one memory, and say which others are nearly the same."""
    old = yield from find(searcher.ready, scope, supersedes, MEMORIES)
    for identity in supersedes:
        require(old, identity, scope)
    encoded = yield from encode(searcher.ready, [fresh(scope, written, default_type)], keeper.config)
    near = yield from _near(searcher, keeper, scope, encoded[0])
    item, is_new = yield from keeper.alone(
        scope.user, _store_one(searcher, keeper, scope, written, encoded, list(old.values()))
    )
    if supersedes:
        keeper.forget_vocabulary(scope.user)
    similar = [each for each in near if each.id != item.id and each.id not in supersedes]
    return Remembered(item.id, is_new=is_new, similar=similar)


def _store_one(
    searcher: Searcher,
    keeper: Keeper,
    scope: Scope,
    written: Draft,
    encoded: Sequence[Encoded],
    old: Sequence[Stored],
) -> Flow[tuple[MemoryItem, bool]]:
    stored = yield from _store(searcher, keeper, scope, [written], encoded)
    item = stored[0][0]
    yield from _supersede(searcher, keeper, [row for row in old if row.point != item.id], item.id, scope)
    return stored[0]


def remember_many(
    searcher: Searcher,
    keeper: Keeper,
    scope: Scope,
    memories: Iterable[str | Mapping[str, Any]],
    default_type: str,
    progress: Advance,
) -> Flow[list[Remembered]]:
    """Store many memories, a batch at a time. A list is checked whole before anything is written."""
    if isinstance(memories, (str, bytes, Mapping)):
        raise InvalidDocument("remember_many takes a list (or any iterable) of memories: wrap a single one in [ ]")
    drafts = (_draft(memory, position) for position, memory in enumerate(memories))
    checked = iter(list(drafts) if isinstance(memories, Sequence) else drafts)
    done: list[Remembered] = []
    while batch := list(islice(checked, _MEMORIES_PER_BATCH)):
        yield Renew()
        items = [fresh(scope, written, default_type) for written in batch]
        encoded = yield from encode(searcher.ready, items, keeper.config)
        stored = yield from keeper.alone(scope.user, _store(searcher, keeper, scope, batch, encoded))
        done += [Remembered(item.id, is_new=is_new) for item, is_new in stored]
        progress(len(batch))
    return done


def _draft(memory: str | Mapping[str, Any], position: int) -> Draft:
    if isinstance(memory, str):
        return draft(memory, {}, position)
    if not isinstance(memory, Mapping):
        raise InvalidDocument(f"expected a text or a mapping, got {type(memory).__name__}", position=position)
    return draft(memory.get("text"), {k: v for k, v in memory.items() if k != "text"}, position)


def _store(
    searcher: Searcher, keeper: Keeper, scope: Scope, drafts: Sequence[Draft], encoded: Sequence[Encoded]
) -> Flow[list[tuple[MemoryItem, bool]]]:
    """Write memories; one whose text is there already is refreshed. Of the same text twice, the last counts."""
    ready = searcher.ready
    hashes = list(dict.fromkeys(written.hash for written in drafts))
    old = yield from same_texts(ready, scope, hashes)
    ids = yield from free_ids(ready, scope, [h for h in hashes if h not in old])
    result: list[tuple[MemoryItem, bool]] = []
    final: dict[str, Encoded] = {}
    merged: set[str] = set()
    for written, each in zip(drafts, encoded, strict=True):
        known = final[written.hash].item if written.hash in final else old.get(written.hash)
        item = replace(each.item, id=ids[written.hash]) if known is None else refreshed(known, written)
        final[written.hash] = replace(each, item=item)
        result.append((item, known is None))
        if known is not None:
            merged.add(written.hash)
    yield from _reencode_merged(searcher, keeper, final, merged)
    yield from put(ready, list(final.values()))
    if merged:  # how many have a tag can't be told without reading it anew
        keeper.count(added=len(ids))
        keeper.forget_vocabulary(scope.user)
    else:
        keeper.learn([each.item for each in final.values()], len(ids))
    return [(final[written.hash].item, is_new) for written, (_, is_new) in zip(drafts, result, strict=True)]


def _reencode_merged(searcher: Searcher, keeper: Keeper, final: dict[str, Encoded], hashes: set[str]) -> Flow[None]:
    """A refreshed memory has the tags of before and of now, so its words are encoded anew."""
    items = [final[h].item for h in hashes]
    vectors = yield from lexical(searcher.ready, items, keeper.config)
    for item, sparse in zip(items, vectors, strict=True):
        final[item.content_hash] = replace(final[item.content_hash], sparse=sparse)


def _near(searcher: Searcher, keeper: Keeper, scope: Scope, each: Encoded) -> Flow[list[Similar]]:
    floor = keeper.config.near_duplicate
    if floor is None or each.dense is None:
        return []
    where = scope.where(("memory",))
    request = VectorQuery(each.dense, _NEAR, where, score_threshold=floor, with_payload=True)
    answers = yield from calls.query(searcher.ready.collection, [request])
    found = [(from_point(point), point.score) for point in answers[0]]
    other = [(s, score) for s, score in found if s.metadata.get("content_hash") != each.item.content_hash]
    different = [(stored, score) for stored, score in other if damage(stored) is None]
    return [Similar(stored.id, stored.text, round(score, 4)) for stored, score in different]


def _supersede(searcher: Searcher, keeper: Keeper, old: Sequence[Stored], by: str, scope: Scope) -> Flow[None]:
    """Hide memories from recall. The new one is stored by now, so nothing is lost if this is as far as it gets."""
    if old:
        yield from turns.rewrite(searcher, keeper, turns.places(old))
        fields = {"superseded_by": by, "shelf": scope.label("superseded")}
        yield from calls.set_payload(searcher.ready.collection, METADATA_KEY, fields, [row.point for row in old])


def update(
    searcher: Searcher, keeper: Keeper, scope: Scope, identity: str, text: str | None, changes: Mapping[str, Any]
) -> Flow[MemoryItem]:
    """Change a memory: what is given is replaced, the rest stays, and it is encoded anew."""
    cleared: dict[str, Any] = {name: None for name in _CLEARABLE if changes.get(name) == ""}
    checked = draft("-" if text is None else text, {**changes, **cleared})
    fields = {**checked.given, **cleared}
    if text is not None:
        fields |= {"text": checked.text, "content_hash": checked.hash}
    item = yield from keeper.alone(scope.user, _change(searcher, keeper, scope, identity, fields))
    keeper.forget_vocabulary(scope.user)
    return item


def _change(
    searcher: Searcher, keeper: Keeper, scope: Scope, identity: str, fields: Mapping[str, Any]
) -> Flow[MemoryItem]:
    found = yield from find(searcher.ready, scope, [identity], MEMORIES)
    old = require(found, identity, scope)
    item = replace(old, **{"updated": datetime.now(timezone.utc), **fields})
    if item.order is None and item.content_hash != old.content_hash:
        yield from _check_unsaid(searcher, item)
    standing = turns.places(found.values())
    if standing:
        yield from turns.rewrite(searcher, keeper, standing, {item.id: item})
        return item
    encoded = yield from encode(searcher.ready, [item], keeper.config)
    yield from put(searcher.ready, encoded)
    return item


def _check_unsaid(searcher: Searcher, item: MemoryItem) -> Flow[None]:
    """One text is one memory: two would be refreshed, counted and forgotten apart from each other."""
    scope = Scope(item.user, item.agent, item.session)
    same = yield from same_texts(searcher.ready, scope, [item.content_hash])
    for other in same.values():
        if other.superseded_by is None:
            raise InvalidDocument(
                f"memory {other.id!r} has this very text: update that one and forget({item.id!r}), or remember() the "
                f"text with supersedes={item.id!r}"
            )


# --- `backfill`: rows that lack a vector, because a model was down or another program wrote them, get it ---

_BACKFILL_BATCH = 64
_SHELVES: tuple[Shelf, ...] = ("memory", "superseded", "log")


def backfill(searcher: Searcher, keeper: Keeper, scope: Scope) -> Flow[int]:
    """Encode what lacks a vector, a batch at a time, and say how many lack none any more."""
    before = yield from _lacking(searcher.ready, scope)
    for place in range(0, len(before), _BACKFILL_BATCH):
        yield Renew()
        ids = before[place : place + _BACKFILL_BATCH]
        yield from keeper.alone(scope.user, _encode(searcher, keeper, scope, ids))
    after = (yield from _lacking(searcher.ready, scope)) if before else []
    return len({*before} - {*after})


def _lacking(ready: Ready, scope: Scope) -> Flow[list[str]]:
    """The rows without a vector that the collection has room for."""
    own = scope.where(_SHELVES)
    found: dict[str, None] = {}
    for name, missing in ((DENSE, ready.no_dense), (SPARSE, ready.no_lexical)):
        if missing is None:
            where = All((own, Not(HasVector(name))))
            rows = yield from listing.matching(ready, where, only=[])
            found |= dict.fromkeys(row.point for row in rows)
    return list(found)


def _encode(searcher: Searcher, keeper: Keeper, scope: Scope, ids: Sequence[str]) -> Flow[None]:
    """Rows as they are at this moment: somebody may have changed or deleted them since they were counted."""
    found = yield from find(searcher.ready, scope, ids, _SHELVES)
    sound = [row for row in found.values() if damage(row) is None]
    standing = turns.places(sound)
    in_conversations = {place.id for place in standing}
    yield from turns.rewrite(
        searcher, keeper, standing, {row.point: to_item(row) for row in sound if row.point in in_conversations}
    )
    rest = [row for row in sound if row.point not in in_conversations]
    encoded = yield from encode(searcher.ready, [to_item(row) for row in rest], keeper.config)
    logs = {row.point for row in rest if _is_log(row)}
    yield from put(searcher.ready, [each for each in encoded if each.item.id in logs], "log")
    yield from put(searcher.ready, [each for each in encoded if each.item.id not in logs])


def _is_log(row: Stored) -> bool:
    return str(row.metadata.get("shelf", "")).startswith("log:")
