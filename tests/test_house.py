"""The shape of the source: how large its parts may be, and what each may lean on.

Which layer may import which is said in pyproject.toml ([tool.importlinter]) and checked by `make check`; here stands
what a list of imports can't say.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SLOW

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "twofold"
MODULES = {path.relative_to(SOURCE).as_posix(): path for path in sorted(SOURCE.rglob("*.py"))}

MAX_FILES = 122
MAX_LINES = 28_700
MAX_MODULE_LINES = 700
MAX_FUNCTION_LINES = 60
MAX_INNER_IMPORTS = 15

# On public verbs only: what these need of another package is public there.
AGENTS = ("crewai", "openai_agents", "pydantic_ai", "smolagents")
ADAPTERS = {"cli", "eval", "langchain", "langgraph", "llamaindex", "mcp", "tools", *AGENTS}
# The same thing for several frameworks, under one name.
NAMED_BY_FRAMEWORKS = {"HybridRetriever", "HybridVectorStore", "MemoryTool"}


@cache
def _project() -> dict[str, Any]:
    settings: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    return settings


@cache
def _text(name: str) -> str:
    return MODULES[name].read_text("utf-8")


@cache
def _tree(name: str) -> ast.Module:
    return ast.parse(_text(name))


def _lines(name: str) -> int:
    return len(_text(name).splitlines())


def _length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """From the first line of the signature to the last of the body; decorators are not counted."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _package(name: str) -> str:
    return name.split("/")[0].removesuffix(".py")


def _imports(name: str) -> Iterator[tuple[int, str]]:
    """(line, dotted name) for everything a module imports, wherever in the module."""
    for node in ast.walk(_tree(name)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def _inner_imports(name: str) -> Iterator[tuple[int, str]]:
    return ((line, target) for line, target in _imports(name) if target.split(".")[0] == "twofold")


def _declared() -> set[str]:
    """The distributions in `dependencies` and in the extras that users install."""
    project = _project()["project"]
    extras = {name: wanted for name, wanted in project["optional-dependencies"].items() if name != "dev"}
    wanted = [*project["dependencies"], *(line for lines in extras.values() for line in lines)]
    return {_normal(re.split(r"[^\w.-]", line)[0]) for line in wanted}


def _normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _spelled_out(pattern: str) -> list[str]:
    """`{a,b}/**`, which ruff knows and pathlib doesn't, as `a/**` and `b/**`."""
    choice = re.search(r"\{([^}]*)\}", pattern)
    if choice is None:
        return [f"{pattern}/*" if pattern.endswith("**") else pattern]
    return [
        each
        for word in choice[1].split(",")
        for each in _spelled_out(pattern[: choice.start()] + word + pattern[choice.end() :])
    ]


def _none(findings: Iterable[str]) -> None:
    """Fail with every finding, each on a line of its own."""
    lines = sorted(findings)
    assert not lines, "\n" + "\n".join(lines)


def test_the_house_is_small_enough_to_walk_through() -> None:
    assert len(MODULES) <= MAX_FILES
    assert sum(map(_lines, MODULES)) <= MAX_LINES


def test_no_module_is_longer_than_one_story() -> None:
    _none(f"{name}: {_lines(name)} lines" for name in MODULES if _lines(name) > MAX_MODULE_LINES)


def test_no_function_is_longer_than_a_screen() -> None:
    _none(
        f"{name}:{node.lineno} {node.name}: {length} lines"
        for name in MODULES
        for node in ast.walk(_tree(name))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and (length := _length(node)) > MAX_FUNCTION_LINES
    )


def test_no_module_leans_on_too_many_others() -> None:
    counts = {name: len({line for line, _ in _inner_imports(name)}) for name in MODULES}
    _none(f"{name}: {count} imports from twofold" for name, count in counts.items() if count > MAX_INNER_IMPORTS)


def test_a_class_name_means_one_thing() -> None:
    homes = defaultdict(list)
    for name in MODULES:
        for node in ast.walk(_tree(name)):
            if isinstance(node, ast.ClassDef) and node.name not in NAMED_BY_FRAMEWORKS:
                homes[node.name].append(name)
    _none(f"{name}: {', '.join(where)}" for name, where in homes.items() if len(where) > 1)


def test_adapters_reach_for_nothing_private() -> None:
    _none(
        f"{name}:{line} {target}"
        for name in MODULES
        if (own := _package(name)) in ADAPTERS
        for line, target in _inner_imports(name)
        if not target.startswith(f"twofold.{own}.") and re.search(r"\._(?!_)", target)
    )


def test_what_is_imported_is_declared() -> None:
    known, declared = packages_distributions(), _declared()
    _none(
        f"{name}:{line} {target}"
        for name in MODULES
        for line, target in _imports(name)
        if (top := target.split(".")[0]) not in sys.stdlib_module_names | {"twofold"}
        and not declared & {_normal(each) for each in known.get(top, [top])}
    )


@pytest.mark.parametrize("pattern", _project()["tool"]["ruff"]["lint"]["per-file-ignores"])
def test_a_lint_rule_is_waived_for_files_that_are_there(pattern: str) -> None:
    matches = (path for each in _spelled_out(pattern) for path in ROOT.glob(each))
    assert any(path.suffix in (".py", ".ipynb") for path in matches)


@pytest.mark.parametrize("name", SLOW)
def test_what_the_quick_run_leaves_out_is_there(name: str) -> None:
    assert (ROOT / "tests" / name).exists()
