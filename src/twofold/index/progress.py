"""Showing how far a long piece of work has come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

ProgressLike: TypeAlias = bool | Callable[[int, int | None], None]
Advance: TypeAlias = Callable[[int], None]


@contextmanager
def reporting(documents: object, progress: ProgressLike) -> Iterator[Advance]:
    """Turn (done, total) into what was asked for: nothing, a function's calls, or a bar."""
    total = len(documents) if isinstance(documents, Sequence) else None
    done = 0

    if progress is False:
        yield lambda count: None
    elif callable(progress):

        def report(count: int) -> None:
            nonlocal done
            done += count
            progress(done, total)

        yield report
    else:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("adding"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns) as bar:
            task = bar.add_task("adding", total=total)
            yield lambda count: bar.advance(task, count)
