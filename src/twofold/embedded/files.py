"""Files that are either the old or the new version, never half of one."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
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


def make_directory(path: Path) -> None:
    """Make a directory and what is missing above it; on disk when this returns."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for made in missing:
        sync_directory(made.parent)


def sync_tree(path: Path) -> None:
    """Make every file and directory in and under a directory survive a power loss."""
    sync_files(path)
    for directory, _, _ in os.walk(path):
        sync_directory(Path(directory))


def sync_files(path: Path) -> None:
    """Write to the disk what the files under a directory have in memory only."""
    for directory, _, files in os.walk(path):
        for name in files:
            with suppress(FileNotFoundError):  # the engine prepares its next log meanwhile, and renames it
                _sync(os.path.join(directory, name), os.O_RDWR)  # Windows syncs what may be written only


def sync_directory(path: Path) -> None:
    """Make renames within a directory survive a power loss; Windows does so by itself."""
    if os.name != "nt":
        _sync(path, os.O_RDONLY)


def _sync(path: str | Path, flags: int) -> None:
    fd = os.open(path, flags)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def remove_tree(path: Path) -> None:
    """Remove what can be removed: the rest (a file still open on Windows) goes at the next open."""
    shutil.rmtree(path, ignore_errors=True)
