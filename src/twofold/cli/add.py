"""`twofold add`: read and check everything, then store it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from twofold.cli.console import err, out
from twofold.cli.opening import Target
from twofold.cli.sources import Reading, Source, find, read
from twofold.cli.texts import part_id
from twofold.documents import Document, check
from twofold.errors import InvalidDocument

if TYPE_CHECKING:
    from twofold.index import HybridIndex


def run(names: Sequence[str], target: Target, reading: Reading, batch_size: int) -> None:
    """Store what the names stand for."""
    sources = find(names, skip=target.folder)
    counts = {source: sum(1 for _ in _checked(source, reading)) for source in sources}
    documents = (document for source in sources for document in _checked(source, reading))
    with target.open() as index, _bar(sum(counts.values())) as progress:
        ids = index.add(documents, batch_size=batch_size, progress=progress)
        removed = _remove_leftovers(index, counts)
        total = index.count()
    _report(target, ids, len(sources), removed, total)


def _checked(source: Source, reading: Reading) -> Iterator[Document]:
    """Documents that can be stored; one that can't is an error that names its line.

    Sources are read twice, to check and to store: all is known to be right before the first write, and no file has to
    fit into memory.
    """
    for document, place in read(source, reading):
        try:
            next(check([document]))
        except InvalidDocument as error:
            reason = str(error).removeprefix("document 0: ")
            raise InvalidDocument(f"{place}: {reason}") from error
        yield document


def _remove_leftovers(index: HybridIndex, counts: Mapping[Source, int]) -> int:
    """Remove the parts that an earlier `add` stored of a text file that has become shorter."""
    ends = {source.root: count for source, count in counts.items() if source.kind in (".txt", ".md") and source.root}
    removed = 0
    while ends:
        following = {part_id(root, count + 1): root for root, count in ends.items()}
        stale = [document.id for document in index.get(list(following)) if document and document.id]
        removed += index.delete(stale) if stale else 0
        ends = {following[identity]: ends[following[identity]] + 1 for identity in stale}
    return removed


@contextmanager
def _bar(total: int) -> Iterator[Callable[[int, int | None], None]]:
    console = err()
    columns = (TextColumn("adding"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("adding", total=total)
        yield lambda done, _: bar.update(task, completed=done)


def _report(target: Target, ids: Sequence[str], sources: int, removed: int, total: int) -> None:
    distinct = len(set(ids))
    console = out()
    files = "1 source" if sources == 1 else f"{sources} sources"
    console.print(Text.assemble("stored ", (f"{distinct}", "bold green"), f" {_documents(distinct)} from {files}"))
    if len(ids) > distinct:
        console.print(f"{len(ids) - distinct} had the id or the text of another one and count once", style="dim")
    if removed:
        console.print(f"removed {removed} that their file no longer has", style="dim")
    where = f"{target.location}, collection {target.collection}"
    console.print(f"{total} {_documents(total)} in {where}", soft_wrap=True)
    console.print(Text.assemble("search: ", (target.command('search "your words"'), "bold")), soft_wrap=True)


def _documents(count: int) -> str:
    return "document" if count == 1 else "documents"
