"""Room on the disk for what the engine is about to write.

The engine writes through memory maps of files that are mostly holes. Where such a write finds no room, the system ends
the process (SIGBUS). So before each write there must be some room left, and what follows the data in each of those
files is allocated beforehand: whatever fills the disk afterwards, a flush and a close have their room already.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from .errors import DiskFull, StoreError

# For the files that the engine makes by itself: a page, a chunk, the next file of the log.
_SPARE_BYTES = 8 << 20
_LEAST_AHEAD = 64 << 10
# What a point takes in each file apart from its own bytes: a block of a page, pointers, flags.
_BYTES_A_POINT = 256
_BYTES_OF_POINTERS = 32  # of one point, in each file that grows; they are written at the next flush
_KEEP_SIZE = 1  # of fallocate: what is allocated behind the end of a file waits there until the file grows
_SAID_OF_A_FULL_DISK = ("No space left on device", "os error 28", "os error 112", "quota exceeded", "Not enough space")
_FULL = (errno.ENOSPC, errno.EDQUOT)
_UNFINISHED = ".tmp"
_NUMBERED = re.compile(r"(page|chunk)_(\d+)(\.dat|\.mmap)")
_INDEXES = "payload_index"
_GROWING = ("tracker.dat", "tracker_journal.dat", "bitmask.dat", "gaps.dat", "flags_a.dat")


class Size(NamedTuple):
    """About how many bytes of payloads and of vectors so many points have, or a change to them."""

    points: int = 0
    payloads: int = 0
    vectors: int = 0


class Room:
    """The room that one shard has for its next writes. Only one thread may ask at a time."""

    def __init__(self, shard: Path) -> None:
        self._shard = shard
        self._left = self._left_in_an_index = 0

    def reserve(self, size: Size, unflushed: int = 0) -> None:
        """Make sure that so much can be written, after so many points that aren't flushed yet."""
        needed = size.payloads + size.vectors + _BYTES_A_POINT * size.points
        check_free(self._shard, 2 * needed)
        if needed > self._left or needed - size.vectors > self._left_in_an_index:
            ahead = 2 * needed + _LEAST_AHEAD  # not to look at every file each time
            in_an_index = ahead - 2 * size.vectors
            pointers = _LEAST_AHEAD + _BYTES_OF_POINTERS * (size.points + unflushed)
            with disk_errors(self._shard):
                for path in mapped(self._shard):
                    if path.name in _GROWING:
                        _allocate(path, pointers)
                    else:
                        _allocate(path, in_an_index if _INDEXES in path.parts else ahead)
            self._left, self._left_in_an_index = ahead, in_an_index
            check_free(self._shard, needed)
        self._left -= needed
        self._left_in_an_index -= needed - size.vectors

    def renew(self) -> None:
        """Files were added or replaced: look at all of them before the next write."""
        self._left = 0


def check_free(path: Path, needed: int = 0) -> None:
    """Refuse to begin what the disk may have no room for."""
    with disk_errors(path):
        disk = shutil.disk_usage(path)
    if disk.total and disk.free < needed + _SPARE_BYTES:  # some network drives don't say
        raise full(path)


def full(path: Path | None = None) -> DiskFull:
    """The error for a disk without room."""
    return DiskFull(
        f"The disk{f' of {path}' if path else ''} is full, or nearly so (some {_SPARE_BYTES >> 20} MB must be left): "
        "make room and call again. What was written before is there, and nothing has to be opened again."
    )


