"""One definition, two methods: the same operation blocking and awaited."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeAlias, TypeVar

from twofold.config import CollectionSettings
from twofold.engine import calls
from twofold.engine.layout import initial_indexes
from twofold.errors import ConfigError, InvalidQuery
from twofold.flow import Flow
from twofold.index.hybrid import HybridIndex
from twofold.index.searching import Searcher
from twofold.index.writing import ProgressLike, reporting
from twofold.memory import forgetting, learning, listing, recall, remembering, turns, writing
from twofold.memory.config import KNOWLEDGE, MemoryConfig, changed, settle_config
from twofold.memory.items import MemoryItem, MemoryPage, MemoryResult, MemoryStats, Remembered, plain, several
from twofold.memory.layout import INDEXES, field_path
from twofold.memory.recall import Recall
from twofold.memory.scope import MEMORIES, Scope, Shelf
from twofold.memory.state import Keeper, Learned
from twofold.memory.turns import Turn
from twofold.ranking.fusion import FusionLike
from twofold.ranking.tuning import Pair

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient, QdrantClient

# --- One definition, two methods: the same operation blocking and awaited ---

P = ParamSpec("P")
T = TypeVar("T")
Op: TypeAlias = Callable[[Searcher], Flow[T]]
"""What a method does, once there is an open collection to do it on."""


def blocking(make: Callable[Concatenate[Memory, P], Op[T]]) -> Callable[Concatenate[Memory, P], T]:
    """The method that waits."""

    @functools.wraps(make)
    def method(self: Memory, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.index.perform(make(self, *args, **kwargs))

    _introduce(method, make, "")
    return method


def awaiting(make: Callable[Concatenate[Memory, P], Op[T]]) -> Callable[Concatenate[Memory, P], Coroutine[Any, Any, T]]:
    """The method that is awaited."""

    @functools.wraps(make)
    async def method(self: Memory, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.index.aperform(make(self, *args, **kwargs))

    _introduce(method, make, "a")
    return method


def _introduce(method: Any, make: Callable[..., Any], prefix: str) -> None:
    """Under its public name, with what it really returns."""
    name = make.__name__.lstrip("_")
    method.__name__, method.__qualname__ = f"{prefix}{name}", f"Memory.{prefix}{name}"
    make.__qualname__ = f"Memory.{name}"  # Python's own errors about arguments name it
    signature = inspect.signature(make)
    returned = str(signature.return_annotation).removeprefix("Op[").removesuffix("]")
    method.__signature__ = signature.replace(return_annotation=returned)
    if prefix:
        method.__doc__ = f"`{name}` without blocking the event loop."


# --- Opening a memory: settings, scope, and the indexes that its fields need ---

KINDS = ("memories", "knowledge")


@dataclass(frozen=True)
class Plan:
    """What is to be opened."""

    scope: Scope
    collection: str
    config: MemoryConfig
    settings: CollectionSettings


def plan_opening(
    user: str,
    agent: str | None,
    session: str | None,
    kind: str,
    collection: str | None,
    config: MemoryConfig | None,
    settings: CollectionSettings | None,
) -> Plan:
    """Check what was asked for, before anything is opened."""
    if kind not in KINDS:
        raise ConfigError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
    settled = settle_config(config, KNOWLEDGE if kind == "knowledge" else {})
    given = settings or CollectionSettings()
    declared = {field_path(name): index for name, index in settled.fields.items()}
    indexes = {**declared, **INDEXES, **given.payload_indexes}
    return Plan(
        Scope(user, agent, session), collection or kind, settled, given.model_copy(update={"payload_indexes": indexes})
    )


def complete(searcher: Searcher, settings: CollectionSettings) -> Flow[None]:
    """Create the indexes that a collection from before lacks."""
    ready = searcher.ready
    if not ready.engine.indexes:
        return
    for key, schema in initial_indexes(settings).items():
        if key not in ready.schema.indexed:
            yield from calls.create_index(ready.collection, key, schema, wait=True)


@contextmanager
def closed_on_error(index: HybridIndex) -> Iterator[None]:
    """An index that can't be used doesn't stay open."""
    try:
        yield
    except BaseException:
        index.close()
        raise


# --- The facade: every operation defined once, with a blocking and an awaited method ---

Kind = Literal["memories", "knowledge"]


class Memory:
    """What an agent remembers about its user and its work.

    Open one with `Memory.open`. It belongs to one user (and optionally to one agent and one session of theirs), and
    no operation reaches beyond that. Every method has an async twin with an `a` in front.
    """

    def __init__(self, keeper: Keeper, scope: Scope, kind: Kind) -> None:
        """Not for direct use: `open` and `aopen` build a memory."""
        self._keeper = keeper
        self._scope = scope
        self._kind = kind

    # --- opening and closing -------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        location: str | Path | QdrantClient | AsyncQdrantClient,
        *,
        user: str,
        agent: str | None = None,
        session: str | None = None,
        kind: Kind = "memories",
        collection: str | None = None,
        dense: Any = None,
        sparse: Any = None,
        language: str | None = None,
        config: MemoryConfig | None = None,
        settings: CollectionSettings | None = None,
        **options: Any,
    ) -> Memory:
        """Open a user's memories, and create the collection if it isn't there.

        Args:
            location: A folder, ":memory:", the URL of a Qdrant server, or a client of your own.
            user: Whose memories. Many users can share one collection: they never see each other's.
            agent: Only the memories of this agent.
            session: Only the memories of this session.
            kind: "memories" fade a little with age and rise with use, "knowledge" does neither.
            collection: The name of the collection; the kind by default.
            dense: The model for meaning, as for `HybridIndex.open`.
            sparse: The model for words.
            language: The language of the built-in BM25.
            config: How to recall when a call doesn't say otherwise.
            settings: How a new collection is laid out.
            options: Whatever else `HybridIndex.open` takes: `api_key`, `timeout`, `durability` ….
        """
        plan = plan_opening(user, agent, session, kind, collection, config, settings)
        index = HybridIndex.open(
            location, plan.collection, dense=dense, sparse=sparse, language=language, settings=plan.settings, **options
        )
        memory = cls(Keeper(index, plan.config).anew_for(plan.scope.user), plan.scope, kind)
        if not index.awaited_only:
            with closed_on_error(index):
                index.perform(lambda searcher: complete(searcher, plan.settings))
        return memory

    @classmethod
    async def aopen(
        cls,
        location: str | Path | QdrantClient | AsyncQdrantClient,
        *,
        user: str,
        agent: str | None = None,
        session: str | None = None,
        kind: Kind = "memories",
        collection: str | None = None,
        dense: Any = None,
        sparse: Any = None,
        language: str | None = None,
        config: MemoryConfig | None = None,
        settings: CollectionSettings | None = None,
        **options: Any,
    ) -> Memory:
        """`open` without blocking the event loop."""
        plan = plan_opening(user, agent, session, kind, collection, config, settings)
        index = await HybridIndex.aopen(
            location, plan.collection, dense=dense, sparse=sparse, language=language, settings=plan.settings, **options
        )
        with closed_on_error(index):
            await index.aperform(lambda searcher: complete(searcher, plan.settings))
        return cls(Keeper(index, plan.config).anew_for(plan.scope.user), plan.scope, kind)

    def for_user(self, user: str, *, agent: str | None = None, session: str | None = None) -> Memory:
        """Another user's view of the same store. Closing one view closes the store for all."""
        return Memory(self._keeper, Scope(user, agent, session), self._kind)

    def with_settings(self, **changes: Any) -> Memory:
        """The same memories, recalled with other settings of `MemoryConfig`, as `with_settings(recency_decay=0.0)`."""
        return Memory(self._keeper.reconfigured(changed(self.config, changes)), self._scope, self._kind)

    def knowledge(self, collection: str = "knowledge", *, config: MemoryConfig | None = None) -> Memory:
        """The knowledge beside these memories: the same place, models and scope, in a collection of its own."""
        plan = plan_opening(*self._whose(), "knowledge", collection, config, None)
        return Memory(self._keeper.beside(collection, plan.config, plan.settings), plan.scope, "knowledge")

    @property
    def index(self) -> HybridIndex:
        """The index underneath. It knows no users: what it finds is everybody's."""
        return self._keeper.index

    @property
    def config(self) -> MemoryConfig:
        """The settings in force."""
        return self._keeper.config

    @property
    def user(self) -> str:
        """Whose memories these are."""
        return self._scope.user

    @property
    def session(self) -> str | None:
        """The session that it was opened for, if it was."""
        return self._scope.session

    def close(self) -> None:
        """Write down what is pending and let go of the engine. Closing twice is fine."""
        self._keeper.close()

    async def aclose(self) -> None:
        """`close` without blocking the event loop."""
        await self._keeper.aclose()

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Memory:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<Memory of {self._scope} in {self.index!r}>"

    # --- storing -------------------------------------------------------------------------------

    def _remember(
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
    ) -> Op[Remembered]:
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
        written = writing.draft(text, _fields(locals(), _REMEMBERED))
        replaced = several(supersedes)
        return lambda s: remembering.remember(s, self._keeper, self._scope, written, self._usual_type, replaced)

    remember = blocking(_remember)
    aremember = awaiting(_remember)

    def remember_many(
        self, memories: Iterable[str | Mapping[str, Any]], *, progress: ProgressLike = False
    ) -> list[Remembered]:
        """Store many memories: texts, or mappings with `text` and the fields that `remember` takes.

        Near-duplicates are not looked for: among many that would take longer than storing them. `similar` finds them.
        """
        with reporting(memories, progress) as advance:
            return self.index.perform(
                lambda s: remembering.remember_many(s, self._keeper, self._scope, memories, self._usual_type, advance)
            )

    async def aremember_many(
        self, memories: Iterable[str | Mapping[str, Any]], *, progress: ProgressLike = False
    ) -> list[Remembered]:
        """`remember_many` without blocking the event loop."""
        with reporting(memories, progress) as advance:
            return await self.index.aperform(
                lambda s: remembering.remember_many(s, self._keeper, self._scope, memories, self._usual_type, advance)
            )

    def _remember_turns(
        self,
        turns_: Sequence[Turn | str | Mapping[str, Any]],
        *,
        session: str | None = None,
        source: str | None = None,
        trust: str | None = None,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Op[list[Remembered]]:
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
        scope = self._session_scope(session)
        checked = turns.as_turns(turns_)
        fields = {"source": source, "trust": trust, "tags": tags, "metadata": metadata}
        return lambda s: turns.remember_turns(s, self._keeper, scope, checked, fields)

    remember_turns = blocking(_remember_turns)
    aremember_turns = awaiting(_remember_turns)

    def _update(
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
    ) -> Op[MemoryItem]:
        """Change a memory and encode it anew. What is given replaces what was there; the rest stays.

        An empty list takes all tags away, an empty text the category or the source. The text of another memory is an
        error: it would be two memories that say the same.
        """
        changes = _fields(locals(), _UPDATED)
        return lambda s: remembering.update(s, self._keeper, self._scope, plain(id), text, changes)

    update = blocking(_update)
    aupdate = awaiting(_update)

    def _backfill(self) -> Op[int]:
        """Encode the memories and log lines that lack a vector, and say how many have all of theirs now.

        `stats()` counts those that lack one: they were written by another program, or before the collection had both.
        """
        return lambda s: remembering.backfill(s, self._keeper, self._scope)

    backfill = blocking(_backfill)
    abackfill = awaiting(_backfill)

    def _forget(
        self,
        ids: str | Sequence[str] | None = None,
        *,
        filter: Mapping[str, Any] | None = None,
        source: str | None = None,
        everything: bool = False,
    ) -> Op[int]:
        """Delete memories by id, by filter, all of one source, or everything of this user; says how many there were.

        It works on this collection alone: what the user has in `knowledge()` is forgotten by its own
        `knowledge().forget(everything=True)`. What a forgotten memory had superseded is there again.
        """
        return lambda s: forgetting.forget(s, self._keeper, self._scope, ids, filter, source, everything)

    forget = blocking(_forget)
    aforget = awaiting(_forget)

    # --- finding -------------------------------------------------------------------------------

    def _recall(
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
        signals: bool = True,
        touch: bool | None = None,
        explain: bool = False,
    ) -> Op[MemoryResult]:
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
            min_score: Leave out memories below this final score; 0 leaves out none. As configured if not given.
            since: Only memories created at this moment or later.
            until: Only memories created at this moment or earlier; a day counts to its end.
            min_trust: The least trust a memory may have: "web", "tool", "agent", "user" or "system".
            signals: False ranks by meaning and words alone.
            touch: Count this recall; as configured if not given.
            explain: Say for each hit where its score comes from.
        """
        asked = Recall(
            query, k, offset, types, tags, match, filter, alpha, fusion, depth, min_score, since, until, min_trust,
            explain, signals,
        )  # fmt: skip
        counts = self.config.touch if touch is None else touch
        return lambda s: recall.recall_and_touch(s, self._keeper, self._scope, asked, touch=counts)

    recall = blocking(_recall)
    arecall = awaiting(_recall)

    def _similar(self, id: str, k: int = 5) -> Op[MemoryResult]:
        """The memories nearest in meaning to one of them, by vector alone."""
        return lambda s: recall.similar(s, self._keeper, self._scope, plain(id), k)

    similar = blocking(_similar)
    asimilar = awaiting(_similar)

    def _around(self, id: str, *, before: int = 2, after: int = 2) -> Op[list[MemoryItem]]:
        """A turn of a conversation with those around it, in their order."""
        return lambda s: turns.around(s, self._scope, plain(id), before, after)

    around = blocking(_around)
    aaround = awaiting(_around)

    def _get(self, id: str) -> Op[MemoryItem | None]:
        """A memory by id; None if this user has none with it."""
        return lambda s: recall.get(s, self._keeper, self._scope, plain(id))

    get = blocking(_get)
    aget = awaiting(_get)

    def _list(
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
    ) -> Op[MemoryPage]:
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
        asked = Recall("", types=types, tags=tags, filter=filter, since=since, until=until)
        shelves: tuple[Shelf, ...] = MEMORIES if superseded else ("memory",)
        return lambda s: recall.listed(s, self._keeper, self._scope, shelves, asked, limit, after)

    list = blocking(_list)
    alist = awaiting(_list)

    def _stats(self, *, verify: bool = False) -> Op[MemoryStats]:
        """A user's memories in numbers; with `verify` every row is read and checked as well."""
        return lambda s: listing.stats(s.ready, self._scope, verify=verify)

    stats = blocking(_stats)
    astats = awaiting(_stats)

    # --- daily log -----------------------------------------------------------------------------

    def _log(
        self,
        text: str,
        *,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        source: str | None = None,
        trust: str | None = None,
        created: Any = None,
    ) -> Op[str]:
        """Write a line into the daily log. It is kept apart from the memories: `logs` finds it, `recall` doesn't."""
        written = writing.draft(text, _fields(locals(), _LOGGED))
        return lambda s: listing.log(s, self._keeper, self._scope, written)

    log = blocking(_log)
    alog = awaiting(_log)

    def _logs(
        self,
        query: str | None = None,
        *,
        day: Any = None,
        since: Any = None,
        until: Any = None,
        limit: int = 50,
        after: str | None = None,
    ) -> Op[MemoryPage]:
        """The daily log, newest first; with a query, the lines that have words of it.

        Args:
            query: Words to look for.
            day: One day, as a date or "2026-02-21".
            since: From this moment on.
            until: Up to this moment; a day counts to its end.
            limit: How many at most.
            after: The `next` of the page before.
        """
        return lambda s: listing.logs(s, self._keeper, self._scope, query, day, since, until, limit, after)

    logs = blocking(_logs)
    alogs = awaiting(_logs)

    # --- learning ------------------------------------------------------------------------------

    def _feedback(self, query: str, id: str, useful: bool = True) -> Op[None]:
        """Say whether a memory was useful for a query. `learn` makes use of it."""
        judgement = learning.Judgement(query, plain(id), useful)
        return lambda s: learning.feedback(s, self._keeper, self._scope, judgement)

    feedback = blocking(_feedback)
    afeedback = awaiting(_feedback)

    def _learn(self) -> Op[Learned | None]:
        """Adjust how much meaning, tags and age count for this user, from their feedback; None if there is none."""
        return lambda s: learning.learn(s, self._keeper, self._scope)

    learn = blocking(_learn)
    alearn = awaiting(_learn)

    def _judged(self) -> Op[Sequence[Pair]]:
        """What was useful for which query so far, as pairs for `index.tune`, which fits the collection for everyone.

        `memory.index.tune(memory.judged())` learns from one user; pairs of several users can be added together.
        """
        return lambda s: learning.judged(s, self._scope)

    judged = blocking(_judged)
    ajudged = awaiting(_judged)

    def _unlearn(self) -> Op[bool]:
        """Take back what was learned; the feedback stays. False if nothing was."""
        return lambda s: learning.unlearn(s, self._keeper, self._scope)

    unlearn = blocking(_unlearn)
    aunlearn = awaiting(_unlearn)

    def _flush(self) -> Op[None]:
        """Write down pending recall counts now, instead of in a moment."""
        return self._keeper.write_touches

    flush = blocking(_flush)
    aflush = awaiting(_flush)

    # --- inside --------------------------------------------------------------------------------

    @property
    def _usual_type(self) -> str:
        return "fact" if self._kind == "knowledge" else "note"

    def _whose(self) -> tuple[str, str | None, str | None]:
        return self._scope.user, self._scope.agent, self._scope.session

    def _session_scope(self, session: str | None) -> Scope:
        own = self._scope.session
        if session is None and own is None:
            raise InvalidQuery('turns belong to a session: say which, as remember_turns(…, session="2026-02-21")')
        if own is not None and session not in (None, own):
            raise InvalidQuery(f"this memory is that of session {own!r}: open another one for {session!r}")
        return Scope(self._scope.user, self._scope.agent, own or session)


_UPDATED = ("type", "category", "tags", "metadata", "source", "trust", "pinned", "importance")
_REMEMBERED = (*_UPDATED, "created")
_LOGGED = ("tags", "metadata", "source", "trust", "created")


def _fields(given: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: given[name] for name in names}
