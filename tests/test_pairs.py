"""Every method that waits comes as a pair, `x` and `ax`: found by reflection, with one signature and one meaning."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from twofold import HybridIndex, Memory
from twofold.tools import Tool

CLASSES: tuple[type, ...] = (HybridIndex, Memory, Tool)


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
