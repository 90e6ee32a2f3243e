"""Storing memories: check what was given, encode it, find what is already there, write.

`remember`, `remember_turns`, `update` and `backfill` come after the steps that they take. Turns of a conversation lend
each other context (`index/neighbours.py`): whatever changes a turn also writes its neighbours anew.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from functools import partial
from itertools import islice
from types import NoneType
from typing import Any

from twofold.documents import check, is_memory
from twofold.encoders.base import Sparse, Vectors, blend
from twofold.engine import calls
from twofold.engine.layout import DENSE, METADATA_KEY, SPARSE, Stored, from_point, metadata_key, to_point
from twofold.engine.requests import VectorQuery
from twofold.errors import CollectionMismatch, ConfigError, InvalidDocument, InvalidQuery
from twofold.filters import All, AnyOf, Either, HasVector, Node, Not, Present
from twofold.flow import Flow, Renew
from twofold.index.neighbours import REACH, Encoded, PartPlace, Positions, rewrite, rewritten
from twofold.index.opening import check_unchanged
from twofold.index.writing import ProgressLike, encode_dense, encode_sparse, reporting
from twofold.memory.items import (
    FIELDS,
    MAX_EXACT_INTEGER,
    TRUST,
    MemoryItem,
    Remembered,
    Screen,
    Similar,
    accepted_by,
    as_moment,
    check_ids,
    content_hash,
    damage,
    pieces,
    read_rows,
    to_record,
)
from twofold.memory.scope import MEMORIES, TEXTS, Scope, Shelf, scopes_in
from twofold.memory.state import View

log = logging.getLogger("twofold.memory")

BATCH_SIZE = 64
"""How many memories are encoded and written at a time."""
SIMILAR_MEMORIES = 5
"""How many memories that say nearly the same `remember` names at most."""
_SPARE_IDS = 8
_PEOPLE = ("user", "system")
_CLEARABLE = ("category", "source")
_TRUST_BY_ROLE = {"user": "user", "human": "user", "assistant": "agent", "ai": "agent", "tool": "tool",
                  "function": "tool", "system": "system", "developer": "system"}  # fmt: skip
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
           "November", "December")  # fmt: skip

# --- Check ---


def checked(fields: Mapping[str, Any], position: int | None = None) -> dict[str, Any]:
    """Fields that were given, and "text" if it is among them, as they are kept; those that are None were not given."""
    given = {name: value for name, value in fields.items() if value is not None}
    text = given.pop("text", None)
    if "text" in fields and (not isinstance(text, str) or not text.strip()):
        raise InvalidDocument(f"a memory is a text with something in it, got {text!r}", position=position)
    known = sorted(accepted_by("remember"))
    unknown = sorted(set(given) - set(known))
    if unknown:
        advice = f"put what is your own under metadata; known are {', '.join(known)}"
        raise InvalidDocument(f"unknown fields {unknown}: {advice}", position=position)
    try:
        given = {name: FIELDS[name].kind.check(value, name) for name, value in given.items()}
    except ValueError as error:
        raise InvalidDocument(str(error), position=position) from None
    record = next(check([{"text": text or "", "metadata": given.get("metadata", {})}], position or 0))
    if "metadata" in given:
        given["metadata"] = record.metadata
    return given if text is None else {**given, "text": record.text, "content_hash": content_hash(record.text)}


def new_item(view: View, given: Mapping[str, Any]) -> MemoryItem:
    """A new memory from what was given, and checked; its id is still to be found."""
    created = given.get("created", datetime.now(timezone.utc))
    owned = {**asdict(view.scope), "user": view.user}
    fields = {"type": view.store.default_type, **owned, **given, "created": created, "updated": created}
    return MemoryItem(id="", **fields)


def refreshed(old: MemoryItem, given: Mapping[str, Any]) -> MemoryItem:
    """The memory that is already there, with what was said anew: tags and metadata are added, the rest is replaced."""
    trust = given.get("trust", old.trust)
    # Less trusted words replace nothing: a web page that repeats what a user said must not take it over.
    # What something else wrote into the row as its trust counts as nobody's.
    less = TRUST.index(trust) < TRUST.index(old.trust) if old.trust in TRUST and trust in TRUST else False
    # A person who says the same vouches for it. A tool or an agent that repeats what it read makes it no truer; and
    # where it comes from stays known, so that all of one source can be forgotten.
    kept = {"tags", "metadata", *(() if trust in (old.trust, *_PEOPLE) else ("trust", "source"))}
    replaced = () if less else (name for name in accepted_by("update") if name in given and name not in kept)
    said = given.get("metadata", {})
    fields = {
        **{name: given[name] for name in (*replaced, "text", "content_hash")},
        "tags": tuple(dict.fromkeys([*old.tags, *given.get("tags", ())])),
        "metadata": {**said, **old.metadata} if less else {**old.metadata, **said},
    }
    return replace(old, **fields, superseded_by=None, updated=datetime.now(timezone.utc))


# --- Turns of a conversation, as callers give them ---

_MAY_HAVE_NO_TEXT = ("content", "tool_calls", "function_call")
"""What chat models' messages have that may say nothing."""


