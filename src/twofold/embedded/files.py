"""Files that are either the old or the new version, never half of one."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Replace `path` in one step; on disk when this returns."""
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=True, indent=1, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make renames within a directory survive a power loss; Windows does so by itself."""
    if os.name == "nt":
        return
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def remove_tree(path: Path) -> None:
    """Remove what can be removed: the rest (a file still open on Windows) goes at the next open."""
    shutil.rmtree(path, ignore_errors=True)
