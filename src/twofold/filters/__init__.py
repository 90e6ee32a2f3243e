"""The dict filter language: what may be written (`parse`) and what it means (`nodes`)."""

from twofold.filters.nodes import Node, leaves, matches_all
from twofold.filters.parse import parse

__all__ = ["Node", "leaves", "matches_all", "parse"]