@dataclass(frozen=True)
class Turn:
    """One turn of a conversation."""

    text: str
    speaker: str | None = None
    time: datetime | None = None
    role: str | None = None
    """As chat models have it; it says how far the turn is trusted. A speaker called "assistant" has that role."""


def as_turns(given: Any) -> list[Turn]:
    """Turns from whatever stands for them. Messages without text, such as calls of tools, are left out."""
    if isinstance(given, (str, bytes, Mapping, Turn, type)) or not isinstance(given, Iterable):
        raise InvalidDocument("remember_turns takes a list of turns: wrap a single one in [ ]")
    turns = (_as_turn(each, position) for position, each in enumerate(given))
    return [turn for turn in turns if turn is not None]


def _as_turn(given: Turn | str | Mapping[str, Any], position: int) -> Turn | None:
    """A turn from a text, or from a mapping as chat models have it (`role`, `content`); None for one without text."""
    if isinstance(given, Mapping):
        text, role = given.get("text", _content(given.get("content"))), given.get("role")
        silent = text is None or (isinstance(text, str) and not text.strip())
        if silent and "text" not in given and any(name in given for name in _MAY_HAVE_NO_TEXT):
            return None
        turn = Turn(text, given.get("speaker", role), given.get("time"), role)
    elif isinstance(given, (Turn, str)):
        turn = Turn(given) if isinstance(given, str) else given
    else:
        raise InvalidDocument(f"expected a Turn, a text or a mapping, got {type(given).__name__}", position=position)
    if not isinstance(turn.text, str) or not turn.text.strip():
        raise InvalidDocument(f"a turn is a text with something in it, got {turn.text!r}", position=position)
    for name, value in (("speaker", turn.speaker), ("role", turn.role)):
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise InvalidDocument(f"the {name} must be a name, got {value!r}", position=position)
    if turn.time is not None:
        turn = replace(turn, time=as_moment(turn.time, "time").astimezone(timezone.utc))
    return replace(turn, text=next(check([turn.text], position)).text)


def _content(content: Any) -> Any:
    """The text of a message: of one in parts, that of the parts which have one."""
    if not isinstance(content, list):
        return content
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
    return "\n".join(text for text in texts if isinstance(text, str) and text.strip())


# --- Encode ---


def encode(view: View, items: Sequence[MemoryItem]) -> Flow[list[Encoded[MemoryItem]]]:
    """Vectors for memories: meaning from the text, words from the text and with less weight from its description."""
    if view.ready.read_only:
        raise CollectionMismatch(view.ready.read_only)
    texts = [f"{item.speaker}: {item.text}" if item.speaker else item.text for item in items]
    dense: Sequence[Vectors | None] = (yield from encode_dense(view.ready, texts)) or [None] * len(items)
    words = yield from _encode_words(view, items)
    return [
        Encoded(item, _place(item), meaning, *each) for item, meaning, each in zip(items, dense, words, strict=True)
    ]


def _encode_words(view: View, items: Sequence[MemoryItem]) -> Flow[list[tuple[Sparse | None, Sparse | None]]]:
    """The words of memories, and those of their texts alone, in one call of the encoder.

    The latter are what a turn lends to others: not the speaker's name, which half of all turns carry.
    """
    fields = [_weighted_texts(view, item) for item in items]
    vectors = iter((yield from encode_sparse(view.ready, [text for each in fields for text, _ in each])))
    if view.ready.no_lexical:
        return [(None, None)] * len(items)
    words = [[(next(vectors), weight) for _, weight in each] for each in fields]
    return [(blend(each), each[0][0]) for each in words]


