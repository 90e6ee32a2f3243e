"""Items that expire. LangGraph's in-memory store has none of it, so these are about ours."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from langgraph.store.base import GetOp, Item, SearchOp
from qdrant_client import AsyncQdrantClient, QdrantClient

from tests.langgraph.stores import OURS, Store
from twofold import CollectionMismatch, ConfigError
from twofold.langgraph import QdrantStore, items
from twofold.testing import HashEmbedding


class Clock:
    """A clock that only moves when it is told to."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=timezone.utc)

    def __call__(self) -> datetime:
        return self.time

    def forward(self, minutes: float) -> None:
        self.time += timedelta(minutes=minutes)


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Clock:
    standing = Clock()
    monkeypatch.setattr(items, "utc_now", standing)
    monkeypatch.setattr(items, "_last_moment", standing.time)
    return standing


def seen(store: Store, **read: Any) -> list[bool]:
    """Whether the item is there, by every way of reading that leaves its time alone."""
    return [
        store.get(("t",), "k", refresh_ttl=False) is not None,
        bool(store.search(("t",), refresh_ttl=False)),
        bool(store.search(("t",), query="rathole", refresh_ttl=False)),
        bool(store.search(("t",), filter={"text": "rathole"}, refresh_ttl=False)),
        bool(store.namespaces()),
    ]


def test_an_item_is_not_seen_any_more_when_its_time_is_over(ours: Store, time: Clock) -> None:
    ours.put(("t",), "k", {"text": "rathole"}, ttl=10)
    time.forward(9.9)
    assert all(seen(ours))
    time.forward(0.2)
    assert not any(seen(ours))


def test_without_a_time_to_live_an_item_stays(ours: Store, time: Clock) -> None:
    ours.put(("t",), "k", {"text": "rathole"})
    time.forward(1e6)
    assert all(seen(ours))
    assert ours.call("sweep_ttl") == 0


@pytest.mark.parametrize(
    "read",
    [
        lambda store: store.get(("t",), "k"),
        lambda store: store.search(("t",)),
        lambda store: store.search(("t",), query="rathole"),
        lambda store: store.search((), filter={"text": "rathole"}),
    ],
    ids=["get", "list", "query", "filter"],
)
def test_reading_an_item_puts_its_end_off(ours: Store, time: Clock, read: Callable[[Store], Any]) -> None:
    ours.put(("t",), "k", {"text": "rathole"}, ttl=10)
    for _ in range(3):
        time.forward(8)
        assert read(ours)
    time.forward(10.1)
    assert not any(seen(ours))


def test_reading_leaves_the_others_alone(ours: Store, time: Clock) -> None:
    ours.put(("t",), "k", {"text": "rathole"}, ttl=10)
    ours.put(("t",), "other", {"text": "tunnel"}, ttl=10)
    ours.put(("t",), "forever", {"text": "cake"})
    time.forward(8)
    ours.get(("t",), "k")
    time.forward(8)
    assert ours.keys(("t",), refresh_ttl=False) == ["forever", "k"]
    time.forward(8)
    assert ours.keys(("t",), refresh_ttl=False) == ["forever"]


def test_reading_does_not_change_the_item(ours: Store, time: Clock) -> None:
    ours.put(("t",), "k", {"text": "rathole"}, ttl=10)
    before = ours.get(("t",), "k", refresh_ttl=False)
    time.forward(5)
    ours.get(("t",), "k")
    assert ours.get(("t",), "k") == before


def test_reading_puts_the_end_off_where_nothing_may_be_added(time: Clock) -> None:
    """A collection whose vectors are of unknown origin can be read, and an expiry has nothing to do with vectors."""
    client = QdrantClient(":memory:")
    QdrantStore(client, dense=HashEmbedding()).put(("t",), "k", {"text": "rathole"}, ttl=10)
    client.update_collection("store", metadata={"twofold": None})
    with QdrantStore(client, dense=HashEmbedding()) as store:
        with pytest.raises(CollectionMismatch, match="adopt=True"):
            store.put(("t",), "other", {"text": "tunnel"})
        time.forward(9)
        got, found = store.batch([GetOp(("t",), "k", refresh_ttl=True), SearchOp(("t",), query="rathole")])
        assert isinstance(got, Item)
        assert found == [got]
        time.forward(9)
        assert store.get(("t",), "k", refresh_ttl=False) is not None
        time.forward(2)
        assert store.get(("t",), "k", refresh_ttl=False) is None


def test_what_has_expired_does_not_come_back_by_reading(ours: Store, time: Clock) -> None:
    ours.put(("t",), "k", {"text": "rathole"}, ttl=10)
    time.forward(11)
    assert ours.get(("t",), "k") is None
    assert ours.get(("t",), "k") is None


def test_a_new_put_begins_anew(ours: Store, time: Clock) -> None:
    ours.put(("t",), "k", {"text": "rathole"}, ttl=10)
    time.forward(8)
    ours.put(("t",), "k", {"text": "rathole"}, ttl=10)
    time.forward(8)
    assert all(seen(ours))
    ours.put(("t",), "k", {"text": "rathole"}, ttl=None)
    time.forward(1000)
    assert all(seen(ours))


