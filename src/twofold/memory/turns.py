"""Conversations: turns that lend each other context.

A turn is often short ("yes, the blue one") and says little by itself. So its stored vectors take in a part of the
turns before and after it. That happens when turns are stored, so recall costs no more than for other memories.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

import numpy as np

from twofold.documents import check
from twofold.encoders.base import Sparse, Vectors, blend
from twofold.engine import calls
from twofold.engine.layout import Stored, from_point, metadata_key
from twofold.errors import InvalidDocument, InvalidQuery
from twofold.filters import Between, Node, Not, Present
from twofold.flow import Flow, Renew
from twofold.index.searching import Searcher
from twofold.index.writing import encode_sparse
from twofold.memory import writing
from twofold.memory.items import MemoryItem, Remembered
from twofold.memory.layout import MOST, as_moment, content_hash, damage, to_item
from twofold.memory.scope import MEMORIES, Scope
from twofold.memory.state import Keeper
from twofold.memory.writing import Encoded

log = logging.getLogger("twofold.memory")

TURN = "turn"
_CALLS = ("tool_calls", "function_call")
_ROLES = {"user": "user", "human": "user", "assistant": "agent", "ai": "agent", "tool": "tool", "function": "tool",
          "system": "system", "developer": "system"}  # fmt: skip
_BATCH = 64
_MOST = 1000
_REACH = 2
# What a turn takes from the next ones on both sides, and from those beyond. Measured on long two-person conversations,
# with the settings chosen on four of them and tried on the fifth.
_MEANING = (1 / 3, 1 / 6)
_WORDS = (0.2, 0.1)


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
    if isinstance(given, (str, bytes, Mapping, Turn)):
        raise InvalidDocument("remember_turns takes a list of turns: wrap a single one in [ ]")
    turns = (_as_turn(each, position) for position, each in enumerate(given))
    return [turn for turn in turns if turn is not None]


def _as_turn(given: Turn | str | Mapping[str, Any], position: int) -> Turn | None:
    """A turn from a text, or from a mapping as chat models have it (`role`, `content`); None for one without text."""
    if isinstance(given, Mapping) and "text" not in given and _says_nothing(given):
        return None
    turn = _read(given, position)
    if not isinstance(turn.text, str) or not turn.text.strip():
        raise InvalidDocument(f"a turn is a text with something in it, got {turn.text!r}", position=position)
    for name, value in (("speaker", turn.speaker), ("role", turn.role)):
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise InvalidDocument(f"the {name} must be a name, got {value!r}", position=position)
    if turn.time is not None:
        turn = replace(turn, time=as_moment(turn.time, "time").astimezone(timezone.utc))
    record = next(check([turn.text], position))
    return replace(turn, text=record.text)


def _read(given: Turn | str | Mapping[str, Any], position: int) -> Turn:
    if isinstance(given, Turn):
        return given
    if isinstance(given, str):
        return Turn(given)
    if isinstance(given, Mapping):
        text, role = given.get("text", _content(given.get("content"))), given.get("role")
        return Turn(text, given.get("speaker", role), given.get("time"), role)
    raise InvalidDocument(f"expected a Turn, a text or a mapping, got {type(given).__name__}", position=position)


def _content(content: Any) -> Any:
    """The text of a message: of one in parts, that of the parts which have one."""
    if not isinstance(content, list):
        return content
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
    return "\n".join(text for text in texts if isinstance(text, str) and text.strip())


def _says_nothing(message: Mapping[str, Any]) -> bool:
    content = _content(message.get("content"))
    empty = content is None or (isinstance(content, str) and not content.strip())
    return empty and ("content" in message or any(name in message for name in _CALLS))


def remember_turns(
    searcher: Searcher, keeper: Keeper, scope: Scope, turns: Sequence[Turn], fields: Mapping[str, Any]
) -> Flow[list[Remembered]]:
    """Append turns to the session of the scope. A turn with a time that is there already is not stored twice."""
    checked = writing.draft("-", fields).given
    return (yield from keeper.alone(scope.user, _append(searcher, keeper, scope, turns, checked)))


def _append(
    searcher: Searcher, keeper: Keeper, scope: Scope, turns: Sequence[Turn], fields: Mapping[str, Any]
) -> Flow[list[Remembered]]:
    before, start = yield from _last_turns(searcher, scope)
    timed = [_identity(scope, turn, start) for turn in turns if turn.time is not None]
    known = yield from writing.find(searcher.ready, scope, timed, MEMORIES)
    fresh: dict[str, MemoryItem] = {}
    told = []
    for turn in turns:
        order = start + len(fresh)  # among those that are new: the place that it is stored at
        identity = _identity(scope, turn, order)
        is_new = identity not in known and identity not in fresh
        if is_new:
            fresh[identity] = _item(scope, identity, turn, order, fields)
        told.append(Remembered(identity, is_new=is_new))
    items = list(fresh.values())
    yield from _store(searcher, keeper, before, items)
    keeper.learn(items, len(items))
    return told


def _store(searcher: Searcher, keeper: Keeper, before: Sequence[MemoryItem], items: Sequence[MemoryItem]) -> Flow[None]:
    """Write turns. The last ones that are there are written again: now they have neighbours after them."""
    told: list[Told] = []
    everything = [*before, *items]
    for place in range(0, len(everything), _BATCH):
        yield Renew()
        told += yield from _tell(searcher, keeper, everything[place : place + _BATCH])
    start = items[0].order or 0 if items else 0
    ready = [each for each in in_context(told) if (each.item.order or 0) >= start - _REACH] if items else []
    for place in range(0, len(ready), _BATCH):
        yield Renew()
        yield from writing.put(searcher.ready, ready[place : place + _BATCH])


def _tell(searcher: Searcher, keeper: Keeper, items: Sequence[MemoryItem]) -> Flow[list[Told]]:
    encoded = yield from writing.encode(searcher.ready, items, keeper.config)
    found = yield from encode_sparse(searcher.ready, [item.text for item in items])
    bare: Sequence[Sparse | None] = found or [None] * len(items)
    return [Told(each, words) for each, words in zip(encoded, bare, strict=True)]


@dataclass(frozen=True)
class Place:
    """Where a turn stands: in which conversation, and where in it."""

    id: str
    conversation: Scope
    order: int


def places(rows: Iterable[Stored]) -> list[Place]:
    """Where the turns among some rows stand. What else is wrong with a row doesn't matter."""
    found = []
    for row in rows:
        order, user, agent, session = (row.metadata.get(name) for name in ("order", "user", "agent", "session"))
        if type(order) is int and isinstance(user, str) and row.metadata.get("shelf") == f"memory:{user}":
            found.append(Place(row.point, Scope(user, agent, session), order))
    return found