def _weighted_texts(view: View, item: MemoryItem) -> list[tuple[str, float]]:
    """The texts whose words find a memory, its own first, and how much the words of each count."""
    config = view.config
    own = {"type": item.type, "source": item.source}
    values = [own.get(name, item.metadata.get(name.removeprefix("metadata."))) for name in config.fields]
    named = [str(value) for value in values if isinstance(value, (str, int)) and not isinstance(value, bool)]
    described = [
        (item.category or "", config.category_weight),
        (" ".join([*item.tags, *named]), config.tags_weight),
        (item.speaker or "", 1.0),
    ]
    if item.order is not None and item.created is not None:  # the day of a turn as people name it: "in May" finds it
        described.append((f"{item.created.day} {_MONTHS[item.created.month - 1]} {item.created.year}", 1.0))
    return [(item.text, 1.0), *((text, weight) for text, weight in described if text.strip() and weight)]


# --- Find what is there, and write ---


def same_texts(view: View, scope: Scope, hashes: Sequence[str]) -> Flow[dict[str, MemoryItem]]:
    """The memories of exactly this scope that have these texts, by hash. Turns are said, not remembered: not they."""
    texts, own = AnyOf("content_hash", tuple(hashes)), scope.exactly("agent", "session")
    where = scope.where(MEMORIES, texts, Not(Present("order")), *own)
    rows, _ = yield from calls.scroll(view.ready.collection, where, limit=4 * len(hashes) + 16)
    items, _ = read_rows(map(from_point, rows))
    return {item.content_hash: item for item in sorted(items, key=lambda item: item.superseded_by is None)}


def _free_ids(view: View, hashes: Sequence[str]) -> Flow[dict[str, str]]:
    """Ids for new texts, made from them so that a retry finds the same; one that an updated memory has is skipped."""
    numbers = (*range(_SPARE_IDS), datetime.now(timezone.utc).isoformat())
    wanted = {each: [view.scope.identity("memory", [each, number]) for number in numbers] for each in hashes}
    every = [identity for ids in wanted.values() for identity in ids]
    rows = (yield from calls.retrieve(view.ready.collection, every, only=())) if every else []
    taken = {str(row.id) for row in rows}
    return {each: next(identity for identity in ids if identity not in taken) for each, ids in wanted.items()}


def put(view: View, encoded: Sequence[Encoded[MemoryItem]], shelf: Shelf | None = None) -> Flow[None]:
    """Write memories that have their ids; unless told which, on the shelf where they belong."""
    if not encoded:
        return
    points = []
    for each in encoded:
        label = Scope.of(each.item).label(shelf or ("memory" if each.item.superseded_by is None else "superseded"))
        points.append(to_point(to_record(each.item, label), each.dense, each.sparse))
    yield from check_unchanged(view.ready)
    yield from calls.upsert(view.ready.collection, points)
    view.ready.sampler.changed(len(encoded))


# --- Turns lend each other context ---


def _place(item: MemoryItem) -> PartPlace:
    """Where a turn stands in its conversation; a memory that is none stands by itself."""
    return PartPlace(item.id) if item.order is None else PartPlace(item.id, Scope.of(item), item.order)


def places(rows: Iterable[Stored]) -> list[PartPlace]:
    """Where the turns among some rows stand. What else is wrong with a row doesn't matter."""
    standing = []
    for row in rows:
        order, *names = (row.metadata.get(name) for name in ("order", "user", "agent", "session", "project"))
        if type(order) is not int or not all(isinstance(name, (str, NoneType)) for name in names):
            continue
        user, agent, session, project = names
        with suppress(ConfigError):
            conversation = Scope(user if project is None else None, agent, session, project)
            if row.metadata.get("shelf") == conversation.label("memory"):
                standing.append(PartPlace(row.point, conversation, order))
    return standing


def rewrite_neighbours(view: View, gone: Sequence[PartPlace]) -> Flow[None]:
    """Write the neighbours of turns anew that are about to go: they hold something of them."""
    yield from rewrite(partial(_read_turns, view), partial(put, view), gone)


def put_turns(view: View, turns: Sequence[MemoryItem], gone: Iterable[str] = ()) -> Flow[None]:
    """Write turns that are new or have changed, and their neighbours anew, but for those about to go."""
    encoded = yield from encode(view, turns)
    standing = [each.place for each in encoded]
    without = {*gone, *(place.point for place in standing)}
    yield from put(view, (yield from rewritten(partial(_read_turns, view), standing, encoded, without)))


