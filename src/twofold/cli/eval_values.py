"""Parameters as they are typed: alpha=0.3:1:0.1, fusion=auto,rrf(k=20), depth=200."""

from __future__ import annotations

import math
import re
from dataclasses import fields, replace
from typing import Any

from twofold.eval.errors import EvaluationError
from twofold.ranking.fusion import Strategy, resolve

_LIMIT = 1000
_SHORT = {"dense": {"alpha": 1.0}, "bm25": {"alpha": 0.0}, "default": {}}
_FUSIONS = ("auto", "rrf", "dbsf", "weighted", "average")
_MADE = re.compile(r"(\w+)\((.*)\)")
_BETWEEN = re.compile(r"[,\s]+(?![^(]*\))")
"""What separates words, except in parentheses."""


def value(text: str) -> Any:
    """A number, true or false, a fusion with its settings as rrf(k=20), or the word itself."""
    if made := _MADE.fullmatch(text):
        return _fusion(made[1], made[2])
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _fusion(name: str, settings: str) -> Strategy:
    """A fusion whose settings are not the usual ones."""
    plain, given = resolve(name), [part.partition("=") for part in _BETWEEN.split(settings.strip()) if part]
    try:
        return replace(plain, **{key.strip(): value(written.strip()) for key, _, written in given})
    except TypeError as error:
        known = ", ".join(each.name for each in fields(plain))
        raise EvaluationError(f"{name}({settings}) is no fusion: {name} has {known}, as rrf(k=20)") from error


def values(text: str) -> list[Any]:
    """Values separated by commas, or numbers as first:last:step."""
    parts = [part.strip() for part in text.split(":")]
    if len(parts) == 1:
        listed = [value(part) for part in _BETWEEN.split(text.strip()) if part]
        if not listed:
            raise EvaluationError(f"{text!r} holds no value: write 0.3,0.5 or 0.3:1:0.1")
        return listed
    numbers = [value(part) for part in parts]
    if len(parts) != 3 or not all(isinstance(n, (int, float)) and math.isfinite(n) for n in numbers):
        raise EvaluationError(f"{text!r} is no range: write it as first:last:step, as 0.3:1:0.1")
    first, last, step = numbers
    count = math.floor((last - first) / step + 1e-9) + 1 if step > 0 else 0
    if not 1 <= count <= _LIMIT:
        raise EvaluationError(f"{text!r} makes {max(count, 0)} values: give a step above 0 and at most {_LIMIT} values")
    return [first + i * step if isinstance(step, int) else round(first + i * step, 10) for i in range(count)]


def grid(words: list[str]) -> dict[str, list[Any]]:
    """What to sweep: each NAME=VALUES."""
    found: dict[str, list[Any]] = {}
    for word in words:
        name, sign, written = word.partition("=")
        if not sign or not name:
            raise EvaluationError(f"{word!r} is no parameter: write it as alpha=0.3:1:0.1 or fusion=auto,rrf")
        found[name.strip()] = values(written)
    return found


def run_of(text: str) -> dict[str, Any]:
    """The parameters of one run: "rrf depth=50". dense, bm25, default and the fusions need no name."""
    found: dict[str, Any] = {}
    for word in filter(None, _BETWEEN.split(text.strip())):
        name, sign, written = word.partition("=")
        if _MADE.fullmatch(word):
            found["fusion"] = value(word)
        elif sign:
            found[name] = value(written)
        elif word in _SHORT:
            found.update(_SHORT[word])
        elif word in _FUSIONS:
            found["fusion"] = word
        else:
            known = ", ".join((*_SHORT, *_FUSIONS))
            raise EvaluationError(f"{word!r} is no run: use {known}, or NAME=VALUE")
    return found
