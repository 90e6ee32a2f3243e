"""What goes wrong on the way to a server, on demand.

server.faults.status(503, times=2)                       # the next two requests
server.faults.status(429, probability=0.2, seed=7)       # now and then, with Retry-After
server.faults.delay(0.5)                                 # every answer, until clear()
server.faults.hang(path="/points/query")                 # that path never answers, until clear() or stop()
server.faults.drop(after=True, times=1)                  # the write is done, its answer is lost
server.faults.garbage(times=1)                           # 200, and no JSON

Faults are taken in the order in which they were set, one a request; a delay goes along with any other.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Any, Literal, TypedDict

from typing_extensions import Unpack

Kind = Literal["status", "delay", "hang", "drop", "garbage"]


class Aim(TypedDict, total=False):
    """Which requests a fault hits: all of them, unless told."""

    times: int | None
    """So many, then no more; None for all until `clear`."""
    probability: float
    seed: int
    """Of the random numbers that decide."""
    method: str
    path: str
    """A part of the path."""
    body: str
    """A part of the body."""


@dataclass(slots=True)
class Fault:
    """One thing to go wrong."""

    kind: Kind
    times: int | None = None
    probability: float = 1.0
    seed: int = 0
    method: str | None = None
    path: str = ""
    body: str = ""
    code: int = 0
    retry_after: int | str | None = None
    seconds: float = 0.0
    after: bool = False
    released: Event = field(default_factory=Event)
    rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)

    def takes(self, method: str, path: str, body: bytes) -> bool:
        """Whether this request is hit; counts it if so."""
        wanted = self.times != 0 and self.path in path and self.method in (None, method)
        wanted = wanted and self.body.encode() in body
        if not wanted or self.rng.random() >= self.probability:
            return False
        if self.times is not None:
            self.times -= 1
        return True


@dataclass(frozen=True, slots=True)
class Drawn:
    """What was decided for one request."""

    fault: Fault | None
    seconds: float


class Faults:
    """The faults of one server."""

    def __init__(self) -> None:
        self._set: list[Fault] = []
        self._lock = Lock()

    def status(self, code: int, *, retry_after: int | str | None = None, **aim: Unpack[Aim]) -> None:
        """Answer with an error instead of handling; 429 says when to come back, after 1 second unless told."""
        wait = 1 if code == 429 and retry_after is None else retry_after
        self._add("status", aim, code=code, retry_after=wait)

    def delay(self, seconds: float, **aim: Unpack[Aim]) -> None:
        """Handle the request, then wait before answering."""
        self._add("delay", aim, seconds=seconds)

    def hang(self, *, after: bool = False, **aim: Unpack[Aim]) -> None:
        """Keep the connection and never answer; with `after`, handle the request first."""
        self._add("hang", aim, after=after)

    def drop(self, *, after: bool = False, **aim: Unpack[Aim]) -> None:
        """Close the connection without an answer, before or after the request was handled."""
        self._add("drop", aim, after=after)

    def garbage(self, *, after: bool = False, **aim: Unpack[Aim]) -> None:
        """Answer 200 with something that is not JSON."""
        self._add("garbage", aim, after=after)

    def clear(self) -> None:
        """Heal: forget every fault, and close the connections that hang."""
        with self._lock:
            faults, self._set = self._set, []
        for fault in faults:
            fault.released.set()

    def release(self) -> None:
        """Close the connections that hang, and let no other hang; what else is set stays."""
        with self._lock:
            faults = list(self._set)
        for fault in faults:
            fault.released.set()

    @property
    def used_up(self) -> bool:
        """All that were to happen so many times have."""
        with self._lock:
            return all(each.times == 0 for each in self._set if each.times is not None)

    def draw(self, method: str, path: str, body: bytes) -> Drawn:
        """What happens to this request."""
        with self._lock:
            delays = [each for each in self._set if each.kind == "delay"]
            seconds = sum(each.seconds for each in delays if each.takes(method, path, body))
            others = [each for each in self._set if each.kind != "delay"]
            return Drawn(next((each for each in others if each.takes(method, path, body)), None), seconds)

    def _add(self, kind: Kind, aim: Aim, **details: Any) -> None:
        with self._lock:
            self._set.append(Fault(kind, **aim, **details))
