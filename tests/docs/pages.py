"""The pages of the documentation as code blocks, and how a page is run.

All ```python blocks of a page run in order in one namespace, in the current folder. A block whose first line is a
comment such as `# needs: a server` is compiled, not run. A ```text block right after a ```python block is its output:
words must agree exactly, decimal numbers roughly, since the last digits of a model's scores depend on the processor.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_DECIMAL = re.compile(r"\d+\.\d+")
_TOLERANCE = 0.02


@dataclass(frozen=True)
class Block:
    """A ```python block, and the span of the output shown below it."""

    page: Path
    line: int
    code: str
    shown: tuple[int, int] | None

    @property
    def needs(self) -> bool:
        return self.code.startswith("# needs: ")

    def run(self, namespace: dict[str, Any]) -> str:
        """What the block prints."""
        # Blank lines in front make the line numbers of a traceback those of the page.
        compiled = compile("\n" * self.line + self.code, str(self.page), "exec")
        if self.needs:
            return ""
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compiled, namespace)
        return printed.getvalue()


def blocks(page: Path) -> Iterator[Block]:
    """The ```python blocks of a page, in order."""
    source = page.read_text("utf-8")
    fences = list(_FENCE.finditer(source))
    for fence, following in zip_longest(fences, fences[1:]):
        if fence[1] != "python":
            continue
        shown = None
        if following and following[1] == "text" and not source[fence.end() : following.start()].strip():
            shown = following.span(2)
        yield Block(page, source.count("\n", 0, fence.start(2)), fence[2], shown)


def run_page(page: Path) -> Iterator[tuple[Block, str]]:
    """Run a page; gives each block with what it printed."""
    namespace: dict[str, Any] = {"__name__": f"docs_{page.stem}"}
    for block in blocks(page):
        yield block, block.run(namespace)


def agree(shown: str, printed: str) -> bool:
    """The same words, and decimals that differ by a hair at most."""
    words = [_DECIMAL.sub("#", tidy(text)) for text in (shown, printed)]
    numbers = zip(_DECIMAL.findall(shown), _DECIMAL.findall(printed), strict=False)
    return words[0] == words[1] and all(abs(float(a) - float(b)) <= _TOLERANCE * max(1.0, float(a)) for a, b in numbers)


def tidy(text: str) -> str:
    """Without trailing spaces and empty lines at the end."""
    return "".join(f"{line.rstrip()}\n" for line in text.rstrip().splitlines())