def speaks_of_a_full_disk(said: str) -> bool:
    """Whether this is how the engine complains of a full disk."""
    return any(sign in said for sign in _SAID_OF_A_FULL_DISK)


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """What the system says of files, as errors of the store."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise full(path) from error
        if isinstance(error, FileNotFoundError):
            raise gone(path) from error
        raise StoreError(f"{path} can't be used: {error}. Check the disk and the rights to the folder.") from error


def gone(path: Path) -> StoreError:
    """The error for a folder that was taken away."""
    return StoreError(
        f"{path} was removed, renamed or replaced while it was open, so nothing can be written there any more: put it "
        "back, or close the store and open the folder where it is now."
    )


def mapped(shard: Path) -> Iterator[Path]:
    """The files that the engine writes through maps."""
    for folder, _, names in os.walk(shard):
        for name in names:
            if name in _GROWING or name.startswith("open-") or _NUMBERED.fullmatch(name):
                yield Path(folder, name)


def remove_prepared(shard: Path) -> None:
    """Remove pages and chunks that were prepared and not needed."""
    for folder, _, names in os.walk(shard):
        for name in names:
            if name.startswith(("page_", "chunk_")) and name.endswith(_UNFINISHED):
                Path(folder, name).unlink(missing_ok=True)


def _allocate(path: Path, ahead: int) -> None:
    """Have the blocks of a file ready, from its first hole to so far behind its data."""
    if _fallocate is None:
        return
    with suppress(FileNotFoundError):  # the engine renames the files of its log
        stat = os.stat(path)
        size = stat.st_size + (ahead if path.name in _GROWING else 0)
        if stat.st_blocks * 512 >= size:
            data = size
        else:
            with opened(path, os.O_RDWR) as fd:
                try:
                    hole = os.lseek(fd, 0, os.SEEK_HOLE)
                except OSError as error:
                    if error.errno != errno.ENXIO:  # a file system that doesn't know of holes
                        return
                    hole = 0  # the file is empty
                data = end_of_data(fd)
                _fill_holes(fd, hole, min(data + ahead, size))
        following = _following(path) if data + ahead > size else None
        if following is not None:
            with opened(following, os.O_RDWR | os.O_CREAT) as fd:
                _fill_holes(fd, 0, ahead)


def _following(path: Path) -> Path | None:
    """What the engine calls the next page or chunk until it has its length; what is there already is used."""
    match = _NUMBERED.fullmatch(path.name)
    if match is None:
        return None
    kind, number, suffix = match.groups()
    following = path.with_name(f"{kind}_{int(number) + 1}{suffix}")
    return None if following.exists() else following.with_suffix(_UNFINISHED)


def _fill_holes(fd: int, start: int, end: int) -> None:
    if end > start and _fallocate is not None and _fallocate(fd, _KEEP_SIZE, start, end - start) != 0:
        code = ctypes.get_errno()
        if code in _FULL:  # others: a file system that can't
            raise OSError(code, os.strerror(code))


@contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    """A file's descriptor, for bytes as they are: Windows would translate the ends of lines."""
    fd = os.open(path, flags | getattr(os, "O_BINARY", 0), 0o644)
    try:
        yield fd
    finally:
        os.close(fd)


def end_of_data(fd: int) -> int:
    """Where a file's last data end: only holes follow, as far as the file system knows of holes."""
    return max((end for _, end in stretches_of_data(fd)), default=0)


def stretches_of_data(fd: int) -> Iterator[tuple[int, int]]:
    """From where to where a file has data. What a file system can't say of holes is data: only ENXIO says "no more"."""
    size, end = os.fstat(fd).st_size, 0
    while end < size:
        start, end = end, size
        if hasattr(os, "SEEK_DATA"):
            try:
                start = os.lseek(fd, start, os.SEEK_DATA)
                end = os.lseek(fd, start, os.SEEK_HOLE)
            except OSError as error:
                if error.errno == errno.ENXIO:
                    return
        yield start, end


def _find_fallocate() -> ctypes._CFuncPtr | None:  # type: ignore[name-defined]
    if sys.platform != "linux":
        return None
    with suppress(AttributeError, OSError):
        function = ctypes.CDLL(None, use_errno=True).fallocate
        function.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_longlong, ctypes.c_longlong)
        return function
    return None


_fallocate = _find_fallocate()
