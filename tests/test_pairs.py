"""Every method that waits comes as a pair, `x` and `ax`: found by reflection, with one signature and one meaning."""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import twofold
from twofold import HybridIndex, InvalidDocument, InvalidQuery, Memory
from twofold.testing import HashEmbedding
from twofold.tools import Tool

CLASSES: tuple[type, ...] = (HybridIndex, Memory, Tool)
WITHOUT_TWIN: dict[type, set[str]] = {
    HybridIndex: {"beside", "ascan"},
    Memory: {"for_user", "in_project", "knowledge", "with_general", "with_settings"},
}
"""Views of what is open. `beside` and `knowledge` open a second collection, with an async client at the first await.
And `ascan`, which is no coroutine itself: it is walked through."""


def methods(owner: type) -> dict[str, Callable[..., Any]]:
    """The public methods of a class, those of its instances and of the class itself."""
    found: dict[str, Callable[..., Any]] = {}
    for name in dir(owner):
        member = inspect.getattr_static(owner, name)
        function = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
        if inspect.isfunction(function) and not name.startswith("_"):
            found[name] = function
    return found


def pairs() -> Iterator[Any]:
    for owner in CLASSES:
        known = methods(owner)
        for name, awaited in known.items():
            if inspect.iscoroutinefunction(awaited):
                yield pytest.param(known.get(name.removeprefix("a")), awaited, id=f"{owner.__name__}.{name}")


PAIRS = list(pairs())


@pytest.mark.parametrize("owner", CLASSES)
def test_there_are_pairs(owner: type) -> None:
    assert any(param.id.startswith(f"{owner.__name__}.") for param in PAIRS)


@pytest.mark.parametrize(("blocking", "awaited"), PAIRS)
def test_a_pair_has_one_signature_and_one_meaning(blocking: Any, awaited: Any) -> None:
    assert awaited.__name__.startswith("a")
    assert blocking is not None, "it has no blocking partner of that name"
    assert not inspect.iscoroutinefunction(blocking)
    one, other = inspect.signature(blocking), inspect.signature(awaited)
    assert list(one.parameters.values()) == list(other.parameters.values())
    assert one.return_annotation == other.return_annotation
    said = inspect.getdoc(awaited) or ""
    assert inspect.getdoc(blocking)
    assert said.startswith(f"`{blocking.__name__}` without blocking the event loop"), said


@pytest.mark.parametrize("owner", WITHOUT_TWIN)
def test_whatever_waits_has_an_async_twin(owner: type) -> None:
    known = methods(owner)
    blocking = {name for name, function in known.items() if not inspect.iscoroutinefunction(function)}
    assert {name for name in blocking if f"a{name}" not in known} == WITHOUT_TWIN[owner]


def test_both_scans_take_the_same() -> None:
    known = methods(HybridIndex)
    one, other = (inspect.signature(known[name]) for name in ("scan", "ascan"))
    assert one.parameters == other.parameters
    assert other.return_annotation == f"Async{one.return_annotation}"


def first_library_frame(error: BaseException) -> str:
    home = str(Path(twofold.__file__).parent)
    return next(frame.name for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(home))


def test_the_first_frame_of_an_error_is_the_method_of_the_index_that_was_called() -> None:
    """For a memory, `tests/memory/test_isolation.py` says the same."""
    bad: dict[str, tuple[Any, ...]] = {
        "add": ([""],), "search": (7,), "search_by_vector": ([1.0],), "search_diverse": (None,), "delete": (),
        "update_metadata": ({},), "get": (7,), "fetch": (None,), "embed": ("text",), "tune": ([],),
    }  # fmt: skip
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        for name, arguments in bad.items():
            options = {"limit": -1} if name == "fetch" else {"ids": ["a", "b"]} if name == "add" else {}
            with pytest.raises((InvalidQuery, InvalidDocument)) as raised:
                getattr(index, name)(*arguments, **options)
            assert first_library_frame(raised.value) == name
            with pytest.raises((InvalidQuery, InvalidDocument)) as awaited:
                asyncio.run(getattr(index, f"a{name}")(*arguments, **options))
            assert first_library_frame(awaited.value) == f"a{name}"
