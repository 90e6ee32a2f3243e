"""Opening a memory: settings, scope, and the indexes that its fields need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from twofold.config import CollectionSettings
from twofold.engine import calls
from twofold.engine.flow import Flow
from twofold.engine.schema import initial_indexes
from twofold.errors import ConfigError
from twofold.index.hybrid import HybridIndex
from twofold.index.searching import Searcher
from twofold.memory.config import KNOWLEDGE, MemoryConfig, settle_config
from twofold.memory.layout import INDEXES
from twofold.memory.scope import Scope
from twofold.memory.vocabulary import field_path

KINDS = ("memories", "knowledge")


@dataclass(frozen=True)
class Plan:
    """What is to be opened."""

    scope: Scope
    collection: str
    config: MemoryConfig
    settings: CollectionSettings


def plan(
    user: str,
    agent: str | None,
    session: str | None,
    kind: str,
    collection: str | None,
    config: MemoryConfig | None,
    settings: CollectionSettings | None,
) -> Plan:
    """Check what was asked for, before anything is opened."""
    if kind not in KINDS:
        raise ConfigError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
    settled = settle_config(config, KNOWLEDGE if kind == "knowledge" else {})
    given = settings or CollectionSettings()
    declared = {field_path(name): index for name, index in settled.fields.items()}
    indexes = {**declared, **INDEXES, **given.payload_indexes}
    return Plan(
        Scope(user, agent, session), collection or kind, settled, given.model_copy(update={"payload_indexes": indexes})
    )


def complete(searcher: Searcher, settings: CollectionSettings) -> Flow[None]:
    """Create the indexes that a collection from before lacks."""
    ready = searcher.ready
    if not ready.engine.indexes:
        return
    for key, schema in initial_indexes(settings).items():
        if key not in ready.schema.indexed:
            yield from calls.create_index(ready.collection, key, schema, wait=True)


@contextmanager
def closed_on_error(index: HybridIndex) -> Iterator[None]:
    """An index that can't be used doesn't stay open."""
    try:
        yield
    except BaseException:
        index.close()
        raise