def _read_turns(view: View, wanted: Positions, without: Collection[str]) -> Flow[list[Encoded[MemoryItem]]]:
    """The stored turns at some places of conversations."""
    turns: list[MemoryItem] = []
    for conversation, orders in wanted.items():
        if isinstance(conversation, Scope):
            turns += yield from turns_at(view, conversation, AnyOf("order", tuple(orders)), 2 * len(orders))
    return (yield from encode(view, [turn for turn in turns if turn.id not in without]))


def turns_at(view: View, conversation: Scope, orders: Node, limit: int) -> Flow[list[MemoryItem]]:
    """The turns of a conversation at some places, in their order."""
    # Turns of other agents in a session of the same name are another conversation.
    where = conversation.where(("memory",), orders, *conversation.exactly("agent"))
    rows, _ = yield from calls.scroll(view.ready.collection, where, limit=limit)
    return readable_turns(map(from_point, rows))


def readable_turns(rows: Iterable[Stored]) -> list[MemoryItem]:
    """What can be read of a conversation, in its order; what can't is left out, and said."""
    screen = Screen()
    for row in rows:
        reason = screen(row)
        if reason is not None:
            log.warning("turn %s is left out: %s", row.point, reason)
    return sorted(screen.items.values(), key=lambda turn: (turn.order or 0, turn.id))


# --- `remember`: one memory, or many ---


def remember(view: View, text: object, fields: Mapping[str, Any], supersedes: str | Sequence[str]) -> Flow[Remembered]:
    """Store one memory, and say which others are nearly the same."""
    given, replaced = checked({"text": text, **fields}), check_ids(supersedes)
    own = view.owners()[0]  # what one owner has can't be replaced by what another has: they may forget it apart
    old = yield from own.find(replaced, MEMORIES)
    for identity in replaced:
        own.require(old, identity)
    encoded = yield from encode(view, [new_item(view, given)])
    near = yield from _similar(view, encoded[0])
    item, is_new = yield from view.exclusively(_store_and_supersede(view, given, encoded, list(old.values())))
    if replaced:
        view.shared.forget_vocabulary(view.scope.owner)
    similar = [each for each in near if each.id != item.id and each.id not in replaced]
    return Remembered(item.id, is_new=is_new, similar=similar)


def _similar(view: View, new: Encoded[MemoryItem]) -> Flow[list[Similar]]:
    """The memories whose meaning is nearly that of a new one."""
    floor = view.config.near_duplicate
    if floor is None or new.dense is None:
        return []
    where = view.reach.where(("memory",))
    request = VectorQuery(new.dense, SIMILAR_MEMORIES, where, score_threshold=floor, with_payload=True)
    answers = yield from calls.query(view.ready.collection, [request])
    near = [(from_point(point), point.score) for point in answers[0]]
    other = [(row, score) for row, score in near if row.metadata.get("content_hash") != new.item.content_hash]
    return [Similar(row.id, row.text, round(score, 4)) for row, score in other if damage(row) is None]


def _store_and_supersede(
    view: View, given: Mapping[str, Any], encoded: Sequence[Encoded[MemoryItem]], old: Sequence[Stored]
) -> Flow[tuple[MemoryItem, bool]]:
    """Write one memory, and hide those that it replaces: it is stored first, so that nothing is lost half way."""
    ((item, is_new),) = yield from _store(view, [given], encoded)
    others = [row for row in old if row.point != item.id]
    if others:
        yield from rewrite_neighbours(view, places(others))
        fields = {"superseded_by": item.id, "shelf": view.scope.label("superseded")}
        yield from calls.set_payload(view.ready.collection, METADATA_KEY, fields, [row.point for row in others])
    return item, is_new


def remember_many(
    view: View, memories: Iterable[str | Mapping[str, Any]], progress: ProgressLike
) -> Flow[list[Remembered]]:
    """Store many memories, a batch at a time. A list is checked whole before anything is written."""
    if isinstance(memories, (str, bytes, Mapping, type)) or not isinstance(memories, Iterable):
        raise InvalidDocument("remember_many takes a list (or any iterable) of memories: wrap a single one in [ ]")
    each = (_checked_of_many(memory, position) for position, memory in enumerate(memories))
    given = iter(list(each) if isinstance(memories, Sequence) else each)
    done: list[Remembered] = []
    with reporting(memories, progress) as advance:
        while batch := list(islice(given, BATCH_SIZE)):
            yield Renew()
            encoded = yield from encode(view, [new_item(view, fields) for fields in batch])
            stored = yield from view.exclusively(_store(view, batch, encoded))
            done += [Remembered(item.id, is_new=is_new) for item, is_new in stored]
            advance(len(batch))
    return done


