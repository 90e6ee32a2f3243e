"""What feedback has taught about one user: how much meaning counts, and how much tags and age do."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from twofold.engine import calls
from twofold.engine.flow import Flow
from twofold.engine.layout import from_point
from twofold.fusion.base import is_number
from twofold.index.opening import Ready
from twofold.memory.scope import Scope

log = logging.getLogger("twofold.memory")


@dataclass(frozen=True)
class Learned:
    """Settings that `learn` found, and what they rest on. `unlearn` takes them back."""

    alpha: float
    tag_weight: float
    recency_share: float
    judgements: int
    """How many pieces of feedback they rest on."""
    before: float
    """The share of pairs (useful memory, other memory) that the defaults put in the right order."""
    after: float
    """The same share with what was learned."""
    fusion: str = "auto"
    """The fusion that alpha was learned for: another one has another scale."""

    def as_payload(self) -> dict[str, Any]:
        """The fields as they are stored."""
        return asdict(self)

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any]) -> Learned:
        """Read them back."""
        return cls(**{name: payload[name] for name in cls.__dataclass_fields__ if name != "fusion" or name in payload})

    @property
    def sound(self) -> bool:
        """The settings can be computed with."""
        settings = (self.alpha, self.tag_weight, self.recency_share)
        if not all(is_number(value) for value in (*settings, self.judgements)):
            return False
        return 0 <= self.alpha <= 1 and self.tag_weight >= 0 and 0 <= self.recency_share <= 1

    @property
    def reason(self) -> str:
        """For people to read."""
        return f"learned from {self.judgements} judgement{'' if self.judgements == 1 else 's'}"


def read(ready: Ready, scope: Scope) -> Flow[Learned | None]:
    """What was learned for a scope, or else for the wider ones that it is a part of; None if nothing was."""
    rows = yield from calls.retrieve(ready.collection, [row_id(each) for each in scope.wider()])
    stored = [from_point(row) for row in rows]
    for each in scope.wider():
        own = [row for row in stored if row.point == row_id(each) and each.holds(row.metadata, ("learned",))]
        found = _readable(own[0].metadata.get("learned"), each) if own else None
        if found is not None:
            return found
    return None


def exists(ready: Ready, scope: Scope) -> Flow[bool]:
    """Something was learned for this very scope."""
    rows = yield from calls.retrieve(ready.collection, [row_id(scope)])
    return any(scope.holds(from_point(row).metadata, ("learned",)) for row in rows)


def _readable(payload: Any, scope: Scope) -> Learned | None:
    """Recall does without what can't be read: it must not fail for it."""
    try:
        found = Learned.from_payload(payload)
    except (KeyError, TypeError):
        found = None
    if found is None or not found.sound:
        log.warning("what was learned about %s can't be read, so the defaults are used: learn() mends it", scope)
        return None
    return found


def row_id(scope: Scope) -> str:
    """Where it is kept."""
    return scope.identity("learned", "")
