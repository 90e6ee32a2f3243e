"""What `twofold eval` and `twofold sweep` share: reading the questions, opening what they are put to."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from twofold.cli.console import err
from twofold.cli.opening import Target
from twofold.cli.options import DEFAULT_LOCATION
from twofold.eval.errors import EvaluationError
from twofold.ranking.fusion import resolve

if TYPE_CHECKING:
    from twofold.eval.data import Dataset

_NOT_SETTINGS = ("self", "query", "offset", "filter", "explain")


@dataclass(frozen=True)
class Asked:
    """An evaluation, as the options describe it."""

    data: str
    location: str | None
    collection: str
    same: str | None = None
    split: str | None = None
    sample: int | None = None
    language: str | None = None
    model: str | None = None
    api_key: str | None = None
    user: str | None = None
    """Whose memory is asked, instead of an index."""

    def load(self) -> Dataset:
        """The questions."""
        from twofold.eval.data import load

        data = load(self.data, same=self.same, split=self.split)
        return data if self.sample is None else data.sample(self.sample)

    def check(self, data: Dataset, parameters: Mapping[str, Sequence[Any]]) -> None:
        """Every parameter is one that the search takes: said before minutes are spent on embedding."""
        live, stored = _index_settings() if self.user is None else _memory_settings()
        for name in parameters:
            if name in stored and not self._own(data):
                raise EvaluationError(
                    f"{name} decides what an index stores: leave out --location and give a folder with corpus.jsonl"
                )
            if name not in (*live, *stored):
                hint = "" if self.user or name not in _memory_settings()[0] else ", or --user to ask a memory"
                raise EvaluationError(f"there is no parameter {name!r}: use {', '.join((*live, *stored))}{hint}")
        for fusion in parameters.get("fusion", ()):
            resolve(fusion)

    def _own(self, data: Dataset) -> bool:
        return self.location is None and bool(data.documents)

    @contextmanager
    def open(self, data: Dataset, progress: Callable[[int, int | None], None]) -> Iterator[Opened]:
        """What is at the location; without one, the documents that came with the questions, held in memory."""
        from twofold.eval import CorpusIndex, CorpusMemory

        if self._own(data):
            kind = CorpusIndex if self.user is None else CorpusMemory
            with kind(
                data.documents, dense=self.model, language=self.language or "english", progress=progress
            ) as corpus:
                yield Opened(corpus, None)
            return
        # Not an envvar of the option: an index that is usually searched must not replace the documents of the data.
        location = self.location or os.environ.get("TWOFOLD_LOCATION") or DEFAULT_LOCATION
        target = Target(location, self.collection, self.api_key, model=self.model)
        with target.open_existing() if self.user is None else target.open_memory(self.user) as opened:
            yield Opened(opened, lambda identity: getattr(opened.get(identity), "text", None))


def _index_settings() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What an index takes with a query, and what decides what it stores."""
    from twofold.eval.corpus import bm25_settings
    from twofold.index import HybridIndex

    return _takes(HybridIndex.search), bm25_settings()


def _memory_settings() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What a memory takes with a query or as a setting, and what decides what it stores."""
    from twofold.eval.corpus import bm25_settings
    from twofold.eval.corpus_memory import stored_settings
    from twofold.memory import Memory, MemoryConfig

    live = dict.fromkeys((*_takes(Memory.recall), *MemoryConfig.model_fields))
    return tuple(name for name in live if name not in stored_settings()), (*bm25_settings(), *stored_settings())


def _takes(function: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(name for name in inspect.signature(function).parameters if name not in _NOT_SETTINGS)


@dataclass(frozen=True)
class Wanted:
    """What to measure and what to write."""

    runs: list[str]
    k: int = 10
    metric: str = "ndcg"
    by: str | None = None
    html: Path | None = None
    plot: Path | None = None
    as_json: bool = False

    @property
    def metrics(self) -> tuple[str, ...]:
        """The usual ones, and the one that runs are compared by."""
        from twofold.eval.scoring import METRICS

        return tuple(dict.fromkeys((*METRICS, self.metric)))


@dataclass(frozen=True)
class Opened:
    """What is evaluated, and where texts of documents come from that no search found."""

    retriever: Any
    text_of: Callable[[str], str | None] | None


@contextmanager
def bar() -> Iterator[Callable[[str], Callable[[int, int | None], None]]]:
    """A progress bar on stderr whose parts follow one another; gives a function that begins the next part."""
    console = err()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:

        def begin(what: str) -> Callable[[int, int | None], None]:
            task = progress.add_task(what, total=None)
            return lambda done, total: progress.update(task, completed=done, total=total)

        yield begin


def write_outputs(wanted: Wanted, data: Dataset, result: Any, **options: Any) -> None:
    """The files that were asked for."""
    from twofold.eval import plot, write_report

    if wanted.html:
        write_report(wanted.html, data, result, metric=wanted.metric, by=wanted.by, **options)
    if wanted.plot:
        plot(result, wanted.plot, wanted.metric)


def say_written(wanted: Wanted) -> None:
    """Where the files are."""
    for path in (wanted.html, wanted.plot):
        if path:
            err().print(f"wrote {path}", soft_wrap=True)
