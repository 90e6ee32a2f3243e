"""`twofold export`, `import`, `backup` and `move`: everything out, in again, and to another place.

None of them loads a model, unless vectors are to be made anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from twofold.cli.console import OnProgress, complain, out, print_json, printable, progress_bar
from twofold.cli.target import DEFAULT_MEMORY_COLLECTION, ApiKey, AsJson, Model, Target
from twofold.text import without_secrets

if TYPE_CHECKING:
    from twofold.index.moving import Moved
    from twofold.index.transfer import ExportFile, Imported

_SHOWN_PROBLEMS = 20
_MEASURED_DOCUMENTS = 640
_MINUTE, _HOUR = 60, 3600
_WHY_ANSWERS_DIFFER = (
    "all documents are there, but not all answers are the same. On several shards, each counts by itself how rare "
    "a word is; otherwise look at it before you remove the folder"
)

Begin: TypeAlias = Callable[[str, int | None], OnProgress]
File: TypeAlias = Annotated[str, typer.Argument(metavar="FILE", help="JSON Lines; compressed if the name ends in .gz.")]
Location: TypeAlias = Annotated[
    str, typer.Option("--location", "-l", envvar="TWOFOLD_LOCATION", help="A folder, or the URL of a Qdrant server.")
]


def export(
    file: File,
    location: Location = Target.location,
    collection: Annotated[
        str, typer.Option("--collection", "-c", envvar="TWOFOLD_COLLECTION", help="The collection in it.")
    ] = Target.collection,
    as_json: AsJson = False,
    api_key: ApiKey = None,
) -> None:
    """Write a collection of documents or memories into a file, vectors and all."""
    from twofold.index.transfer import export_collection

    with progress_bar() as begin:
        number = export_collection(location, collection, file, api_key=api_key, progress=begin("exporting", None))
    if as_json:
        print_json({"file": file, "collection": collection, "documents": number})
    else:
        out().print(f"exported {number:,} documents of {collection} to {printable(file)}", soft_wrap=True)


def import_(
    file: File,
    location: Location = Target.location,
    collection: Annotated[
        str | None,
        typer.Option("--collection", "-c", envvar="TWOFOLD_COLLECTION", help="Default: as it was called before."),
    ] = None,
    reembed: Annotated[
        bool, typer.Option("--reembed", help="Make new vectors from the texts, with --model or the collection's own.")
    ] = False,
    model: Model = None,
    as_json: AsJson = False,
    api_key: ApiKey = None,
) -> None:
    """Store what `twofold export` wrote, in a folder or on a server. Doing it twice changes nothing."""
    from twofold.index.transfer import ExportFile, import_collection

    source = ExportFile(file)
    name = collection or source.header.collection
    if reembed:
        done = _import_anew(source, Target(location, name, model, api_key))
    else:
        with progress_bar() as begin:
            done = import_collection(location, source, name, api_key=api_key, progress=begin("importing", None))
    if as_json:
        problems = {each.id: each.reason for each in done.problems}
        print_json({"file": file, "collection": name, "documents": done.documents, "problems": problems})
    else:
        out().print(f"imported {done.documents:,} documents into {name} on {without_secrets(location)}", soft_wrap=True)
    for problem in done.problems[:_SHOWN_PROBLEMS]:
        complain(problem.id, problem.reason, "bold red")
    if (more := len(done.problems) - _SHOWN_PROBLEMS) > 0:
        complain("and", f"{more:,} more lines that could not be used: --json names all", "bold red")
    if done.problems:
        raise typer.Exit(1)


def _import_anew(source: ExportFile, target: Target) -> Imported:
    """With vectors made here; those of memories are made of what a memory knows of itself."""
    with progress_bar() as begin:
        report = begin("embedding", None)
        if not source.header.memories:
            with target.open() as index:
                return index.import_from(source.path, reembed=True, progress=report)
        with target.open_memory(DEFAULT_MEMORY_COLLECTION) as memory:
            done = memory.index.import_from(source.path, reembed=True, progress=report)
            memory.backfill_all()
            return done


def backup(
    folder: Annotated[str, typer.Argument(help="The folder to copy.")],
    target: Annotated[str, typer.Argument(help="A new folder for the copy.")],
    as_json: AsJson = False,
) -> None:
    """Copy a folder with all its collections."""
    from twofold.index.transfer import back_up

    copied = back_up(folder, target)
    if as_json:
        print_json({"folder": folder, "target": target, "collections": copied})
        return
    for name, number in copied.items():
        out().print(f"{printable(name)}: {number:,} documents", soft_wrap=True)
    out().print(f"copied to {printable(target)}, which opens as any folder", soft_wrap=True)


def move(
    folder: Annotated[str, typer.Argument(help="Where the collections are.")],
    url: Annotated[str, typer.Argument(help="The Qdrant server that they move to.")],
    collections: Annotated[
        list[str] | None, typer.Option("--collection", "-c", help="Only this one; may be repeated. Default: all.")
    ] = None,
    as_json: AsJson = False,
    api_key: ApiKey = None,
) -> None:
    """Move a folder's documents and memories to a server. Killed, it goes on when it is started again."""
    from dataclasses import asdict

    from twofold.index.moving import move as move_collections

    done: list[Moved] = []
    with progress_bar() as begin:
        report = _Estimates(begin)
        for moved in move_collections(folder, url, collections=collections or (), api_key=api_key, on_progress=report):
            done.append(moved)
            if not as_json:
                _tell(moved)
    if as_json:
        print_json({"folder": folder, "url": without_secrets(url), "collections": [asdict(each) for each in done]})
    else:
        _tell_what_to_change(folder, url, done)
    if any(each.left or each.alike < each.questions for each in done):
        raise typer.Exit(1)


