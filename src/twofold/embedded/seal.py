"""What a collection is like while it is closed: small, and with a seal that tells whether its files are as they were.

The engine's files are mostly holes, which `ls` and a plain copy take for data: they are cut off at the close and put
back before the next load. The seal says how many points there are, and what every file has in it. The engine makes up
for a file that is missing without a word and without the points in it, and one that is damaged can end or hang the
process: so the files are looked at before they are loaded here. After a crash there is no seal. Then a process of its
own loads the shard first.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import qdrant_edge as edge

from .errors import StoreError
from .lock import sync_directory, write_json
from .room import check_free, end_of_data, mapped, opened, remove_prepared, stretches_of_data
from .settings import SETTINGS_FILE

_SEAL_FILE = "closed.json"
_OPENING_FILE = "opening.json"
_LENGTHS_FILE = "lengths.json"
_BLOCK, _SCANNED = 1 << 20, 1 << 16
# Larger files are read only where their time or length isn't that of the close: opening must stay fast.
_ALWAYS_READ = 1 << 20
# Large, and never written again. The time of others says little: not every system changes it for a write through a map.
_WRITTEN_ONCE = ("matrix.dat", "graph.bin", "links.bin", "links_compressed.bin", "inverted_index.dat", "quantized.data")
_NAMED_FILES = 5
_CHILD_SCRIPT = Path(__file__).with_name("__main__.py")
_TRIAL_SECONDS, _TRIAL_BYTES_A_SECOND = 60.0, 10e6


class _Kept(NamedTuple):
    """A file at the close: its length, when it was changed, and the checksum of what is in it."""

    size: int
    changed: int
    checksum: int


class Seal:
    """There from a close to the next load: a crash after it leaves none, one during it a seal of the points alone."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path, self._opening = directory / _SEAL_FILE, directory / _OPENING_FILE
        self.there = self._path.exists()
        self._unsynced = False
        self._points: int | None = None
        self._files: dict[str, _Kept] = {}
        if self.there or self._opening.exists():
            try:
                raw = json.loads((self._path if self.there else self._opening).read_text("utf-8"))
                self._points = int(raw["points"])
                self._files = {str(name): _Kept(*map(int, kept)) for name, kept in raw.get("files", {}).items()}
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise self._broken(f"{self._path} can't be read ({error})") from error

    def check_files(self) -> None:
        """Raise if a file isn't what it was at the close."""
        if not self.there:
            return
        damaged = [name for name, kept in self._files.items() if not _is_same(self._directory / name, kept)]
        missing = [name for name in damaged if not (self._directory / name).exists()]
        if missing:
            raise self._broken(f"missing since it was closed: {_some(missing)}")
        if damaged:
            raise self._broken(f"damaged, or changed by something else, since it was closed: {_some(damaged)}")

    @contextmanager
    def opening(self) -> Iterator[None]:
        """What is done inside changes files, and may refuse the collection, which is sealed again then."""
        if self.there:
            os.replace(self._path, self._opening)
        try:
            yield
        except BaseException:
            if self.there:
                os.replace(self._opening, self._path)
            raise
        self._opening.unlink(missing_ok=True)
        self._unsynced = self.there

    def check_points(self, points: int) -> None:
        """Raise if points are missing. More than there were are writes that failed and were made up for."""
        if self._points is not None and points < self._points:
            what = f"{self._directory} has {points} of its {self._points} points, so files of it are missing or damaged"
            raise self._broken(what)

    def _broken(self, what: str) -> StoreError:
        advice = f"To try what is left, remove {self._path}: that deletes nothing, and the engine may still refuse it"
        return StoreError(f"{what}. {advice}")

    def write(self, points: int, shard: str) -> None:
        """Cut the files of the closed shard, and say what is in them and in the settings."""
        _cut(self._directory, shard)
        names = [_LENGTHS_FILE, SETTINGS_FILE, *_names(self._directory, shard)]
        self._files = {name: _keep(self._directory / name, self._files.get(name)) for name in names}
        write_json(self._path, {"points": points, "files": self._files})

    def stay_away(self) -> None:
        """Something is about to be written: no power loss may bring the seal back."""
        if self._unsynced:
            sync_directory(self._directory)
            self._unsynced = False


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED_FILES} more" if len(names) > _NAMED_FILES else ""
    return ", ".join(names[:_NAMED_FILES]) + more


def _names(directory: Path, shard: str) -> Iterator[str]:
    for folder, _, names in os.walk(directory / shard):
        for name in names:
            yield Path(folder, name).relative_to(directory).as_posix()


