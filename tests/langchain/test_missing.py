"""Without the framework, an import says which line installs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

_BLOCKED = """
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Block())
{code}
"""


def run(code: str, *blocked: str) -> subprocess.CompletedProcess[str]:
    script = _BLOCKED.format(blocked=blocked, code=code)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["HybridRetriever", "HybridVectorStore", "memory_tools", "MemoryMiddleware"])
def test_without_langchain_core(name: str) -> None:
    done = run(f"from twofold.langchain import {name}", "langchain_core", "langchain", "langgraph")
    assert done.returncode == 1
    assert 'pip install "twofold[langchain]"' in done.stderr.splitlines()[-1]
    assert done.stderr.splitlines()[-1].startswith("ImportError: ")


def test_with_langchain_core_alone_only_the_middleware_is_missing() -> None:
    code = (
        "import twofold.langchain as t\n"
        "print(t.HybridRetriever.__name__, t.HybridVectorStore.__name__, t.memory_tools.__name__)\n"
        "t.MemoryMiddleware"
    )
    done = run(code, "langchain", "langgraph")
    assert done.stdout.split() == ["HybridRetriever", "HybridVectorStore", "memory_tools"]
    assert 'ImportError: MemoryMiddleware needs LangChain\'s agents: pip install "twofold[langchain]"' in done.stderr


def test_a_misspelt_name_is_an_attribute_error() -> None:
    import twofold.langchain

    with pytest.raises(AttributeError, match="no attribute 'Hybrid'"):
        _ = twofold.langchain.Hybrid