class _Estimates:
    """Says how long a collection will take as soon as some batches are there, then how far it is."""

    def __init__(self, begin: Begin) -> None:
        self._begin = begin
        self._bars: dict[str, OnProgress] = {}
        self._first = (0, 0.0)
        """How much was there after the first batch, which is slower than the others, and when."""

    def __call__(self, collection: str, done: int, total: int) -> None:
        if collection in self._bars:
            return self._bars[collection](done, total)
        if not done or not self._first[0]:
            self._first = (done, time.monotonic())
        if done >= min(total, _MEASURED_DOCUMENTS):
            number, since = self._first
            seconds = (time.monotonic() - since) * (total - done) / max(done - number, 1)
            complain("moving", f"{collection}: {total:,} documents, about {_duration(seconds)}", "bold")
            self._bars[collection] = self._begin(f"moving {collection}", total)
        return None


def _duration(seconds: float) -> str:
    if seconds < 2 * _MINUTE:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / _MINUTE)} min" if seconds < 2 * _HOUR else f"{seconds / _HOUR:.1f} h"


def _tell(moved: Moved) -> None:
    """One collection, as it is there now."""
    name = printable(moved.collection)
    if moved.left:
        complain("left", f"{name}: {moved.left}", "bold yellow")
        return
    if moved.replaced_by:
        out().print(f"{name}: {printable(moved.replaced_by)} has taken its place, and is moved", soft_wrap=True)
        return
    sent = "all of them sent" if moved.sent == moved.documents else f"{moved.sent:,} sent, the others were there"
    out().print(f"{name}: {moved.documents:,} documents in both places ({sent})", soft_wrap=True)
    out().print(f"  {moved.alike} of {moved.questions} questions get the same answer from both", soft_wrap=True)
    if moved.alike < moved.questions:
        complain("differs", f"{name}: {_WHY_ANSWERS_DIFFER}", "bold yellow")


def _tell_what_to_change(folder: str, url: str, done: list[Moved]) -> None:
    """The lines of code to change, as they will be."""
    console, shown = out(), without_secrets(url)
    arrived = [each for each in done if not each.left and not each.replaced_by]
    if not arrived:
        console.print("nothing was moved")
        return
    console.print("\nIn your code, only the location changes:", style="bold")
    for each in arrived:
        opened, usual, more = "HybridIndex.open", "twofold", ""
        if each.memories:
            opened, usual, more = "Memory.open", DEFAULT_MEMORY_COLLECTION, ", user=…"
        named = "" if each.collection == usual else f", collection={each.collection!r}"
        console.print(f"  {opened}({folder!r}{named}{more})  becomes", soft_wrap=True)
        console.print(f"  {opened}({shown!r}{named}{more})", soft_wrap=True)
    console.print(f"with api_key=… where the server wants one. {printable(folder)} is as it was:", soft_wrap=True)
    console.print("remove it when nothing uses it any more.", soft_wrap=True)
