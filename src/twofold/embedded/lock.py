"""The files of a store: who may use them, and how they are replaced.

1. One process per store: an operating-system lock on a file that also says who holds it. The engine refuses a second
   `load` of a live shard, but only after it has damaged the first one's next flush, so this lock is taken before the
   engine sees the directory. The system frees it when its holder dies, however it dies. The file also says where the
   holder lets other processes in (`serving.py`).
   Changes that begin with a look at what is there take turns in the same way, each kind on a file of its own.
2. Small JSON files that are either the old or the new version, never half of one, and on disk before anyone relies on
   them. Those that say what a store holds name their format, so that a newer one is refused instead of misread.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import platform
import shutil
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeVar

from .errors import Holder, StoreError, StoreFormatError, StoreLocked

_LOCK_FILE = "twofold.lock"
_FORMAT_VERSION = 1
_LOCKS_FOLDER = "locks"
_POLL_SECONDS = 0.05
_SHORT_POLL_SECONDS = 0.002
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


def _unlock(fd: int) -> None:
    """Let go of it in forked children too, which have the same open file; on Windows nothing is forked."""
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(fd, fcntl.LOCK_UN)


def _read_holder(path: Path) -> Holder | None:
    try:
        said = json.loads(path.read_text("utf-8"))
        return Holder(**{each.name: said[each.name] for each in fields(Holder) if each.name in said})
    except (OSError, ValueError, TypeError):
        return None  # it was locked a moment ago and not written yet


class StoreLock:
    """Holds the lock from construction until `release`.

    Who is going to `join` the holder doesn't wait for the lock where the holder lets others in.
    """

    def __init__(self, directory: Path, wait_seconds: float, *, join: bool = False) -> None:
        path = directory / _LOCK_FILE
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        self._fd: int | None = fd
        deadline = time.monotonic() + wait_seconds
        try:
            while not _try_lock(fd):
                holder = _read_holder(path)
                if time.monotonic() >= deadline or (join and holder is not None and holder.address):
                    raise StoreLocked(str(directory), holder)
                time.sleep(_POLL_SECONDS)
            self.announce()
        except BaseException:
            self.abandon()
            raise

    def announce(self, **sharing: Any) -> None:
        """Say in the file who holds the store, and how others get in."""
        if self._fd is None:
            return
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        program = Path(sys.argv[0] or sys.executable).name
        holder = Holder(os.getpid(), platform.node(), now, program, **sharing)
        os.lseek(self._fd, 0, os.SEEK_SET)
        os.ftruncate(self._fd, 0)
        os.write(self._fd, json.dumps(vars(holder)).encode("utf-8"))

    def abandon(self) -> None:
        """Close the file without unlocking: a forked child shares its parent's lock and must not free it."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    # Closing the file frees the lock on every system. The file stays: removing it would let two processes
    # lock two different files of one name.
    release = abandon


def close_inherited(directory: Path) -> None:
    """In a forked child: close its copies of a directory that its parent has open."""
    with suppress(OSError):
        sought = directory.stat()
        for each in os.listdir("/dev/fd"):
            with suppress(OSError):  # what lists them is among them, and gone
                if os.path.samestat(os.fstat(int(each)), sought):
                    os.close(int(each))


class FolderLock:
    """As a `threading.Lock`, for all processes that have a folder open. The system frees it when its holder dies."""

    def __init__(self, directory: Path, name: str) -> None:
        self._path = directory / _LOCKS_FOLDER / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.lock"
        self._here = threading.Lock()
        self._process = os.getpid()
        self._fd: int | None = None

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Whether it was free, or became so in time."""
        if os.getpid() != self._process:  # forked: whoever held it here is in the parent
            self._here, self._process = threading.Lock(), os.getpid()
            self._close()
        deadline = math.inf if timeout < 0 else time.monotonic() + timeout
        if not self._here.acquire(blocking, timeout):
            return False
        fd = None
        try:
            self._path.parent.mkdir(exist_ok=True)
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            while not _try_lock(fd):
                if not blocking or time.monotonic() >= deadline:
                    os.close(fd)
                    self._here.release()
                    return False
                time.sleep(_SHORT_POLL_SECONDS)
        except BaseException as error:
            if fd is not None:
                os.close(fd)
            self._here.release()
            if isinstance(error, OSError):
                message = f"{self._path} can't be locked ({error}): is the folder still there, and may it be written?"
                raise StoreError(message) from error
            raise
        self._fd = fd
        return True

    def release(self) -> None:
        """Let others have it."""
        if os.getpid() != self._process:  # forked: it is the parent's to free
            self._close()
            return
        if self._fd is not None:
            _unlock(self._fd)
        self._close()
        self._here.release()

    def _close(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def locked(self) -> bool:
        """Whether somebody in this process has it."""
        return self._here.locked()


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
