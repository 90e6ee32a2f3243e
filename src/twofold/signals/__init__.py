"""What besides its words and meaning speaks for a memory: its tags, age, use and weight. Pure functions."""

from __future__ import annotations

from twofold.signals.factors import Factors, Recency, RecencyMode
from twofold.signals.facts import Facts, Match, Named
from twofold.signals.matching import Lexicon, fold, match_tags
from twofold.signals.signals import TAGS_FOR_BOOST, Signals, Weighed

__all__ = [
    "TAGS_FOR_BOOST",
    "Factors",
    "Facts",
    "Lexicon",
    "Match",
    "Named",
    "Recency",
    "RecencyMode",
    "Signals",
    "Weighed",
    "fold",
    "match_tags",
]
