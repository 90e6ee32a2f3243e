"""Filters on their way to the engine, and the payload indexes that serve them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from qdrant_client import models

from twofold.engine import calls
from twofold.engine.filters import compile_filter, needed_indexes
from twofold.engine.flow import Flow
from twofold.filters import Node

log = logging.getLogger("twofold")

_NUMBERS = {"integer", "float"}


class PayloadIndexes:
    """The indexes of one collection, as far as this index knows."""

    def __init__(self, collection: str, existing: Mapping[str, str], *, enabled: bool) -> None:
        self._collection = collection
        self._enabled = enabled
        self._kinds = dict(existing)
        self._mixed: set[str] = set()

    def serve(self, where: Node | models.Filter | None, *, create: bool) -> Flow[models.Filter | None]:
        """A filter in the engine's form. What it needs is indexed; an index that would mislead it is removed."""
        if where is None or isinstance(where, models.Filter):
            return where
        if self._enabled:
            yield from self._adjust(needed_indexes(where), create)
        return compile_filter(where)

    def _adjust(self, wanted: Mapping[str, models.PayloadSchemaType], create: bool) -> Flow[None]:
        for key, kind in wanted.items():
            present = self._kinds.get(key)
            if present is None and create and key not in self._mixed:
                self._kinds[key] = kind.value
                yield from calls.create_index(self._collection, key, kind, wait=False)
            elif present is not None and _misleads(present, kind.value):
                yield from self._remove(key, present, kind.value)

    def _remove(self, key: str, present: str, wanted: str) -> Flow[None]:
        """The engine answers any range from the field's one index: dates compared as numbers, numbers as dates."""
        log.warning(
            "%r is compared as %s and as %s: its index is removed, so that both are right. Two fields would be faster",
            key,
            present,
            wanted,
        )
        self._mixed.add(key)
        del self._kinds[key]
        yield from calls.drop_index(self._collection, key)


def _misleads(present: str, wanted: str) -> bool:
    return (present in _NUMBERS and wanted == "datetime") or (present == "datetime" and wanted == "float")
