"""Bring a store of qdrant-client's local mode over into the embedded engine."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qdrant_client import QdrantClient, models

from twofold.embedded.errors import BadRequest, StoreError
from twofold.embedded.lock import write_json

from . import EmbeddedClient, embedded_client

_POINTS_PER_PAGE = 256
_STARTED_FILE = "import.json"


@dataclass(frozen=True)
class ImportProgress:
    """How far the import of one collection is."""

    collection: str
    done: int
    total: int


ProgressCallback = Callable[[ImportProgress], None]


def import_local_store(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    progress: ProgressCallback | None = None,
) -> dict[str, int]:
    """Copy every collection, text index and alias; points per collection are returned.

    The source isn't changed. Points keep their ids, so an import that was interrupted is completed by running
    it again. Local mode stores rows as pickles, which can run code when read: import only stores you trust.
    """
    meta = _read_meta(Path(source))
    if os.path.realpath(source) == os.path.realpath(destination):
        raise StoreError("Import into a new directory: the old one stays as it is until you delete it.")
    try:
        old = QdrantClient(path=os.fspath(source))
    except RuntimeError as error:  # what local mode says of a store that somebody has open
        raise StoreError(f"{source} is in use: close the client that has it open, then import it.") from error
    with closing(old), closing(embedded_client(destination)) as new:
        note = Path(destination) / _STARTED_FILE
        _claim(note, new, meta["collections"])
        counts = {name: _copy(old, new, name, meta, progress) for name in meta["collections"]}
        aliases = [
            models.CreateAliasOperation(create_alias=models.CreateAlias(alias_name=alias, collection_name=name))
            for alias, name in meta["aliases"].items()
        ]
        if aliases:
            new.update_collection_aliases(aliases)
        note.unlink()
        return counts


def _read_meta(source: Path) -> dict[str, Any]:
    try:
        meta: dict[str, Any] = json.loads((source / "meta.json").read_text("utf-8"))
        return {"text_indexes": {}, **meta, "collections": meta["collections"], "aliases": meta["aliases"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{source} is not a store of qdrant-client's local mode ({error}).") from error


def _claim(note: Path, new: EmbeddedClient, names: Iterable[str]) -> None:
    """Note in the destination, until all is done, which collections this import makes: others are somebody else's."""
    ours = json.loads(note.read_text("utf-8"))["collections"] if note.exists() else []
    for name in names:
        if name not in ours and new.collection_exists(name):
            raise StoreError(f"{note.parent} has a collection {name} already: import into another directory.")
    write_json(note, {"collections": list(names)})


def _copy(
    old: QdrantClient, new: EmbeddedClient, name: str, meta: dict[str, Any], progress: ProgressCallback | None
) -> int:
    """One collection: its settings, text indexes and points. Returns how many there are."""
    if not new.collection_exists(name):  # otherwise an earlier run made it
        config = old.get_collection(name).config
        new.create_collection(name, config.params.vectors, config.params.sparse_vectors, metadata=config.metadata)
    for field, params in meta["text_indexes"].get(name, {}).items():
        new.create_payload_index(name, field, models.TextIndexParams(**params))
    total, done, offset = old.count(name).count, 0, None
    while True:
        records, offset = old.scroll(name, limit=_POINTS_PER_PAGE, offset=offset, with_vectors=True)
        _store(new, name, records)
        done += len(records)
        if progress is not None:
            progress(ImportProgress(name, done, total))
        if offset is None:
            return done


def _store(new: EmbeddedClient, name: str, points: list[Any]) -> None:
    try:
        new.upload_points(name, points)
    except BadRequest as error:
        if len(points) == 1:
            text = f"Point {points[0].id} of {name}: {error} Change it in the old store, then import again."
            raise type(error)(text) from error
        for point in points:  # to tell which
            _store(new, name, [point])
        raise
