"""The files of a store: who may use them, and how they are replaced.

1. One process per store: an operating-system lock on a file that also says who holds it. The engine refuses a second
   `load` of a live shard, but only after it has damaged the first one's next flush, so this lock is taken before the
   engine sees the directory. The system frees it when its holder dies, however it dies.
2. Small JSON files that are either the old or the new version, never half of one, and on disk before anyone relies on
   them. Those that say what a store holds name their format, so that a newer one is refused instead of misread.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeVar

from .errors import Holder, StoreError, StoreFormatError, StoreLocked

_LOCK_FILE = "twofold.lock"
_FORMAT_VERSION = 1
_POLL_SECONDS = 0.05
# Windows locks a range of bytes, and a locked byte can't be read by others: lock one far behind the text.
_LOCKED_BYTE = 1 << 20
# What the systems say of a lock that somebody has. Others mean that the file system has no locks.
_HELD_ERRORS = (errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK, errno.EDEADLK)

T = TypeVar("T")


def _try_lock(fd: int) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(fd, _LOCKED_BYTE, os.SEEK_SET)
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD_ERRORS:
            return False
        raise StoreError(f"The store can't be locked ({error}): keep it on a local disk.") from error
    return True


def _read_holder(path: Path) -> Holder | None:
    try:
        return Holder(**json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None  # it was locked a moment ago and not written yet


class StoreLock:
    """Holds the lock from construction until `release`."""

    def __init__(self, directory: Path, wait_seconds: float) -> None:
        path = directory / _LOCK_FILE
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        self._fd: int | None = fd
        deadline = time.monotonic() + wait_seconds
        try:
            while not _try_lock(fd):
                if time.monotonic() >= deadline:
                    raise StoreLocked(str(directory), _read_holder(path))
                time.sleep(_POLL_SECONDS)
            now = datetime.now(timezone.utc).isoformat(timespec="seconds")
            holder = Holder(os.getpid(), platform.node(), now, Path(sys.argv[0] or sys.executable).name)
            os.lseek(fd, 0, os.SEEK_SET)
            os.ftruncate(fd, 0)
            os.write(fd, json.dumps(vars(holder)).encode("utf-8"))
        except BaseException:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Close the file without unlocking: a forked child shares its parent's lock and must not free it."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    # Closing the file frees the lock on every system. The file stays: removing it would let two processes
    # lock two different files of one name.
    release = abandon


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Replace `path` in one step; on disk when this returns."""
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=True, indent=1, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_directory(path.parent)


def write_versioned(path: Path, value: dict[str, Any]) -> None:
    """Replace a file that names its format."""
    write_json(path, {"format": _FORMAT_VERSION, "engine": "qdrant-edge", **value})


def read_versioned(path: Path, parse: Callable[[dict[str, Any]], T]) -> T:
    """What `write_versioned` has written; one of a newer version is refused instead of misread."""
    try:
        raw = json.loads(path.read_text("utf-8"))
        version = int(raw.pop("format"))
        raw.pop("engine", None)
        if version <= _FORMAT_VERSION:
            return parse(raw)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, NotImplementedError) as error:
        raise StoreFormatError(f"{path} can't be read ({error}): restore it from a backup.") from error
    raise StoreFormatError(f"{path} has format {version}, this version reads {_FORMAT_VERSION}: upgrade twofold.")


def make_directory(path: Path) -> None:
    """Make a directory and what is missing above it; on disk when this returns."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for made in missing:
        sync_directory(made.parent)


def sync_files(path: Path, *, directories: bool = False) -> None:
    """Make the files under a directory survive a power loss, and with the `directories` new and renamed ones too."""
    for directory, _, files in os.walk(path):
        for name in files:
            with suppress(FileNotFoundError):  # the engine prepares its next log meanwhile, and renames it
                _sync(os.path.join(directory, name), os.O_RDWR)  # Windows syncs what may be written only
        if directories:
            sync_directory(Path(directory))


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
