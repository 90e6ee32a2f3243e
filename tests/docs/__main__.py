"""Put what the blocks print now onto the pages: `python -m tests.docs`."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tests.docs.pages import PAGES, agree, run_page, tidy


def rewrite(page: Path) -> None:
    source = page.read_text("utf-8")
    runs = list(run_page(page))
    for block, printed in reversed(runs):
        if block.shown is not None and not agree(source[slice(*block.shown)], printed):
            start, end = block.shown
            source = source[:start] + tidy(printed) + source[end:]
            print(f"{page.name}:{block.line}")
    page.write_text(source, "utf-8")


if __name__ == "__main__":
    for each in PAGES:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            rewrite(each)