def test_an_item_that_has_expired_is_created_anew(ours: Store, time: Clock) -> None:
    ours.put(("t",), "k", {"n": 1}, ttl=10)
    time.forward(20)
    ours.put(("t",), "k", {"n": 2}, ttl=10)
    item = ours.get(("t",), "k")
    assert item is not None
    assert item.created_at == item.updated_at


def test_sweeping_deletes_what_has_expired(ours: Store, time: Clock) -> None:
    for n in range(5):
        ours.put(("t",), str(n), {"n": n}, ttl=n + 1)
    ours.put(("t",), "forever", {"n": 9})
    time.forward(3.5)
    assert ours.call("sweep_ttl") == 3
    assert ours.call("sweep_ttl") == 0
    assert ours.keys(("t",)) == ["3", "4", "forever"]


@pytest.mark.parametrize("kind", OURS)
def test_the_store_may_have_a_time_for_all(opened: Callable[..., Store], time: Clock, kind: str) -> None:
    store = opened(kind, ttl={"default_ttl": 10, "refresh_on_read": False})
    store.put(("t",), "k", {"text": "rathole"})
    store.put(("t",), "forever", {"text": "cake"}, ttl=None)
    time.forward(8)
    assert store.get(("t",), "k") is not None
    time.forward(8)
    assert store.get(("t",), "k") is None
    assert store.get(("t",), "forever") is not None


def test_a_call_may_refresh_where_the_store_does_not(opened: Callable[..., Store], time: Clock) -> None:
    store = opened(ttl={"default_ttl": 10, "refresh_on_read": False})
    store.put(("t",), "k", {"text": "rathole"})
    time.forward(8)
    store.get(("t",), "k", refresh_ttl=True)
    time.forward(8)
    assert all(seen(store))


def test_what_has_expired_can_be_shown_until_it_is_swept(opened: Callable[..., Store], time: Clock) -> None:
    store = opened(ttl={"omit_expired": False})
    store.put(("t",), "k", {"text": "rathole"}, ttl=10)
    time.forward(11)
    assert all(seen(store))
    assert store.store.sweep_ttl() == 1  # type: ignore[attr-defined]
    assert not any(seen(store))


def test_the_sweeper_sweeps_by_itself_until_it_is_stopped(
    opened: Callable[..., Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened().store
    assert isinstance(store, QdrantStore)
    swept = threading.Event()
    sweep = store.sweep_ttl

    def watched() -> int:
        number = sweep()
        if number:
            swept.set()
        return number

    monkeypatch.setattr(store, "sweep_ttl", watched)
    store.put(("t",), "k", {"text": "rathole"}, ttl=1e-9)
    store.start_ttl_sweeper(1e-4)
    store.start_ttl_sweeper(1e-4)
    assert [thread.name for thread in threading.enumerate()].count("twofold-sweeper") == 1
    assert swept.wait(60)
    assert store.index.count() == 0
    assert store.stop_ttl_sweeper()
    assert "twofold-sweeper" not in [thread.name for thread in threading.enumerate()]


def test_a_sweep_that_fails_is_logged_and_tried_again(
    opened: Callable[..., Store], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened().store
    assert isinstance(store, QdrantStore)
    calls: list[int] = []
    again = threading.Event()

    def failing() -> int:
        calls.append(1)
        if len(calls) > 1:
            again.set()
        raise RuntimeError("no disk")

    monkeypatch.setattr(store, "sweep_ttl", failing)
    store.start_ttl_sweeper(1e-4)
    assert again.wait(60)
    store.stop_ttl_sweeper()
    assert "expired items could not be deleted: no disk" in caplog.text


def test_closing_stops_the_sweeper() -> None:
    with QdrantStore(":memory:", dense=HashEmbedding(), ttl={"sweep_interval_minutes": 60}) as store:
        store.start_ttl_sweeper()
        assert "twofold-sweeper" in [thread.name for thread in threading.enumerate()]
    assert "twofold-sweeper" not in [thread.name for thread in threading.enumerate()]


async def test_a_thread_cannot_sweep_what_can_only_be_awaited() -> None:
    async with await QdrantStore.aopen(AsyncQdrantClient(":memory:"), dense=HashEmbedding()) as store:
        with pytest.raises(ConfigError, match="asweep_ttl"):
            store.start_ttl_sweeper()
        assert await store.asweep_ttl() == 0


@pytest.mark.parametrize(
    "ttl",
    [{"default_ttl": 0}, {"default_ttl": -1}, {"default_ttl": "5"}, {"sweep_interval_minutes": True},
     {"sweep_interval_minutes": 1e12}, {"x": 1}],
)  # fmt: skip
def test_a_configuration_that_means_nothing_is_an_error(ttl: Any) -> None:
    with pytest.raises(ConfigError):
        QdrantStore(":memory:", dense=HashEmbedding(), ttl=ttl)


@pytest.mark.parametrize("ttl", [0, -5, float("nan"), float("inf"), 1e12, "5"])
def test_a_time_to_live_that_is_none_is_an_error(ours: Store, ttl: Any) -> None:
    with pytest.raises(ConfigError, match="minutes"):
        ours.put(("t",), "k", {"n": 1}, ttl=ttl)
    assert ours.search(()) == []