def _checked_of_many(memory: str | Mapping[str, Any], position: int) -> dict[str, Any]:
    """One of many memories, a text or a mapping with `text` and the fields that `remember` takes, checked."""
    fields = {"text": memory} if isinstance(memory, str) else memory
    if not isinstance(fields, Mapping):
        raise InvalidDocument(f"expected a text or a mapping, got {type(memory).__name__}", position=position)
    return checked({"text": None, **fields}, position)


def _store(
    view: View, given: Sequence[Mapping[str, Any]], encoded: Sequence[Encoded[MemoryItem]]
) -> Flow[list[tuple[MemoryItem, bool]]]:
    """Write memories; one whose text is there already is refreshed. Of the same text twice, the last counts."""
    texts = [fields["content_hash"] for fields in given]
    old = yield from same_texts(view, view.scope, list(dict.fromkeys(texts)))
    ids = yield from _free_ids(view, [text for text in dict.fromkeys(texts) if text not in old])
    final: dict[str, Encoded[MemoryItem]] = {}
    is_new: list[bool] = []
    for text, fields, each in zip(texts, given, encoded, strict=True):
        known = final[text].item if text in final else old.get(text)
        item = replace(each.item, id=ids[text]) if known is None else refreshed(known, fields)
        final[text] = replace(each, item=item)
        is_new.append(known is None)
    merged = {text for text, new in zip(texts, is_new, strict=True) if not new}
    # A refreshed memory has the tags of before and of now, so its words are encoded anew.
    words = yield from _encode_words(view, [final[text].item for text in merged])
    for text, (sparse, _) in zip(merged, words, strict=True):
        final[text] = replace(final[text], sparse=sparse)
    yield from put(view, list(final.values()))
    if merged:  # how many have a tag can't be told without reading it anew
        view.shared.count(added=len(ids))
        view.shared.forget_vocabulary(view.scope.owner)
    else:
        view.shared.add([each.item for each in final.values()])
    return [(final[text].item, new) for text, new in zip(texts, is_new, strict=True)]


# --- `remember_turns`: append to a conversation ---


def remember_turns(view: View, given: Any, session: str | None, fields: Mapping[str, Any]) -> Flow[list[Remembered]]:
    """Append turns to a session. A turn with a time that is there already is not stored twice."""
    own = view.scope.session
    if session is None and own is None:
        raise InvalidQuery('turns belong to a session: say which, as remember_turns(…, session="2026-02-21")')
    if own is not None and session not in (None, own):
        raise InvalidQuery(f"this memory is that of session {own!r}: open another one for {session!r}")
    view = view.at(replace(view.scope, session=own or session))
    flow = _append(view, as_turns(given), checked(fields))
    return (yield from view.exclusively(flow))


def _append(view: View, turns: Sequence[Turn], fields: Mapping[str, Any]) -> Flow[list[Remembered]]:
    start = yield from _next_place(view)
    timed = [_turn_id(view.scope, turn, start) for turn in turns if turn.time is not None]
    known = yield from view.find(timed, MEMORIES)
    new: dict[str, MemoryItem] = {}
    remembered = []
    for turn in turns:
        order = start + len(new)  # among those that are new: the place that it is stored at
        identity = _turn_id(view.scope, turn, order)
        is_new = identity not in known and identity not in new
        if is_new:
            new[identity] = replace(_turn_item(view, turn, fields), id=identity, order=order)
        remembered.append(Remembered(identity, is_new=is_new))
    for some in pieces(list(new.values()), BATCH_SIZE):
        yield Renew()
        yield from put_turns(view, some)
    if new:
        view.shared.add(list(new.values()))
    return remembered


def _next_place(view: View) -> Flow[int]:
    """The place of the next turn of a session."""
    where = view.scope.where(MEMORIES, *view.scope.exactly("agent"))
    rows, _ = yield from calls.scroll(view.ready.collection, where, limit=2 * REACH, order_by=metadata_key("order"))
    orders = [from_point(row).metadata["order"] for row in rows]
    return 1 + max((order for order in orders if type(order) is int and order < MAX_EXACT_INTEGER), default=-1)


def _turn_id(scope: Scope, turn: Turn, order: int) -> str:
    """With a time, a turn is known by what was said by whom when; without, by its place too."""
    when = order if turn.time is None else turn.time.isoformat()
    return scope.identity("turn", [turn.speaker, turn.text, when])


