"""Identifiers, whole and in parts, for a tokeniser that only knows words.

The tokeniser cuts at everything that is neither a letter nor a digit, so `migration_032` loses
its whole and `checkRateLimit` never shows its parts. `extra_tokens` gives what is missing, to be
appended to the text.
"""

from __future__ import annotations

import re

# A letter to the tokeniser (so it does not cut there) that no identifier contains.
_JOINT = "\u01c3"
_LONGEST = 64
# Only from the start of a word: tried from each of its letters, one long word takes quadratic time.
_COMPOUND = re.compile(r"(?<![^\W_])[^\W_]+(?:[-_.][^\W_]+)+")
_WORD = re.compile(r"[^\W_]+")
# Between rate|Limit, HTTP|Server, and letters and digits.
_SEAM = re.compile(r"(?<=[a-zß-öø-ÿ])(?=[A-ZÀ-ÖØ-Þ])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])")


def extra_tokens(text: str) -> list[str]:
    """The tokens that plain word splitting misses: joined wholes of compounds, parts of words with seams."""
    wholes = [_JOINT.join(_WORD.findall(whole)) for whole in _COMPOUND.findall(text) if len(whole) <= _LONGEST]
    split = (_SEAM.split(word) for word in _WORD.findall(text))
    return wholes + [part for parts in split if len(parts) > 1 for part in parts]
