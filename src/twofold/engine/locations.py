"""From a location to a connection: a path, memory, a URL, or the user's own client."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

from qdrant_client import AsyncQdrantClient, QdrantClient

from twofold.engine.connection import AsyncConnection, Connection, SyncConnection, local_client
from twofold.engine.remote import RemoteConnection
from twofold.errors import ConfigError

Location: TypeAlias = str | Path | QdrantClient | AsyncQdrantClient


def connect(location: Location, *, create: bool, api_key: str | None, timeout: float, **options: Any) -> Connection:
    """Open a location. Only a URL takes an api_key, a timeout and further client options."""
    if isinstance(location, AsyncQdrantClient):
        return AsyncConnection(location, "your AsyncQdrantClient")
    if isinstance(location, QdrantClient):
        return SyncConnection(location, "your QdrantClient", owned=False)
    if not isinstance(location, (str, Path)) or not str(location).strip():
        raise ConfigError(
            f"location must be a path, ':memory:', a URL or a Qdrant client, got {type(location).__name__} {location!r}"
        )
    if str(location).startswith(("http://", "https://")):
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0:
            raise ConfigError(f"timeout must be a number of seconds above 0, got {timeout!r}")
        return RemoteConnection(str(location), timeout, {"api_key": api_key, **options})
    if api_key is not None or options:
        raise ConfigError(f"api_key and client options are for a URL, and {str(location)!r} is not one")
    return SyncConnection(local_client(location, create), str(location), owned=True)
