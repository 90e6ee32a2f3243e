"""QdrantClient and AsyncQdrantClient over an embedded store, for packages that want one of these.

client = embedded_client("./store")                       # a QdrantClient; also ":memory:"
client.create_collection("notes", models.VectorParams(size=384, distance=models.Distance.COSINE))

Every public method is replaced by one that calls the function of the same name in `collections`, `reads` or `writes`.
Such a function names the arguments it uses: those of the method, `collection` for the collection that
`collection_name` means, `store` and `encoder`; its `**` takes all others that were given. What no function serves is
refused in words (`_INSTEAD`). `wait`, `ordering`, `consistency` and `timeout` mean nothing here: every call waits,
there is one replica, and a call in-process can't be lost on the way.

This is the only part of Twofold that depends on one minor version of qdrant-client: the next one may have methods,
arguments and models that are unknown here.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any, cast

_MADE_FOR = (1, 20)


def check_version(installed: str) -> None:
    """Refuse a qdrant-client that this client wasn't made for."""
    major, minor = _MADE_FOR
    if tuple(installed.split(".")[:2]) != (str(major), str(minor)):
        raise ImportError(
            f"embedded_client() is a QdrantClient of qdrant-client {major}.{minor}, and {installed} is installed: "
            f"`pip install 'qdrant-client>={major}.{minor},<{major}.{minor + 1}'`. HybridIndex and Memory work with "
            "the installed one."
        )


check_version(version("qdrant-client"))  # before anything is imported that another version may not have

from httpx import Headers  # noqa: E402
from qdrant_client import AsyncQdrantClient, QdrantClient, models  # noqa: E402
from qdrant_client.client_base import QdrantBase  # noqa: E402
from qdrant_client.fastembed_common import FastEmbedMisc  # noqa: E402
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse  # noqa: E402

from twofold.embedded.errors import (  # noqa: E402
    BadRequest,
    Conflict,
    EmbeddedError,
    NotFound,
    StoreClosed,
    StoreError,
    read_told,
)
from twofold.embedded.optimize import Progress, optimize  # noqa: E402
from twofold.embedded.sharing import Folder  # noqa: E402
from twofold.embedded.store import Durability, Optimizing, Options, Store  # noqa: E402
from twofold.errors import TwofoldError  # noqa: E402

from . import collections, reads, writes  # noqa: E402
from .joined import JoinedClient  # noqa: E402

_ASYNC_THREADS = 8
# Arguments that no `**` takes: they serve a network or a cluster, or have been looked at.
_NOT_PASSED_ON = {"wait", "ordering", "consistency", "timeout", "collection_name", "shard_key_selector"}
_CLUSTER = "A cluster has it: connect to one by URL."
# What to do instead of calling methods that have this in their names.
_INSTEAD_OF = {
    "snapshot": "Close the client and copy its directory, or call client.flush() and copy it while nothing writes; "
    "between stores use client.migrate(other).",
    "cluster": _CLUSTER,
    "_peer": _CLUSTER,
    "create_shard_key": "Use a payload field with a keyword index (is_tenant=True) and a filter.",
    "delete_shard_key": "Delete by a filter on the tenant's payload field.",
    "list_shard_keys": "Use facet on the tenant's payload field.",
    "get_optimizations": "Use client.optimize(collection, progress=…).",
}
_REQUESTS = [
    name
    for name, _ in inspect.getmembers(QdrantBase, inspect.isfunction)
    if not name.startswith("_") and name not in ("close", "migrate")  # which work on top of the others
]
_INSTEAD = {name: text for name in _REQUESTS for part, text in _INSTEAD_OF.items() if part in name}


# --- Errors that are also what a server's client raises ---


class ResponseError(EmbeddedError, UnexpectedResponse):  # type: ignore[misc]  # one of them may have no code
    """An error of the store with a status code and a body: what callers of QdrantClient catch."""

    def __init__(self, message: str) -> None:
        body = json.dumps({"status": {"error": message}}).encode("ascii")
        UnexpectedResponse.__init__(self, self.status_code, self.reason_phrase, body, Headers())
        self.args = (message,)

    def __str__(self) -> str:
        return str(self.args[0])


class BadRequestResponse(BadRequest, ResponseError):  # type: ignore[misc]
    """400."""


class NotFoundResponse(NotFound, ResponseError):  # type: ignore[misc]
    """404."""


class ConflictResponse(Conflict, ResponseError):  # type: ignore[misc]
    """409."""


_RESPONSES: dict[type, Any] = {BadRequest: BadRequestResponse, NotFound: NotFoundResponse, Conflict: ConflictResponse}


@contextmanager
def as_responses(bad: tuple[type[Exception], ...] = (ValueError, TypeError, OverflowError)) -> Iterator[None]:
    """The store's errors as a server's client raises them; the engine's own that say of a `bad` request among them."""
    try:
        yield
    except ResponseError:
        raise
    except UnexpectedResponse as error:  # of the process that holds the store
        raise _as_told(error) from None
    except ResponseHandlingException as error:
        if isinstance(error.source, TwofoldError):
            raise error.source from None
        raise
    except EmbeddedError as error:
        raise _RESPONSES.get(type(error), ResponseError)(str(error)) from error
    except bad as error:
        raise BadRequestResponse(str(error)) from error


