"""Where an index or a memory is: the options that say so, and opening it."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, get_origin

import typer

from twofold.errors import CollectionNotFound, ConfigError
from twofold.text import without_secrets

if TYPE_CHECKING:
    from twofold.index import HybridIndex
    from twofold.memory import Memory

DEFAULT_MEMORY_COLLECTION = "memories"

Collection: TypeAlias = Annotated[
    str, typer.Option("--collection", "-c", envvar="TWOFOLD_COLLECTION", help="The collection in it.")
]
ApiKey: TypeAlias = Annotated[str | None, typer.Option(envvar="TWOFOLD_API_KEY", help="For a server that wants one.")]
Model: TypeAlias = Annotated[
    str | None, typer.Option(help="fast, best, multilingual, or a fastembed name. Default: the collection's own.")
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def command_line(words: str, given: Mapping[str, Any], usual: Mapping[str, Any]) -> str:
    """A command to type, without the options that have their usual value."""
    options = [
        name if each is True else f"{name} {shlex.quote(without_secrets(str(each)))}"
        for name, value in given.items()
        if value and value != usual.get(name)
        for each in (value if isinstance(value, list) else [value])
    ]
    return " ".join(["twofold", words, *options])


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
    ] = "./index"
    collection: Collection = "twofold"
    model: Model = None
    api_key: ApiKey = None
    language: str | None = None

    @property
    def remote(self) -> bool:
        """Whether it is on a server."""
        return "://" in self.location

    @property
    def folder(self) -> Path | None:
        """The folder on this machine, None for a server and for :memory:."""
        return None if self.remote or self.location == ":memory:" else Path(self.location).expanduser()

    @property
    def shown(self) -> str:
        """The location for people to read."""
        return without_secrets(self.location)

    def command(self, words: str) -> str:
        """The command to type for this index."""
        given = {"--location": self.location, "--collection": self.collection}
        return command_line(words, given, {"--location": Target.location, "--collection": Target.collection})

    def open(self, *, create: bool = True) -> HybridIndex:
        """Open the index, or begin a new one; without `create` it must be there: looking for something makes none."""
        if self.location == ":memory:":
            raise ConfigError("an index in :memory: is gone when the command ends: give --location a folder or a URL")
        with self._must_exist("index", f"make one with `{self.command('add notes.md')}`", unless=create):
            from twofold.index import HybridIndex  # takes a second: what is wrong before this is said at once

            return HybridIndex.open(self.location, self.collection, create=create, **self._options)

    def open_memory(
        self, user: str, agent: str | None = None, *, projects: Sequence[str] = (), create: bool = True
    ) -> Memory:
        """Open a user's memories, or begin a new collection. Without `create`, it must be there."""
        with self._must_exist("memory", "remember something there first", unless=create):
            from twofold.memory import Memory

            options = {**self._options, "collection": self.collection, "create": create}
            return Memory.open(self.folder or self.location, user=user, agent=agent, projects=projects, **options)

    @property
    def _options(self) -> dict[str, Any]:
        key = self.api_key if self.remote else None  # a folder takes none
        return {"dense": self.model, "language": self.language, "api_key": key}

    @contextmanager
    def _must_exist(self, what: str, remedy: str, *, unless: bool) -> Iterator[None]:
        fix = f"{remedy}, or name another with --location or --collection"
        if not unless and self.folder is not None and not (self.folder.is_dir() and any(self.folder.iterdir())):
            raise CollectionNotFound(f"there is no {what} at {self.shown}: {fix}")
        try:
            yield
        except CollectionNotFound as error:
            there = f" (there are {', '.join(error.others)})" if error.others else ""
            raise CollectionNotFound(
                f"there is no collection {self.collection} at {self.shown}{there}: {fix}"
            ) from error
