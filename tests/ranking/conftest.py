"""Memories on every engine, as for the tests of the memory."""

from __future__ import annotations

from tests.memory.conftest import _clean_environment, open_here, open_memory

__all__ = ["_clean_environment", "open_here", "open_memory"]
