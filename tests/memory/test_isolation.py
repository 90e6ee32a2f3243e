"""Nobody sees, changes or deletes what belongs to somebody else, whatever is called with whatever id.

Random calls of every public method by users with confusable names, against a plain table of who owns what.
TWOFOLD_ISOLATION_OPERATIONS sets how many, about (10,000 for a thorough run).
"""

from __future__ import annotations

import asyncio
import inspect
import os
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, precondition, rule

from tests.memory.faces import MemoryFace, Opener
from twofold import ConfigError, InvalidDocument, InvalidQuery, Memory, MemoryNotFound, embedded_client
from twofold.testing import HashEmbedding

OPERATIONS = int(os.environ.get("TWOFOLD_ISOLATION_OPERATIONS", "200"))
STEPS = 50
THOROUGH = 5_000

USERS = ("1", "12", "a.b", "*", "%", "x\ny", "Ada", "ada", "memory:1", "superseded:memory:1")
# (agent, session): a view without an agent sees those of all agents.
NARROW = ((None, None), ("a", None), ("b", None), (None, "s"), ("a", "s"))
TEXTS = tuple(f"{what} number {n}" for what in ("tunnel", "cache", "gateway") for n in range(4))
TAGS = ("infra", "a.b", "*", "Ada")

EXERCISED = {
    "remember", "remember_many", "remember_turns", "recall", "get", "update", "forget", "list", "similar", "around",
    "log", "logs", "stats", "backfill", "feedback", "judged", "learn", "unlearn", "flush", "for_user",
    "with_settings", "in_project", "with_general",
}  # fmt: skip
NOT_ABOUT_ROWS = {"open", "aopen", "close", "aclose", "knowledge", "users", "ausers", "backfill_all", "abackfill_all"}


def test_every_public_method_is_exercised() -> None:
    methods = {name for name in dir(Memory) if not name.startswith("_") and callable(getattr(Memory, name))}
    public = methods - NOT_ABOUT_ROWS
    twins = {name for name in public if name[:1] == "a" and name[1:] in public}
    assert public - twins == EXERCISED
    assert twins == {f"a{name}" for name in EXERCISED - {"for_user", "with_settings", "in_project", "with_general"}}
    for name in twins:
        assert inspect.iscoroutinefunction(getattr(Memory, name))


def test_every_async_method_is_its_blocking_twin_without_blocking() -> None:
    methods = {name for name, method in vars(Memory).items() if not name.startswith("_") and callable(method)}
    pairs = {name for name in {*methods, "open"} if f"a{name}" in {*methods, "aopen"}}
    assert {"open", "close", "remember", "recall", "list"} <= pairs
    for name in pairs:
        blocking, awaited = getattr(Memory, name), getattr(Memory, f"a{name}")
        assert inspect.signature(blocking) == inspect.signature(awaited)
        assert awaited.__doc__ == f"`{name}` without blocking the event loop."
        assert blocking.__doc__


def test_the_first_frame_of_an_error_is_the_method_that_was_called(open_here: Opener) -> None:
    memory = open_here().memory
    with pytest.raises(InvalidDocument) as raised:
        memory.remember("")
    assert raised.traceback[1].name == "remember"
    with pytest.raises(MemoryNotFound) as raised_async:
        asyncio.run(memory.aupdate("7a4e1a5e-0000-4000-8000-000000000000", text="x"))
    home = str(Path(inspect.getfile(Memory)).parent)
    library = [frame.name for frame in raised_async.traceback if str(frame.path).startswith(home)]
    assert library[0] == "aupdate"


users = st.sampled_from(USERS)
narrow = st.sampled_from(NARROW)
texts = st.sampled_from(TEXTS)
awaited = st.booleans()
some_tags = st.lists(st.sampled_from(TAGS), max_size=2, unique=True)

CLIENT = embedded_client(":memory:")
LOOP = asyncio.new_event_loop()
_runs = iter(range(1_000_000))
done = 0


class Owner:
    """Who stands behind a row."""

    def __init__(self, whose: tuple[Any, ...], shelf: str, text: str) -> None:
        self.user, self.agent, self.session = whose
        self.shelf, self.text = shelf, text
        self.by: str | None = None
        self.turn = False

    def within(self, user: str, agent: str | None, session: str | None) -> bool:
        return self.user == user and agent in (None, self.agent) and session in (None, self.session)