def rewrite(
    searcher: Searcher, keeper: Keeper, at: Sequence[Place], changed: Mapping[str, MemoryItem] | None = None
) -> Flow[None]:
    """The turns that stand there have changed, or are about to go: their neighbours hold a part of them.

    So the neighbours are written anew, with what has changed and without what goes.
    """
    ids = {place.id for place in at}
    for run in _runs(at):
        yield Renew()
        first, last = run[0], run[-1]
        near = yield from _between(searcher, first.conversation, first.order - 2 * _REACH, last.order + 2 * _REACH)
        stay = [turn for turn in near if turn.id not in ids] + [
            turn for turn in (changed or {}).values() if turn.id in {place.id for place in run}
        ]
        told = in_context((yield from _tell(searcher, keeper, sorted(stay, key=_place))))
        reached = {place.order + away for place in run for away in range(-_REACH, _REACH + 1)}
        yield from writing.put(searcher.ready, [each for each in told if each.item.order in reached])


def _runs(at: Sequence[Place]) -> list[list[Place]]:
    """Turns that stand close together in one conversation, so that what is around them is read and written once."""
    runs: list[list[Place]] = []
    for place in sorted(at, key=lambda each: (str(each.conversation), each.order)):
        last = runs[-1][-1] if runs else None
        near = last and last.conversation == place.conversation and place.order - last.order <= 2 * _REACH
        if near and len(runs[-1]) < _BATCH:
            runs[-1].append(place)
        else:
            runs.append([place])
    return runs


@dataclass(frozen=True)
class Told:
    """A turn with its own vectors, and the words that it lends to others: not the speaker's name, not the date.

    A name that half of all turns carry is worth nothing as a word.
    """

    own: Encoded
    lends: Sparse | None


def in_context(turns: Sequence[Told]) -> list[Encoded]:
    """Turns in their order, each with a part of its neighbours in its vectors.

    Where a turn is gone its place stays empty: nobody moves up, so only those next to it have to be written anew.
    """
    result = []
    for place, turn in enumerate(turns):
        around = [*turns[max(place - _REACH, 0) : place], *turns[place + 1 : place + 1 + _REACH]]
        apart = [(other, abs(_order(other) - _order(turn))) for other in around]
        near = [(other, max(away, 1) - 1) for other, away in apart if away <= _REACH]
        result.append(replace(turn.own, dense=_meaning(turn, near), sparse=_words(turn, near)))
    return result


