"""One logic, two drivers.

Whatever waits is written once, as a generator that yields `Call`s (requests to the engine) and
`Work` (a model) and gets their results back. `run` drives it by blocking, `arun` by awaiting. A
failing step raises inside the generator, where it can be handled.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import closing, contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from twofold.errors import EngineUnavailable

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    """A request: a verb of the engine (`engine.calls` has them all) and its arguments."""

    verb: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    layout: Any = None
    """Where the rows of the collection have what, if it isn't Twofold's own (`engine.layout.Layout`)."""


@dataclass(frozen=True, slots=True)
class Work:
    """Something that takes time outside the engine; `acall` where it can be awaited natively."""

    call: Callable[[], Any]
    acall: Callable[[], Awaitable[Any]] | None = None
    seconds: float | None = None
    """Wait no longer than this, and raise `TimeoutError`; None waits for as long as it takes."""


@dataclass(frozen=True, slots=True)
class Renew:
    """What follows is a piece of work of its own, with a deadline of its own: a batch of many."""


Step: TypeAlias = Call | Work | Renew
Flow: TypeAlias = Generator[Step, Any, T]


class Caller:
    """What executes the `Call`s of flows. As it stands, for flows that send none and only wait for `Work`."""

    blocks = False
    """Even an awaited call only waits in a thread: then all of a flow may run there."""

    def begin(self) -> Caller:
        """The caller of one flow: itself, unless the requests of a flow share a deadline."""
        return self

    def renew(self) -> None:
        """Begin the deadline anew, where there is one."""

    def extend(self, seconds: float) -> None:
        """Leave time out of account that was spent elsewhere: the engine can't help how long a model takes."""

    def call(self, call: Call) -> Any:
        """Send it and wait."""
        raise TypeError(f"{call.verb} needs an engine: give one to run() or arun()")

    async def acall(self, call: Call) -> Any:
        """Send it and let others work meanwhile."""
        return self.call(call)


def run(flow: Flow[T], engine: Caller = Caller()) -> T:  # noqa: B008 - it has no state
    """Drive a flow to its end, blocking."""
    caller = engine.begin()
    send: Callable[[Any], Step] = flow.send
    value: Any = None
    with closing(flow):  # what it holds is let go of now, however long a traceback keeps the flow itself alive
        while True:
            try:
                step = send(value)
            except StopIteration as end:
                result: T = end.value
                return result
            try:
                value = caller.call(step) if isinstance(step, Call) else _take_step(step, caller)
                send = flow.send
            except Exception as error:
                send, value = flow.throw, error


async def arun(flow: Flow[T], engine: Caller = Caller()) -> T:  # noqa: B008
    """Drive a flow to its end, awaiting."""
    caller = engine.begin()
    if caller.blocks:
        return await _arun_in_threads(flow, caller)
    send: Callable[[Any], Step] = flow.send
    value: Any = None
    with closing(flow):
        while True:
            try:
                step = send(value)
            except StopIteration as end:
                result: T = end.value
                return result
            try:
                value = await (caller.acall(step) if isinstance(step, Call) else _await_step(step, caller))
                send = flow.send
            except Exception as error:
                send, value = flow.throw, error


async def _arun_in_threads(flow: Flow[T], caller: Caller) -> T:
    """Drive a flow whose calls block: in a thread, with all that is computed between them, as far as it can go there.

    So hundreds of flows at once leave the event loop free, and a search changes threads once and not at every step.
    """
    stretch = _Stretch(flow, caller)
    send: Callable[[Any], Step] = flow.send
    value: Any = None
    try:
        while True:
            step = await asyncio.to_thread(stretch.run, send, value)
            if step is None:
                result: T = stretch.result
                return result
            try:
                value = await _await_step(step, caller)
                send = flow.send
            except Exception as error:
                send, value = flow.throw, error
    finally:
        stretch.stop()


class _Stretch:
    """Runs a flow until it ends or wants something that is awaited; called off, it ends at the next step."""

    def __init__(self, flow: Flow[Any], caller: Caller) -> None:
        self._flow, self._caller = flow, caller
        self._guard = Lock()
        self._running = self._stopped = False
        self.result: Any = None

    def run(self, send: Callable[[Any], Step], value: Any) -> Work | None:
        """The step to be awaited; None at the end."""
        with self._guard:
            if self._stopped:
                return None
            self._running = True
        try:
            while not self._stopped:
                try:
                    step = send(value)
                except StopIteration as end:
                    self.result = end.value
                    break
                if isinstance(step, Work) and (step.acall is not None or step.seconds is not None):
                    return step
                try:
                    value = self._caller.call(step) if isinstance(step, Call) else _take_step(step, self._caller)
                    send = self._flow.send
                except Exception as error:
                    send, value = self._flow.throw, error
            return None
        finally:
            with self._guard:
                self._running = False
                if self._stopped:
                    self._flow.close()

    def stop(self) -> None:
        """Close the flow; while a thread is at a step that can't be called off, that thread does it."""
        with self._guard:
            self._stopped = True
            if not self._running:
                self._flow.close()


