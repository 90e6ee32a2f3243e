"""Paths to a place in a payload, such as `a.b`, `a[].b`, `a[0]` or `a."b c"`."""

from __future__ import annotations

import re

_STEP = re.compile(r'"([^"]*)"|(\[\d*\])|([^.\[\]"]+)')


def split_path(path: str) -> list[str]:
    """The steps of a path: keys without their quotes, `[]` and `[0]` as they are."""
    return [quoted or index or key for quoted, index, key in _STEP.findall(path)]


def first_step(path: str) -> str:
    """As it's written: a path by itself."""
    found = _STEP.match(path)
    return found.group() if found else path


def chosen(index: str) -> slice:
    """The items of a list that `[]` or `[0]` stands for."""
    number = index[1:-1]
    return slice(int(number), int(number) + 1) if number else slice(None)
