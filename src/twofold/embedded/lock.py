"""One process per store: an operating-system lock on a file that also says who holds it.

The engine refuses a second `load` of a live shard, but only after it has damaged the first one's next flush,
so this lock is taken before the engine sees the directory. The system frees it when its holder dies, however
it dies.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

from .errors import Holder, StoreError, StoreLocked

LOCK_FILE = "twofold.lock"
_POLL = 0.05
# Windows locks a range of bytes, and a locked byte can't be read by others: lock one far behind the text.
_LOCKED_BYTE = 1 << 20
# What the systems say of a lock that somebody has. Others mean that the file system has no locks.
_HELD = (errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK, errno.EDEADLK)


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
        if error.errno in _HELD:
            return False
        raise StoreError(f"The store can't be locked ({error}): keep it on a local disk.") from error
    return True


def _read_holder(path: Path) -> Holder | None:
    try:
        return Holder(**json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None  # it was locked a moment ago and not written yet


def _me() -> Holder:
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return Holder(os.getpid(), platform.node(), now, Path(sys.argv[0] or sys.executable).name)


class StoreLock:
    """Holds the lock from construction until `release`."""

    def __init__(self, directory: Path, wait: float) -> None:
        self._path = directory / LOCK_FILE
        self._fd: int | None = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        deadline = time.monotonic() + wait
        try:
            while not _try_lock(self._fd):
                if time.monotonic() >= deadline:
                    raise StoreLocked(str(directory), _read_holder(self._path))
                time.sleep(_POLL)
            self._sign()
        except BaseException:
            self.abandon()
            raise

    def _sign(self) -> None:
        if self._fd is None:
            return
        text = json.dumps(vars(_me())).encode("utf-8")
        os.lseek(self._fd, 0, os.SEEK_SET)
        os.ftruncate(self._fd, 0)
        os.write(self._fd, text)

    def abandon(self) -> None:
        """Close the file without unlocking: a forked child shares its parent's lock and must not free it."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    # Closing the file frees the lock on every system. The file stays: removing it would let two processes
    # lock two different files of one name.
    release = abandon