def _take_step(step: Work | Renew, caller: Caller) -> Any:
    if isinstance(step, Renew):
        return caller.renew()
    began = time.monotonic()
    try:
        if step.seconds is None:
            return step.call()
        answer = _in_own_thread(step.call)
        wait([answer], step.seconds)
        return _in_time(answer, step.seconds)
    finally:
        caller.extend(time.monotonic() - began)


async def _await_step(step: Work | Renew, caller: Caller) -> Any:
    if isinstance(step, Renew):
        return caller.renew()
    began = time.monotonic()
    try:
        if step.seconds is None:
            return await (step.acall() if step.acall is not None else asyncio.to_thread(step.call))
        native = step.acall() if step.acall is not None else asyncio.wrap_future(_in_own_thread(step.call))
        answer = asyncio.ensure_future(native)
        try:
            await asyncio.wait([answer], timeout=step.seconds)
            return _in_time(answer, step.seconds)
        finally:
            answer.cancel()
    finally:
        caller.extend(time.monotonic() - began)


def _in_time(answer: Future[Any] | asyncio.Future[Any], seconds: float) -> Any:
    if not answer.done():
        raise TimeoutError(f"no answer within {seconds:g} s")
    return answer.result()


def _in_own_thread(call: Callable[[], Any]) -> Future[Any]:
    """Something that may never end: nothing can stop its thread, and nothing waits for it when the program ends."""
    answer: Future[Any] = Future()
    answer.set_running_or_notify_cancel()  # whoever gives up waiting leaves it alone
    context = copy_context()

    def work() -> None:
        try:
            answer.set_result(context.run(call))
        except BaseException as error:
            answer.set_exception(error)

    Thread(target=work, name="twofold-work", daemon=True).start()
    return answer


class Turns(Protocol):
    """What those take who change the same thing: a `threading.Lock`, or one for several processes."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Whether it was free, or became so in time."""

    def release(self) -> None:
        """Let others have it."""

    def locked(self) -> bool:
        """Whether somebody in this process has it."""


LOCK_TIMEOUT_SECONDS = 30.0
_LOCK_POLL_SECONDS = 0.002


def exclusively(lock: Turns, flow: Flow[T], what: str) -> Flow[T]:
    """Run a flow while nobody else holds the lock; `what` names what it changes."""
    held: list[bool] = []  # noted where it is acquired: a task that is called off may never hear of it
    try:
        yield Work(partial(_take, lock, held), partial(_atake, lock, held))
        if not held:
            raise EngineUnavailable(
                f"another change of {what} has been under way for {LOCK_TIMEOUT_SECONDS:.0f} s: nothing was written. "
                "Try again, and see whether the engine answers",
                operation="wait",
                location="this process",
            )
        return (yield from flow)
    finally:  # also when the flow is dropped half way
        if held:
            lock.release()


def _take(lock: Turns, held: list[bool]) -> None:
    if lock.acquire(timeout=LOCK_TIMEOUT_SECONDS):
        held.append(True)


async def _atake(lock: Turns, held: list[bool]) -> None:
    """Polls, because a thread that waits for a lock can't be called off when the task is."""
    deadline = time.monotonic() + LOCK_TIMEOUT_SECONDS
    while not lock.acquire(blocking=False):
        if time.monotonic() > deadline:
            return
        await asyncio.sleep(_LOCK_POLL_SECONDS)
    held.append(True)


class Closeable:
    """What `with` and `async with` need, for whatever can be closed both ways."""

    def close(self) -> None:
        """Let go of what is held; closing twice is fine."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """`close` without blocking the event loop."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


@contextmanager
def closed_on_error(opened: Closeable) -> Iterator[None]:
    """What can't be used doesn't stay open."""
    try:
        yield
    except BaseException:
        opened.close()
        raise


class MethodCaller(Caller):
    """Runs the calls of a flow as methods of an object, each with its deadline: `search`, or `asearch` if awaited."""

    def __init__(self, target: object) -> None:
        self._target = target

    def call(self, call: Call) -> Any:
        """Call the blocking method."""
        return getattr(self._target, call.verb)(**call.arguments)

    async def acall(self, call: Call) -> Any:
        """Await the async method of the same meaning."""
        return await getattr(self._target, f"a{call.verb}")(**call.arguments)
