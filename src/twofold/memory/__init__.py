"""What an agent remembers: found by meaning, by word, by tag and by time; explained; kept apart by user."""

from __future__ import annotations

from twofold.memory.config import MemoryConfig
from twofold.memory.items import (
    FIELDS,
    SHOWN,
    TRUST,
    MemoryField,
    MemoryHit,
    MemoryItem,
    MemoryPage,
    MemoryResult,
    MemoryStats,
    Remembered,
    Similar,
    accepted_by,
    added_by_search,
    as_data,
)
from twofold.memory.memory import Memory
from twofold.memory.state import Learned
from twofold.memory.writing import Turn

__all__ = [
    "FIELDS",
    "SHOWN",
    "TRUST",
    "Learned",
    "Memory",
    "MemoryConfig",
    "MemoryField",
    "MemoryHit",
    "MemoryItem",
    "MemoryPage",
    "MemoryResult",
    "MemoryStats",
    "Remembered",
    "Similar",
    "Turn",
    "accepted_by",
    "added_by_search",
    "as_data",
]