def _order(turn: Told) -> int:
    return turn.own.item.order or 0


def _meaning(turn: Told, near: Sequence[tuple[Told, int]]) -> Vectors | None:
    if turn.own.dense is None:
        return None
    parts = [_MEANING[away] * other.own.dense for other, away in near if other.own.dense is not None]
    total = np.sum([turn.own.dense, *parts], axis=0)
    length = float(np.linalg.norm(total))
    return np.asarray(total / length, dtype=np.float32) if length else turn.own.dense


def _words(turn: Told, near: Sequence[tuple[Told, int]]) -> Sparse | None:
    if turn.own.sparse is None:
        return None
    lent = [(other.lends, _WORDS[away]) for other, away in near if other.lends is not None]
    return blend([(turn.own.sparse, 1.0), *lent])


def neighbours(searcher: Searcher, scope: Scope, item: MemoryItem, before: int, after: int) -> Flow[list[MemoryItem]]:
    """A turn with those around it, in their order."""
    if item.order is None:
        return [item]
    own = replace(scope, agent=item.agent, session=item.session)
    return (yield from _between(searcher, own, item.order - before, item.order + after))


def _between(searcher: Searcher, conversation: Scope, first: int, last: int) -> Flow[list[MemoryItem]]:
    """The turns of a conversation from one place to another."""
    window = Between("order", gte=first, lte=last)
    where = conversation.where(("memory",), window, *_exactly(conversation))
    rows, _ = yield from calls.scroll(searcher.ready.collection, where, limit=2 * (last - first + 1))
    return sorted(_readable(map(from_point, rows)), key=_place)


def around(searcher: Searcher, scope: Scope, identity: str, before: int, after: int) -> Flow[list[MemoryItem]]:
    """A turn, found by its id, with those around it."""
    for name, value in (("before", before), ("after", after)):
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST:
            raise InvalidQuery(f"{name} must be a whole number from 0 to {_MOST}, got {value!r}")
    found = yield from writing.find(searcher.ready, scope, [identity], ("memory",))
    return (yield from neighbours(searcher, scope, writing.require(found, identity, scope), before, after))


def _last_turns(searcher: Searcher, scope: Scope) -> Flow[tuple[list[MemoryItem], int]]:
    """The last turns of a session, and the place of the next one."""
    where = scope.where(MEMORIES, *_exactly(scope))
    rows, _ = yield from calls.scroll(
        searcher.ready.collection, where, limit=2 * _REACH, order_by=metadata_key("order")
    )
    stored = [from_point(row) for row in rows]
    orders = [row.metadata["order"] for row in stored]
    start = 1 + max((order for order in orders if type(order) is int and order < MOST), default=-1)
    return sorted(_readable(row for row in stored if scope.holds(row.metadata, ("memory",))), key=_place), start


def _exactly(scope: Scope) -> list[Node]:
    """Turns of other agents in a session of the same name are another conversation."""
    return [] if scope.agent else [Not(Present("agent"))]


def _readable(rows: Iterable[Stored]) -> list[MemoryItem]:
    """What can be read of a conversation; what can't is left out, and said."""
    items = []
    for row in rows:
        wrong = damage(row)
        if wrong is None:
            items.append(to_item(row))
        else:
            log.warning("turn %s is left out: %s", row.point, wrong)
    return items


def _place(turn: MemoryItem) -> tuple[int, str]:
    return (turn.order or 0, turn.id)


def _identity(scope: Scope, turn: Turn, order: int) -> str:
    """With a time, a turn is known by what was said by whom when; without, by its place too."""
    when = order if turn.time is None else turn.time.isoformat()
    return scope.identity(TURN, [turn.speaker, turn.text, when])


def _item(scope: Scope, identity: str, turn: Turn, order: int, fields: Mapping[str, Any]) -> MemoryItem:
    moment = turn.time or datetime.now(timezone.utc)
    given = {"trust": _trust(turn), **fields, "created": moment, "updated": moment}
    return MemoryItem(
        id=identity,
        text=turn.text,
        user=scope.user,
        agent=scope.agent,
        session=scope.session,
        speaker=turn.speaker,
        order=order,
        content_hash=content_hash(turn.text),
        **{**given, "type": TURN},
    )


def _trust(turn: Turn) -> str:
    """Who says so, where nobody said it: what a model or a tool answered must not pass for the user's word."""
    return _ROLES.get((turn.role or turn.speaker or "").strip().lower(), "user")
