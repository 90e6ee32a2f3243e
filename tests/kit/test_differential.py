"""Random operations with restarts: no difference to a dictionary.

TWOFOLD_KIT_OPS: how many for each engine and style (20000 in `make crash`); TWOFOLD_KIT_SEED: another walk.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kit.engines import ENGINES, STYLES, Engine
from tests.kit.walk import Walk

OPERATIONS = int(os.environ.get("TWOFOLD_KIT_OPS", "150"))
SEED = int(os.environ.get("TWOFOLD_KIT_SEED", "1"))
# `process` is the endpoint in a process of its own, which restarts by kill -9.
WALKS = [*(f"{engine}-{style}" for engine in ENGINES for style in STYLES), "process-sync"]


@pytest.mark.timeout(max(120, OPERATIONS // 4))
@pytest.mark.parametrize("walk", WALKS)
def test_no_difference(walk: str, tmp_path: Path) -> None:
    name, style = walk.rsplit("-", 1)
    engine = Engine(name, style, tmp_path)
    try:
        Walk(engine, SEED + (style == "async")).run(OPERATIONS)
    finally:
        engine.shut()
