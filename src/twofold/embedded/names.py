"""What a collection may be called, and the directory that comes of it."""

from __future__ import annotations

import re
from uuid import uuid4

from .errors import BadRequest

_FORBIDDEN = re.compile(r'[<>:"/\\|?*\x00-\x1f]')
_NUMBER = 8


def check_collection_name(name: str) -> None:
    if not name or name in (".", "..") or len(name) > 255 or _FORBIDDEN.search(name):
        raise BadRequest(
            f'{name!r} is not a collection name: use 1 to 255 characters, none of < > : " / \\ | ? * or control ones.'
        )


def slug(name: str) -> str:
    """What the directory of a collection begins with; several names may have the same."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:40]


def new_directory_name(name: str) -> str:
    """A directory that no other collection has, whatever it was called."""
    return f"{slug(name)}-{uuid4().hex[:_NUMBER]}"


def slug_of(directory_name: str) -> str:
    """What the name of the collection in a directory has become."""
    return directory_name[: -_NUMBER - 1]
