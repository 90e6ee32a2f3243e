"""`Memory`: the public face. Every operation is a flow, run by a pair of methods: one that blocks, one that awaits.

The flows stand in `writing`, `recall`, `listing` and `learning`; arguments are checked there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar

from twofold.config import CollectionSettings
from twofold.errors import ConfigError
from twofold.flow import Closeable, Flow, closed_on_error
from twofold.index.hybrid import HybridIndex
from twofold.index.searching import Searcher
from twofold.index.writing import ProgressLike
from twofold.memory import learning, listing, recall, writing
from twofold.memory.config import MemoryConfig, changed, settle
from twofold.memory.items import MemoryItem, MemoryPage, MemoryResult, MemoryStats, Remembered, given_to
from twofold.memory.recall import Recall
from twofold.memory.scope import Reach, Scope, users_in
from twofold.memory.state import Learned, MemoryStore, View
from twofold.memory.writing import Turn
from twofold.ranking.fusion import FusionLike
from twofold.ranking.tuning import Pair

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient, QdrantClient

P = ParamSpec("P")
T = TypeVar("T")
Kind = Literal["memories", "knowledge"]


class Memory(Closeable):
    """What an agent remembers about its user and its work.

    Open one with `Memory.open`. It belongs to one user (and optionally to one agent and one session of theirs), and
    no operation reaches beyond that. Every method has an async twin with an `a` in front.
    """

    def __init__(self, store: MemoryStore, reach: Reach, user: str, *, owner: bool = False) -> None:
        """Not for direct use: `open` and `aopen` build a memory."""
        self._store = store
        self._reach = reach
        self._user = user
        self._owner = owner

    def _run(self, operation: Callable[Concatenate[View, P], Flow[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the flow of an operation on this user's memories, blocking."""
        return self.index.perform(lambda searcher: operation(self._view(searcher), *args, **kwargs))

    async def _arun(self, operation: Callable[Concatenate[View, P], Flow[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """`_run` without blocking the event loop."""
        return await self.index.aperform(lambda searcher: operation(self._view(searcher), *args, **kwargs))

    def _view(self, searcher: Searcher) -> View:
        return View(searcher, self._store, self._reach, self._user)

    # --- opening and closing -------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        location: str | Path | QdrantClient | AsyncQdrantClient,
        *,
        user: str,
        agent: str | None = None,
        session: str | None = None,
        projects: str | Sequence[str] = (),
        general: bool = False,
        kind: Kind = "memories",
        collection: str | None = None,
        dense: Any = None,
        sparse: Any = None,
        language: str | None = None,
        config: MemoryConfig | None = None,
        settings: CollectionSettings | None = None,
        rerank: Any = None,
        **options: Any,
    ) -> Memory:
        """Open a user's memories, and create the collection if it isn't there.

        Args:
            location: A folder, ":memory:", the URL of a Qdrant server, or a client of your own.
            user: Whose memories. Many users can share one collection: they never see each other's.
            agent: Only the memories of this agent.
            session: Only the memories of this session.
            projects: Also see the memories of these projects, which all who open them share. `in_project` writes there.
            general: With an agent or a session: also see the user's memories that belong to none.
            kind: "memories" fade a little with age and rise with use, "knowledge" does neither.
            collection: The name of the collection; the kind by default.
            dense: The model for meaning, as for `HybridIndex.open`. Default: what the collection was written with, or
                "fast".
            sparse: The model for words.
            language: The language of the built-in BM25.
            config: How to recall when a call doesn't say otherwise.
            settings: How a new collection is laid out.
            rerank: Looks at the best memories of every recall once more, as for `HybridIndex.open`.
            options: Whatever else `HybridIndex.open` takes: `api_key`, `timeout`, `durability` ….
        """
        reach = Reach.of(user, agent, session, projects, general)
        config, settings = settle(kind, config, settings, rerank)
        options |= {"rerank": config.rerank}
        name = kind if collection is None else collection
        index = HybridIndex.open(
            location, name, dense=dense, sparse=sparse, language=language, settings=settings, **options
        )
        if not index.awaited_only:
            with closed_on_error(index):
                index.create_indexes(settings)
        return cls(MemoryStore(index, config, kind), reach, user, owner=True)._as_stored()

    @classmethod
    async def aopen(
        cls,
        location: str | Path | QdrantClient | AsyncQdrantClient,
        *,
        user: str,
        agent: str | None = None,
        session: str | None = None,
        projects: str | Sequence[str] = (),
        general: bool = False,
        kind: Kind = "memories",
        collection: str | None = None,
        dense: Any = None,
        sparse: Any = None,
        language: str | None = None,
        config: MemoryConfig | None = None,
        settings: CollectionSettings | None = None,
        rerank: Any = None,
        **options: Any,
    ) -> Memory:
        """`open` without blocking the event loop."""
        reach = Reach.of(user, agent, session, projects, general)
        config, settings = settle(kind, config, settings, rerank)
        options |= {"rerank": config.rerank}
        name = kind if collection is None else collection
        index = await HybridIndex.aopen(
            location, name, dense=dense, sparse=sparse, language=language, settings=settings, **options
        )
        with closed_on_error(index):
            await index.acreate_indexes(settings)
        return cls(MemoryStore(index, config, kind), reach, user, owner=True)._as_stored()

    def _as_stored(self) -> Memory:
        """As it was just opened: what this process knows of the user may be from before something else wrote."""
        for owner in self._reach.owners:
            self._store.shared.forget_vocabulary(owner)
        return self

    def for_user(
        self,
        user: str,
        *,
        agent: str | None = None,
        session: str | None = None,
        projects: str | Sequence[str] = (),
        general: bool = False,
    ) -> Memory:
        """Another user's view of the same store; it lists no `users`. Closing one view closes the store for all."""
        return Memory(self._store, Reach.of(user, agent, session, projects, general), user)

    def in_project(self, project: str) -> Memory:
        """One of the projects that this memory sees, by itself: what is stored there belongs to the project."""
        if not isinstance(project, str) or project not in self.projects:
            known = ", ".join(map(repr, self.projects)) or "none"
            advice = f"open it with projects=[{project!r}, …]"
            raise ConfigError(f"this memory does not see a project {project!r}, but {known}: {advice}")
        return Memory(self._store, Reach(Scope(None, project=project)), self._user)

    def with_general(self, general: bool = True) -> Memory:
        """The same memory, of an agent or a session, that sees the user's memories of none as well, or doesn't."""
        return Memory(self._store, self._reach.with_general(general), self._user, owner=self._owner)

    def with_settings(self, **changes: Any) -> Memory:
        """The same memories, recalled with other settings of `MemoryConfig`, as `with_settings(recency_decay=0.0)`."""
        store = self._store.with_config(changed(self.config, changes))
        return Memory(store, self._reach, self._user, owner=self._owner)

    def knowledge(self, collection: str = "knowledge", *, config: MemoryConfig | None = None) -> Memory:
        """The knowledge beside these memories: the same place, models and scope, in a collection of its own."""
        store = self._store.knowledge(collection, *settle("knowledge", config, None))
        return Memory(store, self._reach, self._user, owner=self._owner)

    @property
    def index(self) -> HybridIndex:
        """The index underneath. It knows no users: what it finds is everybody's."""
        return self._store.index

    @property
    def config(self) -> MemoryConfig:
        """The settings in force."""
        return self._store.config

    @property
    def user(self) -> str:
        """Whose memories these are; of a project's, who works with them."""
        return self._user

    @property
    def agent(self) -> str | None:
        """The agent that it was opened for, if it was."""
        return self._reach.own.agent

    @property
    def projects(self) -> tuple[str, ...]:
        """The projects whose memories it sees."""
        own = self._reach.own.project
        return self._reach.projects if own is None else (own,)

    @property
    def session(self) -> str | None:
        """The session that it was opened for, if it was."""
        return self._reach.own.session

    def close(self) -> None:
        """Write down what is pending and let go of the engine. Closing twice is fine."""
        self._store.close()

    async def aclose(self) -> None:
        """`close` without blocking the event loop."""
        await self._store.aclose()

    def __repr__(self) -> str:
        return f"<Memory of {self._reach} in {self.index!r}>"

    # --- storing -------------------------------------------------------------------------------

    def remember(
        self,
        text: str,
        *,
        type: str | None = None,
        category: str | None = None,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        source: str | None = None,
        trust: str | None = None,
        pinned: bool | None = None,
        importance: float | None = None,
        created: Any = None,
        supersedes: str | Sequence[str] = (),
    ) -> Remembered:
        """Store a memory. The same text again is the same memory, refreshed: tags and metadata are added to it.

        Args:
            text: What to remember.
            type: "note" if not given ("fact" for knowledge); anything that helps to tell memories apart.
            category: A broader word for what it is about.
            tags: Words to find it by. A query that names one of them ranks it higher.
            metadata: Whatever else is known, as JSON values. Filters can use it.
            source: Where it comes from: a file, a URL, a tool. `forget(source=…)` removes all of one source.
            trust: Who says so: "web", "tool", "agent", "user" (the default) or "system".
            pinned: Never fades, and ranks a little higher.
            importance: From 0 to 1; 0.5 is ordinary.
            created: When it was learned; now if not given.
            supersedes: Ids of memories that this one replaces: recall hides them, nothing is deleted.

        Returns:
            The id, a string that also says whether it `is_new`, and which memories are `similar`.
        """
        return self._run(writing.remember, text, given_to("remember", locals()), supersedes)

    async def aremember(
        self,
        text: str,
        *,
        type: str | None = None,
        category: str | None = None,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        source: str | None = None,
        trust: str | None = None,
        pinned: bool | None = None,
        importance: float | None = None,
        created: Any = None,
        supersedes: str | Sequence[str] = (),
    ) -> Remembered:
        """`remember` without blocking the event loop."""
        return await self._arun(writing.remember, text, given_to("remember", locals()), supersedes)

    def remember_many(
        self, memories: Iterable[str | Mapping[str, Any]], *, progress: ProgressLike = False
    ) -> list[Remembered]:
        """Store many memories: texts, or mappings with `text` and the fields that `remember` takes.

        Near-duplicates are not looked for: among many that would take longer than storing them. `similar` finds them.
        """
        return self._run(writing.remember_many, memories, progress)

    async def aremember_many(
        self, memories: Iterable[str | Mapping[str, Any]], *, progress: ProgressLike = False
    ) -> list[Remembered]:
        """`remember_many` without blocking the event loop."""
        return await self._arun(writing.remember_many, memories, progress)

    def remember_turns(
        self,
        turns_: Sequence[Turn | str | Mapping[str, Any]],
        *,
        session: str | None = None,
        source: str | None = None,
        trust: str | None = None,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> list[Remembered]:
        """Append turns of a conversation to its session. Each is found with a part of the turns around it.

        Args:
            turns_: `Turn`s, texts, or mappings as chat models have them (`role`, `content`). A turn that carries its
                time is stored once, however often it is given. Messages without text are left out.
            session: Which conversation; not needed if the memory was opened for one.
            source: Where it comes from.
            trust: Who says so, as for `remember`. If not given it follows from the role of each turn: "assistant" is
                an agent, "tool" a tool, "system" the system, and everybody else a user.
            tags: For all of the turns.
            metadata: For all of the turns.
        """
        return self._run(writing.remember_turns, turns_, session, given_to("remember_turns", locals()))

    async def aremember_turns(
        self,
        turns_: Sequence[Turn | str | Mapping[str, Any]],
        *,
        session: str | None = None,
        source: str | None = None,
        trust: str | None = None,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> list[Remembered]:
        """`remember_turns` without blocking the event loop."""
        return await self._arun(writing.remember_turns, turns_, session, given_to("remember_turns", locals()))

    def update(
        self,
        id: str,
        *,
        text: str | None = None,
        type: str | None = None,
        category: str | None = None,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        source: str | None = None,
        trust: str | None = None,
        pinned: bool | None = None,
        importance: float | None = None,
    ) -> MemoryItem:
        """Change a memory and encode it anew. What is given replaces what was there; the rest stays.

        An empty list takes all tags away, an empty text the category or the source. The text of another memory is an
        error: it would be two memories that say the same.
        """
        return self._run(writing.update, id, text, given_to("update", locals()))

    async def aupdate(
        self,
        id: str,
        *,
        text: str | None = None,
        type: str | None = None,
        category: str | None = None,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        source: str | None = None,
        trust: str | None = None,
        pinned: bool | None = None,
        importance: float | None = None,
    ) -> MemoryItem:
        """`update` without blocking the event loop."""
        return await self._arun(writing.update, id, text, given_to("update", locals()))

    def backfill(self) -> int:
        """Encode the memories and log lines that lack a vector, and say how many have all of theirs now.

        `stats()` counts those that lack one: they were written by another program, or before the collection had both.
        """
        return self._run(writing.backfill)

    async def abackfill(self) -> int:
        """`backfill` without blocking the event loop."""
        return await self._arun(writing.backfill)

    def backfill_all(self) -> int:
        """`backfill` for every user and every project in the store; as `users`, only for whoever opened it."""
        return self._owned().perform(lambda searcher: writing.backfill_all(self._view(searcher)))

    async def abackfill_all(self) -> int:
        """`backfill_all` without blocking the event loop."""
        return await self._owned().aperform(lambda searcher: writing.backfill_all(self._view(searcher)))

    def forget(
        self,
        ids: str | Sequence[str] | None = None,
        *,
        filter: Mapping[str, Any] | None = None,
        source: str | None = None,
        everything: bool = False,
    ) -> int:
        """Delete memories by id, by filter, all of one source, or everything of this user; says how many there were.

        By id it deletes whatever this memory sees, in the other ways what is the user's own: what is a project's is
        deleted by `in_project("apollo").forget(…)`. It works on this collection alone: what the user has in
        `knowledge()` is forgotten by its own `knowledge().forget(everything=True)`. What a forgotten memory had
        superseded is there again.
        """
        return self._run(listing.forget, ids, filter, source, everything)

    async def aforget(
        self,
        ids: str | Sequence[str] | None = None,
        *,
        filter: Mapping[str, Any] | None = None,
        source: str | None = None,
        everything: bool = False,
    ) -> int:
        """`forget` without blocking the event loop."""
        return await self._arun(listing.forget, ids, filter, source, everything)

    # --- finding -------------------------------------------------------------------------------

    def recall(
        self,
        query: str,
        k: int | None = None,
        *,
        offset: int = 0,
        types: Sequence[str] | str | None = None,
        tags: Sequence[str] | str | None = None,
        match: Literal["any", "all"] = "any",
        filter: Mapping[str, Any] | None = None,
        alpha: float | None = None,
        fusion: FusionLike | None = None,
        depth: int | None = None,
        min_score: float | None = None,
        since: Any = None,
        until: Any = None,
        min_trust: str | None = None,
        vector: Sequence[float] | None = None,
        signals: bool = True,
        rerank: Any = None,
        rerank_top: int | None = None,
        touch: bool | None = None,
        explain: bool = False,
    ) -> MemoryResult:
        """Find memories by meaning, by word, by tag and by time.

        Args:
            query: What to look for. An empty one finds nothing.
            k: How many at most; 10 unless configured.
            offset: How many of the best to skip, for the next page.
            types: Only memories of these types. An empty list filters nothing.
            tags: Only memories with these tags, however they are spelled. An empty list filters nothing, and also
                keeps the query's own words from being matched against tags.
            match: Whether "any" of the tags will do, or "all" are needed.
            filter: What a memory must fulfil, as {"category": "infra", "project": "rathole"}: a memory's own fields by
                their names, and those of your metadata by theirs.
            alpha: From 0, words and tags only, to 1, meaning only: the order of the cosines, without any signal.
            fusion: How meaning and words become one score.
            depth: How many candidates each leg brings.
            min_score: Leave out memories of less relevance, from 0 to 1; 0 leaves out none. As configured if not given.
            since: Only memories created at this moment or later.
            until: Only memories created at this moment or earlier; a day counts to its end.
            min_trust: The least trust a memory may have: "web", "tool", "agent", "user" or "system".
            vector: What meaning looks for, instead of the query's own vector; made with the model of the memory. The
                query may then be empty.
            signals: False ranks by meaning and words alone.
            rerank: Looks at the best once more, after the gate and all signals, as for `HybridIndex.open`; False leaves
                out the configured one.
            rerank_top: How many of the best it looks at.
            touch: Count this recall; as configured if not given.
            explain: Say for each hit where its score comes from.
        """
        request = {name: value for name, value in locals().items() if name != "self"}
        return self._run(recall.recall, Recall(**request))

    async def arecall(
        self,
        query: str,
        k: int | None = None,
        *,
        offset: int = 0,
        types: Sequence[str] | str | None = None,
        tags: Sequence[str] | str | None = None,
        match: Literal["any", "all"] = "any",
        filter: Mapping[str, Any] | None = None,
        alpha: float | None = None,
        fusion: FusionLike | None = None,
        depth: int | None = None,
        min_score: float | None = None,
        since: Any = None,
        until: Any = None,
        min_trust: str | None = None,
        vector: Sequence[float] | None = None,
        signals: bool = True,
        rerank: Any = None,
        rerank_top: int | None = None,
        touch: bool | None = None,
        explain: bool = False,
    ) -> MemoryResult:
        """`recall` without blocking the event loop."""
        request = {name: value for name, value in locals().items() if name != "self"}
        return await self._arun(recall.recall, Recall(**request))

    def similar(self, id: str | Sequence[float], k: int = 5) -> MemoryResult:
        """The memories nearest in meaning to one of them, or to a vector of the memory's model, by vector alone."""
        return self._run(listing.similar, id, k)

    async def asimilar(self, id: str | Sequence[float], k: int = 5) -> MemoryResult:
        """`similar` without blocking the event loop."""
        return await self._arun(listing.similar, id, k)

    def around(self, id: str, *, before: int = 2, after: int = 2) -> list[MemoryItem]:
        """A turn of a conversation with those around it, in their order."""
        return self._run(listing.around, id, before, after)

    async def aaround(self, id: str, *, before: int = 2, after: int = 2) -> list[MemoryItem]:
        """`around` without blocking the event loop."""
        return await self._arun(listing.around, id, before, after)

    def get(self, id: str) -> MemoryItem | None:
        """A memory by id; None if this user has none with it."""
        return self._run(listing.get, id)

    async def aget(self, id: str) -> MemoryItem | None:
        """`get` without blocking the event loop."""
        return await self._arun(listing.get, id)

    def list(
        self,
        *,
        limit: int = 50,
        after: str | None = None,
        types: Sequence[str] | str | None = None,
        tags: Sequence[str] | str | None = None,
        filter: Mapping[str, Any] | None = None,
        since: Any = None,
        until: Any = None,
        superseded: bool = False,
    ) -> MemoryPage:
        """Memories, newest first, a page at a time.

        Args:
            limit: How many at most.
            after: The `next` of the page before.
            types: Only memories of these types.
            tags: Only memories with one of these tags.
            filter: What a memory must fulfil, as for `recall`.
            since: Only memories created at this moment or later.
            until: Only memories created at this moment or earlier; a day counts to its end.
            superseded: Also those that newer memories have replaced.
        """
        request = Recall("", types=types, tags=tags, filter=filter, since=since, until=until)
        return self._run(listing.list_memories, request, limit, after, superseded)

    async def alist(
        self,
        *,
        limit: int = 50,
        after: str | None = None,
        types: Sequence[str] | str | None = None,
        tags: Sequence[str] | str | None = None,
        filter: Mapping[str, Any] | None = None,
        since: Any = None,
        until: Any = None,
        superseded: bool = False,
    ) -> MemoryPage:
        """`list` without blocking the event loop."""
        request = Recall("", types=types, tags=tags, filter=filter, since=since, until=until)
        return await self._arun(listing.list_memories, request, limit, after, superseded)

    def stats(self, *, verify: bool = False) -> MemoryStats:
        """A user's memories in numbers; with `verify` every row is read and checked as well."""
        return self._run(listing.stats, verify)

    async def astats(self, *, verify: bool = False) -> MemoryStats:
        """`stats` without blocking the event loop."""
        return await self._arun(listing.stats, verify)

    def users(self) -> dict[str, int]:
        """Everybody in the store, with the number of their memories; a view that `for_user` gave refuses."""
        return users_in(self._owned().values("shelf"))

    async def ausers(self) -> dict[str, int]:
        """`users` without blocking the event loop."""
        return users_in(await self._owned().avalues("shelf"))

    def _owned(self) -> HybridIndex:
        """The index underneath, for what only the owner of the store may ask."""
        if not self._owner:
            raise ConfigError(
                "a view that for_user() gave lists no users, and mends only its own: ask the memory that was opened"
            )
        return self.index

    # --- daily log -----------------------------------------------------------------------------

    def log(
        self,
        text: str,
        *,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        source: str | None = None,
        trust: str | None = None,
        created: Any = None,
    ) -> str:
        """Write a line into the daily log. It is kept apart from the memories: `logs` finds it, `recall` doesn't."""
        return self._run(listing.log, text, given_to("log", locals()))

    async def alog(
        self,
        text: str,
        *,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        source: str | None = None,
        trust: str | None = None,
        created: Any = None,
    ) -> str:
        """`log` without blocking the event loop."""
        return await self._arun(listing.log, text, given_to("log", locals()))

    def logs(
        self,
        query: str | None = None,
        *,
        day: Any = None,
        since: Any = None,
        until: Any = None,
        limit: int = 50,
        after: str | None = None,
    ) -> MemoryPage:
        """The daily log, newest first; with a query, the lines that have words of it.

        Args:
            query: Words to look for.
            day: One day, as a date or "2026-02-21".
            since: From this moment on.
            until: Up to this moment; a day counts to its end.
            limit: How many at most.
            after: The `next` of the page before.
        """
        return self._run(listing.logs, query, day, since, until, limit, after)

    async def alogs(
        self,
        query: str | None = None,
        *,
        day: Any = None,
        since: Any = None,
        until: Any = None,
        limit: int = 50,
        after: str | None = None,
    ) -> MemoryPage:
        """`logs` without blocking the event loop."""
        return await self._arun(listing.logs, query, day, since, until, limit, after)

    # --- learning ------------------------------------------------------------------------------

    def feedback(self, query: str, id: str, useful: bool = True) -> None:
        """Say whether a memory was useful for a query. `learn` makes use of it."""
        return self._run(learning.feedback, query, id, useful)

    async def afeedback(self, query: str, id: str, useful: bool = True) -> None:
        """`feedback` without blocking the event loop."""
        return await self._arun(learning.feedback, query, id, useful)

    def learn(self) -> Learned | None:
        """Adjust how much meaning, tags and age count for this user, from their feedback; None if there is none."""
        return self._run(learning.learn)

    async def alearn(self) -> Learned | None:
        """`learn` without blocking the event loop."""
        return await self._arun(learning.learn)

    def judged(self) -> Sequence[Pair]:
        """What was useful for which query so far: pairs for `index.tune`, and those of several users can be added."""
        return self._run(learning.judged)

    async def ajudged(self) -> Sequence[Pair]:
        """`judged` without blocking the event loop."""
        return await self._arun(learning.judged)

    def unlearn(self) -> bool:
        """Take back what was learned; the feedback stays. False if nothing was."""
        return self._run(learning.unlearn)

    async def aunlearn(self) -> bool:
        """`unlearn` without blocking the event loop."""
        return await self._arun(learning.unlearn)

    def flush(self) -> None:
        """Write down pending recall counts now, instead of in a moment."""
        return self._run(lambda view: self._store.counter.pending.write(view.searcher))

    async def aflush(self) -> None:
        """`flush` without blocking the event loop."""
        return await self._arun(lambda view: self._store.counter.pending.write(view.searcher))
