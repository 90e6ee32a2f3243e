"""One definition, two methods: the same operation blocking and awaited."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from twofold.engine.flow import Flow
from twofold.index.searching import Searcher

if TYPE_CHECKING:
    from twofold.memory.facade import Memory

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
