"""From a location to a connection: a path, memory, a URL, or the user's own client."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeAlias

from qdrant_client import AsyncQdrantClient, QdrantClient

from twofold.embedded import BadRequest, EmbeddedClient, check_options, embedded_client
from twofold.engine.connection import AsyncConnection, Connection, EmbeddedConnection, SyncConnection
from twofold.engine.faults import translated
from twofold.engine.remote import RemoteConnection
from twofold.errors import CollectionNotFound, ConfigError

# A store of ours, or one of qdrant-client's local mode, which is refused with the way to import it.
_STORE_FILES = ("twofold.json", "meta.json")
_LIKE_A_URL = re.compile(r"(https?:.*|[\w.-]+:\d{2,5}(/.*)?)")
_FOLDER_OPTIONS = {"durability", "optimize"}

Location: TypeAlias = str | Path | QdrantClient | AsyncQdrantClient


def connect(location: Location, *, create: bool, api_key: str | None, timeout: float, **options: Any) -> Connection:
    """Open a location. A URL takes an api_key, a timeout and the client's options, a folder the store's."""
    if isinstance(location, (AsyncQdrantClient, QdrantClient)) and (api_key is not None or options):
        given = sorted(options) if api_key is None else ["api_key", *sorted(options)]
        raise ConfigError(f"{', '.join(given)} can't be set on a client that is already there: leave it out")
    if isinstance(location, AsyncQdrantClient):
        return AsyncConnection(location, "your AsyncQdrantClient")
    if isinstance(location, QdrantClient):
        return SyncConnection(location, "your QdrantClient", owned=False)
    if not isinstance(location, (str, Path)) or not str(location).strip():
        raise ConfigError(
            f"location must be a path, ':memory:', a URL or a Qdrant client, got {type(location).__name__} {location!r}"
        )
    if str(location).startswith(("http://", "https://")):
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < 1e6:
            raise ConfigError(f"timeout must be a number of seconds above 0, got {timeout!r}")
        return RemoteConnection(str(location), timeout, {"api_key": api_key, **options})
    if _LIKE_A_URL.fullmatch(str(location)) and not Path(location).exists():
        raise ConfigError(f"{location!r} looks like the address of a server: write http:// or https:// before it")
    foreign = ({"api_key"} if api_key is not None else set()) | (set(options) - _FOLDER_OPTIONS)
    if foreign:
        raise ConfigError(f"{', '.join(sorted(foreign))} is for a URL, and {str(location)!r} is not one")
    return EmbeddedConnection(_embedded(location, create, options), str(location))


def _embedded(location: str | Path, create: bool, options: dict[str, Any]) -> EmbeddedClient:
    """An engine in this process, in memory or in a folder."""
    try:
        check_options(**options)
    except BadRequest as error:
        raise ConfigError(str(error)) from error
    if str(location) == ":memory:":
        return embedded_client(":memory:", **options)
    path = Path(location).expanduser()
    if path.exists() and not path.is_dir():
        raise ConfigError(f"{path} is a file: an index needs a folder of its own")
    if not create and not any((path / name).exists() for name in _STORE_FILES):
        raise CollectionNotFound(f"there is no index at {path}: check the path, or open it without create=False")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{path} can't be made into an index: {error.strerror}: choose another folder") from error
    with translated("open", str(path)):
        return embedded_client(path, **options)
