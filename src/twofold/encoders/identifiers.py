"""Identifiers, whole and in parts, for a tokeniser that only knows words.

The tokeniser cuts at everything that is neither a letter nor a digit, so `migration_032` loses
its whole and `checkRateLimit` never shows its parts. `extra_tokens` gives what is missing, to be
appended to the text: for a compound its parts joined by a letter that nobody types, for camelCase
its humps.
"""

from __future__ import annotations

import re

# A letter to the tokeniser (so it does not cut there) that no identifier contains.
_JOINT = "\u01c3"
_COMPOUND = re.compile(r"[^\W_]+(?:[-_.][^\W_]+)+")
_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_MIXED = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]")


def extra_tokens(text: str) -> list[str]:
    """The tokens that plain word splitting misses, in order of appearance."""
    wholes = [_JOINT.join(_WORD.findall(match)) for match in _COMPOUND.findall(text)]
    humps = [hump for word in _WORD.findall(text) if _MIXED.search(word) for hump in _HUMP.findall(word)]
    return wholes + humps
