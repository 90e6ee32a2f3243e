"""A memory from the first time it is said to the day something else changes it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tests.memory.faces import Opener
from twofold import (
    EncoderError,
    FilterError,
    InvalidDocument,
    InvalidQuery,
    Memory,
    MemoryConfig,
    MemoryDamaged,
    MemoryNotFound,
    Turn,
    TwofoldError,
)
from twofold.testing import HashEmbedding

TUNNEL = "rathole tunnels listen on port 2333"


class Moody(HashEmbedding):
    down = False

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        if self.down:
            raise ConnectionError("the model server is gone")
        return super().embed_documents(texts)


def test_the_same_text_again_is_one_memory_refreshed(open_memory: Opener) -> None:
    memory = open_memory()
    first = memory.remember(TUNNEL, tags=["infra"], metadata={"a": 1, "b": 1}, created="2024-05-01", importance=0.9)
    memory.recall("rathole")
    memory.recall("rathole")
    again = memory.remember(
        TUNNEL, tags=["infra", "ports"], metadata={"b": 2}, category="network", created="2020-01-01"
    )
    assert (first.is_new, again.is_new, first == again) == (True, False, True)
    item = memory.get(first)
    assert item.tags == ("infra", "ports")
    assert item.metadata == {"a": 1, "b": 2}
    assert item.created == datetime(2024, 5, 1, tzinfo=timezone.utc)
    assert item.updated > datetime.now(timezone.utc) - timedelta(minutes=5)
    assert (item.access_count, item.importance, item.category) == (2, 0.9, "network")
    assert memory.stats().memories == 1
    assert memory.recall("network").ids == [first], "the words of what was added find it"


def test_who_is_trusted_less_adds_to_a_memory_and_takes_nothing_over(open_here: Opener) -> None:
    memory = open_here()
    first = memory.remember(TUNNEL, source="my notes", type="fact", category="infra", metadata={"port": 2333})
    again = memory.remember(
        TUNNEL, trust="web", source="evil.example", type="order", category="evil", pinned=True, importance=1.0,
        tags=["found"], metadata={"port": 666, "seen": True},
    )  # fmt: skip
    assert (again, again.is_new) == (first, False)
    item = memory.get(first)
    assert (item.trust, item.source, item.type, item.category) == ("user", "my notes", "fact", "infra")
    assert (item.pinned, item.importance) == (False, 0.5)
    assert (item.tags, item.metadata) == (("found",), {"port": 2333, "seen": True})
    assert memory.forget(source="evil.example") == 0
    assert memory.recall("rathole").ids == [first]


def test_only_a_person_vouches_for_what_a_page_said(open_here: Opener) -> None:
    memory = open_here()
    identity = memory.remember(TUNNEL, trust="web", source="a page")
    memory.remember(TUNNEL, trust="agent", source="the agent", pinned=True)
    item = memory.get(identity)
    assert (item.trust, item.source, item.pinned) == ("web", "a page", True)
    memory.remember(TUNNEL, trust="user", source="my notes")
    item = memory.get(identity)
    assert (item.trust, item.source, item.pinned) == ("user", "my notes", True)
    memory.remember(TUNNEL, trust="system")
    memory.remember(TUNNEL, trust="user", source="my notes again")
    item = memory.get(identity)
    assert (item.trust, item.source) == ("system", "my notes")


def test_composed_and_decomposed_letters_are_the_same_text(open_here: Opener) -> None:
    memory = open_here()
    assert memory.remember("São Paulo") == memory.remember("Sa\u0303o Paulo")


def test_in_a_batch_the_same_text_is_one_memory_too(open_memory: Opener) -> None:
    memory = open_memory()
    known = memory.remember(TUNNEL, tags=["old"])
    ids = memory.remember_many([{"text": TUNNEL, "tags": ["x"]}, "two", {"text": "two", "tags": ["y"]}, "three"])
    assert [i.is_new for i in ids] == [False, True, False, True]
    assert ids[0] == known
    assert ids[1] == ids[2]
    assert memory.get(known).tags == ("old", "x")
    assert memory.get(ids[1]).tags == ("y",)
    assert memory.stats().memories == 3


def test_an_update_is_found_by_its_new_words_only(open_memory: Opener) -> None:
    memory = open_memory()
    memory.remember("something else entirely")
    identity = memory.remember(TUNNEL, tags=["infra"], metadata={"a": 1}, created="2024-05-01")
    changed = memory.update(identity, text="wireguard peers meet on port 51820")
    assert memory.recall("wireguard peers", alpha=0.0).ids == [identity]
    assert memory.recall("rathole tunnels", alpha=0.0).ids == []
    assert memory.recall("wireguard peers", 1, alpha=1.0).ids == [identity]
    assert memory.get(identity).text == changed.text == "wireguard peers meet on port 51820"
    assert changed.tags == ("infra",)
    assert changed.metadata == {"a": 1}
    assert changed.created == datetime(2024, 5, 1, tzinfo=timezone.utc)
    assert memory.stats(verify=True).problems == ()


def test_what_an_update_gives_replaces_what_was_there(open_memory: Opener) -> None:
    memory = open_memory()
    identity = memory.remember(TUNNEL, tags=["infra", "old"], metadata={"a": 1})
    item = memory.update(identity, tags=["new"], metadata={"b": 2}, pinned=True, trust="web", importance=1)
    assert (item.tags, item.metadata, item.pinned, item.trust, item.importance) == (("new",), {"b": 2}, True, "web", 1)
    assert memory.recall("infra", alpha=0.0).ids == []
    assert memory.recall("new", alpha=0.0).ids == [identity]
    assert memory.update(identity, tags=[]).tags == ()


def test_an_update_can_take_category_and_source_away(open_memory: Opener) -> None:
    memory = open_memory()
    identity = memory.remember(TUNNEL, category="network", source="notes.md", tags=["infra"])
    assert memory.update(identity, importance=0.9).category == "network", "what isn't given stays"
    item = memory.update(identity, category="", source="")
    assert (item.category, item.source, item.tags) == (None, None, ("infra",))
    assert memory.get(identity) == item
    assert memory.recall("network", alpha=0.0).ids == []
    assert memory.forget(source="notes.md") == 0


def test_an_update_gives_back_what_is_stored(open_here: Opener) -> None:
    memory = open_here()
    identity = memory.remember(TUNNEL)
    assert memory.update(identity, text="Sa\u0303o Paulo") == memory.get(identity)


def test_an_update_makes_no_second_memory_of_one_text(open_memory: Opener) -> None:
    memory = open_memory()
    first, second = memory.remember(TUNNEL), memory.remember("two")
    with pytest.raises(InvalidDocument, match=f"memory '{first}' has this very text.*supersedes='{second}'"):
        memory.update(second, text=TUNNEL)
    assert memory.get(second).text == "two"
    assert memory.update(first, text=TUNNEL, importance=0.9).importance == 0.9, "its own text is no other's"
    memory.for_user(memory.memory.user, agent="a").remember("said by an agent")
    assert memory.update(second, text="said by an agent").id == second, "another scope's memory is another memory"
    turn, _ = memory.remember_turns(["yes", "no"], session="s")
    assert memory.update(turn, text="no").text == "no", "turns may say the same"
    memory.remember("instead", supersedes=first)
    assert memory.update(second, text=TUNNEL).text == TUNNEL, "what is hidden is in nobody's way"


def test_the_text_of_before_makes_a_second_memory(open_memory: Opener) -> None:
    memory = open_memory()
    first = memory.remember(TUNNEL)
    memory.update(first, text="it listens on 2444 now")
    second = memory.remember(TUNNEL)
    assert second.is_new
    assert second != first
    assert memory.get(first).text == "it listens on 2444 now"
    assert memory.get(second).text == TUNNEL
    assert memory.remember(TUNNEL) == second
    memory.update(second, text="third")
    assert len({first, second, memory.remember(TUNNEL)}) == 3


def test_superseding_hides_and_keeps(open_memory: Opener) -> None:
    memory = open_memory()
    old = memory.remember(TUNNEL, tags=["infra"])
    new = memory.remember("rathole tunnels listen on port 2444", supersedes=old)
    assert memory.recall("rathole").ids == [new]
    assert [item.id for item in memory.list()] == [new]
    assert {item.id for item in memory.list(superseded=True)} == {old, new}
    assert memory.get(old).superseded_by == new
    assert memory.get(old).text == TUNNEL
    stats = memory.stats(verify=True)
    assert (stats.memories, stats.superseded, stats.problems) == (1, 1, ())
    assert memory.recall("infra").tags == (), "what is hidden names no tags"
    memory.update(old, importance=0.1)
    assert memory.recall("rathole").ids == [new], "an update doesn't bring it back"
    again = memory.remember(TUNNEL)
    assert again == old
    assert set(memory.recall("rathole").ids) == {old, new}, "saying it again does"


def test_what_was_superseded_is_back_when_the_newer_one_goes(open_memory: Opener) -> None:
    memory = open_memory()
    first = memory.remember("the limit is 100", tags=["api"])
    second = memory.remember("the limit is 250", supersedes=first)
    third = memory.remember("the limit is 400", supersedes=second)
    memory.forget(second)
    assert memory.get(first).superseded_by == third, "it stands behind what is left"
    assert memory.recall("limit").ids == [third]
    assert memory.forget(third) == 1
    assert memory.recall("limit").ids == [first]
    assert memory.get(first).superseded_by is None
    assert memory.recall("api").tags == ("api",)
    assert [item.id for item in memory.list()] == [first]
    chain = [first]
    for limit in (250, 400, 500):
        chain.append(memory.remember(f"the limit is {limit}", supersedes=chain[-1], source="a page"))
    assert memory.forget(source="a page") == 3
    assert memory.recall("limit").ids == [first]
    assert memory.stats(verify=True).problems == ()
    assert memory.forget(everything=True) == 1


def test_superseding_itself_hides_nothing(open_here: Opener) -> None:
    memory = open_here()
    identity = memory.remember(TUNNEL)
    assert memory.remember(TUNNEL, supersedes=[identity]) == identity
    assert memory.recall("rathole").ids == [identity]


def test_superseding_what_is_not_there_stores_nothing(open_memory: Opener) -> None:
    memory = open_memory()
    old = memory.remember(TUNNEL)
    with pytest.raises(MemoryNotFound, match="there is no memory 'nonsense' of 'user"):
        memory.remember("new", supersedes=[old, "nonsense"])
    assert memory.recall("rathole").ids == [old]
    assert memory.stats().memories == 1


def test_near_duplicates_are_offered_and_left_alone(open_memory: Opener) -> None:
    memory = open_memory()
    first = memory.remember(TUNNEL)
    second = memory.remember(f"{TUNNEL} indeed")
    assert second.is_new
    assert [each.id for each in second.similar] == [first]
    assert second.similar[0].text == TUNNEL
    assert 0.9 <= second.similar[0].cosine < 1
    assert memory.remember("nothing of the kind").similar == ()
    assert memory.stats().memories == 3


def test_a_note_is_not_merged_into_what_was_said(open_memory: Opener) -> None:
    memory = open_memory(session="monday")
    turn, _ = memory.remember_turns([{"role": "user", "content": "yes"}, "no"])
    note = memory.remember("yes", type="decision")
    assert note.is_new
    assert note != turn
    assert [item.text for item in memory.around(turn)] == ["yes", "no"]


def test_a_memory_of_any_type_can_be_recalled(open_memory: Opener) -> None:
    memory = open_memory()
    ids = [memory.remember(f"tunnel {kind}", type=kind) for kind in ("log", "turn", "learned")]
    assert set(memory.recall("tunnel").ids) == set(ids)
    assert memory.remember("tunnel log", type="log").is_new is False
    assert len(memory.logs()) == 0


def test_after_a_failure_a_retry_gives_the_same_ids(tmp_path: Path) -> None:
    model = Moody()
    with Memory.open(tmp_path / "store", user="ada", dense=model) as memory:
        ids = memory.remember_many([f"fact number {n}" for n in range(100)])
        model.down = True
        with pytest.raises(EncoderError, match="the model server is gone"):
            memory.remember_many([f"fact number {n}" for n in range(130)])
        assert memory.stats().memories == 100
        model.down = False
        again = memory.remember_many([f"fact number {n}" for n in range(130)])
        assert again[:100] == ids
        assert memory.stats().memories == 130


def test_everything_is_there_after_reopening(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "store", user="ada", dense=HashEmbedding()) as memory:
        identity = memory.remember(
            TUNNEL, tags=["infra"], source="notes.md", pinned=True, metadata={"n": [1, {"x": None}]}
        )
        before = memory.get(identity)
    with Memory.open(tmp_path / "store", user="ada", dense=HashEmbedding()) as memory:
        assert memory.get(identity) == before
        assert memory.recall("infra").ids == [identity]
        assert memory.recall("infra").tags == ("infra",)
        assert memory.remember(TUNNEL) == identity


def test_rows_that_lack_a_vector_get_it(open_memory: Opener) -> None:
    memory = open_memory(config=MemoryConfig(touch=False))
    tunnel, cache = memory.remember(TUNNEL, tags=["infra"]), memory.remember("the cache is warm", importance=0.9)
    hidden = memory.remember("the old cache")
    memory.remember("the new cache", supersedes=hidden)
    line = memory.log("a line about zebras")
    turn = memory.remember_turns(["one hedgehog", "two", "three"], session="monday")
    before = {item.id: item for item in [*memory.list(superseded=True), *memory.logs()]}
    bare = [tunnel, hidden, line, turn[1]]
    memory.raw._call("delete_vectors", vectors=["bm25"], points=[str(i) for i in bare])
    memory.raw._call("delete_vectors", vectors=["dense"], points=[str(i) for i in (tunnel, cache)])
    other = memory.for_user(f"bob of {memory.memory.user}")
    stays = other.remember("bob's own")
    memory.raw._call("delete_vectors", vectors=["bm25"], points=[str(stays)])
    assert (memory.stats().without_words, memory.stats().without_meaning) == (2, 2)
    assert memory.recall("infra", alpha=0.0).ids == []
    assert memory.backfill() == 5
    assert (memory.stats().without_words, memory.stats().without_meaning) == (0, 0)
    assert memory.recall("infra", alpha=0.0).ids == [tunnel]
    assert memory.recall(TUNNEL, 1, alpha=1.0).ids == [tunnel]
    assert turn[1] in memory.recall("hedgehog", alpha=0.0, min_score=0.0).ids, "turns with their context"
    assert [item.id for item in memory.logs("zebras")] == [line]
    assert {item.id: item for item in [*memory.list(superseded=True), *memory.logs()]} == before
    assert memory.backfill() == 0
    assert other.stats().without_words == 1, "nobody else's"


def test_what_has_no_words_is_not_counted_as_mended(open_here: Opener) -> None:
    memory = open_here(config=MemoryConfig(tags_weight=0.0))
    memory.remember("the of and")
    assert memory.stats().without_words == 1
    assert memory.backfill() == 0


# --- what something else did to a row ------------------------------------------------------------


def damaged(memory: Any) -> tuple[list[str], list[str]]:
    """Ten memories, of which some are broken in different ways: (sound, broken)."""
    ids = [memory.remember(f"the tunnel number {n}", created=f"2024-01-{n + 1:02}") for n in range(10)]
    raw = memory.raw
    raw.set(ids[0], text="the tunnel number zero pays to account 666")
    raw.set(ids[1], tags="infra")
    raw.set(ids[2], tags=[1, 2])
    raw.set(ids[3], pinned="very")
    raw.set(ids[4], access_count="many")
    raw.drop(ids[5], "content_hash")
    raw.set(ids[6], updated="yesterday")
    return [str(i) for i in ids[7:]], [str(i) for i in ids[:7]]


def test_recall_names_what_is_damaged_and_fills_up_with_the_rest(open_memory: Opener) -> None:
    memory = open_memory()
    sound, broken = damaged(memory)
    result = memory.recall("the tunnel number", 3)
    assert sorted(result.ids) == sorted(sound)
    assert {problem.id for problem in result.problems} <= set(broken)
    everything = memory.recall("the tunnel number", 10)
    assert sorted(everything.ids) == sorted(sound)
    reasons = {problem.id: problem.reason for problem in everything.problems}
    assert set(reasons) == set(broken)
    assert reasons[broken[0]] == "its text is not the one that was stored: something else changed it"
    assert reasons[broken[5]] == "it has no content hash, so Twofold did not write it as a memory"
    assert reasons[broken[1]] == "its field 'tags' is a str"


def test_a_list_names_what_is_damaged_and_fills_up_with_the_rest(open_memory: Opener) -> None:
    memory = open_memory()
    sound, broken = damaged(memory)
    oldest = memory.remember("the tunnel of old", created="2020-01-01")
    page = memory.list(limit=4)
    assert [item.id for item in page] == [*reversed(sound), oldest]
    assert page.next is None
    assert {problem.id for problem in page.problems} == set(broken)
    pages, after = [], None
    while True:
        page = memory.list(limit=1, after=after)
        pages.append(page)
        after = page.next
        if after is None:
            break
    assert [item.id for page in pages for item in page] == [*reversed(sound), oldest]
    assert sorted(problem.id for page in pages for problem in page.problems) == sorted(broken), "each is named once"


@pytest.mark.parametrize("fusion", ["auto", "weighted"])
@pytest.mark.parametrize(
    "odd",
    [{"access_count": -10}, {"access_count": -3}, {"access_count": 2**63 - 1}, {"importance": 1e308},
     {"importance": -1e300}, {"importance": 2}, {"order": -1}],
)  # fmt: skip
def test_a_number_that_makes_no_sense_spoils_one_row_and_no_recall(
    open_memory: Opener, odd: dict[str, Any], fusion: str
) -> None:
    memory = open_memory()
    sound, broken = memory.remember("the tunnel at home"), memory.remember("the tunnel abroad")
    memory.raw.set(broken, **odd)
    result = memory.recall("tunnel", fusion=fusion, explain=True)
    assert result.ids == [sound]
    assert [(problem.id, *odd) for problem in result.problems] == [(broken, next(iter(odd)))]
    assert f"{next(iter(odd))!r} is {next(iter(odd.values()))}" in result.problems[0].reason
    assert [item.id for item in memory.list()] == [sound]
    memory.flush()
    again = memory.remember("the tunnel abroad")
    assert sorted(memory.recall("tunnel", fusion=fusion).ids) == sorted([sound, again])


def test_turns_go_on_after_an_order_that_makes_no_sense(open_memory: Opener) -> None:
    memory = open_memory(session="monday")
    ids = memory.remember_turns(["one", "two"])
    memory.raw.set(ids[1], order=2**63 - 1)
    (more,) = memory.remember_turns(["three"])
    assert memory.get(more).order == 1
    assert [item.text for item in memory.around(more)] == ["one", "three"]


@pytest.mark.parametrize("how", ["gone", "no date"])
def test_a_memory_without_its_date_is_named_wherever_it_is_left_out(open_memory: Opener, how: str) -> None:
    memory = open_memory()
    sound, broken = memory.remember("the tunnel at home"), memory.remember("the tunnel abroad")
    line, other = memory.log("a line"), memory.log("another line")
    for identity in (broken, other):
        if how == "gone":
            memory.raw.drop(identity, "created")
        else:
            memory.raw.set(identity, created="the other day")
    found = [memory.recall("tunnel"), memory.list(), memory.list(limit=1), memory.list(types="note")]
    for page in found:
        assert [getattr(item, "id", item) for item in page] == [sound]
        assert [problem.id for problem in page.problems] == [broken]
    assert "'created' is missing" in found[1].problems[0].reason or how == "no date"
    assert ([item.id for item in memory.logs()], [problem.id for problem in memory.logs().problems]) == (
        [line],
        [other],
    )
    assert {problem.id for problem in memory.stats(verify=True).problems} == {broken, other}
    assert memory.list(since="2020-01-01").problems == (), "who can tell when it was"


def test_stats_counts_what_is_damaged_when_asked(open_memory: Opener) -> None:
    memory = open_memory()
    _, broken = damaged(memory)
    memory.raw.set(memory.log("a line"), text="another line")
    assert memory.stats().problems == ()
    assert len(memory.stats(verify=True).problems) == len(broken) + 1
    assert [problem.reason for problem in memory.logs().problems] == [
        "its text is not the one that was stored: something else changed it"
    ]


def test_a_damaged_memory_is_a_clear_error_by_id(open_memory: Opener) -> None:
    memory = open_memory()
    _, broken = damaged(memory)
    attempts: list[Any] = [
        lambda i: memory.get(i),
        lambda i: memory.update(i, text="x"),
        lambda i: memory.similar(i),
        lambda i: memory.feedback("tunnel", i),
        lambda i: memory.around(i),
        lambda i: memory.remember("x", supersedes=i),
    ]
    for identity in broken:
        for attempt in attempts:
            with pytest.raises(MemoryDamaged, match=identity) as caught:
                attempt(identity)
            assert caught.value.id == identity
            assert caught.value.reason in str(caught.value)
            assert "forget(" in str(caught.value)
    assert memory.stats().memories == 10, "nothing was written"
    assert memory.forget(broken) == len(broken)
    assert memory.stats(verify=True).problems == ()


def test_saying_it_again_mends_what_was_tampered_with(open_memory: Opener) -> None:
    memory = open_memory()
    _, broken = damaged(memory)
    for number in range(7):
        memory.remember(f"the tunnel number {number}")
    assert {hit.text for hit in memory.recall("the tunnel number", 20)} == {f"the tunnel number {n}" for n in range(10)}
    assert {problem.id for problem in memory.stats(verify=True).problems} == set(broken), "and hides nothing"


def test_a_damaged_memory_is_not_offered_as_similar(open_here: Opener) -> None:
    memory = open_here()
    first = memory.remember(TUNNEL)
    memory.raw.set(first, text="pay to account 666")
    assert memory.remember(f"{TUNNEL} indeed").similar == ()


def test_a_row_that_goes_by_another_id_is_damaged(open_here: Opener) -> None:
    memory = open_here()
    first, other = memory.remember(TUNNEL), memory.for_user(f"bob of {memory.memory.user}").remember("bob's")
    memory.raw._call("set_payload", payload={"id": str(other)}, points=[str(first)])
    assert memory.recall("rathole").ids == []
    memory.flush()
    assert memory.for_user(f"bob of {memory.memory.user}").get(other).access_count == 0


def test_turns_are_trusted_as_their_roles_are(open_here: Opener) -> None:
    memory = open_here(session="monday")
    turns: list[Any] = [
        {"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}, {"role": "tool", "content": "3"},
        {"role": "system", "content": "four"}, Turn("five", "Ben"), Turn("six", "Ben", role="AI"), "seven",
        {"role": "function", "speaker": "weather", "text": "eight"}, Turn("nine", "assistant"),
    ]  # fmt: skip
    expected = ["user", "agent", "tool", "system", "user", "agent", "user", "tool", "agent"]
    assert [memory.get(told).trust for told in memory.remember_turns(turns)] == expected
    assert {memory.get(told).trust for told in memory.remember_turns(turns, trust="web")} == {"web"}
    assert memory.recall("two", min_trust="user", alpha=0.0, filter={"speaker": "assistant"}).ids == []


def test_messages_in_parts_and_without_text_are_taken_as_they_are(open_here: Opener) -> None:
    memory = open_here(session="monday")
    picture = {"type": "image_url", "image_url": {"url": "data:…"}}
    told = memory.remember_turns(
        [
            {
                "role": "user",
                "content": [{"type": "text", "text": "what is"}, picture, {"type": "text", "text": "this?"}],
            },
            {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
            {"role": "assistant", "tool_calls": [{"id": "1"}]},
            {"role": "assistant", "content": ""},
            {"role": "user", "content": [picture]},
            {"role": "assistant", "content": ["a", "hedgehog"]},
        ]
    )
    assert [memory.get(each).text for each in told] == ["what is\nthis?", "a\nhedgehog"]
    assert [memory.get(each).order for each in told] == [0, 1]


def test_no_turn_is_taken_for_another_however_histories_are_given(open_memory: Opener) -> None:
    memory = open_memory(session="monday")
    timed = Turn("shall we?", "ada", datetime(2024, 5, 1, tzinfo=timezone.utc))
    ok = Turn("ok", "ben")
    calls = [memory.remember_turns(turns) for turns in ([timed], [timed, ok], [ok], [ok, timed, ok, timed])]
    assert [[told.is_new for told in call] for call in calls] == [[True], [False, True], [True], [True, False] * 2]
    assert [item.text for item in memory.around(calls[0][0], after=9)] == ["shall we?", *["ok"] * 4]
    assert [item.order for item in memory.around(calls[0][0], after=9)] == [0, 1, 2, 3, 4]


SECRET = ["good morning", "how are you?", "my code is hedgehog", "noted", "see you", "what else?", "nothing more"]


@pytest.mark.parametrize("how", ["id", "filter", "superseded", "damaged"])
def test_a_turn_that_goes_leaves_nothing_with_its_neighbours(open_memory: Opener, how: str) -> None:
    memory = open_memory(session="monday")
    ids = memory.remember_turns(SECRET)
    plain = memory.for_user(memory.memory.user, session="tuesday")
    others = plain.remember_turns(SECRET)
    assert len(memory.recall("hedgehog", alpha=0.0, min_score=0.0)) == 5, "each side lends to two"
    before = len(memory.recall("how noted", alpha=0.0, min_score=0.0))
    if how == "id":
        memory.forget(ids[2])
    elif how == "filter":
        assert memory.forget(filter={"order": 2}) == 1
    elif how == "damaged":
        memory.raw.set(ids[2], text="tampered")
        memory.forget(ids[2])
    else:
        memory.remember("the code was told", supersedes=ids[2])
    assert memory.recall("hedgehog", alpha=0.0, min_score=0.0).ids == []
    assert len(memory.recall("how noted", alpha=0.0, min_score=0.0)) >= before - 1, (
        "the others still lend to each other"
    )
    assert len(plain.recall("hedgehog", alpha=0.0, min_score=0.0)) == 5
    assert memory.stats(verify=True).problems == ()
    plain.forget([others[1], others[2], others[3]])
    assert plain.recall("hedgehog noted", alpha=0.0, min_score=0.0).ids == []
    plain.forget(others[0])
    assert plain.recall("morning", alpha=0.0, min_score=0.0).ids == [], "far neighbours are neighbours too"


def test_a_turn_that_is_back_lends_to_its_neighbours_again(open_memory: Opener) -> None:
    memory = open_memory(session="monday")
    ids = memory.remember_turns(SECRET)
    note = memory.remember("instead", supersedes=ids[2])
    memory.update(ids[2], importance=0.9)
    assert memory.recall("hedgehog", alpha=0.0, min_score=0.0).ids == [], "an update of what is hidden lends nothing"
    memory.forget(note)
    found = memory.recall("hedgehog", alpha=0.0, min_score=0.0).ids
    assert found[0] == ids[2]
    assert sorted(found) == sorted(ids[:5])


def test_what_is_said_again_after_it_was_forgotten_was_never_recalled(open_memory: Opener) -> None:
    memory = open_memory()
    first, other = memory.remember(TUNNEL), memory.remember("another tunnel")
    memory.recall("tunnels")
    memory.forget(first)
    again = memory.remember(TUNNEL)
    assert (memory.get(again).access_count, memory.get(other).access_count) == (0, 1)


def test_turns_go_on_around_a_damaged_one(open_memory: Opener) -> None:
    memory = open_memory(session="monday")
    ids = memory.remember_turns(["one", "two", "three"])
    memory.raw.set(ids[2], text="tampered")
    more = memory.remember_turns(["four"])
    assert [item.text for item in memory.around(more[0], before=5)] == ["one", "two", "four"]
    assert memory.get(more[0]).order == 3


def test_damaged_feedback_and_settings_stop_nothing(open_memory: Opener) -> None:
    memory = open_memory()
    ids = [memory.remember(f"the tunnel number {n}") for n in range(4)]
    memory.feedback("tunnel", ids[0])
    memory.feedback("number", ids[1])
    assert memory.learn().judgements == 2
    for identity, payload in memory.raw.rows().items():
        shelf = payload["metadata"]["shelf"].partition(":")[0]
        if shelf == "learned":
            memory.raw.set(identity, learned={"alpha": "high"})
        if shelf == "feedback" and payload["metadata"]["feedback"]["memory"] == ids[0]:
            memory.raw.set(identity, feedback={"query": 5})
    memory.update(ids[3], importance=0.4)  # has the vocabulary read anew
    assert len(memory.recall("tunnel")) == 4
    assert memory.learn().judgements == 1


def test_an_updated_turn_stays_in_its_conversation(open_memory: Opener) -> None:
    memory = open_memory()
    ids = memory.remember_turns(["one", "two", "three"], session="monday")
    memory.update(ids[1], type="decision", text="two and a half")
    assert [item.text for item in memory.around(ids[1])] == ["one", "two and a half", "three"]
    memory.remember("instead", supersedes=ids[1])
    assert memory.update(ids[1], importance=0.9).superseded_by, "one that was replaced can still be changed"
    assert [item.text for item in memory.around(ids[0])] == ["one", "three"]


# --- time ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (date(2024, 2, 29), datetime(2024, 2, 29, tzinfo=timezone.utc)),
        (datetime(2024, 2, 29, 12), datetime(2024, 2, 29, 12, tzinfo=timezone.utc)),
        (datetime(2024, 2, 29, 1, tzinfo=timezone(timedelta(hours=2))), datetime(2024, 2, 28, 23, tzinfo=timezone.utc)),
        ("2024-02-29", datetime(2024, 2, 29, tzinfo=timezone.utc)),
        ("2024-02-29T12:00:00Z", datetime(2024, 2, 29, 12, tzinfo=timezone.utc)),
        (" 2024-02-29T12:00:00-05:00 ", datetime(2024, 2, 29, 17, tzinfo=timezone.utc)),
    ],
)
def test_moments_in_every_form(open_here: Opener, given: Any, meant: datetime) -> None:
    memory = open_here()
    identity = memory.remember(TUNNEL, created=given)
    assert memory.get(identity).created == meant
    assert memory.recall("rathole", since=given, until=given).ids == [identity]
    assert memory.recall("rathole", since=meant + timedelta(seconds=1)).ids == []
    assert memory.list(until=meant - timedelta(seconds=1)).items == ()


def test_a_day_of_the_log_with_and_without_a_query(open_memory: Opener) -> None:
    memory = open_memory()
    lines = [memory.log(f"deploy {n}", created=f"2024-02-{20 + n}T1{n}:00:00Z") for n in range(3)]
    memory.remember("deploy by hand")
    assert [item.id for item in memory.logs()] == lines[::-1]
    assert [item.id for item in memory.logs(day="2024-02-21")] == [lines[1]]
    assert [item.id for item in memory.logs("deploy")] == lines[::-1]
    assert [item.id for item in memory.logs("deploy", day=date(2024, 2, 21))] == [lines[1]]
    for query in (None, "deploy"):
        assert len(memory.logs(query, day="2024-02-21", since="2024-02-21T12:00:00Z")) == 0
        assert len(memory.logs(query, day="2024-02-21", until="2024-02-21T12:00:00Z")) == 1
    assert lines[0] not in memory.recall("deploy").ids
    assert memory.get(lines[0]).type == "log"


def test_the_log_is_searched_whole_and_shown_newest_first(open_memory: Opener) -> None:
    memory = open_memory(config=MemoryConfig(min_score=0.9, min_trust="system", depth=10))
    start = datetime(2024, 2, 1, tzinfo=timezone.utc)
    short = [memory.log("tunnel", created=start + timedelta(minutes=n)) for n in range(20)]
    long = [
        memory.log(f"number {n}: one more look at the tunnels and at much else", created=start + timedelta(hours=n + 1))
        for n in range(20)
    ]
    memory.log("bread", created=start + timedelta(days=9))
    newest = [*reversed(long), *reversed(short)]
    assert [line.id for line in memory.logs("tunnel", limit=5)] == newest[:5]
    assert [line.id for line in memory.logs("tunnel bread", limit=50)][1:] == newest
    seen, after = [], None
    while True:
        page = memory.logs("tunnel", limit=7, after=after)
        seen += [line.id for line in page]
        after = page.next
        if after is None:
            break
    assert seen == newest
    assert memory.logs("the of").items == memory.logs("").items == memory.logs("zebra").items == ()


def test_the_log_is_searched_without_the_lexical_model_too(open_here: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = open_here()
    lines = [memory.log(f"tunnel number {n}", created=f"2024-02-{20 + n}") for n in range(3)]
    memory.log("bread")

    def fails(*_: Any) -> Any:
        raise ConnectionError("gone")

    monkeypatch.setattr("twofold.encoders.bm25.BM25.embed_query", fails)
    assert [line.id for line in memory.logs("Tunnel!")] == lines[::-1]


# --- bad input -----------------------------------------------------------------------------------

HUGE = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5)))


@pytest.mark.parametrize(
    ("attempt", "error", "message"),
    [
        (lambda m, i: m.remember(""), InvalidDocument, "a text with something in it"),
        (lambda m, i: m.remember(" \n"), InvalidDocument, "a text with something in it"),
        (lambda m, i: m.remember(None), InvalidDocument, "got None"),
        (lambda m, i: m.remember("half \ud800"), InvalidDocument, "lone surrogate"),
        (lambda m, i: m.remember("x", tags=["a", ""]), InvalidDocument, "a tag is"),
        (lambda m, i: m.remember("x", tags=[1]), InvalidDocument, "a tag is"),
        (lambda m, i: m.remember("x", tags=5), InvalidDocument, "got 5"),
        (lambda m, i: m.remember("x", type=" "), InvalidDocument, "type must be"),
        (lambda m, i: m.remember("x", trust="god"), TwofoldError, "web, tool, agent, user, system"),
        (lambda m, i: m.remember("x", importance=2), InvalidDocument, "from 0 to 1"),
        (lambda m, i: m.remember("x", importance=float("nan")), InvalidDocument, "from 0 to 1"),
        (lambda m, i: m.remember("x", importance=True), InvalidDocument, "from 0 to 1"),
        (lambda m, i: m.remember("x", pinned="yes"), InvalidDocument, "True or False"),
        (lambda m, i: m.remember("x", metadata=[1]), InvalidDocument, "must be a mapping"),
        (lambda m, i: m.remember("x", metadata={"a": {1}}), InvalidDocument, "a set, which JSON"),
        (lambda m, i: m.remember("x", metadata={"a": float("inf")}), InvalidDocument, "inf"),
        (lambda m, i: m.remember("x", created="soon"), InvalidDocument, "ISO text"),
        (lambda m, i: m.remember("x", created=HUGE), InvalidDocument, "ISO text"),
        (lambda m, i: m.remember("x", supersedes=5), InvalidQuery, "got 5"),
        (lambda m, i: m.remember_many("x"), InvalidDocument, "wrap a single one"),
        (lambda m, i: m.remember_many([*"abc", 5]), InvalidDocument, "document 3"),
        (lambda m, i: m.remember_many([*"abc", {"text": "d", "colour": 1}]), InvalidDocument, "document 3.*colour"),
        (lambda m, i: m.remember_many([*"abc", {"text": "d", "tags": [1]}]), InvalidDocument, "document 3"),
        (
            lambda m, i: m.remember_many([*map(str, range(100)), {"text": "d", "metadata": {"a": {1}}}]),
            InvalidDocument,
            "document 100",
        ),
        (lambda m, i: m.remember_turns(["x"]), InvalidQuery, "which"),
        (lambda m, i: m.remember_turns(["x", ""], session="s"), InvalidDocument, "document 1"),
        (lambda m, i: m.remember_turns("hello", session="s"), InvalidDocument, "wrap a single one"),
        (
            lambda m, i: m.remember_turns({"role": "user", "content": "x"}, session="s"),
            InvalidDocument,
            "wrap a single",
        ),
        (lambda m, i: m.remember_turns([{"role": "user", "txet": "x"}], session="s"), InvalidDocument, "document 0"),
        (lambda m, i: m.remember_turns([Turn("x", role=" ")], session="s"), InvalidDocument, "role must be"),
        (lambda m, i: m.remember_turns(["x", "\udfff"], session="s"), InvalidDocument, "document 1"),
        (lambda m, i: m.remember_turns([{"content": "x", "role": 5}], session="s"), InvalidDocument, "speaker"),
        (lambda m, i: m.remember_turns([{"content": "x", "time": "soon"}], session="s"), InvalidDocument, "time must"),
        (lambda m, i: m.update(i, text=" "), InvalidDocument, "a text with something in it"),
        (lambda m, i: m.update(i, trust="god"), InvalidDocument, "web, tool"),
        (lambda m, i: m.remember("x", trust="god"), InvalidDocument, "web, tool"),
        (lambda m, i: m.update("nonsense", text="x"), MemoryNotFound, "nonsense"),
        (lambda m, i: m.update("-" * 4 + "a" * 32, text="x"), MemoryNotFound, "aaaa"),
        (lambda m, i: m.update(None, text="x"), InvalidQuery, "an id is a string"),
        (lambda m, i: m.get(5), InvalidQuery, "an id is a string"),
        (lambda m, i: m.similar(i, k="5"), InvalidQuery, "k must be"),
        (lambda m, i: m.similar("nonsense"), MemoryNotFound, "nonsense"),
        (lambda m, i: m.around(i, before=-1), InvalidQuery, "before must be"),
        (lambda m, i: m.forget(), InvalidQuery, "one of"),
        (lambda m, i: m.forget(i, everything=True), InvalidQuery, "one of"),
        (lambda m, i: m.forget([None]), InvalidQuery, "an id is a string"),
        (lambda m, i: m.forget(5), InvalidQuery, "got 5"),
        (lambda m, i: m.forget(filter={}), InvalidQuery, "everything=True"),
        (lambda m, i: m.forget(filter={"year": {"about": 5}}), FilterError, "about"),
        (lambda m, i: m.recall(5), InvalidQuery, "must be a string"),
        (lambda m, i: m.recall("x", k=-1), InvalidQuery, "k must be"),
        (lambda m, i: m.recall("x", types=5), InvalidQuery, "types"),
        (lambda m, i: m.recall("x", tags=[5]), InvalidQuery, "tags"),
        (lambda m, i: m.recall("x", tags=["a"], match="some"), InvalidQuery, "'any' or 'all'"),
        (lambda m, i: m.recall("x", alpha=1.5), InvalidQuery, "alpha"),
        (lambda m, i: m.recall("x", since="soon"), FilterError, "since must be"),
        (lambda m, i: m.recall("x", until="soon"), FilterError, "until must be"),
        (lambda m, i: m.logs(day="soon"), FilterError, "day must be"),
        (lambda m, i: m.logs("x", day="soon"), FilterError, "day must be"),
        (lambda m, i: m.logs("x", day="2026-02-21", since="soon"), FilterError, "since must be"),
        (lambda m, i: m.recall("x", min_trust="god"), InvalidQuery, "web, tool"),
        (lambda m, i: m.recall("x", filter="year = 5"), FilterError, "a filter is a dict"),
        (lambda m, i: m.list(limit=0), InvalidQuery, "limit must be"),
        (lambda m, i: m.list(after="nonsense"), InvalidQuery, "after must be"),
        (lambda m, i: m.list(after="WyIyMDI0LTAxLTAxIixbIngiXV0="), InvalidQuery, "after must be"),
        (lambda m, i: m.logs("x", after="y"), InvalidQuery, "after must be"),
        (lambda m, i: m.logs(5), InvalidQuery, "must be a string"),
        (lambda m, i: m.log(""), InvalidDocument, "a text with something in it"),
        (lambda m, i: m.feedback(" ", i), InvalidQuery, "about a query"),
        (lambda m, i: m.feedback("x", "nonsense"), MemoryNotFound, "nonsense"),
        (lambda m, i: m.feedback("x", i, useful="no"), InvalidQuery, "useful must be True or False, got 'no'"),
    ],
)
def test_bad_input_is_a_clear_error_and_loses_nothing(
    open_here: Opener, attempt: Any, error: type[Exception], message: str
) -> None:
    memory = open_here()
    identity = memory.remember(TUNNEL)
    before = memory.raw.rows()
    with pytest.raises(error, match=message) as caught:
        attempt(memory, identity)
    assert isinstance(caught.value, TwofoldError)
    assert memory.raw.rows() == before


def test_an_empty_query_and_k_0_find_nothing(open_here: Opener) -> None:
    memory = open_here()
    memory.remember(TUNNEL)
    assert memory.recall("").ids == memory.recall(" \t").ids == memory.recall("rathole", 0).ids == []


def test_a_query_that_is_no_text_is_an_error_and_no_warning(
    open_here: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    memory = open_here()
    memory.remember(TUNNEL)
    with caplog.at_level(logging.WARNING, logger="twofold"), pytest.raises(InvalidQuery, match="must be a string"):
        memory.recall(None)
    assert caplog.records == []


@pytest.mark.parametrize("day", ["2026-02-21", " 2026-02-21 ", date(2026, 2, 21)])
def test_until_a_day_is_until_its_end(open_here: Opener, day: Any) -> None:
    memory = open_here()
    ids = [memory.remember(f"{TUNNEL} at {hour}", created=f"2026-02-21T{hour}") for hour in ("00:00", "10:00", "23:59")]
    memory.remember(f"{TUNNEL} again", created="2026-02-22")
    memory.log("a tunnel", created="2026-02-21T10:00:00")
    assert set(memory.recall("rathole", since=day, until=day).ids) == set(ids)
    assert {item.id for item in memory.list(since=day, until=day)} == set(ids)
    assert len(memory.logs("tunnel", day=day, until=day)) == len(memory.logs(until=day)) == 1
    assert memory.recall("rathole", until="2026-02-21T00:00:00").ids == [ids[0]], "a moment is a moment"
    assert memory.recall("rathole", until=datetime(2026, 2, 21)).ids == [ids[0]]


def test_an_empty_list_filters_nothing(open_here: Opener) -> None:
    memory = open_here()
    identity = memory.remember(TUNNEL, tags=["infra"])
    assert memory.recall("rathole", types=[]).ids == memory.recall("rathole", tags=[]).ids == [identity]
    assert len(memory.list(types=[])) == len(memory.list(tags=[])) == 1


def test_errors_of_python_name_the_method_that_was_called() -> None:
    with Memory.open(":memory:", user="ada", dense=HashEmbedding()) as memory:
        with pytest.raises(TypeError, match=r"Memory\.remember\(\) got an unexpected keyword argument 'tag'"):
            memory.remember("x", tag=["a"])  # type: ignore[call-arg]
        with pytest.raises(TypeError, match=r"Memory\.update\(\) missing 1 required positional argument"):
            memory.update()  # type: ignore[call-arg]