def _is_same(path: Path, kept: _Kept) -> bool:
    try:
        stat = path.stat()
        if stat.st_size < kept.size:
            return False
        same_time = (stat.st_size, stat.st_mtime_ns) == (kept.size, kept.changed)
        return (same_time and kept.size > _ALWAYS_READ) or _checksum(path, kept.size) == kept.checksum
    except OSError:
        return False


def _keep(path: Path, before: _Kept | None) -> _Kept:
    stat = path.stat()
    if path.name in _WRITTEN_ONCE and before is not None and before[:2] == (stat.st_size, stat.st_mtime_ns):
        return before
    return _Kept(stat.st_size, stat.st_mtime_ns, _checksum(path, stat.st_size))


def _checksum(path: Path, size: int) -> int:
    checksum = 0
    with open(path, "rb") as file:
        while size > 0 and (block := file.read(min(size, _BLOCK))):
            checksum, size = zlib.crc32(block, checksum), size - len(block)
    return checksum


def _cut(directory: Path, shard: str) -> None:
    """Cut the holes off the ends of files, after noting how long they were."""
    remove_prepared(directory / shard)
    ends: dict[Path, int] = {}
    lengths: dict[str, int] = {}
    for path in mapped(directory / shard):
        with opened(path, os.O_RDONLY) as fd:
            size = os.fstat(fd).st_size
            ends[path] = _end_of_content(fd)
        if ends[path] < size:
            lengths[path.relative_to(directory).as_posix()] = size
    write_json(directory / _LENGTHS_FILE, lengths)
    for path, end in ends.items():
        os.truncate(path, end)  # at its old length too: what was allocated behind it goes


def _end_of_content(fd: int) -> int:
    """Where only zeros follow: not all are holes, since some systems allocate what was merely read through a map."""
    end, zeros = end_of_data(fd), bytes(_SCANNED)
    while end > 0:
        start = max(0, end - _SCANNED)
        os.lseek(fd, start, os.SEEK_SET)  # Windows has no pread
        content = os.read(fd, end - start)
        if content != zeros[: len(content)]:
            return start + len(content.rstrip(b"\0"))
        end = start
    return 0


def restore_lengths(directory: Path) -> None:
    """Give the files that were cut their lengths again, as the engine expects them."""
    path = directory / _LENGTHS_FILE
    if not path.exists():
        return
    try:
        lengths = {str(name): int(length) for name, length in json.loads(path.read_text("utf-8")).items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise StoreError(f"{path} can't be read ({error})") from error
    for name, length in lengths.items():
        cut = directory / name
        if cut.exists() and cut.stat().st_size < length:
            os.truncate(cut, length)


def copy_file(source: str, target: str) -> str:
    """Copy a file without filling its holes, for `shutil.copytree`."""
    with opened(Path(source), os.O_RDONLY) as fd, open(source, "rb") as file, open(target, "wb") as copy:
        size = os.fstat(fd).st_size
        for position, end in stretches_of_data(fd):
            file.seek(position)
            copy.seek(position)
            while position < end and (block := file.read(min(end - position, _BLOCK))):
                copy.write(block)
                position += len(block)
        copy.truncate(size)
    return target


def try_to_load(shard: Path) -> None:
    """Have a child process load a shard that nobody vouches for: damaged files may end it, or keep it for ever."""
    if getattr(sys, "frozen", False):  # the executable is the application, and would be started once more
        return
    size = sum(path.stat().st_size for path in shard.rglob("*") if path.is_file())
    seconds = _TRIAL_SECONDS + size / _TRIAL_BYTES_A_SECOND
    try:
        tried = subprocess.run(
            engine_command("try", shard), stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        raise StoreError(f"{shard} is damaged: the engine was still trying to load it after {seconds:.0f} s") from None
    if tried.returncode != 0:
        check_free(shard)  # a write that finds no room ends the process
        said = tried.stderr.decode("utf-8", "replace").strip()[-300:] or f"it ended with {tried.returncode}"
        raise StoreError(f"{shard} is damaged: the engine couldn't load it ({said})")


def engine_command(command: str, shard: Path) -> list[str]:
    """A command of this package that runs as a script, not as a module: the child imports the engine alone."""
    engine = Path(edge.__file__).parents[1]
    return [sys.executable, "-I", *map(str, (_CHILD_SCRIPT, command, shard, engine, os.getpid()))]
