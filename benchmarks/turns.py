"""Engines that take turns, so that whatever else the machine does slows all of them down alike."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from benchmarks.measure import TURNS, Subject

_PAYS_FROM_POINTS = 20_000

Results = dict[str, dict[str, Any]]
Tell = Callable[[str], None]


class Asked(Protocol):
    """Somebody who takes the steps of a `Subject`."""

    def ask(self, step: str, *arguments: Any) -> Any: ...


class Here:
    """A subject in this process."""

    def __init__(self, name: str, points: int) -> None:
        self._subject = Subject(name, points)

    def ask(self, step: str, *arguments: Any) -> Any:
        return getattr(self._subject, step)(*arguments)


class Elsewhere:
    """A subject in a process of its own."""

    def __init__(self, name: str, points: int) -> None:
        self._name = name
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed when the process has ended
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.measure", name, str(points)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self._said, text=True)

    def ask(self, step: str, *arguments: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):  # it has ended, and what it said is read below
            self._process.stdin.write(json.dumps([step, *arguments]) + "\n")
            self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            self._process.wait()
            self._said.seek(0)
            raise RuntimeError(f"{self._name} failed: {self._said.read()[-800:]}")
        return json.loads(answer)

    def close(self) -> None:
        """End the process."""
        with self._process:
            self._process.terminate()
        self._said.close()


def take_turns(subjects: dict[str, Asked], points: int, tell: Tell) -> Results:
    """Fill, open and search all of them, one step of each after the other."""
    for subject in subjects.values():
        subject.ask("ready")
    filling = dict(subjects)
    while filling:
        for name, subject in list(filling.items()):
            tell(f"filling {name} with {points:,} points")
            if not subject.ask("fill"):
                del filling[name]
    for subject in subjects.values():
        subject.ask("open")
    _search(subjects, "searches", points, tell)
    if points >= _PAYS_FROM_POINTS:
        _search(
            {name: each for name, each in subjects.items() if _optimised(name, each, tell)}, "optimised", points, tell
        )
    return {name: subject.ask("end") for name, subject in subjects.items()}


def _optimised(name: str, subject: Asked, tell: Tell) -> bool:
    tell(f"building the search graph of {name}")
    return bool(subject.ask("optimize"))


def _search(subjects: dict[str, Asked], stage: str, points: int, tell: Tell) -> None:
    tell(f"searching {points:,} points for the first time")
    ways = {name: subject.ask("warm") for name, subject in subjects.items()}
    every = dict.fromkeys(way for found in ways.values() for way in found)
    for turn in range(TURNS):
        for way in every:
            for name in [name for name, found in ways.items() if way in found]:
                tell(f"searching {points:,} points, turn {turn + 1} of {TURNS}: {way} with {name}")
                subjects[name].ask("search", way, turn)
    for subject in subjects.values():
        subject.ask("settle", stage)