class Isolation(RuleBasedStateMachine):
    """Each run has users of its own in one collection, so that the rows of earlier runs are in the way as well."""

    ids = Bundle("ids")

    def __init__(self) -> None:
        super().__init__()
        self.run = next(_runs)
        self.memory = Memory.open(CLIENT, user="nobody", dense=HashEmbedding())
        self.owners: dict[str, Owner] = {}

    def teardown(self) -> None:
        self.memory.close()

    # --- how a view is called ----------------------------------------------------------------

    def view(self, user: str, narrower: tuple[str | None, str | None]) -> Memory:
        return self.memory.for_user(self.name(user), agent=narrower[0], session=narrower[1])

    def name(self, user: str) -> str:
        """Of this run alone, and as confusable as before: one user is still called what another's rows are labelled."""
        before, colon, own = user.rpartition(":")
        return f"{before}{colon}{self.run:06}{own}"

    def call(self, view: Memory, asynchronous: bool, method: str, *args: Any, **kwargs: Any) -> Any:
        global done
        done += 1
        if asynchronous:
            return LOOP.run_until_complete(getattr(view, f"a{method}")(*args, **kwargs))
        return getattr(view, method)(*args, **kwargs)

    def owns(self, who: tuple[Any, ...], identity: str, *shelves: str) -> bool:
        owner = self.owners.get(str(identity))
        return owner is not None and owner.within(*who) and owner.shelf in shelves

    def own(self, who: tuple[Any, ...], *shelves: str) -> set[str]:
        return {i for i in self.owners if self.owns(who, i, *shelves)}

    def wrote(self, who: tuple[Any, ...], ids: list[Any], said: list[str], shelf: str = "memory") -> Any:
        for identity, text in zip(ids, said, strict=True):
            known = self.owners.get(str(identity))
            assert known is None or (known.user, known.agent, known.session) == who, "an id of somebody else"
            self.owners[str(identity)] = Owner(who, shelf, text)
        return multiple(*ids)

    def check_items(self, who: tuple[Any, ...], items: Any, *shelves: str) -> None:
        for item in items:
            assert self.owns(who, item.id, *shelves), f"{who} was shown {item}"
            assert item.user == who[0]
            assert item.text == self.owners[item.id].text

    # --- storing -----------------------------------------------------------------------------

    @rule(target=ids, user=users, where=narrow, text=texts, tags=some_tags, a=awaited)
    def remember(self, user: str, where: Any, text: str, tags: list[str], a: bool) -> Any:
        who = (self.name(user), *where)
        found = self.call(self.view(user, where), a, "remember", text, tags=tags, source=text[:3], metadata={"n": 1})
        for each in found.similar:
            assert self.owns(who, each.id, "memory")
        return self.wrote(who, [found], [text])

    @rule(target=ids, user=users, where=narrow, said=st.lists(texts, min_size=1, max_size=3), a=awaited)
    def remember_many(self, user: str, where: Any, said: list[str], a: bool) -> Any:
        who = (self.name(user), *where)
        return self.wrote(who, self.call(self.view(user, where), a, "remember_many", said), said)

    @rule(target=ids, user=users, where=narrow, said=st.lists(texts, min_size=1, max_size=3), a=awaited)
    def remember_turns(self, user: str, where: Any, said: list[str], a: bool) -> Any:
        who = (self.name(user), where[0], where[1] or "t")
        found = self.call(self.view(user, where), a, "remember_turns", said, session=where[1] or "t")
        told = self.wrote(who, found, said)
        for identity in found:
            self.owners[str(identity)].turn = True
        return told

    @rule(target=ids, user=users, where=narrow, text=texts, a=awaited)
    def log(self, user: str, where: Any, text: str, a: bool) -> Any:
        who = (self.name(user), *where)
        return self.wrote(who, [self.call(self.view(user, where), a, "log", text)], [text], "log")

    @rule(target=ids, user=users, where=narrow, text=texts, old=ids, a=awaited)
    def supersede(self, user: str, where: Any, text: str, old: Any, a: bool) -> Any:
        who = (self.name(user), *where)
        if not self.owns(who, old, "memory", "superseded"):
            with pytest.raises(MemoryNotFound):
                self.call(self.view(user, where), a, "remember", f"{text} anew", supersedes=old)
            return multiple()
        new = self.call(self.view(user, where), a, "remember", f"{text} anew", supersedes=old)
        self.wrote(who, [new], [f"{text} anew"])
        if new != old:
            self.owners[str(old)].shelf, self.owners[str(old)].by = "superseded", str(new)
        return multiple(new)

    @rule(user=users, where=narrow, text=texts, old=ids, a=awaited)
    def update(self, user: str, where: Any, text: str, old: Any, a: bool) -> None:
        who = (self.name(user), *where)
        if not self.owns(who, old, "memory", "superseded"):
            with pytest.raises(MemoryNotFound):
                self.call(self.view(user, where), a, "update", old, text=text, tags=["stolen"])
            return
        if self.said_already(str(old), f"{text} changed"):
            with pytest.raises(InvalidDocument, match="has this very text"):
                self.call(self.view(user, where), a, "update", old, text=f"{text} changed")
            return
        changed = self.call(self.view(user, where), a, "update", old, text=f"{text} changed")
        self.owners[str(old)].text = f"{text} changed"
        assert (changed.user, changed.id) == (who[0], old)

    def said_already(self, identity: str, text: str) -> bool:
        """Another memory of exactly this scope has the text. Turns may say the same."""
        own = self.owners[identity]
        same = [
            other
            for i, other in self.owners.items()
            if (other.user, other.agent, other.session) == (own.user, own.agent, own.session)
            and (other.shelf, other.text, other.turn, i != identity) == ("memory", text, False, True)
        ]
        return bool(same) and not own.turn and own.text != text

    # --- forgetting --------------------------------------------------------------------------

    def forgotten(self, number: int, gone: set[str]) -> None:
        assert number == len(gone)
        heirs = {identity: self.owners.pop(identity).by for identity in gone}
        for owner in self.owners.values():
            while owner.by in heirs:
                owner.by = heirs[owner.by]
            owner.shelf = "memory" if owner.shelf == "superseded" and owner.by is None else owner.shelf

    @rule(user=users, where=narrow, wanted=st.lists(ids, min_size=1, max_size=4), a=awaited)
    def forget_ids(self, user: str, where: Any, wanted: list[Any], a: bool) -> None:
        who = (self.name(user), *where)
        number = self.call(self.view(user, where), a, "forget", wanted)
        self.forgotten(number, {str(i) for i in wanted} & self.own(who, "memory", "superseded", "log"))

    @rule(user=users, where=narrow, word=st.sampled_from(["tun", "cac", "*"]), a=awaited)
    def forget_source(self, user: str, where: Any, word: str, a: bool) -> None:
        before = self.raw_ids()
        number = self.call(self.view(user, where), a, "forget", source=word)
        self.only_own_are_gone(before, (self.name(user), *where), number)

    @rule(user=users, where=narrow, a=awaited, everything=st.integers(0, 3))
    def forget_filter_or_everything(self, user: str, where: Any, a: bool, everything: int) -> None:
        before, view = self.raw_ids(), self.view(user, where)
        how: Any = {"everything": True} if everything == 0 else {"filter": {"or": [{"n": 1}, {"type": "turn"}]}}
        number = self.call(view, a, "forget", **how)
        self.only_own_are_gone(before, (self.name(user), *where), number)

    def raw_ids(self) -> set[str]:
        points, _ = CLIENT.scroll("memories", limit=100_000, with_payload=False)
        return {str(point.id) for point in points}

    def only_own_are_gone(self, before: set[str], who: tuple[Any, ...], number: int) -> None:
        known = before & self.owners.keys()
        gone = known - self.raw_ids()
        assert gone <= self.own(who, "memory", "superseded", "log")
        self.forgotten(number, gone)

    # --- finding -----------------------------------------------------------------------------

    @rule(
        user=users, where=narrow, query=texts, a=awaited, touch=st.booleans(),
        how=st.sampled_from([
            {}, {"alpha": 0.0}, {"alpha": 1.0}, {"types": ["note", "turn"]}, {"tags": ["*", "infra"]}, {"tags": []},
            {"tags": "infra", "match": "all"}, {"filter": {"n": 1}}, {"filter": {"not": {"user": "nobody"}}},
            {"filter": {"or": [{"user": "1"}, {"shelf": "memory:1"}, {"n": 1}]}}, {"since": "2020-01-01"},
            {"until": "2099-01-01", "min_trust": "web"}, {"signals": False}, {"fusion": "rrf"}, {"explain": True},
            {"offset": 2, "depth": 3},
        ]),
    )  # fmt: skip
    def recall(self, user: str, where: Any, query: str, a: bool, touch: bool, how: dict[str, Any]) -> None:
        who = (self.name(user), *where)
        result = self.call(self.view(user, where), a, "recall", query, 50, touch=touch, **how)
        self.check_items(who, [hit.memory for hit in result], "memory")
        assert result.problems == ()
        if not how:
            assert {hit.id for hit in result} >= {
                i for i in self.own(who, "memory") if query.split()[0] in self.owners[i].text
            }

    @rule(user=users, where=narrow, a=awaited, superseded=st.booleans())
    def list(self, user: str, where: Any, a: bool, superseded: bool) -> None:
        who = (self.name(user), *where)
        shelves = ("memory", "superseded") if superseded else ("memory",)
        seen: list[str] = []
        after = None
        while True:
            page = self.call(self.view(user, where), a, "list", limit=7, after=after, superseded=superseded)
            self.check_items(who, page, *shelves)
            seen += [item.id for item in page]
            after = page.next
            if after is None:
                break
        assert sorted(seen) == sorted(self.own(who, *shelves))

    @rule(user=users, where=narrow, query=st.none() | texts, a=awaited)
    def logs(self, user: str, where: Any, query: str | None, a: bool) -> None:
        who = (self.name(user), *where)
        page = self.call(self.view(user, where), a, "logs", query, limit=1000)
        self.check_items(who, page, "log")
        assert {item.id for item in page} == self.own(who, "log"), "every line has the word number"
        assert [item.created for item in page] == sorted((item.created for item in page), reverse=True)

    @rule(user=users, where=narrow, wanted=ids, a=awaited)
    def get(self, user: str, where: Any, wanted: Any, a: bool) -> None:
        who = (self.name(user), *where)
        found = self.call(self.view(user, where), a, "get", wanted)
        assert (found is not None) == self.owns(who, wanted, "memory", "superseded", "log")
        self.check_items(who, [found] if found else [], "memory", "superseded", "log")

    @rule(user=users, where=narrow, wanted=ids, a=awaited)
    def similar(self, user: str, where: Any, wanted: Any, a: bool) -> None:
        who = (self.name(user), *where)
        if not self.owns(who, wanted, "memory", "superseded"):
            with pytest.raises(MemoryNotFound):
                self.call(self.view(user, where), a, "similar", wanted)
            return
        self.check_items(who, [h.memory for h in self.call(self.view(user, where), a, "similar", wanted, 20)], "memory")

    @rule(user=users, where=narrow, wanted=ids, a=awaited)
    def around(self, user: str, where: Any, wanted: Any, a: bool) -> None:
        who = (self.name(user), *where)
        if not self.owns(who, wanted, "memory"):
            with pytest.raises(MemoryNotFound):
                self.call(self.view(user, where), a, "around", wanted)
            return
        found = self.call(self.view(user, where), a, "around", wanted, before=9, after=9)
        self.check_items(who, found, "memory")
        assert len({(item.agent, item.session) for item in found}) == 1, "one conversation at a time"
        assert wanted in [item.id for item in found]

    @rule(user=users, where=narrow, a=awaited)
    def judged(self, user: str, where: Any, a: bool) -> None:
        who = (self.name(user), *where)
        for pair in self.call(self.view(user, where).with_settings(popularity=0.0), a, "judged"):
            assert all(self.owns(who, identity, "memory", "superseded") for identity in pair.relevant)

    @rule(user=users, where=narrow, a=awaited)
    def stats(self, user: str, where: Any, a: bool) -> None:
        who = (self.name(user), *where)
        found = self.call(self.view(user, where), a, "stats", verify=True)
        counts = (found.memories, found.superseded, found.logs)
        assert counts == tuple(len(self.own(who, shelf)) for shelf in ("memory", "superseded", "log"))
        assert found.problems == ()
        assert sum(found.types.values()) == found.memories

    @rule(user=users, where=narrow, a=awaited)
    def backfill(self, user: str, where: Any, a: bool) -> None:
        who = (self.name(user), *where)
        bare = {i for i in self.own(who, "memory", "superseded", "log") if hash(i) % 3 == 0}
        everybody: Any = [i for i in self.owners if hash(i) % 3 == 0]
        if everybody:
            CLIENT.delete_vectors("memories", vectors=["bm25"], points=everybody)
        assert self.call(self.view(user, where), a, "backfill") == len(bare)
        for owner in {(owner.user, None, None) for owner in self.owners.values()}:
            self.memory.for_user(owner[0]).backfill()  # or what the others lack would be missed by the next recall

    # --- learning ----------------------------------------------------------------------------

    @rule(user=users, where=narrow, wanted=ids, query=texts, useful=st.booleans(), a=awaited)
    def feedback(self, user: str, where: Any, wanted: Any, query: str, useful: bool, a: bool) -> None:
        who, view = (self.name(user), *where), self.view(user, where)
        if not self.owns(who, wanted, "memory", "superseded"):
            with pytest.raises(MemoryNotFound):
                self.call(view, a, "feedback", query, wanted, useful)
            return
        self.call(view, a, "feedback", query, wanted, useful)
        assert view.stats().judgements >= 1

    @rule(user=users, where=narrow, a=awaited)
    def learn(self, user: str, where: Any, a: bool) -> None:
        who, view = (self.name(user), *where), self.view(user, where)
        others = {whose: row for whose, row in self.learned().items() if whose != who}
        learned = self.call(view, a, "learn")
        judged = view.stats().judgements
        assert learned is None or 0 < learned.judgements <= judged
        assert {whose: row for whose, row in self.learned().items() if whose != who} == others
        if learned is not None:
            assert self.learned()[who] == learned.as_payload()
            assert view.recall("tunnel").alpha == learned.alpha

    @rule(user=users, where=narrow, a=awaited)
    def unlearn(self, user: str, where: Any, a: bool) -> None:
        who, before = (self.name(user), *where), self.learned()
        assert self.call(self.view(user, where), a, "unlearn") is (who in before)
        assert self.learned() == {whose: row for whose, row in before.items() if whose != who}

    def learned(self) -> dict[tuple[Any, ...], Any]:
        points, _ = CLIENT.scroll("memories", limit=100_000, with_payload=True)
        rows = [(point.payload or {})["metadata"] for point in points]
        own = [row for row in rows if row["shelf"].startswith("learned:")]
        return {(row["user"], row.get("agent"), row.get("session")): row["learned"] for row in own}

    @rule(user=users, where=narrow, a=awaited)
    def flush(self, user: str, where: Any, a: bool) -> None:
        self.call(self.view(user, where), a, "flush")

    # --- after each step ---------------------------------------------------------------------

    @invariant()
    @precondition(lambda self: done % 5 == 0)
    def rows_are_what_their_owners_made_them(self) -> None:
        points, _ = CLIENT.scroll("memories", limit=100_000, with_payload=True)
        rows = {str(point.id): point.payload or {} for point in points}
        for identity, owner in self.owners.items():
            fields = rows[identity]["metadata"]
            assert rows[identity]["text"] == owner.text
            assert fields["shelf"] == f"{owner.shelf}:{owner.user}"
            assert (fields["user"], fields.get("agent"), fields.get("session")) == (
                owner.user, owner.agent, owner.session,
            )  # fmt: skip


