"""Filters on their way to the engine, and the payload indexes that serve them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from qdrant_client import models

from twofold.engine import calls
from twofold.engine.filters import compile_filter, needed_indexes
from twofold.engine.flow import Flow
from twofold.errors import EngineError, FilterError
from twofold.filters import Node

log = logging.getLogger("twofold")

_NUMBERS = {"integer", "float"}
# The engine answers any range from the one index that a field has: dates compared as numbers, numbers as dates. So an
# index for ranges is only made where somebody who knows the field declared it.
_SAFE = {models.PayloadSchemaType.KEYWORD, models.PayloadSchemaType.BOOL, models.PayloadSchemaType.TEXT}


class PayloadIndexes:
    """The payload indexes of one collection, as far as this index knows."""

    def __init__(self, collection: str, existing: Mapping[str, str], *, enabled: bool) -> None:
        self._collection = collection
        self._enabled = enabled
        self._kinds = dict(existing)

    def serve(self, where: Node | models.Filter | None, *, create: bool) -> Flow[models.Filter | None]:
        """A filter in the engine's form, with an index for what it needs."""
        if where is None or isinstance(where, models.Filter):
            return where
        for key, kind in needed_indexes(where).items() if self._enabled else ():
            present = self._kinds.get(key)
            if present is not None and _misleads(present, kind.value):
                raise FilterError(
                    f"{key!r} has a payload index of kind {present}, with which the engine can't compare as "
                    f"{kind.value}: keep dates and numbers in different fields, or delete that index"
                )
            if present is None and create and kind in _SAFE:
                yield from self._create(key, kind)
        return compile_filter(where)

    def ensure(self, key: str, kind: models.PayloadSchemaType) -> Flow[None]:
        """An index on a field whose kind the caller vouches for, also one for ranges."""
        if self._enabled and key not in self._kinds:
            yield from self._create(key, kind)

    def _create(self, key: str, kind: models.PayloadSchemaType) -> Flow[None]:
        """Only makes searches faster, so a failure (a read-only key) must not fail them."""
        self._kinds[key] = kind.value
        try:
            yield from calls.create_index(self._collection, key, kind, wait=False)
        except EngineError as error:
            log.warning("no payload index for %r, so filtering on it is slower: %s", key, error)


def _misleads(present: str, wanted: str) -> bool:
    return (present in _NUMBERS and wanted == "datetime") or (present == "datetime" and wanted == "float")