def _as_told(error: UnexpectedResponse) -> ResponseError:
    kind = next((each for each in _RESPONSES.values() if each.status_code == error.status_code), ResponseError)
    told: ResponseError = kind(read_told(error.content))
    return told


# --- Requests ---


def _handlers() -> dict[str, tuple[Callable[..., Any], frozenset[str], bool]]:
    """The functions that serve methods of QdrantClient, the arguments each uses, and whether it takes all others."""
    handlers: dict[str, tuple[Callable[..., Any], frozenset[str], bool]] = {}
    for module in (collections, reads, writes, sys.modules[__name__]):
        for name, function in vars(module).items():
            if not name.startswith("_") and inspect.isfunction(function) and hasattr(QdrantBase, name):
                takes = inspect.getfullargspec(function)
                handlers[name] = function, frozenset(takes.args), takes.varkw is not None
    return handlers


def info() -> models.VersionInfo:
    """What serves this client."""
    return models.VersionInfo(title="qdrant-edge, embedded by twofold", version=version("qdrant-edge-py"))


def _method(name: str, declared: Callable[..., Any]) -> Callable[..., Any]:
    """What takes the place of a public method, with the same signature."""
    signature = inspect.signature(declared)
    declared_names = [each.name for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD][1:]
    defaults = {name: signature.parameters[name].default for name in declared_names}
    required = {name for name, default in defaults.items() if default is inspect.Parameter.empty}

    def arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        given = {**dict(zip(declared_names, args, strict=False)), **kwargs}
        unknown = given.keys() - defaults.keys()
        if unknown:
            raise AssertionError(f"Unknown arguments: {sorted(unknown)}")
        if len(given) < len(args) + len(kwargs) or required - given.keys():
            signature.bind(None, *args, **kwargs)  # says which is missing, given twice or one too many
        return {**defaults, **given}

    def method(self: EmbeddedClient, *args: Any, **kwargs: Any) -> Any:
        return self._serve(name, arguments(args, kwargs))

    async def async_method(self: AsyncEmbeddedClient, *args: Any, **kwargs: Any) -> Any:
        return await self._start(self._serve, name, arguments(args, kwargs))

    return functools.wraps(declared)(async_method if inspect.iscoroutinefunction(declared) else method)


# --- Clients ---


class _OverStore:
    """One client's share of a store. The base classes' constructors would open one of local mode, or a connection."""

    cloud_inference = False
    local_inference_batch_size: int | None = None

    def __init__(self, path: str | os.PathLike[str], options: Options | None = None) -> None:
        options = options or Options()
        self._init_options = {"path": os.fspath(path), "options": options}
        self._begin(Folder(path, options))

    def _begin(self, folder: Folder | Store) -> None:
        self._folder = folder
        self._encoder = reads.Encoder()
        self._released = False

    def get_embedding_size(self, model_name: str) -> int:
        """How long the vectors of a model are."""
        FastEmbedMisc.is_installed()  # the base classes' constructors find that out
        return int(super().get_embedding_size(model_name))  # type: ignore[misc]

    @property
    def store(self) -> Store:
        """The store, until this client is closed: others may have it open still. An error where others hold it."""
        store = self._held()
        if store is None:
            raise StoreError(f"{self._folder.path} is held by another process, and this client asks it.")
        return store

    def _held(self) -> Store | None:
        if self._released:
            raise StoreClosed(f"The client for {self._folder.path} is closed: open another with embedded_client(path).")
        return self._folder if isinstance(self._folder, Store) else self._folder.store

    @property
    def _joined(self) -> JoinedClient:
        """The way to the process that holds the store."""
        return cast(Folder, self._folder).client  # a store is always held

    @property
    def _client(self) -> Any:
        """What answers. langchain-qdrant and llama-index look here whether a client is one of local mode."""
        return self._held() or self._joined

    def _serve(self, name: str, arguments: dict[str, Any]) -> Any:
        """Carry out one method of QdrantClient."""
        if arguments.get("shard_key_selector") is not None:
            reads.refuse_shard_key()
        if name in _INSTEAD:
            raise NotImplementedError(f"{name} isn't available in the embedded engine. {_INSTEAD[name]}")
        store = self._held()
        if store is None:
            with as_responses():
                return getattr(self._joined, name)(**arguments)
        function, wants, takes_others = _HANDLERS[name]
        with as_responses():
            known = {**arguments, "store": store, "encoder": self._encoder}
            if "collection" in wants:
                known["collection"] = store.get(arguments["collection_name"])
            given = {name: value for name, value in known.items() if name in wants}
            if takes_others:
                others = arguments.keys() - wants - _NOT_PASSED_ON
                given.update({name: arguments[name] for name in others if arguments[name] is not None})
            answer = function(**given)
            return writes.completed(answer()) if callable(answer) else answer  # a write that is ready

    def _optimize(self, collection_name: str, progress: Progress | None) -> bool:
        with as_responses(bad=()):  # those are the progress function's
            store = self._held()
            if store is None:
                return self._joined.optimize(collection_name, progress)
            return optimize(store.get(collection_name), progress)

    def _flush(self) -> None:
        with as_responses():
            store = self._held()
            if store is None:
                self._joined.flush()
                return
            for collection in store.collections():
                collection.flush()

    def _close(self, *, wait: bool = True) -> None:
        if not self._released and not sys.is_finalizing():
            self._released = True
            (self._folder.release if wait else self._folder.forget)()

    def __del__(self) -> None:
        # asyncio can't be relied on here; a store left open would stay locked for other processes.
        if hasattr(self, "_released"):
            self._close(wait=False)  # as a finaliser must not