Isolation.TestCase.settings = settings(
    # Half as many again as it takes: some steps call nothing.
    max_examples=max(1, OPERATIONS * 3 // (2 * STEPS)), stateful_step_count=STEPS, deadline=None, database=None,
    derandomize=OPERATIONS <= 1000,
)  # fmt: skip


@pytest.mark.timeout(3600)
class TestIsolation(Isolation.TestCase):  # type: ignore[misc, valid-type]
    def runTest(self) -> None:  # noqa: N802 - what unittest calls
        before = done
        super().runTest()
        print(f"{done - before:,} operations")
        if OPERATIONS >= THOROUGH:
            assert done - before >= THOROUGH, "a thorough run is one of at least so many operations"


# --- scopes, told one by one ---------------------------------------------------------------------


@pytest.mark.parametrize("user", [None, "", "  ", "\n", 5, b"ada", ["ada"], "x" * 513, "half \ud800"])
def test_memories_belong_to_somebody(open_here: Opener, user: Any) -> None:
    with pytest.raises(ConfigError, match="user must be"):
        Memory.open(":memory:", user=user, dense=HashEmbedding())
    memory = open_here()
    with pytest.raises(ConfigError, match="user must be"):
        memory.for_user(user)
    for name in ("agent", "session"):
        if user is not None:
            with pytest.raises(ConfigError, match=f"{name} must be"):
                memory.for_user("ada", **{name: user})


def test_there_is_no_memory_without_a_user() -> None:
    with pytest.raises(TypeError, match="user"):
        Memory.open(":memory:", dense=HashEmbedding())  # type: ignore[call-arg]


def test_an_agent_sees_only_its_own(open_memory: Opener) -> None:
    whole = open_memory()
    user = whole.memory.user
    a, b = whole.for_user(user, agent="a"), whole.for_user(user, agent="b")
    b.recall("tunnel")  # has its vocabulary read before the others write
    ids = {view: view.remember("the tunnel", tags=["secret"]) for view in (whole, a, b)}
    assert len(set(ids.values())) == 3, "the same text in three scopes is three memories"
    assert a.recall("tunnel").ids == [ids[a]]
    assert b.recall("tunnel").ids == [ids[b]]
    assert set(whole.recall("tunnel").ids) == set(ids.values())
    assert a.get(ids[b]) is None
    assert a.get(ids[whole]) is None
    assert whole.get(ids[a]).agent == "a"
    assert a.forget([ids[b], ids[whole]]) == 0
    assert a.forget(everything=True) == 1
    assert whole.stats().memories == 2


def test_words_and_tags_of_one_agent_are_not_told_to_another(open_memory: Opener) -> None:
    whole = open_memory()
    a, b = (whole.for_user(whole.memory.user, agent=name) for name in "ab")
    for view in (a, b, whole):
        view.recall("anything")
    a.remember("codename blackbird", tags=["secret"])
    a.remember_turns(["the nightingale sings"], session="s")
    for query in ("secret", "blackbirt", "nightingalw"):
        assert (b.recall(query).tags, b.recall(query).corrections) == ((), {})
    assert a.recall("secret").tags == whole.recall("secret").tags == ("secret",)
    assert a.recall("blackbirt").corrections == whole.recall("blackbirt").corrections == {"blackbirt": "blackbird"}


def test_the_same_text_of_many_agents_is_still_one_memory_of_the_user(open_memory: Opener) -> None:
    whole = open_memory()
    own = whole.remember("hello there")
    for number in range(40):
        whole.for_user(whole.memory.user, agent=f"agent {number}").remember("hello there")
    assert whole.remember("hello there") == own
    assert whole.stats().memories == 41


def test_a_session_is_written_to_by_its_own_view_only(open_memory: Opener) -> None:
    whole = open_memory()
    monday = whole.for_user(whole.memory.user, session="monday")
    monday.remember_turns(["one"])
    with pytest.raises(InvalidQuery, match="session 'monday'"):
        monday.remember_turns(["two"], session="tuesday")
    (other,) = whole.remember_turns(["two"], session="tuesday")
    with pytest.raises(MemoryNotFound):
        monday.around(other)
    assert [item.text for item in monday.list()] == ["one"]


def test_conversations_of_two_agents_in_one_session_do_not_mix(open_memory: Opener) -> None:
    whole = open_memory()
    a = whole.for_user(whole.memory.user, agent="a", session="s")
    a.remember_turns(["a one", "a two"])
    ids = whole.remember_turns(["user one", "user two"], session="s")
    assert [item.order for item in map(whole.get, ids)] == [0, 1]
    assert [item.text for item in whole.around(ids[0])] == ["user one", "user two"]


def test_recalls_of_one_user_do_not_count_for_another(open_memory: Opener) -> None:
    ada = open_memory()
    bob = ada.for_user(f"{ada.memory.user}0")
    one, other = ada.remember("the tunnel"), bob.remember("the tunnel")
    ada.recall("tunnel")
    ada.recall("tunnel")
    assert (ada.get(one).access_count, bob.get(other).access_count) == (2, 0)


@pytest.mark.usefixtures("_own_words")
def test_what_one_user_says_often_is_not_common_to_another(open_memory: Opener) -> None:
    """How rare a word is follows from the user's own memories, where the engine can do that."""
    ada = open_memory()
    bob = ada.for_user(f"{ada.memory.user}0")
    bob.remember_many([f"the tunnel again {n}" for n in range(50)])
    rare = ada.remember("the tunnel at home")
    alone = ada.recall("tunnel", explain=True)
    assert alone.ids == [rare]
    ada.remember_many([f"the gateway again {n}" for n in range(50)])
    told = {hit.id: hit.explanation.lexical_score for hit in ada.recall("tunnel gateway", 51, explain=True)}
    assert told[rare] == max(told.values()), "the word that ada used once says more than the one she used fifty times"


def test_a_word_stays_rare_however_often_others_write_it_meanwhile(open_here: Opener) -> None:
    ada = open_here(collection="rare words")
    bob = ada.for_user("bob")
    ada.remember_many(["the printer jams, see qx4711", *(f"notes number {n} about the budget" for n in range(30))])

    def rare() -> float:
        (hit,) = ada.recall("qx4711", alpha=0.0, explain=True)
        return float(hit.explanation.lexical_score)

    alone = rare()
    bob.remember_many([f"qx4711 seen {n}" for n in range(100)])
    assert rare() == pytest.approx(alone)
    bob.remember_many([*(f"qx4711 seen {n}" for n in range(200)), "qx4711 seen 0"])
    assert rare() == pytest.approx(alone)
    bob.forget(everything=True)
    assert rare() == pytest.approx(alone)
    ada.update(ada.recall("printer", alpha=0.0).ids[0], importance=0.6)  # has the vocabulary read anew
    assert rare() == pytest.approx(alone), "engines count deleted rows for a while"
    for n in range(60):
        ada.log(f"qx4711 seen {n}")
    assert rare() == pytest.approx(alone), "her own log lines are no memories either"


# --- two memories on one client ------------------------------------------------------------------


def test_two_memories_on_one_client_know_what_the_other_writes(open_memory: Opener) -> None:
    one = open_memory()
    two = open_memory(one.memory.user)
    if "http" in repr(one.memory.index):
        pytest.skip("each has a client of its own, and learns within a minute")
    assert two.recall("brandnew tunnel").tags == ()
    identity = one.remember("the tunnel at home", tags=["brandnew"])
    assert two.recall("brandnew tunnel").tags == ("brandnew",)
    assert two.recall("tunnal").corrections == {"tunnal": "tunnel"}
    one.forget(identity)
    assert two.recall("brandnew tunnel").tags == ()


def test_what_the_client_itself_writes_is_known_to_who_opens_and_later_to_all(
    open_memory: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = open_memory()
    identity = memory.remember("the tunnel at home", tags=["old"])
    assert memory.recall("old or new").tags == ("old",)
    memory.raw.set(identity, tags=["new"])
    assert open_memory(memory.memory.user).recall("old or new").tags == ("new",)
    memory.raw.set(identity, tags=["newer"])
    monkeypatch.setattr("twofold.memory.state.VOCABULARY_SECONDS", 0.0)
    assert memory.recall("newer").tags == ("newer",)


def test_two_memories_on_one_client_lose_no_recall(open_here: Opener) -> None:
    one = open_here()
    two = open_here(one.memory.user)
    identity = one.remember("the tunnel at home")

    def run(memory: MemoryFace) -> None:
        for _ in range(20):
            memory.recall("tunnel")
            memory.flush()

    threads = [Thread(target=run, args=(memory,)) for memory in (one, two)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert one.get(identity).access_count == 40
