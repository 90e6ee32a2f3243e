"""Half characters: JSON can spell them, and UTF-8 can't hold them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_SURROGATE = re.compile("[\ud800-\udfff]")


def mended(value: Any) -> tuple[Any, bool]:
    """A JSON value with U+FFFD in place of every lone surrogate, and whether there was one."""
    if isinstance(value, str):
        whole, broken = _SURROGATE.subn("\ufffd", value)
        return whole, broken > 0
    if isinstance(value, Mapping):
        pairs = [(mended(key), mended(each)) for key, each in value.items()]
        return {key: each for (key, _), (each, _) in pairs}, any(k[1] or v[1] for k, v in pairs)
    if isinstance(value, (list, tuple)):
        parts = [mended(each) for each in value]
        return [each for each, _ in parts], any(broken for _, broken in parts)
    return value, False
