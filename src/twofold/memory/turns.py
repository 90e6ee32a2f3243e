"""Conversations: turns from whatever stands for them, stored in their order, each with those around it.

A turn's stored vectors take in a part of the turns before and after it (see `writing`). That happens when turns are
stored, so recall costs no more than for other memories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

from twofold.documents import check
from twofold.engine import calls
from twofold.engine.layout import from_point, metadata_key
from twofold.errors import InvalidDocument, InvalidQuery
from twofold.flow import Flow, Renew
from twofold.memory.items import MAX_EXACT_INTEGER, MemoryItem, Remembered, as_moment, check_id, check_whole_number
from twofold.memory.scope import MEMORIES, Scope, find, pieces, require
from twofold.memory.state import View
from twofold.memory.writing import (
    BATCH_SIZE,
    REACH,
    Draft,
    Encoded,
    draft,
    encode_turns,
    in_context,
    new_item,
    put,
    readable_turns,
    turns_between,
)

TURN = "turn"
MAX_NEIGHBOURS = 1000
_CALLS = ("tool_calls", "function_call")
_TRUST_BY_ROLE = {"user": "user", "human": "user", "assistant": "agent", "ai": "agent", "tool": "tool",
                  "function": "tool", "system": "system", "developer": "system"}  # fmt: skip

# --- Turns, as callers give them ---


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
    return replace(turn, text=next(check([turn.text], position)).text)


def _read(given: Turn | str | Mapping[str, Any], position: int) -> Turn:
    if isinstance(given, (Turn, str)):
        return Turn(given) if isinstance(given, str) else given
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


# --- `remember_turns`: append to a conversation ---


def remember_turns(view: View, given: Any, session: str | None, fields: Mapping[str, Any]) -> Flow[list[Remembered]]:
    """Append turns to a session. A turn with a time that is there already is not stored twice."""
    own = view.scope.session
    if session is None and own is None:
        raise InvalidQuery('turns belong to a session: say which, as remember_turns(…, session="2026-02-21")')
    if own is not None and session not in (None, own):
        raise InvalidQuery(f"this memory is that of session {own!r}: open another one for {session!r}")
    view = replace(view, scope=replace(view.scope, session=own or session))
    flow = _append(view, as_turns(given), draft("-", fields).given)
    return (yield from view.exclusively(flow))


def _append(view: View, turns: Sequence[Turn], fields: Mapping[str, Any]) -> Flow[list[Remembered]]:
    before, start = yield from _last_turns(view)
    timed = [_identity(view.scope, turn, start) for turn in turns if turn.time is not None]
    known = yield from find(view.ready, view.scope, timed, MEMORIES)
    new: dict[str, MemoryItem] = {}
    remembered = []
    for turn in turns:
        order = start + len(new)  # among those that are new: the place that it is stored at
        identity = _identity(view.scope, turn, order)
        is_new = identity not in known and identity not in new
        if is_new:
            new[identity] = _item(view.scope, identity, turn, order, fields)
        remembered.append(Remembered(identity, is_new=is_new))
    yield from _store(view, before, list(new.values()))
    view.shared.add(list(new.values()), len(new))
    return remembered


def _last_turns(view: View) -> Flow[tuple[list[MemoryItem], int]]:
    """The last turns of a session, and the place of the next one."""
    scope = view.scope
    where = scope.where(MEMORIES, *scope.exactly("agent"))
    rows, _ = yield from calls.scroll(view.ready.collection, where, limit=2 * REACH, order_by=metadata_key("order"))
    stored = [from_point(row) for row in rows]
    orders = [row.metadata["order"] for row in stored]
    start = 1 + max((order for order in orders if type(order) is int and order < MAX_EXACT_INTEGER), default=-1)
    return readable_turns(row for row in stored if scope.holds(row.metadata, ("memory",))), start


def _identity(scope: Scope, turn: Turn, order: int) -> str:
    """With a time, a turn is known by what was said by whom when; without, by its place too."""
    when = order if turn.time is None else turn.time.isoformat()
    return scope.identity(TURN, [turn.speaker, turn.text, when])


def _item(scope: Scope, identity: str, turn: Turn, order: int, fields: Mapping[str, Any]) -> MemoryItem:
    """A turn as a memory. Where nobody said who says so, what a model or a tool answered isn't the user's word."""
    trust = _TRUST_BY_ROLE.get((turn.role or turn.speaker or "").strip().lower(), "user")
    given = {"trust": trust, **fields, **({"created": turn.time} if turn.time else {})}
    return replace(new_item(scope, Draft(turn.text, given), TURN), id=identity, speaker=turn.speaker, order=order)


def _store(view: View, before: Sequence[MemoryItem], items: Sequence[MemoryItem]) -> Flow[None]:
    """Write turns. The last ones that are there are written again: now they have neighbours after them."""
    if not items:
        return
    encoded: list[Encoded] = []
    for batch in pieces([*before, *items], BATCH_SIZE):
        yield Renew()
        encoded += yield from encode_turns(view, batch)
    start = items[0].order or 0
    ready = [each for each in in_context(encoded) if each.order >= start - REACH]
    for some in pieces(ready, BATCH_SIZE):
        yield Renew()
        yield from put(view, some)


# --- `around`: a turn with those around it ---


def around(view: View, identity: str, before: int, after: int) -> Flow[list[MemoryItem]]:
    """A turn, found by its id, with those around it, in their order."""
    for name, value in (("before", before), ("after", after)):
        check_whole_number(value, name, 0, MAX_NEIGHBOURS)
    identity = check_id(identity)
    rows = yield from find(view.ready, view.scope, [identity], ("memory",))
    item = require(rows, identity, view.scope)
    if item.order is None:
        return [item]
    conversation = replace(view.scope, agent=item.agent, session=item.session)
    return (yield from turns_between(view, conversation, item.order - before, item.order + after))
