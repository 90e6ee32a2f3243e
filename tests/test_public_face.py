"""The one public door: complete, light, documented."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import twofold

HEAVY = ("qdrant_client", "langchain_core", "langgraph", "llama_index", "mcp", "fastembed", "onnxruntime", "numpy")


@pytest.mark.slow
def test_importing_loads_nothing_heavy() -> None:
    code = f"import sys, twofold; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_importing_takes_less_than_0_3_seconds() -> None:
    # The processor's time: on a busy machine, waiting for it says nothing about the import.
    code = "import time; t = time.process_time(); import twofold; print(time.process_time() - t)"
    runs = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    ]
    assert min(runs) < 0.3


@pytest.mark.slow
def test_using_the_core_loads_no_framework() -> None:
    code = (
        "import sys; from twofold import HybridIndex; from twofold.testing import HashEmbedding; "
        "i = HybridIndex.open(':memory:', dense=HashEmbedding()); i.add(['x']); i.search('x'); "
        "print([m for m in ('langchain_core', 'langgraph', 'llama_index', 'mcp') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_can_be_used() -> None:
    tree = ast.parse(Path(twofold.__file__).read_text())
    seen_by_checkers = {
        (each.asname, node.module)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("twofold.")
        for each in node.names
    }
    assert seen_by_checkers == set(twofold._HOME_OF.items())
    assert len(twofold.__all__) == len(set(twofold.__all__)) == 52
    assert set(dir(twofold)) == set(twofold.__all__)
    for name in twofold.__all__:
        assert getattr(twofold, name) is not None


@pytest.mark.parametrize("name", [name for name in twofold.__all__ if name != "__version__"])
def test_every_public_class_says_what_it_is(name: str) -> None:
    thing = getattr(twofold, name)
    assert inspect.getdoc(thing)
    for method, value in inspect.getmembers(thing, inspect.isfunction):
        if not method.startswith("_") and value.__module__.startswith("twofold"):
            assert inspect.getdoc(value), f"{name}.{method}"


def test_every_async_method_has_its_twin_with_the_same_arguments() -> None:
    index = twofold.HybridIndex
    for name in ("open", "add", "delete", "search", "get", "count", "info", "close"):
        blocking, awaited = inspect.signature(getattr(index, name)), inspect.signature(getattr(index, f"a{name}"))
        assert blocking == awaited, name


def test_every_error_is_a_twofold_error() -> None:
    errors = [getattr(twofold, name) for name in twofold.__all__ if isinstance(getattr(twofold, name), type)]
    errors = [error for error in errors if issubclass(error, BaseException)]
    assert len(errors) >= 10
    assert all(issubclass(error, twofold.TwofoldError) for error in errors)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Hybrid'"):
        _ = twofold.Hybrid