class EmbeddedClient(_OverStore, QdrantClient):  # type: ignore[override]  # _client can only be read
    """A QdrantClient whose server is a directory."""

    def close(self, grpc_grace: float | None = None, **kwargs: Any) -> None:
        """Let go of the store; the last client that does so closes it."""
        self._close()

    def optimize(self, collection_name: str, progress: Progress | None = None) -> bool:
        """Build the search index: queries on large collections become several times faster.

        Worth it from about 20,000 new points on. It takes minutes at 100,000; other threads go on reading and
        writing meanwhile. Kill it at any moment and the store is whole; call it again to start over.
        """
        return self._optimize(collection_name, progress)

    def flush(self) -> None:
        """Make every acknowledged write survive a power loss; durability="power" does so after each write."""
        self._flush()


class AsyncEmbeddedClient(_OverStore, AsyncQdrantClient):  # type: ignore[override]
    """An AsyncQdrantClient whose server is a directory. Each call runs in a thread, so that the event loop goes on."""

    _threads: ThreadPoolExecutor | None = None
    _pid: int | None = None  # of the process that has the threads
    _closed = False

    async def close(self, grpc_grace: float | None = None, **kwargs: Any) -> None:
        """As EmbeddedClient.close."""
        if not self._closed:
            closing = self._start(self._close)
            self._closed = True
            await closing
            if self._threads is not None:
                self._threads.shutdown(wait=False)

    async def optimize(self, collection_name: str, progress: Progress | None = None) -> bool:
        """As EmbeddedClient.optimize; `progress` is called from a worker thread."""
        return bool(await self._start(self._optimize, collection_name, progress))

    async def flush(self) -> None:
        """As EmbeddedClient.flush."""
        await self._start(self._flush)

    def _start(self, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        if self._closed:
            raise StoreClosed("This client is closed: open another with async_embedded_client(path).")
        if os.getpid() != self._pid:  # threads stay behind in a fork, and nobody would do the work
            self._threads, self._pid = ThreadPoolExecutor(_ASYNC_THREADS, thread_name_prefix="twofold"), os.getpid()
        return asyncio.get_running_loop().run_in_executor(self._threads, function, *args)


_HANDLERS = _handlers()
for _class in (EmbeddedClient, AsyncEmbeddedClient):
    for _name in _REQUESTS:
        setattr(_class, _name, _method(_name, getattr(_class, _name)))


def _options(durability: Durability, optimize: Optimizing, share: bool) -> Options:
    with as_responses():
        return Options(durability, optimize, share=share)


def embedded_client(
    path: str | os.PathLike[str],
    *,
    durability: Durability = "process",
    optimize: Optimizing = "auto",
    share: bool = True,
) -> EmbeddedClient:
    """Open, or make, the store at `path`; ":memory:" for one that vanishes at close.

    durability="process": an acknowledged write survives the death of this process, however it dies (the
    engine's log is written before the answer); what is idle for two seconds is on disk. durability="power":
    it survives a power loss too, at the cost of a disk flush, some 10 ms, per call.

    optimize="auto": a collection where 20,000 points and a fifth are new or rewritten, and that nobody has written to
    for five seconds, gets its search index built in the background, by a child process of low priority, with
    no pause for readers or writers. "manual": only client.optimize(collection) does.

    Clients on the same path in one process share the store. Other processes of this user on this machine join the one
    that holds it, and one of them takes over when it ends; with share=False they get StoreLocked instead.
    """
    return EmbeddedClient(path, _options(durability, optimize, share))


def async_embedded_client(
    path: str | os.PathLike[str],
    *,
    durability: Durability = "process",
    optimize: Optimizing = "auto",
    share: bool = True,
) -> AsyncEmbeddedClient:
    """The same for asyncio; a cancelled call still runs to its end."""
    return AsyncEmbeddedClient(path, _options(durability, optimize, share))


from .import_local import ImportProgress as ImportProgress  # noqa: E402  # it needs the above
from .import_local import import_local_store as import_local_store  # noqa: E402
