"""Bring a store of qdrant-client's local mode over into the embedded engine."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
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


def import_local_store(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    progress: Callable[[ImportProgress], None] | None = None,
) -> dict[str, int]:
    """Copy every collection, text index and alias; points per collection are returned.

    The source isn't changed. Points keep their ids, so an import that was interrupted is completed by running
    it again. Local mode stores rows as pickles, which can run code when read: import only stores you trust.
    """
    meta = _read_meta(Path(source))
    if os.path.realpath(source) == os.path.realpath(destination):
        raise StoreError("Import into a new directory: the old one stays as it is until you delete it.")
    old = _open_source(source)
    try:
        new = embedded_client(destination)
        try:
            return _import(old, new, meta, progress or (lambda step: None))
        finally:
            new.close()
    finally:
        old.close()


def _open_source(source: str | os.PathLike[str]) -> QdrantClient:
    try:
        return QdrantClient(path=os.fspath(source))
    except RuntimeError as error:  # what local mode says of a store that somebody has open
        raise StoreError(f"{source} is in use: close the client that has it open, then import it.") from error


def _read_meta(source: Path) -> dict[str, Any]:
    try:
        meta: dict[str, Any] = json.loads((source / "meta.json").read_text("utf-8"))
        return {
            "collections": meta["collections"],
            "aliases": meta["aliases"],
            "texts": meta.get("text_indexes", {}),
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{source} is not a store of qdrant-client's local mode ({error}).") from error


def _import(
    old: QdrantClient, new: EmbeddedClient, meta: dict[str, Any], tell: Callable[[ImportProgress], None]
) -> dict[str, int]:
    note = Path(new.init_options["path"]) / _STARTED_FILE
    _claim(note, new, meta["collections"])
    counts = {}
    for name in meta["collections"]:
        _create(old, new, name)
        for field, params in meta["texts"].get(name, {}).items():
            new.create_payload_index(name, field, models.TextIndexParams(**params))
        counts[name] = _copy(old, new, name, tell)
    aliases = [_alias(alias, name) for alias, name in meta["aliases"].items()]
    if aliases:
        new.update_collection_aliases(aliases)
    note.unlink()
    return counts


def _claim(note: Path, new: EmbeddedClient, names: Iterable[str]) -> None:
    """Note in the destination, until all is done, which collections this import makes: others are somebody else's."""
    ours = json.loads(note.read_text("utf-8"))["collections"] if note.exists() else []
    for name in names:
        if name not in ours and new.collection_exists(name):
            raise StoreError(f"{note.parent} has a collection {name} already: import into another directory.")
    write_json(note, {"collections": list(names)})


def _create(old: QdrantClient, new: EmbeddedClient, name: str) -> None:
    if new.collection_exists(name):
        return  # an earlier run made it
    config = old.get_collection(name).config
    params = config.params
    new.create_collection(name, params.vectors, params.sparse_vectors, metadata=config.metadata)


def _copy(old: QdrantClient, new: EmbeddedClient, name: str, tell: Callable[[ImportProgress], None]) -> int:
    total, done, offset = old.count(name).count, 0, None
    while True:
        records, offset = old.scroll(name, limit=_POINTS_PER_PAGE, offset=offset, with_vectors=True)
        if records:
            _store(new, name, [_point(record) for record in records])
        done += len(records)
        tell(ImportProgress(name, done, total))
        if offset is None:
            return done


def _store(new: EmbeddedClient, name: str, points: list[models.PointStruct]) -> None:
    try:
        new.upload_points(name, points)
    except BadRequest:
        for point in points:  # to tell which
            _store_one(new, name, point)
        raise


def _store_one(new: EmbeddedClient, name: str, point: models.PointStruct) -> None:
    try:
        new.upload_points(name, [point])
    except BadRequest as error:
        raise BadRequest(
            f"Point {point.id} of {name}: {error} Change it in the old store, then import again."
        ) from error


def _point(record: models.Record) -> models.PointStruct:
    return models.PointStruct.model_construct(
        id=record.id, vector={} if record.vector is None else record.vector, payload=record.payload
    )


def _alias(alias: str, name: str) -> models.CreateAliasOperation:
    return models.CreateAliasOperation(create_alias=models.CreateAlias(alias_name=alias, collection_name=name))
