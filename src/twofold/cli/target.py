"""Where an index or a memory is: the options that say so, and opening it."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, get_origin

import typer

from twofold.errors import CollectionNotFound, ConfigError

if TYPE_CHECKING:
    from twofold.index import HybridIndex
    from twofold.memory import Memory

DEFAULT_LOCATION = "./index"
DEFAULT_COLLECTION = "twofold"
DEFAULT_MEMORY_COLLECTION = "memories"

Collection: TypeAlias = Annotated[
    str, typer.Option("--collection", "-c", envvar="TWOFOLD_COLLECTION", help="The collection in it.")
]
ApiKey: TypeAlias = Annotated[
    str | None,
    typer.Option("--api-key", envvar="TWOFOLD_API_KEY", show_envvar=True, help="For a server that wants one."),
]
Model: TypeAlias = Annotated[
    str | None,
    typer.Option("--model", help="Dense model, by fastembed name. Default: the collection's, or the bundled MiniLM."),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command as typer reads it: its first parameter, a dataclass of options, is given option by option.

    What has no `typer.Option` is no option. The command's own come after `collection`, which all such classes have.
    """
    first, *own = inspect.signature(command, eval_str=True).parameters.values()
    fields = inspect.signature(first.annotation, eval_str=True).parameters.values()
    shared = [each for each in fields if get_origin(each.annotation) is Annotated]
    place = [each.name for each in shared].index("collection") + 1

    @wraps(command)
    def called(**given: Any) -> None:
        chosen = {each.name: given.pop(each.name) for each in own}
        command(first.annotation(**given), **chosen)

    parameters = (*shared[:place], *own, *shared[place:])
    keywords = [each.replace(kind=each.KEYWORD_ONLY) for each in parameters]
    called.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    return called


@dataclass(frozen=True)
class Target:
    """An index or a memory, as the options name it."""

    location: Annotated[
        str,
        typer.Option("--location", "-l", envvar="TWOFOLD_LOCATION", help="A folder, or the URL of a Qdrant server."),
    ] = DEFAULT_LOCATION
    collection: Collection = DEFAULT_COLLECTION
    model: Model = None
    api_key: ApiKey = None
    language: str | None = None

    @property
    def remote(self) -> bool:
        """Whether it is on a server."""
        return self.location.startswith(("http://", "https://"))

    @property
    def folder(self) -> Path | None:
        """The folder on this machine, None for a server and for :memory:."""
        return None if self.remote or self.location == ":memory:" else Path(self.location).expanduser()

    def command(self, words: str) -> str:
        """The command to type for this index: without the options that have their usual value."""
        usual = (("--location", self.location, DEFAULT_LOCATION), ("--collection", self.collection, DEFAULT_COLLECTION))
        options = [f"{name} {shlex.quote(value)}" for name, value, default in usual if value != default]
        return " ".join(["twofold", words, *options])

    def open(self, *, create: bool = True) -> HybridIndex:
        """Open the index; by default, begin a new one if there is none."""
        if self.location == ":memory:":
            raise ConfigError("an index in :memory: is gone when the command ends: give --location a folder or a URL")
        from twofold.index import HybridIndex  # takes a second: what is wrong before this is said at once

        return HybridIndex.open(self.location, self.collection, **self._options(create))

    def open_existing(self) -> HybridIndex:
        """Open an index that must be there: looking for something creates nothing."""
        with self._must_exist("index", f"make one with `{self.command('add notes.md')}`"):
            return self.open(create=False)

    def open_memory(self, user: str, agent: str | None = None, *, create: bool = True) -> Memory:
        """Open a user's memories; by default, begin a new collection if there is none."""
        from twofold.memory import Memory

        location = self.folder or self.location
        return Memory.open(location, user=user, agent=agent, collection=self.collection, **self._options(create))

    def open_existing_memory(self, user: str) -> Memory:
        """Open memories that must be there; without a collection of another name, in the one that is usual for them."""
        usual = self.collection == DEFAULT_COLLECTION
        target = replace(self, collection=DEFAULT_MEMORY_COLLECTION) if usual else self
        with target._must_exist("memory", "remember something there first"):
            return target.open_memory(user, create=False)

    def _options(self, create: bool) -> dict[str, Any]:
        key = self.api_key if self.remote else None  # a folder takes none
        return {"dense": self.model, "language": self.language, "create": create, "api_key": key}

    @contextmanager
    def _must_exist(self, what: str, remedy: str) -> Iterator[None]:
        fix = f"{remedy}, or name another with --location or --collection"
        if self.folder is not None and not (self.folder.is_dir() and any(self.folder.iterdir())):
            raise CollectionNotFound(f"there is no {what} at {self.location}: {fix}")
        try:
            yield
        except CollectionNotFound as error:
            raise CollectionNotFound(f"there is no collection {self.collection} at {self.location}: {fix}") from error
