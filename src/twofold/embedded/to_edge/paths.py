"""Paths to a place in a payload, such as `a.b`, `a[].b`, `a[0]` or `a."b c"`."""

from __future__ import annotations

import re

_STEP = re.compile(r'"([^"]*)"|(\[\d*\])|([^.\[\]"]+)')


def split_path(path: str) -> list[str]:
    """The steps of a path: keys without their quotes, `[]` and `[0]` as they are."""
    return [quoted or index or key for quoted, index, key in _STEP.findall(path)]
