"""From a location to an open engine: a folder, memory, a URL, or the user's own client.

`connect` looks at the location and opens the engine that serves it: `edge` for a folder or memory, `remote` for a URL,
`client` for a client that somebody brought. What flows need of any of them is a `Connection`; in what they differ
is declared in their `Capabilities`.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, TypeAlias

from qdrant_client import AsyncQdrantClient, QdrantClient

from twofold.engine.layout import OWN, Layout
from twofold.errors import ConfigError, IndexClosed
from twofold.flow import Call, Caller, Turns
from twofold.text import find_surrogate

Location: TypeAlias = str | Path | QdrantClient | AsyncQdrantClient

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_LOOKS_LIKE_A_URL = re.compile(r"(https?:.*|([^/@\s]+@)?[\w.-]+:\d{2,5}(/.*)?)", re.IGNORECASE)
_FOLDER_OPTIONS = {"durability", "optimize", "share"}
_MAX_TIMEOUT_SECONDS = 1e6


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What tells one engine from another."""

    versioned: bool
    """A server, whose version must be asked for."""
    indexes: bool
    """Has payload indexes and an HNSW graph; otherwise every search is exact."""
    optimizes: bool = False
    """Builds its search graph when it is told to, or when it pays; a server does so by itself."""
    backs_up: bool = False
    """Lies in a folder that can be copied while it is in use."""
    shared: bool = False
    """Others may write to it as well, so that what was read goes out of date."""
    near: bool = False
    """On this machine: to ask whether others wrote costs next to nothing."""
    corpus_idf: bool = True
    """Can be told in which part of a collection to count how rare a word is."""
    adds_vectors: bool = True
    """Can add a named vector to a collection that is there."""


class Connection(Caller):
    """An open way to an engine: `location` is for people to read, `store` is what connections to one have in common."""

    blocks = True
    async_only: ClassVar[bool] = False
    """Can only be awaited."""

    def __init__(self, location: str, capabilities: Capabilities, store: object = None) -> None:
        self.location = location
        self.capabilities = capabilities
        self.store = store or self
        self.closed = False

    async def acall(self, call: Call) -> Any:
        return await asyncio.to_thread(self.call, call)

    def new_lock(self, name: str) -> Turns:
        """A lock for those who work at this place: of this process, and of others where the place is a folder."""
        return Lock()

    def close(self) -> None:
        """Let go of what this connection opened. Closing twice is fine."""
        self.closed = True

    async def aclose(self) -> None:
        await asyncio.to_thread(self.close)

    def check_open(self) -> None:
        if self.closed:
            raise IndexClosed(f"the index on {self.location} is closed: open it again")


class _Laid(Caller):
    """A connection to collections whose rows have another layout than Twofold's own."""

    def __init__(self, caller: Caller, layout: Layout) -> None:
        self._caller = caller
        self._layout = layout
        self.blocks = caller.blocks

    def begin(self) -> Caller:
        return _Laid(self._caller.begin(), self._layout)

    def renew(self) -> None:
        self._caller.renew()

    def extend(self, seconds: float) -> None:
        self._caller.extend(seconds)

    def call(self, call: Call) -> Any:
        return self._caller.call(replace(call, layout=self._layout))

    async def acall(self, call: Call) -> Any:
        return await self._caller.acall(replace(call, layout=self._layout))


def laid(caller: Caller, layout: Layout) -> Caller:
    """What executes calls on collections whose rows have that layout."""
    return caller if layout is OWN else _Laid(caller, layout)


def connect(location: Location, *, create: bool, api_key: str | None, timeout: float, **options: Any) -> Connection:
    """Open a location. A URL takes an api_key and the client's options, a folder the store's, both a timeout."""
    given = {**({} if api_key is None else {"api_key": api_key}), **options}
    if isinstance(location, (AsyncQdrantClient, QdrantClient)):
        if given:
            raise ConfigError(
                f"{', '.join(sorted(given))} can't be set on a client that is already there: leave it out"
            )
        from twofold.engine import client

        if isinstance(location, AsyncQdrantClient):
            return client.AsyncConnection(location)
        return client.SyncConnection(location)
    text = _checked(location)
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < _MAX_TIMEOUT_SECONDS:
        raise ConfigError(f"timeout must be a number of seconds above 0, got {timeout!r}")
    if scheme := _SCHEME.match(text):
        if scheme[1].lower() not in ("http", "https"):
            raise ConfigError(
                f"{scheme[0]} leads to no engine: a server's address begins with http:// or https:// (for gRPC too, "
                "with prefer_grpc=True), and a folder is given as its path alone"
            )
        if not isinstance(options.get("prefer_grpc", False), bool):
            raise ConfigError(f"prefer_grpc must be True or False, got {type(options['prefer_grpc']).__name__}")
        from twofold.engine import remote

        return remote.RemoteConnection(scheme[0].lower() + text[scheme.end() :], timeout, given)
    if _LOOKS_LIKE_A_URL.fullmatch(text) and not Path(location).exists():
        name = repr(text.rpartition("@")[2])
        raise ConfigError(f"{name} looks like the address of a server: write http:// or https:// before it")
    if foreign := given.keys() - _FOLDER_OPTIONS:
        raise ConfigError(f"{', '.join(sorted(foreign))} is for a URL, and {text!r} is not one")
    from twofold.engine import edge

    return edge.EdgeConnection(location, create, timeout, options)


def _checked(location: Any) -> str:
    """A path or a URL as text."""
    if not isinstance(location, (str, Path)) or not str(location).strip():
        raise ConfigError(
            f"location must be a path, ':memory:', a URL or a Qdrant client, got {type(location).__name__} {location!r}"
        )
    text = str(location)
    if "\0" in text or find_surrogate(text) is not None:
        raise ConfigError(f"location has a NUL or half a character in it, got {text[:100]!r}: correct it")
    return text
