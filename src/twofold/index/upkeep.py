"""What is done to a collection as a whole, now and then: `HybridIndex` inherits it.

Like the methods of every day, each is here once blocking and once awaited, over the same flow.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from twofold.flow import Closeable, Flow
from twofold.index import rewriting, transfer, tuning, writing
from twofold.index.doctor import Diagnosis, examine
from twofold.index.queries import FilterLike
from twofold.index.repair import Repairs, repair
from twofold.index.searching import Searcher
from twofold.index.transfer import Imported, ScannedDocument
from twofold.ranking.calibration import Calibration
from twofold.ranking.tuning import PairLike, Tuning, as_pairs
from twofold.results import IndexInfo

if TYPE_CHECKING:
    from twofold.config import SearchConfig
    from twofold.embedded import OptimizeProgress
    from twofold.engine.connection import Connection
    from twofold.index.opening import Wish
    from twofold.index.rewriting import Rewritten

T = TypeVar("T")


class Upkeep(Closeable):
    """Telling about a collection, optimising it, taking it elsewhere, fitting its ranking."""

    _connection: Connection
    _wish: Wish
    _config: SearchConfig

    def perform(self, make: Callable[[Searcher], Flow[T]]) -> T:
        """Run a flow on the open collection, blocking. Not for direct use: `Memory` builds on it."""
        raise NotImplementedError

    async def aperform(self, make: Callable[[Searcher], Flow[T]]) -> T:
        """`perform` without blocking the event loop."""
        raise NotImplementedError

    def info(self) -> IndexInfo:
        """What the index is made of: models, legs, settings, number of documents."""
        return self.perform(lambda s: writing.info(s.ready, self._connection.location))

    async def ainfo(self) -> IndexInfo:
        """`info` without blocking the event loop."""
        return await self.aperform(lambda s: writing.info(s.ready, self._connection.location))

    def optimize(self, progress: Callable[[OptimizeProgress], None] | None = None) -> bool:
        """Build the search graph now, which makes searches of a large folder index several times faster.

        It happens by itself in quiet moments once it pays (unless opened with optimize="manual"), and a server does
        so on its own: then this does nothing and says False. Reading and writing go on meanwhile.
        """
        return self.perform(lambda s: writing.optimize(s.ready, progress))

    async def aoptimize(self, progress: Callable[[OptimizeProgress], None] | None = None) -> bool:
        """`optimize` without blocking the event loop; `progress` is called from a worker thread."""
        return await self.aperform(lambda s: writing.optimize(s.ready, progress))

    # --- other vectors -------------------------------------------------------------------------

    def adopt(
        self, *, in_place: bool | None = None, dry_run: bool = False, progress: writing.ProgressLike = False
    ) -> Rewritten:
        """Make a collection hybrid that has no words yet, or lacks some, whatever wrote it; and vouch for the model.

        Its rows get a sparse vector beside what they have, and whatever wrote them goes on reading them. Others may
        search meanwhile. If it is interrupted, calling it again goes on; called later, it gives words to the rows
        that came since.

        Args:
            in_place: True adds the vector to the collection as it stands, which takes a server from 1.18 on; False
                writes a new one beside it (see `reembed`). Default: in place where the engine can.
            dry_run: Change nothing, only say what would be done.
            progress: True for a progress bar, or a function that gets (done, total).
        """
        with writing.watching("adding words", progress) as advance:
            done = self.perform(lambda s: rewriting.adopt(s.ready, in_place=in_place, dry_run=dry_run, advance=advance))
        if not dry_run:
            self._reopen()
        return done

    async def aadopt(
        self, *, in_place: bool | None = None, dry_run: bool = False, progress: writing.ProgressLike = False
    ) -> Rewritten:
        """`adopt` without blocking the event loop."""
        with writing.watching("adding words", progress) as advance:
            done = await self.aperform(
                lambda s: rewriting.adopt(s.ready, in_place=in_place, dry_run=dry_run, advance=advance)
            )
        if not dry_run:
            await self._areopen()
        return done

    def reembed(
        self,
        dense: Any = None,
        *,
        sparse: Any = None,
        language: str | None = None,
        dry_run: bool = False,
        progress: writing.ProgressLike = False,
    ) -> Rewritten:
        """Make all vectors anew with another model, or with other settings of BM25.

        They are written into a new collection beside this one, which then takes its place under the same name; this
        index goes on with it. The old one is kept until `drop_replaced`. If it is interrupted, the same call goes on.

        Args:
            dense: The other model, as for `open`; None keeps the model and, if there is something else to do, its
                vectors.
            sparse: The other model for words, or other settings: a `BM25`.
            language: The other language of the built-in BM25.
            dry_run: Change nothing, only say what would be done.
            progress: True for a progress bar, or a function that gets (done, total).
        """
        with writing.watching("embedding", progress) as advance:
            done = self.perform(
                lambda s: rewriting.reembed(s.ready, dense, sparse, language, dry_run=dry_run, advance=advance)
            )
        if not dry_run:
            self._reopen(dense=dense, sparse=sparse, language=language)
        return done

    async def areembed(
        self,
        dense: Any = None,
        *,
        sparse: Any = None,
        language: str | None = None,
        dry_run: bool = False,
        progress: writing.ProgressLike = False,
    ) -> Rewritten:
        """`reembed` without blocking the event loop."""
        with writing.watching("embedding", progress) as advance:
            done = await self.aperform(
                lambda s: rewriting.reembed(s.ready, dense, sparse, language, dry_run=dry_run, advance=advance)
            )
        if not dry_run:
            await self._areopen(dense=dense, sparse=sparse, language=language)
        return done

    def drop_replaced(self) -> str | None:
        """Delete the collection that `reembed` or `adopt` replaced, and say its name; None if there is none.

        From then on its name is another name of the new one.
        """
        return self.perform(lambda s: rewriting.drop_replaced(s.ready))

    async def adrop_replaced(self) -> str | None:
        """`drop_replaced` without blocking the event loop."""
        return await self.aperform(lambda s: rewriting.drop_replaced(s.ready))

    def drop_unfinished(self) -> str | None:
        """Delete what a `reembed` or an `adopt` began and is not to finish, and say its name; None if there is none."""
        return self.perform(lambda s: rewriting.drop_unfinished(s.ready))

    async def adrop_unfinished(self) -> str | None:
        """`drop_unfinished` without blocking the event loop."""
        return await self.aperform(lambda s: rewriting.drop_unfinished(s.ready))

    def _reopen(self, **asked: Any) -> None:
        """The collection has other vectors now: look at it anew."""
        raise NotImplementedError

    async def _areopen(self, **asked: Any) -> None:
        raise NotImplementedError

    # --- out and in ----------------------------------------------------------------------------

    def scan(self, filter: FilterLike | None = None, *, vectors: bool = False) -> Iterator[ScannedDocument]:
        """Walk through every document, or those that match, a page at a time: none is held longer than that.

        They come in no particular order. What is there from the first to the last comes exactly once; what is written
        meanwhile may come or not. One that can't be read as it should be says so as its `problem`.

        Args:
            filter: What their metadata must fulfil, as for `search`.
            vectors: Bring along `dense` and `sparse`, as they are stored.
        """
        pages = transfer.Pages(filter, vectors)

        def walk() -> Iterator[ScannedDocument]:
            while pages.more:
                yield from self.perform(pages.next)

        return walk()

    def ascan(self, filter: FilterLike | None = None, *, vectors: bool = False) -> AsyncIterator[ScannedDocument]:
        """`scan` without blocking the event loop: for `async for`."""
        pages = transfer.Pages(filter, vectors)

        async def walk() -> AsyncIterator[ScannedDocument]:
            while pages.more:
                for document in await self.aperform(pages.next):
                    yield document

        return walk()

    def export_to(
        self, path: str | Path, *, filter: FilterLike | None = None, progress: writing.ProgressLike = False
    ) -> int:
        """Write everything into a file of JSON Lines, with vectors, and say how many documents there were.

        `import_from` reads it, into any folder, server or cluster, and embeds nothing anew. Memories are exported with
        all their fields, feedback and what was learned. The file is there when it is complete.

        Args:
            path: The file; compressed if its name ends in .gz.
            filter: Only what matches, as for `search`.
            progress: True for a progress bar, or a function that gets (done, None).
        """
        with writing.reporting(None, progress, "exporting") as advance:
            return self.perform(lambda s: transfer.export_from(s.ready, path, filter, advance))

    async def aexport_to(
        self, path: str | Path, *, filter: FilterLike | None = None, progress: writing.ProgressLike = False
    ) -> int:
        """`export_to` without blocking the event loop."""
        with writing.reporting(None, progress, "exporting") as advance:
            return await self.aperform(lambda s: transfer.export_from(s.ready, path, filter, advance))

    def import_from(
        self, path: str | Path, *, reembed: bool = False, progress: writing.ProgressLike = False
    ) -> Imported:
        """Store what `export_to` wrote, in place of documents with the same ids.

        The same file twice is the same as once, so an import that was interrupted is simply done again. A line that
        can't be used is named in `problems`, and all others are stored.

        Args:
            path: The file.
            reembed: Make new vectors from the texts with the models of this index. Without it, a file with vectors of
                other models is a `CollectionMismatch`.
            progress: True for a progress bar, or a function that gets (done, total).
        """
        file = transfer.ExportFile(path)
        with writing.reporting(range(file.header.documents), progress, "importing") as advance:
            return self.perform(lambda s: transfer.import_into(s, file, reembed, advance))

    async def aimport_from(
        self, path: str | Path, *, reembed: bool = False, progress: writing.ProgressLike = False
    ) -> Imported:
        """`import_from` without blocking the event loop."""
        file = await asyncio.to_thread(transfer.ExportFile, path)
        with writing.reporting(range(file.header.documents), progress, "importing") as advance:
            return await self.aperform(lambda s: transfer.import_into(s, file, reembed, advance))

    def backup(self, path: str | Path) -> dict[str, int]:
        """Copy the whole folder, with all its collections, while it is in use; says how many documents each has there.

        What was stored before this began is in the copy, which opens as any folder. Reading goes on meanwhile, writing
        waits while the files of its collection are copied.
        """
        return self.perform(lambda s: transfer.backup(s.ready.engine, path))

    async def abackup(self, path: str | Path) -> dict[str, int]:
        """`backup` without blocking the event loop."""
        return await self.aperform(lambda s: transfer.backup(s.ready.engine, path))

    # --- what is wrong with it ----------------------------------------------------------------

    def doctor(self) -> Diagnosis:
        """What is wrong with the collection, and what mends it: see docs/doctor.md. Nothing is written.

        Every row is read once, without its vectors, so it takes as long as an export of the texts.
        """
        return self.perform(self._examined)

    async def adoctor(self) -> Diagnosis:
        """`doctor` without blocking the event loop."""
        return await self.aperform(self._examined)

    def _examined(self, searcher: Searcher) -> Flow[Diagnosis]:
        ready = searcher.ready
        return examine(self._connection, [ready.collection], dense=ready.dense, settings=self._wish.settings)

    def repair(self, *, progress: writing.ProgressLike = False) -> Repairs:
        """Mend what can be mended in place: rows without words or without a vector get them, from their texts.

        A vector for words without the IDF modifier gets it, and parts the index that finds their neighbours. Texts,
        metadata and the vectors that are there stay as they are. Interrupted, it goes on when it is called again.

        Args:
            progress: True for a progress bar, or a function that gets (done, None).
        """
        with writing.reporting(None, progress) as advance:
            return self.perform(lambda s: repair(s.ready, advance))

    async def arepair(self, *, progress: writing.ProgressLike = False) -> Repairs:
        """`repair` without blocking the event loop."""
        with writing.reporting(None, progress) as advance:
            return await self.aperform(lambda s: repair(s.ready, advance))

    # --- fitting it to the collection ----------------------------------------------------------

    def tune(self, pairs: Iterable[PairLike], *, rerank: Any = None, progress: writing.ProgressLike = False) -> Tuning:
        """Find the fusion that suits this collection from queries whose answers are known, and keep it.

        It is judged by cross-validation, and only replaces the default where it is surely better. It is kept in the
        collection: whoever opens it searches with it, unless a call names another fusion or an alpha. `untune` undoes
        it.

        Args:
            pairs: (query, id or ids of the answers), or mappings with `query`, `relevant` and perhaps `filter`.
                Thirty are a start, a hundred are good. Those with the same query and filter count as one.
            rerank: A reranker to try on the pairs; the one of the index by default. Whether it pays is told, and
                nothing is switched on or off.
            progress: True for a progress bar, or a function that gets (done, total).
        """
        known = as_pairs(pairs)
        with writing.reporting(known, progress) as advance:
            return self.perform(lambda s: tuning.tune(s, self._config, known, rerank, advance))

    async def atune(
        self, pairs: Iterable[PairLike], *, rerank: Any = None, progress: writing.ProgressLike = False
    ) -> Tuning:
        """`tune` without blocking the event loop."""
        known = as_pairs(pairs)
        with writing.reporting(known, progress) as advance:
            return await self.aperform(lambda s: tuning.tune(s, self._config, known, rerank, advance))

    def calibrate(self) -> Calibration:
        """See from the collection itself what scores mean in it, whatever its model.

        Searches do that by themselves, at first and whenever a tenth of the collection has changed. This does it now,
        and tells what was seen: how near unrelated questions and texts are, and where an answer begins.
        """
        return self.perform(tuning.calibrate_collection)

    async def acalibrate(self) -> Calibration:
        """`calibrate` without blocking the event loop."""
        return await self.aperform(tuning.calibrate_collection)

    def untune(self) -> bool:
        """Forget what `tune` found. False if there is nothing to forget."""
        return self.perform(tuning.untune)

    async def auntune(self) -> bool:
        """`untune` without blocking the event loop."""
        return await self.aperform(tuning.untune)
