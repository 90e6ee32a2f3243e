"""What is done to a collection as a whole, now and then: `HybridIndex` inherits it.

Like the methods of every day, each is here once blocking and once awaited, over the same flow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from twofold.flow import Closeable, Flow
from twofold.index import tuning, writing
from twofold.index.doctor import Diagnosis, examine
from twofold.index.repair import Repairs, repair
from twofold.index.searching import Searcher
from twofold.ranking.calibration import Calibration
from twofold.ranking.tuning import PairLike, Tuning, as_pairs
from twofold.results import IndexInfo

if TYPE_CHECKING:
    from twofold.config import SearchConfig
    from twofold.embedded import OptimizeProgress
    from twofold.engine.connection import Connection
    from twofold.index.opening import Wish

T = TypeVar("T")


class Upkeep(Closeable):
    """Telling about a collection, optimising it, fitting its ranking."""

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