def _turn_item(view: View, turn: Turn, fields: Mapping[str, Any]) -> MemoryItem:
    """A turn as a memory. Where nobody said who says so, what a model or a tool answered isn't the user's word."""
    trust = _TRUST_BY_ROLE.get((turn.role or turn.speaker or "").strip().lower(), "user")
    said = {"text": turn.text, "content_hash": content_hash(turn.text), "speaker": turn.speaker}
    when = {"created": turn.time} if turn.time else {}
    return new_item(view, {"type": "turn", "trust": trust, **said, **fields, **when})


# --- `update` ---


def update(view: View, identity: str, text: str | None, changes: Mapping[str, Any]) -> Flow[MemoryItem]:
    """Change a memory: what is given is replaced, the rest stays, and it is encoded anew."""
    empty = [name for name in _CLEARABLE if isinstance(changes.get(name), str) and not changes[name]]
    cleared: dict[str, Any] = dict.fromkeys(empty)
    said = {} if text is None else {"text": text}
    fields = {**checked({**said, **changes, **cleared}), **cleared}
    old = yield from view.memory(identity)
    view = view.at(Scope.of(old))
    item = yield from view.exclusively(_change(view, old.id, fields))
    view.shared.forget_vocabulary(view.scope.owner)
    return item


def _change(view: View, identity: str, fields: Mapping[str, Any]) -> Flow[MemoryItem]:
    rows = yield from view.find([identity], MEMORIES)
    old = view.require(rows, identity)
    item = replace(old, **{"updated": datetime.now(timezone.utc), **fields})
    if item.order is None and item.content_hash != old.content_hash:
        same = yield from same_texts(view, Scope.of(item), [item.content_hash])
        other = same.get(item.content_hash)
        if other is not None and other.superseded_by is None:  # two would be refreshed, counted and forgotten apart
            raise InvalidDocument(
                f"memory {other.id!r} has this very text: update that one and forget({item.id!r}), or remember() the "
                f"text with supersedes={item.id!r}"
            )
    if places(rows.values()):
        yield from put_turns(view, [item])
    else:
        yield from put(view, (yield from encode(view, [item])))
    return item


# --- `backfill`: rows that lack a vector, because a model was down or another program wrote them, get it ---


def backfill(view: View) -> Flow[int]:
    """Encode what lacks a vector, and say how many lack none any more."""
    number = 0
    for each in view.owners():
        number += yield from _backfill(each)
    return number


def backfill_all(view: View) -> Flow[int]:
    """`backfill` for all who have rows in the collection, also out of reach; documents beside them are left alone."""
    lacking = All((Present("shelf"), _lacking(view)))
    owner = [metadata_key(name) for name in ("shelf", "user", "project")]
    rows = yield from view.rows(lacking, only=owner, keep=lambda row: is_memory(row.metadata))
    number = 0
    for scope in scopes_in(row.metadata["shelf"] for row in rows):
        number += yield from _backfill(view.at(scope))
    return number


def _backfill(view: View) -> Flow[int]:
    """The rows of one owner, a batch at a time."""
    before = yield from _lacking_vectors(view)
    for ids in pieces(before, BATCH_SIZE):
        yield Renew()
        yield from view.exclusively(_encode_again(view, ids))
    after = (yield from _lacking_vectors(view)) if before else []
    return len({*before} - {*after})


def _lacking_vectors(view: View) -> Flow[list[str]]:
    """The rows without a vector that the collection has room for."""
    rows = yield from view.rows(view.reach.where(TEXTS, _lacking(view)), only=[])
    return [row.point for row in rows]


def _lacking(view: View) -> Node:
    legs = ((DENSE, view.ready.no_dense), (SPARSE, view.ready.no_lexical))
    return Either(tuple(Not(HasVector(name)) for name, missing in legs if missing is None))


def _encode_again(view: View, ids: Sequence[str]) -> Flow[None]:
    """Rows as they are at this moment: somebody may have changed or deleted them since they were counted."""
    rows = yield from view.find(ids, TEXTS)
    items = {item.id: item for item in read_rows(rows.values())[0]}
    standing = places(row for identity, row in rows.items() if identity in items)
    yield from put_turns(view, [items.pop(place.point) for place in standing])
    encoded = yield from encode(view, list(items.values()))
    logs = {row.point for row in rows.values() if row.metadata["shelf"] == view.scope.label("log")}
    yield from put(view, [each for each in encoded if each.item.id in logs], "log")
    yield from put(view, [each for each in encoded if each.item.id not in logs])
