"""Values that are wrong nearly everywhere, and how every public method is called with them, one argument at a time."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timezone
from typing import Any

import numpy as np

from twofold import TwofoldError

_DEEP: Any = []
for _ in range(200):
    _DEEP = [_DEEP]


class Odd:
    """An object that is nothing in particular, and can't even be shown."""

    def __repr__(self) -> str:
        return "<odd>"


class Hostile(str):
    """A text whose class has ideas of its own."""


def junk() -> dict[str, Any]:
    """Wrong values by name; made anew, since some are used up."""
    return {
        "None": None,
        "True": True,
        "0": 0,
        "-1": -1,
        "1.5": 1.5,
        "2**70": 2**70,
        "-2**70": -(2**70),
        "1e308": 1e308,
        "nan": math.nan,
        "inf": math.inf,
        "-inf": -math.inf,
        "complex": 1j,
        "empty": "",
        "blank": " \n",
        "text": "junk",
        "surrogate": "half \ud800 a character",
        "nul": "nu\0l",
        "long": "x" * 5_000,
        "subclass": Hostile("junk"),
        "bytes": b"bytes\xff",
        "object": Odd(),
        "class": Odd,
        "function": len,
        "lambda": lambda: None,
        "[]": [],
        "[None]": [None],
        "[1.5]": [1.5],
        "[nan]": [math.nan],
        "[text]": ["junk"],
        "[surrogate]": ["\udfff"],
        "[nul]": ["\0"],
        "[[]]": [[]],
        "deep": _DEEP,
        "mixed": ["a", 1, None, {"b": object()}],
        "{}": {},
        "{1: 2}": {1: 2},
        "{surrogate}": {"\ud800": "\ud800"},
        "{nul}": {"\0": "\0"},
        "{nested}": {"a": {"b": [{"c": math.nan}]}},
        "{object}": {"a": Odd()},
        "{deep}": {"a": _DEEP},
        "set": {"a", "b"},
        "tuple": ("a", 1),
        "generator": (each for each in (1, "a")),
        "range": range(3),
        "array": np.array([1.0, math.nan]),
        "matrix": np.zeros((2, 2)),
        "numpy": np.float32(0.5),
        "date": date(2024, 2, 29),
        "datetime": datetime(2024, 2, 29, tzinfo=timezone.utc),
        "early": datetime(1, 1, 1),
        "late": datetime.max,
    }


def parameters(method: Callable[..., Any]) -> list[str]:
    """The names of what a method takes; what is gathered by stars is left out."""
    gathered = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    given = inspect.signature(method).parameters.values()
    return [each.name for each in given if each.name not in ("self", "cls") and each.kind not in gathered]


def offences(
    method: Callable[..., Any],
    right: Mapping[str, Any],
    *,
    opens: Sequence[str] = (),
    state: Callable[[], Any] = lambda: None,
    allowed: tuple[type[BaseException], ...] = (TwofoldError,),
) -> list[str]:
    """What is wrong after a method was called with one wrong argument at a time: other errors, things half done.

    What `opens` something is closed again, and only those arguments are tried.
    """
    found: list[str] = []
    before = state()
    for name in opens or parameters(method):
        for what in junk():
            value = junk()[what]
            if name == "progress" and callable(value):
                continue  # what a caller's own function raises is the caller's
            try:
                answer = method(**{**right, name: value})
                if opens:
                    answer.close()
                before = state()
            except allowed:
                after = state()
                if after != before:
                    found.append(f"{name}={what}: half done")
                    before = after
            except Exception as error:
                found.append(f"{name}={what}: {type(error).__name__}: {str(error)[:200]}")
    return found
