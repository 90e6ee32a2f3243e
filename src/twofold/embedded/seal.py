"""How many points a closed collection has, so that the next open notices when some are gone.

The engine makes up for files that are missing (an incomplete copy or restore, a disk that was repaired) without a
word and without the points in them.
"""

from __future__ import annotations

import json
from pathlib import Path

from .errors import StoreError
from .files import sync_directory, write_json

_FILE = "closed.json"


class Seal:
    """There from a close to the first write after it: a crash in between leaves none, and nothing to compare."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / _FILE
        self._set = self._path.exists()

    def check(self, points: int) -> None:
        """Raise if there should be another number of points."""
        if self._set and points != self._points():
            raise StoreError(
                f"{self._path.parent} has {points} of its {self._points()} points, so files of it are missing or "
                f"damaged. To go on with what is left, remove {_FILE} there"
            )

    def put(self, points: int) -> None:
        """The collection is closed with so many."""
        write_json(self._path, {"points": points})
        self._set = True

    def open(self) -> None:
        """Something is about to be written."""
        if self._set:
            self._path.unlink(missing_ok=True)
            sync_directory(self._path.parent)
            self._set = False

    def _points(self) -> int:
        try:
            return int(json.loads(self._path.read_text("utf-8"))["points"])
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{self._path} can't be read ({error})") from error
