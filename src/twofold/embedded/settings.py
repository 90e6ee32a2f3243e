"""What a collection is, in one versioned JSON file that is replaced as a whole.

The file also names the directory of the live shard, so replacing it is the one moment at which a rebuilt
shard takes the place of the old one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from uuid import uuid4

from pydantic import TypeAdapter
from qdrant_client import models

from .errors import StoreFormatError
from .files import write_json

FORMAT = 1
SETTINGS_FILE = "collection.json"
_INDEX: TypeAdapter[Any] = TypeAdapter(models.PayloadFieldSchema)


@dataclass(frozen=True)
class Settings:
    """A collection's settings; change them with `dataclasses.replace` and `save`."""

    name: str
    config: models.CreateCollection
    indexes: dict[str, Any] = field(default_factory=dict)
    shard: str = "shard-1"
    wal: bool = True
    optimized_points: int = 0
    written_points: int = 0  # since then, the same one twice counted twice
    created_at: str = field(default_factory=lambda: datetime.now(timezone.utc).isoformat(timespec="seconds"))

    def save(self, directory: Path) -> None:
        write_json(directory / SETTINGS_FILE, self._to_json())

    def with_config(self, **changes: Any) -> Settings:
        return replace(self, config=self.config.model_copy(update=changes))

    def _to_json(self) -> dict[str, Any]:
        indexes = {name: _INDEX.dump_python(index, mode="json") for name, index in self.indexes.items()}
        config = self.config.model_dump(mode="json", exclude_none=True)
        return {"format": FORMAT, "engine": "qdrant-edge", **vars(self), "config": config, "indexes": indexes}


def new_shard_name() -> str:
    """A name no other rebuild ever had: one that was given up may clean up late, when others are at work."""
    return f"shard-{uuid4().hex[:12]}"


def load_settings(directory: Path) -> Settings:
    """Read the settings; refuse those of a newer version instead of misreading them."""
    path = directory / SETTINGS_FILE
    try:
        raw = json.loads(path.read_text("utf-8"))
        version = raw.pop("format")
        if version > FORMAT:
            raise StoreFormatError(f"{path} has format {version}, this version reads up to {FORMAT}: upgrade twofold.")
        raw.pop("engine")
        raw["config"] = models.CreateCollection(**raw["config"])
        raw["indexes"] = {name: _INDEX.validate_python(index) for name, index in raw["indexes"].items()}
        return Settings(**raw)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreFormatError(f"{path} can't be read ({error}): restore it from a backup.") from error
