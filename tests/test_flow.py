"""Flows whose calls block, awaited: they run in threads, give back what they hold, and leave the event loop alone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from twofold import HybridIndex
from twofold.flow import Call, Caller, Flow, Work, arun, exclusively
from twofold.testing import HashEmbedding
from twofold.text import clean_query

PATIENCE_SECONDS = 60


class Blocking(Caller):
    """Calls a function for every verb."""

    blocks = True

    def __init__(self, **verbs: Callable[[], Any]) -> None:
        self._verbs = verbs

    def call(self, call: Call) -> Any:
        return self._verbs[call.verb]()


async def test_what_is_between_the_calls_does_not_run_on_the_event_loop() -> None:
    here: list[int] = []

    def flow() -> Flow[str]:
        here.append(threading.get_ident())
        answer: str = yield Call("ask")
        here.append(threading.get_ident())
        rest: str = yield Work(lambda: " and work")
        return answer + rest

    assert await arun(flow(), Blocking(ask=lambda: "an answer")) == "an answer and work"
    assert threading.get_ident() not in here
    assert len(set(here)) == 1


async def test_what_can_be_awaited_is_awaited_on_the_event_loop() -> None:
    async def native() -> int:
        return threading.get_ident()

    def flow() -> Flow[tuple[int, str]]:
        first = yield Call("ask")
        where: int = yield Work(lambda: 0, native)
        return where, first + (yield Call("ask"))

    assert await arun(flow(), Blocking(ask=lambda: "a")) == (threading.get_ident(), "aa")


async def test_errors_reach_the_flow_and_then_the_caller() -> None:
    def refuse() -> None:
        raise ValueError("no")

    async def fail() -> None:
        raise KeyError("native")

    def flow() -> Flow[None]:
        with pytest.raises(ValueError, match="no"):
            yield Call("refuse")
        with pytest.raises(KeyError, match="native"):
            yield Work(lambda: None, fail)
        raise LookupError("of the flow itself")

    with pytest.raises(LookupError, match="of the flow itself"):
        await arun(flow(), Blocking(refuse=refuse))


async def test_a_task_that_is_called_off_ends_its_flow_after_the_step_that_is_under_way() -> None:
    begun, go_on, lock, after = threading.Event(), threading.Event(), threading.Lock(), list[str]()

    def stuck() -> None:
        begun.set()
        go_on.wait(PATIENCE_SECONDS)

    def flow() -> Flow[None]:
        yield Call("stuck")
        after.append("went on")

    task = asyncio.create_task(arun(exclusively(lock, flow(), "it"), Blocking(stuck=stuck)))
    await asyncio.to_thread(begun.wait, PATIENCE_SECONDS)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert lock.locked()  # what is under way can't be called off, and nobody else may come between
    go_on.set()
    assert await asyncio.to_thread(lock.acquire, timeout=PATIENCE_SECONDS)
    assert after == []


async def test_a_task_that_is_called_off_while_it_awaits_ends_its_flow_at_once() -> None:
    awaiting, closed = asyncio.Event(), list[bool]()

    async def forever() -> None:
        awaiting.set()
        await asyncio.Event().wait()

    def flow() -> Flow[None]:
        try:
            yield Work(lambda: None, forever)
        finally:
            closed.append(True)

    task = asyncio.create_task(arun(flow(), Blocking()))
    await awaiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert closed == [True]


async def test_an_awaited_search_of_a_folder_leaves_the_event_loop_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    where: list[int] = []

    def watched(query: str, limit: int) -> tuple[str, str | None]:
        where.append(threading.get_ident())
        return clean_query(query, limit)

    monkeypatch.setattr("twofold.index.searching.clean_query", watched)
    async with await HybridIndex.aopen(":memory:", dense=HashEmbedding()) as index:
        await index.aadd(["Rathole listens on 2333"])
        found = await asyncio.gather(*(index.asearch(f"rathole {number}") for number in range(20)))
    assert all(result.ids for result in found)
    assert threading.get_ident() not in where
    assert len(where) >= 20


async def test_a_task_that_is_called_off_just_after_it_got_a_lock_gives_it_back() -> None:
    """It waits for a thread then, in which the flow would go on, and never hears that the lock is its own."""
    threads, go_on, acquired = ThreadPoolExecutor(1), threading.Event(), asyncio.Event()
    asyncio.get_running_loop().set_default_executor(threads)
    lock = threading.Lock()

    class Telling:
        release, locked = lock.release, lock.locked

        def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
            threads.submit(go_on.wait, PATIENCE_SECONDS)  # no thread is free from now on
            acquired.set()
            return lock.acquire(blocking, timeout)

    def change() -> Flow[None]:
        yield Call("ask")

    task = asyncio.create_task(arun(exclusively(Telling(), change(), "something"), Blocking(ask=lambda: None)))
    await asyncio.wait_for(acquired.wait(), PATIENCE_SECONDS)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
    threads.shutdown()
    assert not lock.locked()
